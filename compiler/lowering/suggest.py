"""The nearest names to a misspelt one, for hints."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, have: Iterable[str]) -> str:
    """Up to two near names as the hint shows them, empty when none is near."""
    found = get_close_matches(name, sorted(have), n=2, cutoff=0.7)
    return " or ".join(f"`{one}`" for one in found)
