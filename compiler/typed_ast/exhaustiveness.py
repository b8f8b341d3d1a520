"""Whether patterns cover every value: what a row of them is uncovered by the rows above it (Maranget, "Warnings for pattern matching",
2007)."""

from collections.abc import Callable, Sequence

from compiler.typed_ast.types import Type
from runtime.records import frozen

Parts = tuple[tuple[str, Type], ...]
Cases = dict[str, Parts]
"""The cases of a type with the names and types of their parts; the one case of a tuple or struct is ""."""
CasesOf = Callable[[Type], Cases | None]
"""None: the type has no cases to list."""


@frozen
class PatternShape:
    """A pattern without names: a case with the shapes of its parts. `case` None: anything, or one value of a type without cases
    (`exact`), which covers nothing whole; or one of several (`either`)."""

    case: str | None = None
    parts: "tuple[PatternShape, ...]" = ()
    exact: bool = False
    either: "tuple[PatternShape, ...]" = ()


ANYTHING = PatternShape()


def uncovered(cases_of: CasesOf, rows: list[tuple[PatternShape, ...]], subjects: tuple[Type, ...]) -> tuple[str, ...] | None:
    """An example of values, one a subject, that no row covers; None when the rows cover all."""
    if not subjects:
        return None if rows else ()
    first, rest = subjects[0], subjects[1:]
    rows = [(one, *row[1:]) for row in rows for one in _alternatives(row[0])]
    cases = cases_of(first)
    present = {row[0].case for row in rows if row[0].case is not None}
    if cases is None or not present:
        below = uncovered(cases_of, [row[1:] for row in rows if row[0] == ANYTHING], rest)
        if below is None:
            return None
        missing = "_" if cases is None or "" in cases or not rows else next(iter(cases))
        return (_example(missing, cases[missing]) if cases and missing in cases else "_", *below)
    tried: list[tuple[object, object]] = []
    for case, parts in cases.items():
        within = _specialised(rows, case, len(parts))
        if (within, [part for _, part in parts]) in tried:
            continue  # Covered as another case was.
        tried.append((within, [part for _, part in parts]))
        below = uncovered(cases_of, within, (*(part for _, part in parts), *rest))
        if below is not None:
            return (_with_parts(case, parts, below[: len(parts)]), *below[len(parts) :])
    return None


def _alternatives(shape: PatternShape) -> list[PatternShape]:
    return [inner for one in shape.either for inner in _alternatives(one)] if shape.either else [shape]


def _specialised(rows: list[tuple[PatternShape, ...]], case: str, count: int) -> list[tuple[PatternShape, ...]]:
    found: list[tuple[PatternShape, ...]] = []
    for row in rows:
        if row[0].case == case:
            found.append((*row[0].parts, *row[1:]))
        elif row[0] == ANYTHING:
            found.append((*(ANYTHING,) * count, *row[1:]))
    return found


def _example(case: str, parts: Parts) -> str:
    return _with_parts(case, parts, ("_",) * len(parts))


def _with_parts(case: str, parts: Parts, values: Sequence[str]) -> str:
    if not parts:
        return case
    if parts[0][0].isdigit():
        return f"{case}({', '.join(values)})"
    return f"{case} {{ {', '.join(f'{name}: {value}' for (name, _), value in zip(parts, values, strict=True))} }}".strip()
