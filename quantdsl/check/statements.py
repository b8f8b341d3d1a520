"""Statements: variables, assignments, loops, results."""

from attrs import evolve

from compiler.diagnostics import Label
from compiler.typed_ast import nodes, turns
from compiler.typed_ast.constants import whole_constant
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.declarations import defined_twice
from compiler.typed_ast.definite_assignment import early_reads
from compiler.typed_ast.endless_loops import is_endless
from compiler.typed_ast.rules import narrowing
from compiler.typed_ast.rules.patterns import bind
from compiler.typed_ast.rules.requirements import require
from compiler.typed_ast.scope import Scope, Variable, VariableKind
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import (
    BOOL,
    ERROR,
    I64,
    NEVER,
    NONE,
    RANGE,
    UNIT,
    ArrayType,
    ListType,
    OptionType,
    ResultType,
    TensorType,
    TupleType,
    Type,
)
from compiler.typed_ast.walk import walk
from quantdsl import nodes as quant
from quantdsl import types as qt
from quantdsl.check import heap
from quantdsl.check.checker import QuantChecker, checks, note_change
from quantdsl.check.fits import shown
from quantdsl.check.resolve import resolve
from quantdsl.check.shadowing import warn_of_variable

_KINDS = {
    VariableKind.PARAMETER: "a parameter",
    VariableKind.CONSTANT_PARAMETER: "a parameter",
    VariableKind.LOOP: "a loop variable",
    VariableKind.LET: "a `let` variable",
}


@checks(nodes.ExpressionStatement)
def expression_statement(checker: QuantChecker, node: nodes.ExpressionStatement, scope: Scope) -> Type:
    found = checker.infer(node.value, scope, used=False)
    if isinstance(found, ResultType):
        hint = "`match` it with `Ok(v)` and `Err(e)`, or drop it: `_ = ...`"
        checker.report("0723", f"this `{shown(found)}` is neither used nor dropped", node.span, hint=hint)
    return found if found == NEVER else UNIT


@checks(nodes.Let)
def let(checker: QuantChecker, node: nodes.Let, scope: Scope) -> Type:
    place = resolve(checker, node.annotation, scope) if node.annotation is not None else None
    if node.value is None:
        if place is None:
            checker.report("0203", "this variable has neither a type nor a value", node.span, hint="write one of them")
        elif not (_begins_empty(place) or heap.is_heap(place)):
            checker.own.unset.add(id(node))
        bind(checker, node.pattern, place or ERROR, scope, VariableKind.MUTABLE)
        return UNIT
    found = checker.infer(node.value, scope, place)
    if place is not None:
        require(checker, found, place, node.value.span, "the variable")
    elif found == NONE:
        found = checker.report(
            "0203", "`none` alone doesn't say of what type", node.value.span, hint="write the type: `let x: Side? = none`"
        )
    elif found == UNIT:
        found = checker.report("0203", "this gives no value", node.value.span)
    for bound in (one for one in walk(node.pattern) if isinstance(one, nodes.BindingPattern)):
        warn_of_variable(checker, bound.name, bound.span)
    constant, before = whole_constant(node.value, scope), scope.as_now()
    kind = VariableKind.MUTABLE if node.mutable else VariableKind.LET
    bind(checker, node.pattern, place if place is not None else strong(found), scope, kind)
    if isinstance(node.pattern, nodes.BindingPattern) and not node.mutable and (variable := scope.own(node.pattern.name)):
        variable.constant = constant if variable.type == I64 else None
        variable.value = (node.value, before) if variable.type == I64 else None
    elif isinstance(node.pattern, nodes.BindingPattern) and node.mutable and (variable := scope.own(node.pattern.name)):
        variable.now = constant if variable.type == I64 else None
    return UNIT


def require_assigned(checker: QuantChecker, body: nodes.Block) -> None:
    """Reports reads of variables that have no value on some path."""
    for read, declared in early_reads(body, lambda node: id(node) in checker.own.unset):
        message, others = f"`{read.name}` is read before it has a value", (Label(declared.pattern.span, "declared here"),)
        checker.report("0212", message, read.span, others=others, hint="assign it on every path to here, or declare it with a value")


@checks(nodes.Assign)
def assign(checker: QuantChecker, node: nodes.Assign, scope: Scope) -> Type:
    if isinstance(node.target, nodes.Name) and node.target.name == "_" and node.operator is None:
        checker.infer(node.value, scope)
        return UNIT
    if isinstance(node.target, nodes.TupleLiteral) and node.operator is None:
        found = checker.infer(node.value, scope)
        parts = found.elements if isinstance(found, TupleType) and len(found.elements) == len(node.target.elements) else None
        if parts is None and found != ERROR:
            checker.report("0203", f"`{shown(found)}` doesn't come apart into {len(node.target.elements)} values", node.value.span)
        for number, target in enumerate(node.target.elements):
            place = _target(checker, target, scope)
            note_change(checker, target, node.span, scope)
            if isinstance(target, nodes.Name) and (variable := scope.variable(target.name)) is not None:
                narrowing.forget(checker, variable)
            if parts is not None:
                require(checker, parts[number], place, target.span, "what is assigned to")
        return UNIT
    place = _target(checker, node.target, scope)
    note_change(checker, node.target, node.span, scope)
    variable = scope.variable(node.target.name) if isinstance(node.target, nodes.Name) else None
    if node.operator is None:
        fitting = require(checker, checker.infer(node.value, scope, place), place, node.value.span, _named(node.target))
        if variable is not None and fitting:
            narrowing.assigned(checker, variable, node.value)
        return UNIT
    if variable is not None:
        narrowing.forget(checker, variable)
    combined = nodes.Binary(operator=node.operator, left=node.target, right=node.value, span=node.span)
    require(checker, checker.infer(combined, scope, place), place, node.span, _named(node.target))
    return UNIT


def _named(target: nodes.Expression) -> str:
    return f"`{target.name}`" if isinstance(target, nodes.Name) else "what is assigned to"


def _target(checker: QuantChecker, target: nodes.Expression, scope: Scope) -> Type:
    """The type of what is assigned to, which must be able to change."""
    if isinstance(target, nodes.Name) and (changed := scope.variable(target.name)) is not None:
        changed.now = None
        checker.frame = evolve(checker.frame, turns=tuple(loop for loop in checker.frame.turns if loop.variable is not changed))
    root = target
    while isinstance(root, nodes.Field | nodes.Index):
        root = root.value
    if isinstance(root, nodes.Name):
        variable = scope.variable(root.name)
        if variable is None:
            hint = (
                did_you_mean(root.name, scope.names())
                or f"declare it: `var {root.name} = ...`, or `state {root.name} = ...` in a strategy or signal"
            )
            return checker.report("0201", f"undefined name `{root.name}`", root.span, hint=hint)
        if not variable.mutable:
            others = (Label(variable.span, "declared here"),) if variable.span.path and not variable.span.path.startswith("<") else ()
            own = variable.kind is VariableKind.LET and variable.span.path
            hint = f"declare it with `var {root.name}`" if own else "assign to a `var` or a `state`"
            return checker.report(
                "0205",
                f"`{root.name}` can't change: it is {_KINDS.get(variable.kind, f'a `{variable.kind.value}`')}",
                target.span,
                hint=hint,
                others=others,
            )
    return checker.infer(target, scope)


@checks(nodes.While)
def while_(checker: QuantChecker, node: nodes.While, scope: Scope) -> Type:
    require(checker, checker.infer(node.condition, scope, BOOL), BOOL, node.condition.span, "the condition")
    if node.bound is not None:
        require(checker, checker.infer(node.bound, scope, I64), I64, node.bound.span, "the bound")
    loop = turns.counted(node, scope) if turns.is_whole(node.body, quant.Emit) else None
    _forget_changed(node.body, scope)
    with checker.within(sometimes=True, loops=1, turns=(*checker.frame.turns, loop) if loop is not None else ()):
        checker.infer(node.body, scope, used=False)
    return NEVER if is_endless(node) else UNIT


def _forget_changed(body: nodes.Block, scope: Scope) -> None:
    """What a loop assigns to isn't known in its body, whatever it was before."""
    for node in walk(body):
        if isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name) and (variable := scope.variable(node.target.name)):
            variable.now = None


@checks(nodes.For)
def for_(checker: QuantChecker, node: nodes.For, scope: Scope) -> Type:
    inner = Scope(scope)
    loops: list[turns.CountedLoop] | None = [*checker.frame.turns] if turns.is_whole(node.body, quant.Emit) else None
    for clause in node.clauses:
        seen = inner.as_now()
        found = checker.infer(clause.source, inner)
        element = _element(checker, found, clause.source)
        parts = (element,) if len(clause.names) == 1 else element.elements if isinstance(element, TupleType) else ()
        if element != ERROR and len(parts) != len(clause.names):
            checker.report("0203", f"each element is a `{shown(element)}`, for {len(clause.names)} names", clause.source.span)
        for number, name in enumerate(clause.names):
            span = clause.name_spans[number]
            inner.add(Variable(name, parts[number] if number < len(parts) else ERROR, VariableKind.LOOP, span))
            warn_of_variable(checker, name, span)
        match clause:
            case nodes.ForClause(names=(name,), source=nodes.Range() as source) if loops is not None and (counting := inner.own(name)):
                loops.append(turns.CountedLoop(counting, source, seen))
            case nodes.ForClause(source=nodes.Range()):
                pass
            case _ if not isinstance(found, ArrayType):
                loops = None  # an array has elements, a ring or list may have none
    _forget_changed(node.body, inner)
    with checker.within(sometimes=True, loops=1, turns=tuple(loops or ())):
        checker.infer(node.body, inner, used=False)
    return UNIT


def _element(checker: QuantChecker, found: Type, source: nodes.Expression) -> Type:
    match found:
        case ListType() | TensorType():
            return heap.element(found) or ERROR
        case ArrayType(element=element) | qt.Container(kind="ring", elements=(element,)):
            return element
    if found in (RANGE, ERROR):
        return I64 if found == RANGE else ERROR
    return checker.report("0203", f"a `for` goes over a range, an array or a ring, and this is a `{shown(found)}`", source.span)


@checks(nodes.Return)
def return_(checker: QuantChecker, node: nodes.Return, scope: Scope) -> Type:
    result = (checker.frame.result if checker.frame.what not in ("handler", "test") else None) or UNIT
    if checker.frame.what == "signal":
        checker.report("0101", "a signal gives its result with `emit`", node.span, hint="write `emit e`")
        return NEVER
    if node.value is None:
        if result not in (UNIT, ERROR):
            checker.report("0203", f"the result is `{shown(result)}`, and this `return` gives nothing", node.span)
        return NEVER
    found = checker.infer(node.value, scope, result)
    if result == UNIT:
        if found not in (UNIT, ERROR, NEVER):
            checker.report("0203", "this `return` gives a value, and no result is declared", node.value.span)
    else:
        require(checker, found, result, node.value.span, "the result")
    return NEVER


@checks(nodes.Break, nodes.Continue)
def jump(checker: QuantChecker, node: nodes.Break | nodes.Continue, scope: Scope) -> Type:
    if not checker.frame.loops:
        word = "break" if isinstance(node, nodes.Break) else "continue"
        checker.report("0101", f"`{word}` stands outside of a loop", node.span)
    return NEVER


@checks(quant.Emit)
def emit(checker: QuantChecker, node: quant.Emit, scope: Scope) -> Type:
    if checker.frame.what != "signal":
        checker.infer(node.value, scope)
        checker.report("0101", "`emit` stands in a signal only", node.span, hint="`return` gives a function's result")
        return UNIT
    result = checker.frame.result or ERROR
    require(checker, checker.infer(node.value, scope, result), result, node.value.span, "the result")
    return UNIT


@checks(quant.Warmup)
def warmup(checker: QuantChecker, node: quant.Warmup, scope: Scope) -> Type:
    if checker.frame.what != "signal":
        checker.report("0101", "`warmup` stands in a signal only", node.span)
    require(checker, checker.infer(node.calls, scope, I64), I64, node.calls.span, "the number of calls")
    return UNIT


@checks(quant.State)
def state(checker: QuantChecker, node: quant.State, scope: Scope) -> Type:
    """A state directly in a signal; those of strategies are entered before their handlers are checked."""
    if checker.frame.what not in ("signal", "strategy"):
        checker.report(
            "0101", "`state` stands directly in a strategy or a signal", node.span, hint="`var` declares a variable of a function"
        )
    declare_state(checker, node, scope)
    return UNIT


def declare_state(checker: QuantChecker, node: quant.State, scope: Scope) -> None:
    place = resolve(checker, node.annotation, scope) if node.annotation is not None else None
    found = checker.infer(node.value, scope, place) if node.value is not None else None
    if node.value is not None and place is not None and found is not None:
        require(checker, found, place, node.value.span, f"the state `{node.name}`")
    if place is None and found == NONE:
        found = checker.report(
            "0203", "`none` alone doesn't say of what type", node.span, hint=f"write the type: `state {node.name}: Side? = none`"
        )
    if node.value is None and place is not None and not _begins_empty(place):
        hint = f"write `state {node.name}: {shown(place)} = ...`"
        checker.report("0203", f"the state `{node.name}` has no first value", node.span, hint=hint)
    if (before := scope.own(node.name)) is not None:
        checker.add(defined_twice(f"`{node.name}`", node.name_span, before.span))
    scope.add(Variable(node.name, place if place is not None else strong(found or ERROR), VariableKind.STATE, node.name_span))


def _begins_empty(place: Type) -> bool:
    """Whether a variable of this type needs no first value."""
    return place == ERROR or isinstance(place, OptionType | qt.Container)


@checks(quant.Handler, quant.RiskNamed, quant.Accounting)
def misplaced(checker: QuantChecker, node: nodes.Statement, scope: Scope) -> Type:
    word = {quant.Handler: "on", quant.RiskNamed: "risk", quant.Accounting: "accounting"}[type(node)]
    checker.report("0101", f"`{word}` stands directly in a strategy only", node.span)
    return UNIT


@checks(nodes.SharedVariable)
def outside_compute(checker: QuantChecker, node: nodes.SharedVariable, scope: Scope) -> Type:
    checker.report("0101", "`shared var` stands in a compute block only", node.span)
    return UNIT


@checks(nodes.Constant)
def constant(checker: QuantChecker, node: nodes.Constant, scope: Scope) -> Type:
    with checker.within(what="constant"):
        place = resolve(checker, node.annotation, scope) if node.annotation is not None else None
        found = checker.infer(node.value, scope, place)
        if place is not None:
            require(checker, found, place, node.value.span, f"the constant `{node.name}`")
        value = whole_constant(node.value, scope)
        kept = value if place is None or place == I64 else None
        scope.add(Variable(node.name, place if place is not None else strong(found), VariableKind.CONSTANT, node.span, kept))
    return UNIT


@checks(
    nodes.Function,
    nodes.TypeAlias,
    nodes.ProgramParameter,
    nodes.Module,
    nodes.Import,
    nodes.Test,
    nodes.LaterDeclaration,
    nodes.Config,
    nodes.Trait,
    nodes.Impl,
    quant.Currency,
    quant.Instrument,
    quant.Risk,
    quant.Strategy,
    quant.Signal,
)
def nested(checker: QuantChecker, node: nodes.Declaration, scope: Scope) -> Type:
    checker.report("0101", "a declaration can't stand inside a body", node.span, hint="move it out")
    return UNIT
