"""Functions whose results are kept (`@memoize`, `@cache`), by the values of their arguments."""

import time
from collections.abc import Callable
from typing import Any

from compiler.backends.host.values import describe
from compiler.typed_ast.library import LibraryFault


def remembered(function: Callable[..., Any], names: tuple[str, ...], nanoseconds: int | None) -> Callable[..., Any]:
    """The function with its results kept, for so many nanoseconds or for good. `names`: its parameters."""
    kept: dict[tuple[Any, ...], tuple[int, Any]] = {}

    def call(*values: Any, **named: Any) -> Any:
        given = dict(zip(names, values, strict=False)) | named
        key = tuple((name, _key(given[name])) for name in names if name in given)
        now = 0 if nanoseconds is None else time.monotonic_ns()
        known = kept.get(key)
        if known is not None and (nanoseconds is None or now - known[0] < nanoseconds):
            return known[1]
        result = function(*values, **named)
        if nanoseconds is not None:
            _forget(kept, now - nanoseconds)
            kept.pop(key, None)
        kept[key] = (now, result)
        return result

    return call


def _forget(kept: dict[tuple[Any, ...], tuple[int, Any]], before: int) -> None:
    """Drops the results from before that time, which are the first ones."""
    while kept:
        oldest = next(iter(kept))
        if kept[oldest][0] > before:
            return
        del kept[oldest]


def _key(value: Any) -> Any:
    """What two values share that are the same to the last bit, of one type."""
    match value:
        case float():
            return float, value.hex()
        case str() | int() | None:
            return type(value), value
        case tuple():
            return type(value), tuple(map(_key, value))
    if getattr(value, "shape", None) == () and hasattr(value, "tobytes"):
        return type(value), value.tobytes()
    hint = "take numbers, texts, and tuples, structs and enums of those"
    raise LibraryFault("0807", f"results can't be kept by the value of a {describe(value)}, which may change", hint)
