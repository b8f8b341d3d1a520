"""What host code calls in the place of a straight function (see `backends.host.straight_functions`): machine code is put in front of it."""

from collections.abc import Callable
from functools import cache
from typing import Any

from runtime.calls.vectorcall import vectorcall_type


class StraightFunction:
    """A function of a program. `_slow`: the way through the program."""

    _slow: Callable[..., Any]

    def __call__(self, *values: Any, **named: Any) -> Any:
        return self._slow(*values, **named)


@cache
def _type_of_functions() -> tuple[type[StraightFunction], dict[str, int]]:
    return vectorcall_type(StraightFunction)


def made_function() -> StraightFunction:
    return _type_of_functions()[0]()


def offsets() -> dict[str, int]:
    """Where its fields lie."""
    return _type_of_functions()[1]
