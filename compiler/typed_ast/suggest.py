"""Nearest names: what the writer of an unknown name probably meant. Ranks candidates; never decides anything."""

from collections.abc import Iterable

LONGEST_NAME = 64
"""Longer names get no suggestion: a comparison takes time in the square of the length, and a mistake in a longer name is no typing
error."""


def nearest(name: str, candidates: Iterable[str], limit: int = 2) -> tuple[str, ...]:
    """The candidates within a third of the name's length in edits, best first, ties in alphabetical order. Of names of one or two
    characters only the other spellings in upper or lower case are near, and nothing is near a name past `LONGEST_NAME`."""
    if len(name) > LONGEST_NAME:
        return ()
    allowed = len(name) // 3
    ranked = sorted(
        (distance, candidate)
        for candidate in set(candidates)
        if candidate != name
        and abs(len(candidate) - len(name)) <= allowed
        and (distance := edit_distance(name.lower(), candidate.lower())) <= allowed
    )
    if not ranked:
        return ()
    return tuple(candidate for distance, candidate in ranked if distance <= ranked[0][0] + (limit > 1))[:limit]


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """A hint that names the nearest candidates, or None when nothing is near."""
    found = nearest(name, candidates)
    return f"did you mean {' or '.join(f'`{candidate}`' for candidate in found)}?" if found else None


def edit_distance(a: str, b: str) -> int:
    """Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`."""
    two_above: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row = row, [i]
        for j, y in enumerate(b, 1):
            best = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                best = min(best, two_above[j - 2] + 1)
            row.append(best)
        two_above = above
    return row[-1]
