"""Statements: declarations of variables, assignments, loops, jumps, and top-level declarations that need a check of their own."""

from collections.abc import Sequence

from compiler.diagnostics import Label, Severity
from compiler.source import NOWHERE, Span
from compiler.typed_ast.checker import Checker, checks, leaves
from compiler.typed_ast.constants import constant
from compiler.typed_ast.conversions import clash, is_silent, join, strong
from compiler.typed_ast.endless_loops import is_endless
from compiler.typed_ast.infer_functions import refined
from compiler.typed_ast.infer_operators import operate
from compiler.typed_ast.loops import bind_loop_names
from compiler.typed_ast.nodes import (
    Assign,
    Binary,
    BindingPattern,
    Break,
    Compute,
    Continue,
    Expression,
    ExpressionStatement,
    Field,
    For,
    Index,
    Let,
    Name,
    Pattern,
    Return,
    SharedVariable,
    TupleLiteral,
    TuplePattern,
    While,
    WildcardPattern,
    Yield,
)
from compiler.typed_ast.rules.names import undefined
from compiler.typed_ast.scope import Scope, UserFunction, Variable, VariableKind
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import (
    ANY_TENSOR,
    ERROR,
    NEVER,
    UNIT,
    UNKNOWN,
    ListType,
    Scalar,
    ShapeExpr,
    TensorType,
    TupleType,
    Type,
)


@checks(ExpressionStatement)
def expression_statement(checker: Checker, node: ExpressionStatement, scope: Scope) -> Type:
    found = checker.infer(node.value, scope)
    if isinstance(node.value, Compute):
        warn_unused(checker, node.value)
    return found


def warn_unused(checker: Checker, node: Compute) -> None:
    """A block whose value nobody uses does nothing, unless it updates an input."""
    if not any(given.mutable for given in node.inputs):
        checker.report(
            "0604",
            "the value of this `compute` block is not used",
            Span(node.span.path, node.span.start, node.span.start + len("compute")),
            hint="give it a name: `let y = compute(...)`",
            severity=Severity.WARNING,
        )


# ---- variables -------------------------------------------------------------------------------------------------------


@checks(Let)
def let(checker: Checker, node: Let, scope: Scope) -> Type:
    declared: Type | None = None
    if node.annotation is not None:
        declared = checker.resolver.resolve(node.annotation, lambda name, span: _size_in_scope(name, scope))
    found: Type = UNKNOWN
    if node.value is not None:
        if declared is not None:
            reason = Label(node.annotation.span, "the type is declared here") if node.annotation is not None else None
            found = checker.value(node.value, scope, declared, reason)
        else:
            found = checker.infer(node.value, scope)
        if found == UNIT:
            found = checker.report("0203", "this gives no value", node.value.span)
    found_type = found if declared is None else refined(declared, found)
    known = constant(node.value, scope) if node.value is not None and not node.mutable else None
    _bind_pattern(checker, node, node.pattern, found_type, declared is not None, known, scope)
    return NEVER if found == NEVER else UNIT


def _size_in_scope(name: str, scope: Scope) -> ShapeExpr | None:
    entry = scope.find(name)
    if isinstance(entry, Variable):
        if entry.kind is VariableKind.SIZE:
            return ShapeExpr.of(name)
        if type(entry.constant) is int:
            return ShapeExpr((), entry.constant)
    return None


def _bind_pattern(checker: Checker, node: Let, pattern: Pattern, found: Type, declared: bool, known: object, scope: Scope) -> None:
    match pattern:
        case BindingPattern(name=name):
            kind = VariableKind.MUTABLE if node.mutable else VariableKind.LET
            span = pattern.span if pattern.span != NOWHERE else node.span
            if node.mutable and not declared and isinstance(found, TensorType) and name in checker.changed_elsewhere:
                found = ANY_TENSOR
            variable = Variable(name, strong(found), kind, span, declared=declared, frame=checker.frame, assigned=node.value is not None)
            if not node.mutable:
                variable.constant = known
            scope.entries[name] = variable
        case TuplePattern(elements=elements):
            parts: Sequence[Type] = [UNKNOWN] * len(elements)
            if isinstance(found, TupleType):
                if len(found.elements) != len(elements):
                    checker.report(
                        "0203",
                        f"{len(elements)} names for a tuple of {len(found.elements)}",
                        pattern.span,
                        "",
                        (Label(node.value.span, f"this is {found}"),) if node.value is not None else (),
                        hint="`_` skips an element",
                    )
                    parts = [ERROR] * len(elements)
                else:
                    parts = found.elements
            elif not is_silent(found) and not isinstance(found, (ListType, TensorType)):
                checker.report(
                    "0203", f"only a tuple can be taken apart, and this is {found}", node.value.span if node.value else pattern.span
                )
                parts = [ERROR] * len(elements)
            values = known if isinstance(known, tuple) and len(known) == len(elements) else [None] * len(elements)
            for element, part, value in zip(elements, parts, values, strict=True):
                _bind_pattern(checker, node, element, part, declared, value, scope)
        case WildcardPattern():
            pass
        case _:
            checker.later("this pattern in `let`", pattern.span, "take the value apart by name: `let (a, b) = t`")


@checks(Assign)
def assign(checker: Checker, node: Assign, scope: Scope) -> Type:
    if node.operator is None and isinstance(node.target, TupleLiteral):
        return _assign_tuple(checker, node, node.target, scope)
    match node.target:
        case Name(name=name):
            return _assign_name(checker, node, node.target, name, scope)
        case Index() | Field():
            wanted = checker.infer(node.target, scope)
            require_mutable(checker, node.target, scope, "this changes")
            found = _assigned_type(checker, node, wanted, scope)
            if wanted != ERROR and node.operator is None:
                _fits_element(checker, node, wanted, found, scope)
            elif node.operator is not None and isinstance(wanted, Scalar) and found != ERROR:
                checker.require(found, wanted, node.value, scope)
            return UNIT
    checker.infer(node.value, scope)
    checker.report("0203", "only a variable, an element or a field can be assigned", node.target.span, hint="compare values with `==`")
    return UNIT


def _assigned_type(checker: Checker, node: Assign, before: Type, scope: Scope) -> Type:
    """The type of the value that is stored: of `e`, or of `target operator e`."""
    if node.operator is None:
        return checker.infer(node.value, scope, before)
    value = checker.infer(node.value, scope)
    return operate(checker, Binary(operator=node.operator, left=node.target, right=node.value, span=node.span), before, value)


def _fits_element(checker: Checker, node: Assign, wanted: Type, found: Type, scope: Scope) -> None:
    """A store into an element or a slice; into a slice, a number fills it and a tensor is spread over it."""
    if isinstance(wanted, TensorType) and isinstance(found, (Scalar, ListType, TensorType)):
        return
    for leaf in leaves(node.value):
        checker.require(checker.type_of(leaf), wanted, leaf, scope)


def _assign_tuple(checker: Checker, node: Assign, target: TupleLiteral, scope: Scope) -> Type:
    found = checker.infer(node.value, scope)
    parts: Sequence[Type] = [UNKNOWN] * len(target.elements)
    if isinstance(found, TupleType):
        if len(found.elements) != len(target.elements):
            checker.report(
                "0203",
                f"{len(target.elements)} targets for a tuple of {len(found.elements)}",
                target.span,
                "",
                (Label(node.value.span, f"this is {found}"),),
            )
            return UNIT
        parts = found.elements
    for element, part in zip(target.elements, parts, strict=True):
        if isinstance(element, Name):
            if element.name != "_":
                variable = _writable(checker, element, scope)
                if variable is not None:
                    _store(checker, variable, part, node.value, scope)
        else:
            wanted = checker.infer(element, scope)
            require_mutable(checker, element, scope, "this changes")
            if not isinstance(wanted, TensorType):
                checker.require(part, wanted, node.value, scope)
    return UNIT


def _assign_name(checker: Checker, node: Assign, target: Name, name: str, scope: Scope) -> Type:
    variable = _writable(checker, target, scope)
    before = variable.type if variable is not None else ERROR
    if variable is not None:
        checker.findings.types[id(target)] = before
    found = _assigned_type(checker, node, before, scope)
    if variable is not None:
        if node.operator is None:
            _store_value(checker, variable, found, node.value, scope)
        else:
            _store(checker, variable, found, node.value, scope)
    return NEVER if found == NEVER else UNIT


def _writable(checker: Checker, target: Name, scope: Scope) -> Variable | None:
    """The variable that an assignment writes; reports when there is none, or when it cannot be written."""
    entry = scope.find(target.name)
    if isinstance(entry, Variable):
        if entry.mutable:
            entry.assigned = True
            return entry
        if entry.type != ERROR:
            _report_fixed(checker, target.name, target.span, entry, "cannot be assigned")
        return None
    if isinstance(entry, UserFunction):
        checker.report("0205", f"`{target.name}` is a function and cannot be assigned", target.span)
        return None
    if target.name in checker.library.functions or target.name in checker.library.constants or scope.find_ended(target.name) is None:
        known = [n for n, e in scope.visible() if isinstance(e, Variable)]
        near = did_you_mean(target.name, known)
        hint = near or f"declare it first: `var {target.name} = ...`"
        checker.report("0201", f"`{target.name}` is not defined", target.span, "not found", hint=hint)
        if near is None:  # Said once; the lines below mean this one.
            scope.entries[target.name] = Variable(target.name, ERROR, VariableKind.MUTABLE, target.span, frame=checker.frame)
        return None
    undefined(checker, target.name, target.span, scope)
    return None


_FIXED = {
    VariableKind.LET: ("declared with `let`", "declare it `mut {0} = ...`, if it is to change"),
    VariableKind.LOOP: ("a loop variable", "use a variable of its own: `mut other = {0}`"),
    VariableKind.SIZE: ("a size", "copy it first: `mut n = {0}`"),
    VariableKind.PROGRAM_PARAMETER: ("a `param`", "copy it first: `mut n = {0}`"),
}


def _report_fixed(checker: Checker, name: str, span: Span, entry: Variable, what: str) -> None:
    words, hint = _FIXED[entry.kind]
    checker.report("0205", f"`{name}` {what}: it is {words}", span, "", (Label(entry.span, "declared here"),), hint=hint.format(name))


def require_mutable(checker: Checker, target: Expression, scope: Scope, what: str) -> None:
    """Reports when the variable at the root of `a[i].f` may not change."""
    root = target
    while isinstance(root, (Index, Field)):
        root = root.value
    if not isinstance(root, Name):
        return
    entry = scope.find(root.name)
    if isinstance(entry, Variable) and not entry.mutable and not is_silent(entry.type):
        _report_fixed(checker, root.name, target.span, entry, "cannot be changed")


def _store_value(checker: Checker, variable: Variable, found: Type, node: Expression, scope: Scope) -> None:
    good = True
    for leaf in leaves(node):
        good &= _store_fits(checker, variable, checker.type_of(leaf), leaf, scope)
    if good:
        _widen(variable, found)


def _store(checker: Checker, variable: Variable, found: Type, node: Expression, scope: Scope) -> None:
    if _store_fits(checker, variable, found, node, scope):
        _widen(variable, found)


def _store_fits(checker: Checker, variable: Variable, found: Type, node: Expression, scope: Scope) -> bool:
    if is_silent(found) or is_silent(variable.type):
        return True
    reason = Label(variable.span, f"`{variable.name}` is {variable.type}")
    if variable.declared or isinstance(variable.type, Scalar):
        return checker.require(found, variable.type, node, scope, reason)
    if clash(variable.type, found) or (isinstance(found, TensorType) != isinstance(variable.type, TensorType) and found != UNIT):
        return checker.require(found, variable.type, node, scope, reason)
    return True


def _widen(variable: Variable, found: Type) -> None:
    """A mutable variable without a declared type is all that was assigned to it: its shape may change, its kind may not."""
    if variable.declared:
        return
    if is_silent(variable.type):
        variable.type = strong(found) if not variable.assigned else variable.type
        return
    if isinstance(variable.type, Scalar) or variable.type == found:
        return
    if is_silent(found):
        variable.type = ANY_TENSOR if isinstance(variable.type, TensorType) else UNKNOWN
        return
    variable.type = join(variable.type, strong(found))


# ---- loops -----------------------------------------------------------------------------------------------------------


@checks(For)
def for_loop(checker: Checker, node: For, scope: Scope) -> Type:
    inner = scope.inner()
    for clause in node.clauses:
        source = checker.infer(clause.source, inner)
        bind_loop_names(checker, inner, clause.names, clause.name_spans, clause.source, source)
    _loop_body(checker, node, inner)
    inner.close()
    return UNIT


@checks(While)
def while_loop(checker: Checker, node: While, scope: Scope) -> Type:
    checker.require_bool(node.condition, scope, "the condition of `while`")
    _loop_body(checker, node, scope)
    return NEVER if is_endless(node) else UNIT


def _loop_body(checker: Checker, node: For | While, scope: Scope) -> None:
    """Checks a body with the types of the first round, then, when a round changes some, once more silently to record those that
    hold in all rounds."""
    checker.frame.loops += 1
    before = _mutable_types(scope)
    checker.block(node.body, scope)
    if not checker.findings.muted and _mutable_types(scope) != before:
        checker.mute()
        checker.block(node.body, scope)
        checker.unmute()
    checker.frame.loops -= 1


def _mutable_types(scope: Scope) -> list[Type]:
    return [e.type for _, e in scope.visible() if isinstance(e, Variable) and e.mutable and not isinstance(e.type, Scalar)]


@checks(Break, Continue)
def jump(checker: Checker, node: Break | Continue, scope: Scope) -> Type:
    if checker.frame.loops == 0:
        word = "break" if isinstance(node, Break) else "continue"
        checker.report("0101", f"`{word}` stands outside of a loop", node.span)
    return NEVER


@checks(Return)
def return_statement(checker: Checker, node: Return, scope: Scope) -> Type:
    frame = checker.frame
    if frame.top:
        checker.report("0101", "`return` stands outside of a function", node.span)
    if node.value is None:
        if frame.result is not None and frame.result not in (UNIT, UNKNOWN, ERROR) and frame.function is not None:
            checker.report(
                "0209",
                f"`{frame.function.name}` returns {frame.result}, but this `return` has no value",
                node.span,
                "",
                (Label(frame.declared, "the result is declared here"),),
            )
        frame.returns.append(UNIT)
        return NEVER
    if frame.result is not None:
        reason = Label(frame.declared, "the result is declared here")
        frame.returns.append(checker.value(node.value, scope, frame.result, reason))
    else:
        frame.returns.append(checker.infer(node.value, scope))
    return NEVER


# ---- what stands only in compute bodies --------------------------------------------------------------------------------


@checks(Yield)
def stray_yield(checker: Checker, node: Yield, scope: Scope) -> Type:
    checker.report("0408", "`yield` stands outside of a compute block", node.span, hint="a function gives its value with `return`")
    return UNIT


@checks(SharedVariable)
def stray_shared(checker: Checker, node: SharedVariable, scope: Scope) -> Type:
    checker.report("0413", "`shared var` stands outside of a compute block", node.span, hint="declare an ordinary variable with `var`")
    scope.entries[node.name] = Variable(node.name, ERROR, VariableKind.MUTABLE, node.span, frame=checker.frame)
    return UNIT
