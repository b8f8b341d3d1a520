"""Declarations: the bodies of functions, signals, strategies and tests, each with the names that it sees."""

from compiler.diagnostics import Label
from compiler.typed_ast import nodes
from compiler.typed_ast.declarations import declared_twice
from compiler.typed_ast.meaning import Refusal
from compiler.typed_ast.rules.bodies import check_body, declare_parameter
from compiler.typed_ast.rules.bounds import BOUNDS, bounds_of
from compiler.typed_ast.rules.declared_types import check_declared
from compiler.typed_ast.rules.places import require_assigned
from compiler.typed_ast.scope import Scope, Variable, VariableKind
from compiler.typed_ast.types import ERROR, UNIT, Size, Type
from compiler.typed_ast.walk import walk
from quantdsl import nodes as quant
from quantdsl import types as qt
from quantdsl.check import library
from quantdsl.check.annotations import check_annotations
from quantdsl.check.checker import QuantChecker
from quantdsl.check.fits import shown
from quantdsl.check.parameters import check_parameter
from quantdsl.check.resolve import resolve
from quantdsl.check.rules import check_risk, check_strategy_rules
from quantdsl.check.shadowing import warn_of_declaration, warn_of_variable
from quantdsl.check.statements import declare_state
from quantdsl.check.world import Market

RECORDS = {name: name.capitalize() for name in ("trade", "quote", "bar", "ack", "fill", "cancelled", "reject", "gap", "halt")}
_SETTINGS = (qt.DURATION, qt.TicksType(), qt.QtyType())


def check_declarations(checker: QuantChecker, program: nodes.Program) -> None:
    top = checker.top
    for statement in program.statements:
        match statement:
            case nodes.Function() | quant.Signal():
                warn_of_declaration(checker, "function", statement.name, statement.name_span, program)
            case nodes.Constant() | nodes.ProgramParameter():
                what = "constant" if isinstance(statement, nodes.Constant) else "parameter"
                warn_of_declaration(checker, what, statement.name, statement.span, program)
    with checker.within(market=checker.own.world.only_market):
        for statement in program.statements:
            if isinstance(statement, nodes.Constant):
                checker.statement(statement, top)
            elif isinstance(statement, nodes.ProgramParameter):
                check_parameter(checker, statement, top)
        for statement in program.statements:
            _declaration(checker, statement, top)
    _tensors_stay_outside(checker, program)
    check_library(checker, *_a_market(checker))


def check_library(checker: QuantChecker, instrument: str | None, currency: str | None) -> None:
    """What a program uses of the library, with `I` and `C` as these."""
    outside = library.of_tensors(checker.own.world.library)
    with checker.within(market=(instrument, currency), in_strategy=True):
        for name, declaration in checker.own.world.library.items():
            if name in outside:
                continue
            if isinstance(declaration, nodes.Function):
                function(checker, declaration, Scope(), in_strategy=True)
            else:
                _signal(checker, declaration, Scope())


def _tensors_stay_outside(checker: QuantChecker, program: nodes.Program) -> None:
    """Functions of the library that work on tensors aren't called in compiled code."""
    outside = library.of_tensors(checker.own.world.library)
    for node in walk(program) if outside else ():
        match node:
            case nodes.Call(function=nodes.Name(name=name) as function) if name in outside and name not in checker.declarations.own:
                message = f"`{name}` works on tensors, which is valid, but not supported yet in compiled code"
                checker.report("0109", message, function.span, hint="call it in a program that is run by its `main`")


def _a_market(checker: QuantChecker) -> Market:
    """Any: what the library means doesn't depend on which, and it is looked at again for the market of a strategy."""
    currency = next(iter(checker.own.world.currencies), None)
    instrument = next(iter(checker.own.world.instruments.values()), None)
    return (instrument.name, instrument.currency.name) if instrument is not None else (None, currency)


def _declaration(checker: QuantChecker, node: nodes.Statement, top: Scope) -> None:
    check_annotations(checker, node)
    _bounds(checker, getattr(node, "type_parameters", ()))
    match node:
        case nodes.Import():
            fault = library.refused(node)
            if fault is not None:
                checker.add(fault)
        case nodes.Function():
            function(checker, node, top, in_strategy=False)
        case nodes.Impl(members=members):
            for member in members:
                _declaration(checker, member, top)
        case quant.Signal():
            _signal(checker, node, top)
        case quant.Strategy():
            _strategy(checker, node, top)
        case quant.Risk():
            check_risk(checker, node, top)
        case nodes.Test(body=body):
            with checker.within(what="test", result=UNIT):
                checker.infer(body, top, used=False)
                require_assigned(checker, body)
        case nodes.Struct() | nodes.EnumDeclaration():
            check_declared(checker, node)
        case nodes.TypeAlias(target=target):
            resolve(checker, target, top)


def _bounds(checker: QuantChecker, parameters: tuple[nodes.TypeParameter, ...]) -> None:
    """Type parameters are `Ordered`, `Number`, or anything."""
    for parameter in parameters:
        for bound in parameter.bounds:
            if not (isinstance(bound, nodes.NamedTypeSyntax) and bound.name in BOUNDS and not bound.arguments):
                hint = f"write `{parameter.name}: Ordered` for types that `<` compares, `{parameter.name}: Number` for ints and floats"
                checker.report("0201", f"the bound of `{parameter.name}` is none that is known", bound.span, hint=hint)


def _names(parameters: tuple[nodes.TypeParameter, ...]) -> frozenset[str]:
    return frozenset(parameter.name for parameter in parameters)


# ---- functions and signals ---------------------------------------------------------------------------------------------------------


def function(checker: QuantChecker, node: nodes.Function, scope: Scope, in_strategy: bool) -> None:
    generic = {"parameters": _names(node.type_parameters), "bounds": bounds_of(node.type_parameters)}
    with checker.within(what="function", in_strategy=in_strategy, **generic):
        inner = _with_parameters(checker, node.parameters, scope)
        result = resolve(checker, node.result, inner) if node.result is not None else None
        if node.is_extern and node.effects is None:
            hint = "write `effects(none)` behind it, or what it does: `effects(alloc, io)`"
            checker.report("0715", f"the effects of `{node.name}` are unknown", node.name_span, hint=hint)
        if node.body is None:
            return
        check_body(checker, node, node.body, inner, result)
        require_assigned(checker, node.body)


def _with_parameters(checker: QuantChecker, parameters: tuple[nodes.Parameter, ...], scope: Scope) -> Scope:
    checker.require_distinct(parameters)
    inner = Scope(scope)
    for parameter in parameters:
        type_ = resolve(checker, parameter.annotation, inner) if parameter.annotation is not None else ERROR
        declare_parameter(checker, parameter, type_, inner)
    return inner


def _signal(checker: QuantChecker, node: quant.Signal, top: Scope) -> None:
    with checker.within(what="signal", parameters=_names(node.type_parameters), bounds=bounds_of(node.type_parameters)):
        inner = _with_parameters(checker, node.parameters, top)
        result = resolve(checker, node.result, inner)
        with checker.within(result=result, no_return=Refusal("a signal gives its result with `emit`", "write `emit e`")):
            checker.infer(node.body, inner, used=False)
        require_assigned(checker, node.body)
        _directly(checker, node)
        if not any(_emits(statement) for statement in node.body.statements):
            checker.report("0209", f"the signal `{node.name}` may end without an `emit`", node.name_span, hint="end its body with `emit e`")


def _directly(checker: QuantChecker, node: quant.Signal) -> None:
    """Memory and warm-up are a signal's whatever it does in one call: they stand in no branch."""
    direct = {id(statement) for statement in node.body.statements}
    for found in walk(node.body):
        if isinstance(found, quant.State | quant.Warmup) and id(found) not in direct:
            word = "state" if isinstance(found, quant.State) else "warmup"
            checker.report("0101", f"`{word}` stands directly in a signal", found.span, hint="move it to where the signal begins")
    warmups = [found for found in node.body.statements if isinstance(found, quant.Warmup)]
    for again in warmups[1:]:
        first = (Label(warmups[0].span, "first here"),)
        checker.report("0210", "`warmup` stands twice", again.span, others=first, hint="keep one of the two")


def _emits(node: nodes.Node) -> bool:
    """Whether a statement always emits."""
    match node:
        case quant.Emit():
            return True
        case nodes.ExpressionStatement(value=nodes.If(then=then, otherwise=otherwise)):
            return otherwise is not None and _emits(then) and _emits(otherwise)
        case nodes.ExpressionStatement(value=nodes.Match(arms=arms)):
            return bool(arms) and all(_emits(arm.body) for arm in arms)
        case nodes.Block(statements=statements):
            return any(_emits(statement) for statement in statements)
    return False


# ---- strategies ------------------------------------------------------------------------------------------------------------------------


def _strategy(checker: QuantChecker, node: quant.Strategy, top: Scope) -> None:
    instrument = check_strategy_rules(checker, node)
    currency = checker.own.world.instruments[instrument].currency.name if instrument in checker.own.world.instruments else None
    market = (instrument, currency)
    functions = [statement for statement in node.body.statements if isinstance(statement, nodes.Function)]
    own_functions = checker.declarations.by_name(functions)
    named = set(map(id, own_functions.values()))
    for again in functions:
        if id(again) not in named:
            checker.add(declared_twice(again, own_functions[again.name]))
    with checker.within(what="strategy", market=market, in_strategy=True), checker.declarations.hidden_by(own_functions):
        scope = Scope(top)
        scope.add(Variable("position", checker.own.world.struct_of("Position", market)))
        scope.add(Variable("rejects", qt.REJECT_COUNTS))
        own = Scope(scope)
        for statement in node.body.statements:
            match statement:
                case quant.State():
                    declare_state(checker, statement, own)
                    warn_of_declaration(checker, "state", statement.name, statement.name_span, node.body)
                case nodes.Constant() | nodes.Let():
                    checker.statement(statement, own)
                    if isinstance(statement, nodes.Let) and isinstance(statement.pattern, nodes.BindingPattern):
                        warn_of_declaration(checker, "`let`", statement.pattern.name, statement.pattern.span, node.body)
                    elif isinstance(statement, nodes.Constant):
                        warn_of_declaration(checker, "constant", statement.name, statement.span, node.body)
                case nodes.Function():
                    warn_of_declaration(checker, "function", statement.name, statement.name_span, node.body)
                case nodes.Struct() | nodes.EnumDeclaration() | nodes.TypeAlias():
                    checker.later("a type inside a strategy", statement.span, "move it out")
        for statement in node.body.statements:
            check_annotations(checker, statement)
            if isinstance(statement, nodes.Function):
                function(checker, statement, own, in_strategy=True)
            elif isinstance(statement, quant.Handler):
                _handler(checker, statement, own)


def _handler(checker: QuantChecker, node: quant.Handler, scope: Scope) -> None:
    inner = Scope(scope)
    for setting in node.settings:
        type_ = checker.infer(setting.value, scope)
        if type_ not in _SETTINGS and not isinstance(type_, qt.TicksType | qt.QtyType) and type_ != ERROR:
            hint = f"write it like `on {node.event}(100ms)`"
            checker.report("0203", f"`on {node.event}` is set to a duration, and this is a `{shown(type_)}`", setting.span, hint=hint)
        elif node.event == "timer" and type_ not in (qt.DURATION, ERROR):
            checker.report(
                "0203", f"a timer is set to a duration, and this is a `{shown(type_)}`", setting.span, hint="write `on timer(100ms)`"
            )
    if node.record is not None:
        record: Type = qt.Container("book", (), Size())
        if node.event != "book":
            record = checker.own.world.struct_of(RECORDS[node.event], checker.frame.market)
        inner.add(Variable(node.record, record, VariableKind.PARAMETER, node.record_span))
        warn_of_variable(checker, node.record, node.record_span)
    with checker.within(what="handler", result=UNIT):
        checker.infer(node.body, inner, used=False)
    require_assigned(checker, node.body)
