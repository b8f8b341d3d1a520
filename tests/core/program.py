"""One program of the tables."""

from collections.abc import Sequence
from typing import Any

from runtime.records import frozen
from tests.core.dialects import Outcome


@frozen
class Program:
    """A text with a function `f`, and what calls of it give."""

    name: str
    text: str
    calls: Sequence[tuple[tuple[Any, ...], Outcome]]
