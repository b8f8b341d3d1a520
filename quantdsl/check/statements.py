"""Statements: variables, assignments, loops, results."""

from attrs import evolve

from compiler.diagnostics import Label
from compiler.typed_ast import nodes
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import BOOL, ERROR, I64, NEVER, RANGE, UNIT, ListType, OptionType, ResultType, TensorType, TupleType, Type
from compiler.typed_ast.walk import walk
from quantdsl import nodes as quant
from quantdsl import types as qt
from quantdsl.check import heap, presence, turns
from quantdsl.check.checker import QuantChecker, checks
from quantdsl.check.constants import constant_int
from quantdsl.check.fits import require, shown
from quantdsl.check.literals import settled
from quantdsl.check.patterns import bind
from quantdsl.check.resolve import resolve
from quantdsl.check.scope import CheckedVariable, CheckScope
from quantdsl.check.shadowing import warn_of_variable

_KINDS = {"parameter": "a parameter", "const parameter": "a parameter", "loop variable": "a loop variable", "let": "a `let` variable"}


@checks(nodes.ExpressionStatement)
def expression_statement(checker: QuantChecker, node: nodes.ExpressionStatement, scope: CheckScope) -> Type:
    found = checker.infer(node.value, scope, used=False)
    if isinstance(found, ResultType):
        hint = "`match` it with `Ok(v)` and `Err(e)`, or drop it: `_ = ...`"
        checker.report("0723", f"this `{shown(found)}` is neither used nor dropped", node.span, hint=hint)
    return found if found == NEVER else UNIT


@checks(nodes.Let)
def let(checker: QuantChecker, node: nodes.Let, scope: CheckScope) -> Type:
    place = resolve(checker, node.annotation, scope) if node.annotation is not None else None
    if node.value is None:
        if place is None:
            checker.report("0203", "this variable has neither a type nor a value", node.span, hint="write one of them")
        bind(checker, node.pattern, place or ERROR, scope, "var")
        return UNIT
    found = checker.infer(node.value, scope, place)
    if place is not None:
        require(checker, found, place, node.value.span, "the variable")
    elif found == qt.NONE:
        found = checker.report(
            "0203", "`none` alone doesn't say of what type", node.value.span, hint="write the type: `let x: Side? = none`"
        )
    elif found == UNIT:
        found = checker.report("0203", "this gives no value", node.value.span)
    for bound in (one for one in walk(node.pattern) if isinstance(one, nodes.BindingPattern)):
        warn_of_variable(checker, bound.name, bound.span)
    constant, before = constant_int(node.value, scope), scope.as_now()
    bind(checker, node.pattern, place if place is not None else settled(found), scope, "var" if node.mutable else "let")
    if isinstance(node.pattern, nodes.BindingPattern) and not node.mutable and (variable := scope.variables.get(node.pattern.name)):
        variable.constant = constant if variable.type == I64 else None
        variable.value = (node.value, before) if variable.type == I64 else None
    elif isinstance(node.pattern, nodes.BindingPattern) and node.mutable and (variable := scope.variables.get(node.pattern.name)):
        variable.now = constant if variable.type == I64 else None
    return UNIT


@checks(nodes.Assign)
def assign(checker: QuantChecker, node: nodes.Assign, scope: CheckScope) -> Type:
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
            checker.note_change(target, node.span, scope)
            if isinstance(target, nodes.Name) and (variable := scope.find(target.name)) is not None:
                presence.forget(checker, variable)
            if parts is not None:
                require(checker, parts[number], place, target.span, "what is assigned to")
        return UNIT
    place = _target(checker, node.target, scope)
    checker.note_change(node.target, node.span, scope)
    variable = scope.find(node.target.name) if isinstance(node.target, nodes.Name) else None
    if node.operator is None:
        fitting = require(checker, checker.infer(node.value, scope, place), place, node.value.span, _named(node.target))
        if variable is not None and fitting:
            presence.assigned(checker, variable, node.value)
        return UNIT
    if variable is not None:
        presence.forget(checker, variable)
    combined = nodes.Binary(operator=node.operator, left=node.target, right=node.value, span=node.span)
    require(checker, checker.infer(combined, scope, place), place, node.span, _named(node.target))
    return UNIT


def _named(target: nodes.Expression) -> str:
    return f"`{target.name}`" if isinstance(target, nodes.Name) else "what is assigned to"


def _target(checker: QuantChecker, target: nodes.Expression, scope: CheckScope) -> Type:
    """The type of what is assigned to, which must be able to change."""
    if isinstance(target, nodes.Name) and (changed := scope.find(target.name)) is not None:
        changed.now = None
        checker.body = evolve(checker.body, turns=tuple(loop for loop in checker.body.turns if loop.variable is not changed))
    root = target
    while isinstance(root, nodes.Field | nodes.Index):
        root = root.value
    if isinstance(root, nodes.Name):
        variable = scope.find(root.name)
        if variable is None:
            hint = (
                did_you_mean(root.name, scope.names())
                or f"declare it: `var {root.name} = ...`, or `state {root.name} = ...` in a strategy or signal"
            )
            return checker.report("0201", f"undefined name `{root.name}`", root.span, hint=hint)
        if not variable.mutable:
            others = (Label(variable.span, "declared here"),) if variable.span.path and not variable.span.path.startswith("<") else ()
            own = variable.kind == "let" and variable.span.path
            hint = f"declare it with `var {root.name}`" if own else "assign to a `var` or a `state`"
            return checker.report(
                "0205",
                f"`{root.name}` can't change: it is {_KINDS.get(variable.kind, f'a `{variable.kind}`')}",
                target.span,
                hint=hint,
                others=others,
            )
    return checker.infer(target, scope)


@checks(nodes.While)
def while_(checker: QuantChecker, node: nodes.While, scope: CheckScope) -> Type:
    require(checker, checker.infer(node.condition, scope, BOOL), BOOL, node.condition.span, "the condition")
    if node.bound is not None:
        require(checker, checker.infer(node.bound, scope, I64), I64, node.bound.span, "the bound")
    loop = turns.counted(node, scope) if turns.is_whole(node.body) else None
    _forget_changed(node.body, scope)
    with checker.within(sometimes=True, turns=(*checker.body.turns, loop) if loop is not None else ()):
        checker.infer(node.body, scope, used=False)
    return UNIT


def _forget_changed(body: nodes.Block, scope: CheckScope) -> None:
    """What a loop assigns to isn't known in its body, whatever it was before."""
    for node in walk(body):
        if isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name) and (variable := scope.find(node.target.name)):
            variable.now = None


@checks(nodes.For)
def for_(checker: QuantChecker, node: nodes.For, scope: CheckScope) -> Type:
    inner = CheckScope(scope)
    loops: list[turns.CountedLoop] | None = [*checker.body.turns] if turns.is_whole(node.body) else None
    for clause in node.clauses:
        seen = inner.as_now()
        found = checker.infer(clause.source, inner)
        element = _element(checker, found, clause.source)
        parts = (element,) if len(clause.names) == 1 else element.elements if isinstance(element, TupleType) else ()
        if element != ERROR and len(parts) != len(clause.names):
            checker.report("0203", f"each element is a `{shown(element)}`, for {len(clause.names)} names", clause.source.span)
        for number, name in enumerate(clause.names):
            span = clause.name_spans[number]
            inner.add(CheckedVariable(name, parts[number] if number < len(parts) else ERROR, "loop variable", span))
            warn_of_variable(checker, name, span)
        match clause:
            case nodes.ForClause(names=(name,), source=nodes.Range() as source) if loops is not None and name in inner.variables:
                loops.append(turns.CountedLoop(inner.variables[name], source, seen))
            case nodes.ForClause(source=nodes.Range()):
                pass
            case _ if not (isinstance(found, qt.Container) and found.kind == "array"):
                loops = None  # an array has elements, a ring or list may have none
    _forget_changed(node.body, inner)
    with checker.within(sometimes=True, turns=tuple(loops or ())):
        checker.infer(node.body, inner, used=False)
    return UNIT


def _element(checker: QuantChecker, found: Type, source: nodes.Expression) -> Type:
    match found:
        case ListType() | TensorType():
            return heap.element(found) or ERROR
        case qt.Container(kind="array" | "ring", elements=elements):
            return elements[0]
    if found in (RANGE, ERROR):
        return I64 if found == RANGE else ERROR
    return checker.report("0203", f"a `for` goes over a range, an array or a ring, and this is a `{shown(found)}`", source.span)


@checks(nodes.Return)
def return_(checker: QuantChecker, node: nodes.Return, scope: CheckScope) -> Type:
    result = UNIT if checker.body.what in ("handler", "test") else checker.body.result
    if checker.body.what == "signal":
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
def jump(checker: QuantChecker, node: nodes.Statement, scope: CheckScope) -> Type:
    return NEVER


@checks(quant.Emit)
def emit(checker: QuantChecker, node: quant.Emit, scope: CheckScope) -> Type:
    if checker.body.what != "signal":
        checker.infer(node.value, scope)
        checker.report("0101", "`emit` stands in a signal only", node.span, hint="`return` gives a function's result")
        return UNIT
    result = checker.body.result
    require(checker, checker.infer(node.value, scope, result), result, node.value.span, "the result")
    return UNIT


@checks(quant.Warmup)
def warmup(checker: QuantChecker, node: quant.Warmup, scope: CheckScope) -> Type:
    if checker.body.what != "signal":
        checker.report("0101", "`warmup` stands in a signal only", node.span)
    require(checker, checker.infer(node.calls, scope, I64), I64, node.calls.span, "the number of calls")
    return UNIT


@checks(quant.State)
def state(checker: QuantChecker, node: quant.State, scope: CheckScope) -> Type:
    """A state directly in a signal; those of strategies are entered before their handlers are checked."""
    if checker.body.what not in ("signal", "strategy"):
        checker.report(
            "0101", "`state` stands directly in a strategy or a signal", node.span, hint="`var` declares a variable of a function"
        )
    declare_state(checker, node, scope)
    return UNIT


def declare_state(checker: QuantChecker, node: quant.State, scope: CheckScope) -> None:
    place = resolve(checker, node.annotation, scope) if node.annotation is not None else None
    found = checker.infer(node.value, scope, place) if node.value is not None else None
    if node.value is not None and place is not None and found is not None:
        require(checker, found, place, node.value.span, f"the state `{node.name}`")
    if place is None and found == qt.NONE:
        found = checker.report(
            "0203", "`none` alone doesn't say of what type", node.span, hint=f"write the type: `state {node.name}: Side? = none`"
        )
    if node.value is None and place is not None and not _begins_empty(place):
        hint = f"write `state {node.name}: {shown(place)} = ...`"
        checker.report("0203", f"the state `{node.name}` has no first value", node.span, hint=hint)
    if node.name in scope.variables:
        first = Label(scope.variables[node.name].span, "first declared here")
        checker.report("0210", f"`{node.name}` is declared twice", node.name_span, others=(first,), hint="rename one of them")
    scope.add(CheckedVariable(node.name, place if place is not None else settled(found or ERROR), "state", node.name_span))


def _begins_empty(place: Type) -> bool:
    """Whether a state of this type needs no first value."""
    return place == ERROR or isinstance(place, OptionType) or (isinstance(place, qt.Container) and place.kind in ("ring", "table", "book"))


@checks(quant.Handler, quant.RiskNamed, quant.Accounting)
def misplaced(checker: QuantChecker, node: nodes.Statement, scope: CheckScope) -> Type:
    word = {quant.Handler: "on", quant.RiskNamed: "risk", quant.Accounting: "accounting"}[type(node)]
    checker.report("0101", f"`{word}` stands directly in a strategy only", node.span)
    return UNIT


@checks(nodes.SharedVariable)
def outside_compute(checker: QuantChecker, node: nodes.SharedVariable, scope: CheckScope) -> Type:
    checker.report("0101", "`shared var` stands in a compute block only", node.span)
    return UNIT


@checks(nodes.Throw, nodes.LaterStatement, nodes.Render)
def later(checker: QuantChecker, node: nodes.Statement, scope: CheckScope) -> Type:
    checker.report("0109", "this statement is valid, but not supported yet in QuantDSL", node.span, hint="return a `Result`")
    return UNIT


@checks(nodes.Constant)
def constant(checker: QuantChecker, node: nodes.Constant, scope: CheckScope) -> Type:
    with checker.within(what="constant"):
        place = resolve(checker, node.annotation, scope) if node.annotation is not None else None
        found = checker.infer(node.value, scope, place)
        if place is not None:
            require(checker, found, place, node.value.span, f"the constant `{node.name}`")
        value = constant_int(node.value, scope)
        kept = value if place is None or place == I64 else None
        scope.add(CheckedVariable(node.name, place if place is not None else settled(found), "const", node.span, kept))
    return UNIT


@checks(
    nodes.Function,
    nodes.Struct,
    nodes.EnumDeclaration,
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
def nested(checker: QuantChecker, node: nodes.Declaration, scope: CheckScope) -> Type:
    checker.report("0101", "a declaration can't stand inside a body", node.span, hint="move it out")
    return UNIT
