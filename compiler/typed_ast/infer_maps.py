"""Types of maps and sets: literals, elements, what loops over them hand out, and which types may be keys."""

from collections.abc import Callable

from compiler.typed_ast.checker import CORE, Checker, infers
from compiler.typed_ast.conversions import clash, is_silent, join, place_of, strong
from compiler.typed_ast.keys import KEY_HINT, key_fault
from compiler.typed_ast.meaning import TypeRules, always
from compiler.typed_ast.nodes import Binary, DictLiteral, Expression, Index
from compiler.typed_ast.requirements import require
from compiler.typed_ast.rules.operators import EQUALITIES
from compiler.typed_ast.rules.placing import placed
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import (
    BOOL,
    ERROR,
    UNKNOWN,
    DictType,
    SetType,
    Type,
)


def require_key(checker: Checker, type_: Type, node: Expression) -> bool:
    """Reports a value that can't be a key."""
    fault = key_fault(type_)
    if fault is None:
        return True
    checker.report("0203", f"a key is compared as a whole: {fault}", node.span, f"this is {checker.show(type_)}", hint=KEY_HINT)
    return False


@infers(DictLiteral)
def map_literal(checker: Checker, node: DictLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    """What its place wants; alone the type of all keys and of all values."""
    place = place_of(expected)
    if isinstance(place, SetType) and not node.entries:
        return place
    wanted = place if isinstance(place, DictType) else DictType(UNKNOWN, UNKNOWN)
    key, value = _Common(checker, "a key", wanted.key, scope), _Common(checker, "a value", wanted.value, scope)
    for entry in node.entries:
        key.add(entry.key)
        value.add(entry.value)
        if not require_key(checker, checker.type_of(entry.key), entry.key):
            return ERROR
    return DictType(key.type, value.type) if ERROR not in (key.type, value.type) else ERROR


class _Common:
    """The type of all keys, or of all values, of a map that is written out."""

    def __init__(self, checker: Checker, what: str, wanted: Type, scope: Scope) -> None:
        self.checker, self.what, self.scope = checker, what, scope
        self.wanted = wanted if wanted != UNKNOWN else None
        self.found: Type | None = None

    def add(self, node: Expression) -> None:
        if self.wanted is not None:
            placed(self.checker, node, self.scope, self.wanted, f"{self.what} of this map")
            return
        one = strong(self.checker.infer(node, self.scope, self.found))
        met = self.checker.meaning.meet(self.found, one) if self.found is not None else one
        if met is None and self.found is not None:
            loose = is_silent(self.found) or is_silent(one) or self.checker.kind(self.found).widens
            if loose and not clash(self.found, one):
                met = join(self.found, one)
            else:
                met = self.found if require(self.checker, one, self.found, node.span, f"{self.what} of this map") else ERROR
        self.found = met

    @property
    def type(self) -> Type:
        if self.wanted is not None:
            return self.wanted
        return UNKNOWN if self.found is None else self.found


def element(checker: Checker, node: Index, value: DictType, scope: Scope) -> Type:
    """`m[k]`."""
    found = [checker.infer(item, scope, value.key) for item in node.indices]
    if ERROR in found:
        return ERROR
    if len(found) != 1:
        return checker.report("0304", f"{value} takes 1 key, but {len(found)} are given", node.span, f"the value is {value}")
    fitting = is_silent(value.key) or require(checker, found[0], value.key, node.indices[0].span, "the key")
    return value.value if fitting and require_key(checker, found[0], node.indices[0]) else ERROR


def _operator(same: Callable[[Type, Type], bool]) -> Callable[[Checker, Binary, Type, Type], Type | None]:
    def rule(checker: Checker, node: Binary, left: Type, right: Type) -> Type | None:
        if node.operator == "in" and isinstance(right, DictType | SetType):
            key = right.key if isinstance(right, DictType) else right.element
            return BOOL if not clash(left, key) else None
        if node.operator in EQUALITIES and same(left, right) and not clash(left, right):
            return BOOL
        return None

    return rule


CORE.kinds |= {
    DictType: TypeRules(operator=_operator(lambda a, b: isinstance(a, DictType) and isinstance(b, DictType)), has_equality=always),
    SetType: TypeRules(operator=_operator(lambda a, b: isinstance(a, SetType) and isinstance(b, SetType)), has_equality=always),
}
