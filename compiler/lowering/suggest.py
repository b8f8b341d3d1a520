"""The nearest names to a misspelt one, for hints."""

from collections.abc import Iterable

from compiler.typed_ast.suggest import LONGEST_NAME


def nearest(name: str, have: Iterable[str]) -> str:
    """Up to two near names as the hint shows them, empty when none is near or the name is past `LONGEST_NAME`."""
    if len(name) > LONGEST_NAME:
        return ""
    from difflib import get_close_matches  # slow to import, and only mistakes need it

    return " or ".join(f"`{candidate}`" for candidate in get_close_matches(name, sorted(have), n=2, cutoff=0.7))
