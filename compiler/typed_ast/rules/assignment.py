"""Assignments: to a name, to a field or an element, and to several of them at once."""

from collections.abc import Sequence

from compiler.diagnostics import Label
from compiler.source import NOWHERE, Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CORE, Checker, leaves
from compiler.typed_ast.conversions import clash, is_silent, join, strong
from compiler.typed_ast.rules import narrowing
from compiler.typed_ast.rules.placing import require_part, require_placed
from compiler.typed_ast.scope import Scope, UserFunction, Variable, VariableKind
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import ANY_TENSOR, ERROR, NEVER, UNIT, UNKNOWN, ListType, Scalar, TensorType, TupleType, Type
from compiler.typed_ast.walk import walk
from runtime.records import evolve

PART = "what is assigned to"


@CORE.checks(nodes.Assign)
def assign(checker: Checker, node: nodes.Assign, scope: Scope) -> Type:
    found: Type
    match node.target:
        case nodes.Name(name="_") if node.operator is None:
            found = checker.infer(node.value, scope)
        case nodes.TupleLiteral(elements=targets) if node.operator is None:
            found = _to_several(checker, node, targets, scope)
        case nodes.Name() as target:
            found = _to_name(checker, node, target, scope)
        case nodes.Index() if checker.meaning.rules.traits.stored(checker, node, scope):
            return UNIT
        case nodes.Index() | nodes.Field():
            place = _part(checker, node.target, node.span, scope)
            if checker.findings.rewrites.pop(id(node.target), None) is not None:
                checker.infer(node.value, scope)
                shown = checker.show(checker.type_of(node.target.value)) if isinstance(node.target, nodes.Index) else ""
                hint = f"write `impl IndexMut for {shown} {{ def index_mut(mut self, i: int, value: f64) {{ ... }} }}`"
                checker.report("0205", "`Index` reads an element, and doesn't change it", node.target.span, hint=hint)
                return UNIT
            found = _assigned_type(checker, node, place, scope)
            if place != ERROR and found != ERROR and not _fills(place, found):
                if node.operator is None:
                    require_placed(checker, node.value, scope, place, PART)
                else:
                    require_part(checker, found, place, node.value, scope, PART)
        case _:
            found = checker.infer(node.value, scope)
            hint = "compare values with `==`"
            checker.report("0203", "only a variable, an element or a field can be assigned", node.target.span, hint=hint)
    return NEVER if found == NEVER else UNIT


def _assigned_type(checker: Checker, node: nodes.Assign, place: Type, scope: Scope) -> Type:
    """The type of the value that is stored: of `e`, or of `target operator e`."""
    if node.operator is None:
        return checker.infer(node.value, scope, place)
    combined = nodes.Binary(operator=node.operator, left=node.target, right=node.value, span=node.span)
    checker.kept.append(combined)
    actual = checker.infer(combined, scope, place)
    if id(combined) in checker.findings.rewrites:
        if any(isinstance(one, nodes.Call) for one in walk(node.target)):
            hint = "keep what is computed there in a variable"
            checker.later(f"`{node.operator}=` of a trait on a part whose place is computed by a call", node.target.span, hint)
        checker.findings.rewrites[id(node)] = evolve(node, operator=None, value=combined)
    return actual


def _fills(place: Type, actual: Type) -> bool:
    """Whether a store into a slice takes any value: a number fills it, and a tensor is spread over it."""
    return isinstance(place, TensorType) and isinstance(actual, Scalar | ListType | TensorType)


# ---- targets ---------------------------------------------------------------------------------------------------------


def _part(checker: Checker, target: nodes.Expression, span: Span, scope: Scope) -> Type:
    """The type of a field or an element that is assigned to."""
    place = checker.infer(target, scope)
    fixed = not require_mutable(checker, target, scope)
    checker.meaning.rules.changed(checker, target, span, scope)
    return ERROR if fixed else place


def require_mutable(checker: Checker, target: nodes.Expression, scope: Scope) -> bool:
    """Reports when the variable at the root of `a[i].f` may not change."""
    root = target
    while isinstance(root, nodes.Index | nodes.Field):
        root = root.value
    entry = scope.variable(root.name) if isinstance(root, nodes.Name) else None
    if entry is None or entry.mutable or is_silent(entry.type):
        return True
    _report_fixed(checker, entry, target.span, "cannot be changed")
    return False


def _writable(checker: Checker, target: nodes.Name, span: Span, scope: Scope) -> Variable | None:
    """The variable that an assignment writes; reports when there is none, or when it cannot be written."""
    entry = scope.find(target.name)
    if isinstance(entry, Variable):
        if not entry.mutable:
            if entry.type != ERROR:
                _report_fixed(checker, entry, target.span, "cannot be assigned")
            return None
        entry.assigned, entry.now = True, None
        checker.frame.turns = tuple(loop for loop in checker.frame.turns if loop.variable is not entry)
        checker.findings.types[id(target)] = entry.type
        checker.meaning.rules.changed(checker, target, span, scope)
        return entry
    if isinstance(entry, UserFunction) or target.name in checker.declarations.functions:
        checker.report("0205", f"`{target.name}` is a function and cannot be assigned", target.span)
    elif scope.find_ended(target.name) is not None:
        checker.infer(target, scope)
    else:
        near = did_you_mean(target.name, [name for name, one in scope.visible() if isinstance(one, Variable)])
        hint = near or f"declare it first: `var {target.name} = ...`"
        checker.report("0201", f"`{target.name}` is not defined", target.span, "not found", hint=hint)
        if near is None:  # Said once; the lines below mean this one.
            scope.add(Variable(target.name, ERROR, VariableKind.MUTABLE, target.span, frame=checker.frame))
    return None


_COPY = "copy it first: `var n = {0}`"
_FIXED = {
    VariableKind.LET: ("declared with `let`", "declare it `var {0} = ...`, if it is to change"),
    VariableKind.LOOP: ("a loop variable", "use a variable of its own: `var other = {0}`"),
    VariableKind.PARAMETER: ("a parameter", _COPY),
    VariableKind.CONSTANT_PARAMETER: ("a parameter", _COPY),
    VariableKind.SIZE: ("a size", _COPY),
    VariableKind.CONSTANT: ("a `const`", _COPY),
    VariableKind.PROGRAM_PARAMETER: ("a `param`", _COPY),
}


def _report_fixed(checker: Checker, entry: Variable, span: Span, what: str) -> None:
    words, hint = _FIXED[entry.kind] if entry.name != "self" else ("a parameter", "write `mut self`, if the method is to change it")
    others: tuple[Label, ...] = (Label(entry.span, "declared here"),)
    if entry.span == NOWHERE:
        words, hint, others = "the language's", "assign to a variable of your own", ()
    checker.report("0205", f"`{entry.name}` {what}: it is {words}", span, others=others, hint=hint.format(entry.name))


# ---- variables -------------------------------------------------------------------------------------------------------


def _to_name(checker: Checker, node: nodes.Assign, target: nodes.Name, scope: Scope) -> Type:
    variable = _writable(checker, target, node.span, scope)
    found = _assigned_type(checker, node, variable.type if variable is not None else ERROR, scope)
    if variable is None:
        return found
    if node.operator is not None:
        narrowing.forget(checker, variable)
        _store(checker, variable, found, node.value, scope)
        return found
    staying = [_stays(checker, variable, checker.type_of(leaf), leaf, scope) for leaf in leaves(node.value)]
    if all(staying):
        _widen(checker, variable, found)
        narrowing.assigned(checker, variable, node.value)
    return found


def _to_several(checker: Checker, node: nodes.Assign, targets: tuple[nodes.Expression, ...], scope: Scope) -> Type:
    actual = checker.infer(node.value, scope)
    parts: Sequence[Type] = [ERROR if actual == ERROR else UNKNOWN] * len(targets)
    if isinstance(actual, TupleType) and len(actual.elements) == len(targets):
        parts = actual.elements
    elif isinstance(actual, TupleType):
        others = (Label(node.value.span, f"this is {checker.show(actual)}"),)
        checker.report("0203", f"{len(targets)} targets for a tuple of {len(actual.elements)}", node.target.span, others=others)
    elif not is_silent(actual) and not isinstance(actual, ListType | TensorType):
        checker.report("0203", f"`{checker.show(actual)}` doesn't come apart into {len(targets)} values", node.value.span)
    written = node.value.elements if isinstance(node.value, nodes.TupleLiteral) else ()
    values = written if len(written) == len(targets) else (node.value,) * len(targets)
    for target, part, value in zip(targets, parts, values, strict=True):
        if not isinstance(target, nodes.Name):
            place = _part(checker, target, node.span, scope)
            if not isinstance(place, TensorType):
                require_part(checker, part, place, value, scope, PART)
        elif target.name != "_" and (variable := _writable(checker, target, node.span, scope)) is not None:
            narrowing.forget(checker, variable)
            _store(checker, variable, part, value, scope)
    return actual


def _store(checker: Checker, variable: Variable, type_: Type, node: nodes.Expression, scope: Scope) -> None:
    if _stays(checker, variable, type_, node, scope):
        _widen(checker, variable, type_)


def _stays(checker: Checker, variable: Variable, type_: Type, node: nodes.Expression, scope: Scope) -> bool:
    """Reports a value that is not of the variable's kind."""
    if is_silent(type_) or is_silent(variable.type):
        return True
    loose = not variable.declared and not isinstance(variable.type, Scalar) and checker.kind(variable.type).widens
    tensor = isinstance(variable.type, TensorType)
    if loose and not clash(variable.type, type_) and (isinstance(type_, TensorType) == tensor or type_ == UNIT):
        return True
    shown = checker.show(variable.type)
    reason = Label(variable.span, f"`{variable.name}` is {shown}")
    return require_part(checker, type_, variable.type, node, scope, f"`{variable.name}`", reason)


def _widen(checker: Checker, variable: Variable, type_: Type) -> None:
    """A variable without a declared type whose type is known better or worse is all that was assigned to it: its shape may change, its
    kind may not."""
    fixed = variable.declared or isinstance(variable.type, Scalar) or is_silent(variable.type) or variable.type == type_
    if fixed or not checker.kind(variable.type).widens:
        return
    if is_silent(type_):
        variable.type = ANY_TENSOR if isinstance(variable.type, TensorType) else UNKNOWN
    else:
        variable.type = join(variable.type, strong(type_))
