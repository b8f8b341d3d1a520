"""What is asked of a value where it stands: in a place with a type, and as a condition. Of a value that comes from branches each branch is
looked at."""

from compiler.diagnostics import Label
from compiler.typed_ast.checker import Checker, leaves
from compiler.typed_ast.constants import constant
from compiler.typed_ast.nodes import Expression
from compiler.typed_ast.requirements import require
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import BOOL, Scalar, Type
from compiler.typed_ast.weak_ints import lost_remainder, remainder_fault


def placed(checker: Checker, node: Expression, scope: Scope, place: Type, what: str, reason: Label | None = None) -> Type:
    """The type of a value for a place that is `place`. `what` names the place in messages, as in "the result"; `reason` says why."""
    if reason is not None:
        checker.reasons.update((id(leaf), reason) for leaf in leaves(node))
    actual = checker.infer(node, scope, place)
    require_placed(checker, node, scope, place, what, reason)
    return actual


def require_placed(checker: Checker, node: Expression, scope: Scope, place: Type, what: str, reason: Label | None = None) -> bool:
    """The same for a value whose types are known."""
    fitting = [require_part(checker, checker.type_of(leaf), place, leaf, scope, what, reason) for leaf in leaves(node)]
    return all(fitting)


def require_part(
    checker: Checker, actual: Type, place: Type, node: Expression, scope: Scope, what: str, reason: Label | None = None
) -> bool:
    """The same for a part of a value, of type `found`."""
    value = constant(node, scope) if isinstance(actual, Scalar) and actual.weak else None
    others = (reason,) if reason is not None else ()
    if isinstance(value, int) and isinstance(place, Scalar) and place.dtype.is_float and (lost := lost_remainder(node)) is not None:
        checker.add(remainder_fault(lost, others))
        return False
    return require(checker, actual, place, node.span, what, others, value)


def condition(checker: Checker, node: Expression, scope: Scope, where: str) -> None:
    """Infers a condition; anything that is certainly no bool is an error."""
    checker.infer(node, scope, BOOL)
    require_placed(checker, node, scope, BOOL, where)
