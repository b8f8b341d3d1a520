"""Operators on values of abstract types (`Duration`, `abstract Money(i64)`) whose types only a run knows: those of the numbers in them."""

from collections.abc import Callable
from typing import Any

from runtime.lazy_numpy import np
from runtime.values import RecordValue

_KEEPING = ("+", "-", "%")
_SCALING = ("*", "/", "%")
_ORDER = ("<", "<=", ">", ">=")


def is_wrapped(value: Any) -> bool:
    return isinstance(value, RecordValue) and value.__record__.suffix is not None


def operated(symbol: str, left: Any, right: Any, run: Callable[[Any, Any], Any]) -> Any:
    """What the operator, which `run` is for numbers, makes of two values, one of which at least is of an abstract type; None where it isn't
    defined."""
    cls = type(left) if is_wrapped(left) else type(right)
    if type(left) is type(right):
        if symbol in _KEEPING:
            return cls((run(left[0], right[0]),))
        return run(left[0], right[0]) if symbol == "/" or symbol in _ORDER else None
    number, scaled = (right, left) if is_wrapped(left) else (left, right)
    is_int = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
    if not is_int and not (isinstance(number, (float, np.floating)) and isinstance(scaled[0], (float, np.floating))):
        return None
    if is_wrapped(left) and symbol in _SCALING:
        return cls((run(left[0], right),))
    return cls((run(left, right[0]),)) if symbol == "*" else None
