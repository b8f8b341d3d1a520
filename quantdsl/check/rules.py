"""Rules of risk: what a `risk` block limits fits its instrument, and no strategy sends orders without one."""

from compiler.diagnostics import Label
from compiler.typed_ast import nodes
from compiler.typed_ast.literal_numbers import decimal
from compiler.typed_ast.requirements import require
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import ERROR, I64, Type
from compiler.typed_ast.walk import walk
from quantdsl import nodes as quant
from quantdsl import types as qt
from quantdsl.check.checker import QuantChecker
from quantdsl.check.fits import shown
from quantdsl.check.world import clause

_REFERENCES = ("mid", "last")


def check_risk(checker: QuantChecker, node: quant.Risk, top: Scope) -> None:
    """The values of a risk block: limits above zero, in the units of its instrument."""
    instrument = checker.own.world.instruments.get(node.instrument)
    if instrument is None:
        if not isinstance(checker.declarations.own.get(node.instrument), quant.Instrument):
            hint = did_you_mean(node.instrument, checker.own.world.instruments)
            checker.report("0201", f"there is no instrument `{node.instrument}`", node.instrument_span, hint=hint)
        return
    name = instrument.name
    money, qty = qt.MoneyType(instrument.currency.name), qt.QtyType(name)
    places: dict[tuple[str, str], tuple[Type, ...]] = {
        ("max_order_qty", "limit"): (qty,),
        ("max_notional", "limit"): (money,),
        ("price_collar", "limit"): (qt.RATIO, qt.TicksType(name)),
        ("price_collar", "reference"): (qt.PriceType(name),),
        ("max_position", "limit"): (qty,),
        ("max_open_orders", "limit"): (I64,),
        ("max_open_orders", "notional"): (money,),
        ("rate", "limit"): (I64,),
        ("rate", "window"): (qt.DURATION,),
        ("max_loss", "limit"): (money,),
        ("max_drawdown", "limit"): (money,),
        ("stale_data", "limit"): (qt.DURATION,),
        ("duplicate_id", "count"): (I64,),
    }
    with checker.within(market=(name, instrument.currency.name)):
        for found in node.clauses:
            for value in found.values:
                wanted = places.get((found.name, value.name))
                if wanted is not None:
                    _value(checker, value.value, wanted, top, found.name, value.name)


def _value(checker: QuantChecker, value: nodes.Expression, wanted: tuple[Type, ...], top: Scope, rule: str, slot: str) -> None:
    if slot == "reference" and isinstance(value, nodes.Name) and value.name in _REFERENCES:
        return
    actual = checker.infer(value, top, wanted[0])
    match wanted:
        case (only,):
            require(checker, actual, only, value.span, f"the {slot} of `{rule}`")
        case (first, *others) if actual not in (first, ERROR) and not any(isinstance(actual, type(other)) for other in others):
            names = " or ".join(f"`{shown(one)}`" for one in wanted)
            checker.report("0203", f"the {slot} of `{rule}` is {names}, and this is a `{shown(actual)}`", value.span)
    number = decimal(value)
    if number is not None and number <= 0:
        checker.report("0705", f"the {slot} of `{rule}` is not above zero", value.span, hint="it would refuse every order")


def check_strategy_rules(checker: QuantChecker, node: quant.Strategy) -> str:
    """The strategy's instrument. Reports what is wrong with its head, its risk and its orders."""
    name = node.instruments[0].name
    if len(node.instruments) > 1:
        checker.later("a strategy on several instruments", node.instruments[1].span, "write a strategy for each")
    if name not in checker.own.world.instruments and not isinstance(checker.declarations.own.get(name), quant.Instrument):
        nearest = did_you_mean(name, checker.own.world.instruments)
        checker.report("0201", f"there is no instrument `{name}`", node.instruments[0].span, hint=nearest)
    named = [statement for statement in node.body.statements if isinstance(statement, quant.RiskNamed)]
    for kind, word in ((quant.RiskNamed, "risk"), (quant.Accounting, "accounting")):
        found = [statement for statement in node.body.statements if isinstance(statement, kind)]
        for again in found[1:]:
            checker.report("0210", f"`{word}` stands twice in `{node.name}`", again.span, others=(Label(found[0].span, "first here"),))
    risk = _risk(checker, named[0], name) if named else None
    free = any(annotation.name == "no_risk" for annotation in node.annotations)
    sent = _first_order(checker, node)
    if sent is None or free:
        return name
    if not named:
        hint = f"declare `risk Desk for {name} {{ max_position 20lots }}`, and name it in the strategy: `risk Desk`"
        others = (Label(sent.span, "an order is sent here"),)
        checker.report("0721", f"`{node.name}` sends orders without a `risk` block", node.name_span, hint=hint, others=others)
    elif risk is not None and clause(risk, "max_position") is None:
        others = (Label(named[0].span, "its risk block"),)
        hint = f"add `max_position 20lots` to `{risk.name}`"
        checker.report("0721", f"`{node.name}` sends orders without a limit of its position", node.name_span, hint=hint, others=others)
    return name


def _risk(checker: QuantChecker, named: quant.RiskNamed, instrument: str) -> quant.Risk | None:
    risk = checker.own.world.risks.get(named.name)
    if risk is None:
        hint = did_you_mean(named.name, checker.own.world.risks)
        checker.report("0201", f"there is no risk block `{named.name}`", named.span, hint=hint)
    elif risk.instrument != instrument:
        others = (Label(risk.instrument_span, f"`{risk.name}` is for `{risk.instrument}`"),)
        checker.report(
            "0701",
            f"`{risk.name}` is for another instrument than the strategy's `{instrument}`",
            named.span,
            others=others,
            hint="each instrument has risk blocks of its own",
        )
    return risk


def _first_order(checker: QuantChecker, node: quant.Strategy) -> nodes.Call | None:
    """The first call in a strategy that sends an order."""
    for found in walk(node.body):
        if isinstance(found, nodes.Call) and isinstance(found.function, nodes.Name):
            callee = checker.declarations.functions.get(found.function.name)
            if callee is not None and "order" in checker.own.world.effects(callee):
                return found
    return None
