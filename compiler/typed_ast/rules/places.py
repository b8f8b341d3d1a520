"""Variables and constants as they are declared: their types, what is known of their values, and that they have one when they are read."""


from functools import partial

from compiler.diagnostics import Label
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.constants import constant, whole_constant
from compiler.typed_ast.conversions import is_silent, strong
from compiler.typed_ast.definite_assignment import early_reads
from compiler.typed_ast.exhaustiveness import ANYTHING, PatternShape, uncovered
from compiler.typed_ast.rules.parts import cases_of
from compiler.typed_ast.rules.patterns import bind
from compiler.typed_ast.rules.placing import placed
from compiler.typed_ast.scope import Scope, Variable, VariableKind
from compiler.typed_ast.shapes import refined
from compiler.typed_ast.types import ANY_TENSOR, I64, NEVER, NONE, UNIT, UNKNOWN, Scalar, TensorType, Type


@CORE.checks(nodes.Let)
def let(checker: Checker, node: nodes.Let, scope: Scope) -> Type:
    place = checker.resolve(node.annotation, scope) if node.annotation is not None else None
    if node.value is None:
        _without_value(checker, node, place, scope)
        return UNIT
    if place is not None and node.annotation is not None:
        found = placed(checker, node.value, scope, place, "the variable", Label(node.annotation.span, "the type is declared here"))
        held = refined(place, found)
    else:
        found = _without_type(checker, node.value, scope, f"let x: int? = {checker.meaning.none}")
        held = strong(found)
    known = constant(node.value, scope) if not node.mutable else None
    before = scope.as_now_for(node.value) if held == I64 and not node.mutable else None
    begin = whole_constant(node.value, scope) if held == I64 and node.mutable else None
    for variable in _bound(checker, node, held, known, scope):
        if isinstance(node.pattern, nodes.BindingPattern):
            variable.value = (node.value, before) if before is not None else None
            variable.now = begin
    return NEVER if found == NEVER else UNIT


def _without_type(checker: Checker, value: nodes.Expression, scope: Scope, written: str) -> Type:
    """The type of the value of a name without a type."""
    type_ = checker.infer(value, scope)
    if type_ == NONE:
        hint = f"write the type: `{written}`"
        return checker.report("0203", f"`{checker.meaning.none}` alone doesn't say of what type", value.span, hint=hint)
    if type_ == UNIT:
        return checker.report("0203", "this gives no value", value.span)
    return type_


def _without_value(checker: Checker, node: nodes.Let, place: Type | None, scope: Scope) -> None:
    if place is None and not checker.meaning.settings.untyped_parameters:
        place = checker.report("0203", "this variable has neither a type nor a value", node.span, hint="write one of them")
    elif place is not None and not checker.kind(place).begins_empty:
        checker.findings.unset.add(id(node))
    for variable in _bound(checker, node, place or UNKNOWN, None, scope):
        variable.assigned = False


def _bound(checker: Checker, node: nodes.Let, held: Type, known: object, scope: Scope) -> list[Variable]:
    """Enters the variables of a `let`, of which the value may be `known`."""
    own = Scope(scope)
    shape = bind(checker, node.pattern, held, own, VariableKind.MUTABLE if node.mutable else VariableKind.LET)
    _require_whole(checker, node.pattern, shape, held)
    values = _known_parts(node.pattern, known)
    for variable in own.all_own():
        variable.declared = node.annotation is not None
        variable.constant = _of_type(values.get(variable.name), variable.type)
        if node.mutable and not variable.declared and isinstance(variable.type, TensorType) and variable.name in checker.changed_elsewhere:
            variable.type = ANY_TENSOR
        scope.add(variable)
        checker.meaning.rules.declared(checker, variable)
    return list(own.all_own())


def _require_whole(checker: Checker, pattern: nodes.Pattern, shape: PatternShape, held: Type) -> None:
    """Reports a pattern that some values don't fit: a `let` has no other branch."""
    if shape == ANYTHING or is_silent(held):
        return
    missing = uncovered(partial(cases_of, checker), [(shape,)], (held,))
    if missing is not None:
        message = "this pattern doesn't fit " + ("all values" if missing[0] == "_" else f"`{missing[0]}`")
        checker.report("0206", message, pattern.span, hint="take the value apart in a `match`, or by `if let`, which say what else happens")


def _known_parts(pattern: nodes.Pattern, known: object) -> dict[str, object]:
    match pattern:
        case nodes.BindingPattern(name=name):
            return {name: known}
        case nodes.TuplePattern(elements=elements) if isinstance(known, tuple) and len(known) == len(elements):
            return {name: value for element, one in zip(elements, known, strict=True) for name, value in _known_parts(element, one).items()}
    return {}


def _of_type(known: object, held: Type) -> object:
    """A known value as a variable of that type has it; None where that is another: 3 as a price counts ticks."""
    if not isinstance(known, int | float) or isinstance(known, bool):
        return known
    if not isinstance(held, Scalar):
        return known if held == UNKNOWN else None
    return float(known) if held.dtype.is_float else known


@CORE.checks(nodes.Constant)
def constant_(checker: Checker, node: nodes.Constant, scope: Scope) -> Type:
    place = checker.resolve(node.annotation, scope) if node.annotation is not None else None
    if place is not None:
        placed(checker, node.value, scope, place, f"the constant `{node.name}`")
    else:
        place = strong(_without_type(checker, node.value, scope, f"const {node.name}: int? = {checker.meaning.none}"))
    known = _of_type(constant(node.value, scope), place)
    scope.add(Variable(node.name, place, VariableKind.CONSTANT, node.span, known, frame=checker.frame))
    return UNIT


def require_assigned(checker: Checker, body: nodes.Block) -> None:
    """Reports reads of variables that have no value on some path."""
    unset = checker.findings.unset
    for read, declared in early_reads(body, lambda node: id(node) in unset):
        message, others = f"`{read.name}` is read before it has a value", (Label(declared.pattern.span, "declared here"),)
        checker.report("0212", message, read.span, others=others, hint="assign it on every path to here, or declare it with a value")
