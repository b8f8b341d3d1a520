"""The terms of a market and of a risk block, from their clauses to the exact numbers that engine and rules compute with."""

import re
from collections.abc import Callable
from fractions import Fraction

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.literal_numbers import decimal
from quantdsl import nodes as quant
from quantdsl.check.exact import I64, CheckedInstrument
from quantdsl.check.literals import DURATIONS
from quantdsl.check.world import clause
from quantdsl.engine.layout import NS_OF_DAY
from quantdsl.engine.risk import Collar, Loss, Reference, RiskRules, SelfTrade

Valued = Callable[[nodes.Expression], int | float]
"""The number of an expression that is no literal, as its type is stored: ticks, lots, money units, ns, counts; of a Ratio the double."""

IDS = 4096
"""Accepted client ids that `duplicate_id` remembers where it doesn't say."""
REMEMBERED = 1 << 20
"""So many times or ids a risk block remembers at most."""
_RATIOS = {"bps": Fraction(1, 10_000), "pct": Fraction(1, 100)}
_TIME = re.compile(r"([01]?[0-9]|2[0-4]):([0-5][0-9])(?::([0-5][0-9]))?")


def _wrong(code: str, message: str, span: Span, hint: str | None = None) -> ZyntaxError:
    return ZyntaxError(Diagnostic(code, message, span, hint=hint))


# ---- the market -----------------------------------------------------------------------------------------------------------------


def session_of(declaration: quant.Instrument) -> tuple[int, int] | None:
    """Begin and end of an instrument's sessions, ns since midnight UTC; None where it has none."""
    session = clause(declaration, "session")
    hours = session.value("hours") if session is not None else None
    if hours is None:
        return None
    if not isinstance(hours, nodes.Range):
        raise _wrong("0203", "a session goes from one time of day to another", hours.span, 'write it like `session "13:30".."20:00" UTC`')
    begin, end = (_time_of_day(edge, hours.span) for edge in (hours.low, hours.high))
    if begin % NS_OF_DAY == end % NS_OF_DAY:
        raise _wrong("0705", "a session that ends as it begins has no time in it", hours.span, "leave `session` out: it always trades then")
    return begin % NS_OF_DAY, end % NS_OF_DAY


def _time_of_day(node: nodes.Expression | None, span: Span) -> int:
    text = node.value if isinstance(node, nodes.StringLiteral) else ""
    matched = _TIME.fullmatch(text)
    hour, minute, second = (int(part or 0) for part in matched.groups()) if matched else (25, 0, 0)
    at = (hour * 3600 + minute * 60 + second) * 10**9
    if at > NS_OF_DAY:
        place = node.span if node is not None else span
        raise _wrong("0203", f'"{text}" is no time of day', place, 'times are written like "09:30" or "15:59:30"')
    return at


def fees_of(declaration: quant.Instrument, instrument: CheckedInstrument) -> dict[str, tuple[int, int, int]]:
    """Of `maker` and `taker`: numerator and denominator of the part of a fill's value, and money units for each lot."""
    fee = clause(declaration, "fee")
    if fee is None:
        return {"maker": (0, 1, 0), "taker": (0, 1, 0)}
    return {who: _fee(fee, who, instrument) for who in ("maker", "taker")}


def _fee(fee: quant.Clause, who: str, instrument: CheckedInstrument) -> tuple[int, int, int]:
    node = fee.value(who)
    assert node is not None, "the form of `fee` has both"
    number, unit = decimal(node), _unit(node)
    if fee.value(f"{who}_unit") is None:
        if number is None or unit not in _RATIOS:
            raise _wrong("0203", f"the fee of a {who} is in `bps` or `pct` of a fill's value, or money `per lot`", node.span)
        rate = number * _RATIOS[unit]
        if rate.numerator not in I64 or rate.denominator not in I64:
            raise _wrong("0705", f"the fee of a {who} doesn't fit 64 bits", node.span)
        return rate.numerator, rate.denominator, 0
    if number is None or unit not in (None, instrument.currency.name):
        raise _wrong("0203", f"the fee of a {who} per lot is an amount of `{instrument.currency.name}`", node.span)
    units = number / instrument.currency.unit
    if units.denominator != 1 or int(units) not in I64:
        step = f"the scale of `{instrument.currency.name}` ends at 10^-{instrument.currency.scale}"
        raise _wrong("0702", f"the fee of a {who} is no whole number of money units", node.span, step)
    return 0, 1, int(units)


def market_settings(declaration: quant.Instrument, instrument: CheckedInstrument) -> dict[str, int | float | bool]:
    """What the engine has to know of the market: fields of `layout.SETTINGS` by path."""
    settings: dict[str, int | float | bool] = {"tick_value": int(instrument.money_per_tick_and_lot)}
    for who, (numerator, denominator, per_lot) in fees_of(declaration, instrument).items():
        settings |= {f"{who}.numerator": numerator, f"{who}.denominator": denominator, f"{who}.per_lot": per_lot}
    session = session_of(declaration)
    if session is not None:
        settings |= {"has_session": True, "session_begin": session[0], "session_end": session[1]}
    return settings


# ---- the risk block -------------------------------------------------------------------------------------------------------------


def risk_rules(
    risk: quant.Risk | None, instrument: CheckedInstrument, valued: Valued, session: tuple[int, int] | None = None, client_ids: bool = True
) -> RiskRules:
    """The rules of a checked risk block, of none under `@no_risk`. `session`: the instrument's. `client_ids`: whether any order has one;
    else `duplicate_id` need not remember any. Raises ZyntaxError where a constant gives a limit that isn't above zero."""
    tick_value = int(instrument.money_per_tick_and_lot)
    if risk is None:
        return RiskRules(tick_value, session)
    terms = _Terms(risk, instrument, valued)
    rate, ids = terms.count("rate", "limit"), terms.count("duplicate_id", "count") or IDS
    for number, slot, what in ((rate, "limit", "a `rate` of"), (ids, "count", "`duplicate_id` among")):
        if number is not None and number > REMEMBERED:
            place = terms.value("rate" if slot == "limit" else "duplicate_id", slot) or risk
            raise _wrong("0109", f"{what} {number} is valid, but not supported yet", place.span, f"{REMEMBERED} at most are remembered")
    return RiskRules(
        tick_value,
        session,
        max_order_qty=terms.lots("max_order_qty"),
        max_notional=terms.money("max_notional"),
        price_collar=terms.collar(),
        max_position=terms.lots("max_position"),
        max_open_orders=terms.count("max_open_orders", "limit"),
        max_open_notional=terms.money("max_open_orders", "notional"),
        rate=None if rate is None else (rate, terms.duration("rate", "window") or 0),
        rate_all=terms.value("rate", "all") is not None,
        max_loss=terms.loss("max_loss"),
        max_drawdown=terms.loss("max_drawdown"),
        stale_data=terms.duration("stale_data", "limit"),
        duplicate_id=ids if client_ids and clause(risk, "duplicate_id") is not None else None,
        self_trade=terms.self_trade(),
    )


class _Terms:
    """Values of clauses; None where a rule, or a part of it, isn't written."""

    def __init__(self, risk: quant.Risk, instrument: CheckedInstrument, valued: Valued) -> None:
        self.risk, self.instrument, self.valued = risk, instrument, valued

    def value(self, rule: str, slot: str) -> nodes.Expression | None:
        written = clause(self.risk, rule)
        return written.value(slot) if written is not None else None

    def word(self, rule: str, slot: str) -> str | None:
        node = self.value(rule, slot)
        return node.name if isinstance(node, nodes.Name) else None

    def lots(self, rule: str) -> int | None:
        return self._whole(rule, "limit", {"lots": Fraction(1)}, 1 / self.instrument.lot)

    def money(self, rule: str, slot: str = "limit") -> int | None:
        scale = 1 / self.instrument.currency.unit
        return self._whole(rule, slot, {self.instrument.currency.name: scale}, scale)

    def count(self, rule: str, slot: str) -> int | None:
        return self._whole(rule, slot, {}, Fraction(1))

    def duration(self, rule: str, slot: str) -> int | None:
        return self._whole(rule, slot, {unit: Fraction(ns) for unit, ns in DURATIONS.items()}, Fraction(1))

    def _whole(self, rule: str, slot: str, units: dict[str, Fraction], plain: Fraction) -> int | None:
        node = self.value(rule, slot)
        return None if node is None else int(self._number(node, rule, slot, units, plain))

    def _number(self, node: nodes.Expression, rule: str, slot: str, units: dict[str, Fraction], plain: Fraction) -> Fraction:
        """In stored units: a literal by its unit, or as a `plain` number; else what the constant gives, floats as they are written."""
        number = decimal(node)
        if number is None:
            number = Fraction(str(self.valued(node)))
        else:
            unit = _unit(node)
            number *= plain if unit is None else units[unit]
        if number <= 0:
            raise _wrong("0705", f"the {slot} of `{rule}` is not above zero", node.span, "it would refuse every order")
        return number

    def collar(self) -> Collar | None:
        node, rule = self.value("price_collar", "limit"), "price_collar"
        if node is None:
            return None
        reference = self._reference()
        number = self._number(node, rule, "limit", {**_RATIOS, "ticks": Fraction(1)}, Fraction(1))
        if _unit(node) == "ticks" or (decimal(node) is None and isinstance(self.valued(node), int)):
            return Collar(ticks=int(number), of=reference)
        return Collar(bps=number * 10_000, of=reference)

    def _reference(self) -> Reference:
        match self.word("price_collar", "reference"):
            case "mid" | "last" as word:
                return word
        return self._whole("price_collar", "reference", {}, 1 / self.instrument.tick) or "mid"

    def loss(self, rule: str) -> Loss | None:
        limit = self.money(rule)
        if limit is None:
            return None
        return Loss(limit, session=self.word(rule, "span") == "session", kills=self.word(rule, "action") != "reducing")

    def self_trade(self) -> SelfTrade | None:
        match self.word("self_trade", "action"):
            case "reject" | "cancel_resting" | "cancel_both" as word:
                return word
        return None


def _unit(node: nodes.Expression) -> str | None:
    """The unit of a literal, None for a plain number."""
    while isinstance(node, nodes.Unary):
        node = node.operand
    return node.unit if isinstance(node, nodes.UnitNumber) else None
