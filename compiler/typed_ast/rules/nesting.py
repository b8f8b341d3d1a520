"""Types that hold themselves, which would have no end: all but the elements of lists lies in place, and there are no pointers."""

from collections.abc import Iterator

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.walk import parts

_ELSEWHERE = ("List", "list", "Future")
"""The types whose values lie outside of what holds them."""


def check_nesting(checker: Checker, declaration: nodes.Struct | nodes.EnumDeclaration) -> None:
    """Reports a struct or enum that is a part of itself, with the way there."""
    way = _way(checker, declaration.name, declaration.name, set())
    if way:
        through = "" if len(way) == 1 else f", by way of {' and '.join(f'`{name}`' for name in way[:-1])}"
        hint = "keep an index into an array, or an id, instead"
        checker.report("0210", f"the type `{declaration.name}` holds itself{through}", declaration.span, hint=hint)


def _way(checker: Checker, name: str, wanted: str, seen: set[str]) -> list[str]:
    """The types through which one type holds another, that one last; none: it doesn't."""
    for part in _parts(checker, name):
        if part == wanted:
            return [part]
        if part not in seen:
            seen.add(part)
            found = _way(checker, part, wanted, seen)
            if found:
                return [part, *found]
    return []


def _parts(checker: Checker, name: str) -> list[str]:
    """The names of types that stand in a declaration."""
    declared = checker.declarations
    declaration = declared.structs.get(name) or declared.enums.get(name) or declared.aliases.get(name)
    return list(_in_place(declaration)) if declaration is not None else []


def _in_place(node: nodes.Node) -> Iterator[str]:
    if isinstance(node, nodes.NamedTypeSyntax):
        yield node.name
        if node.name in _ELSEWHERE:
            return
    for part in parts(node):
        yield from _in_place(part)
