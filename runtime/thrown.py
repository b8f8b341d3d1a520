"""What a program throws, on its way through Python."""

from collections.abc import Callable
from typing import Any


class Thrown(Exception):
    """`value`: a struct, a case of an enum or a text of the program; `shown` writes it as the program would."""

    def __init__(self, value: Any, shown: Callable[[], str]) -> None:
        super().__init__(value)
        self.value, self.shown = value, shown
