"""The converter of tuple fields: lists and generators may be given where a value keeps a tuple."""

from collections.abc import Iterable
from typing import Any


def as_tuple(values: Iterable[Any]) -> tuple[Any, ...]:
    """A tuple of the values. Unlike `tuple` itself, a type checker takes it as a converter."""
    return values if type(values) is tuple else tuple(values)
