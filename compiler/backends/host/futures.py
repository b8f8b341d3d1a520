"""What `await` calls while a program runs: waiting for one future, for all, for the first."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from compiler.backends.host.values import describe
from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.units import NANOSECONDS
from runtime.futures import NotReady, PendingValue, all_values, first


class Late:
    """Stands for the value of what was not there in time, where the program says what to use instead."""


LATE = Late()


def await_one(limit: int | None, has_else: bool, future: Any) -> Any:
    """`await f`."""
    if isinstance(future, (list, tuple)):
        hint = "`await all(...)` waits for every one, `await any(...)` for the first"
        raise LibraryFault("0807", f"`await` takes a future, not {describe(future)}", hint)
    [future_] = _futures("await", [future])
    return _within(limit, has_else, future_.value)


def await_all(limit: int | None, has_else: bool, *given: Any) -> Any:
    """`await all(fs)`: a list for a list, else a tuple."""
    parts = _parts("await all", given)
    futures = _futures("await all", parts)
    values = _within(limit, has_else, lambda seconds: all_values(futures, seconds))
    return tuple(values) if isinstance(parts, tuple) and values is not LATE else values


def await_any(limit: int | None, has_else: bool, *given: Any) -> Any:
    """`await any(fs)`: the position of the first that is there, and its value."""
    futures = _futures("await any", _parts("await any", given))
    if not futures:
        raise LibraryFault("0808", "`await any` of no futures has no value", "ask `len(fs) > 0` before")
    position = _within(limit, has_else, lambda seconds: first(futures, seconds))
    return position if position is LATE else (position, futures[position].value())


AWAITING: dict[str, Callable[..., Any]] = {"await one": await_one, "await all": await_all, "await any": await_any}


def _parts(word: str, given: tuple[Any, ...]) -> Sequence[Any]:
    if len(given) != 1:
        return given
    only = given[0]
    if not isinstance(only, (list, tuple)):
        hint = "`await f` waits for one future" if isinstance(only, PendingValue) else None
        raise LibraryFault("0807", f"`{word}` takes a list of futures, or several, not {describe(only)}", hint)
    return only


def _futures(word: str, given: Sequence[Any]) -> list[PendingValue]:
    for value in given:
        if not isinstance(value, PendingValue):
            raise LibraryFault("0807", f"`{word}` takes a future, not {describe(value)}", "leave `await` out: the value is there")
    return list(given)


def _within(limit: int | None, has_else: bool, wait: Callable[[float | None], Any]) -> Any:
    """What the waiting gives, LATE where the time is over and there is something else to give. `limit`: nanoseconds."""
    limit = None if limit is None else max(limit, 0)
    seconds = None if limit is None else min(limit / 1e9, threading.TIMEOUT_MAX)
    try:
        return wait(seconds)
    except NotReady:
        if has_else:
            return LATE
        assert limit is not None
        hint = "`timeout ... else value` says what to use instead"
        raise LibraryFault("0810", f"not ready after {shown_duration(limit)}" if limit else "not ready yet", hint) from None


def shown_duration(nanoseconds: int) -> str:
    """In the largest unit that needs no fraction: `1500ms`."""
    unit = next(unit for unit, size in reversed(NANOSECONDS.items()) if nanoseconds % size == 0)
    return f"{nanoseconds // NANOSECONDS[unit]}{unit}"
