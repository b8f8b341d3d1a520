"""What the prelude's functions say of the market."""

from compiler.hir.native_expressions import Expr, select
from compiler.hir.native_types import I64, I128, struct
from compiler.lowering.native.arithmetic import checked
from compiler.lowering.native.calls import BoundCall
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.values import ScalarValue, Value
from compiler.typed_ast.types import OptionType
from quantdsl import types as qt
from quantdsl.check.exact import decimal_places
from quantdsl.elaborate.engine_calls import ask, memory
from quantdsl.elaborate.exact_literals import step
from quantdsl.elaborate.rules import MARKET_BOOK, emits, not_supported
from quantdsl.engine.layout import BUY, SELL
from quantdsl.native.values import read_optional


def result(c: FunctionContext, call: BoundCall, *numbers: Expr) -> Value:
    """What a call gives, of its numbers."""
    return c.of_numbers(c.type(call.node), iter(numbers))


def number(value: Value) -> Expr:
    assert isinstance(value, ScalarValue)
    return value.value


@emits("touch")
def touch(c: FunctionContext, call: BoundCall) -> Value:
    return result(c, call, *ask(c, "engine.touch", number(call["side"])))


@emits("mid", "spread")
def of_both_sides(c: FunctionContext, call: BoundCall) -> Value:
    return result(c, call, *ask(c, f"engine.{call.callee.name}"))


@emits("microprice")
def microprice(c: FunctionContext, call: BoundCall) -> Value:
    there, ticks = ask(c, "engine.microprice")
    return result(c, call, there, _priced(c, ticks, qt.PriceType(c.elaboration.checker.frame.market[0])))


@emits("imbalance")
def imbalance(c: FunctionContext, call: BoundCall) -> Value:
    levels = call.constants["levels"]
    if levels < 1:
        raise c.refuse("0705", f"the imbalance of {levels} levels says nothing", "take 1 level, or more", call.node.span)
    return result(c, call, *ask(c, "engine.imbalance", levels))


@emits("level")
def level(c: FunctionContext, call: BoundCall) -> Value:
    return result(c, call, *ask(c, "engine.level", number(call["side"]), number(call["number"])))


@emits("last")
def last(c: FunctionContext, call: BoundCall) -> Value:
    return result(c, call, *read_optional(memory(c).last).parts)


@emits("now")
def now(c: FunctionContext, call: BoundCall) -> Value:
    return result(c, call, memory(c).now)


# ---- the book of `on book(b)` -----------------------------------------------------------------------------------------------------


_SIDES = {"bid": BUY, "ask": SELL}


def _level(c: FunctionContext, call: BoundCall) -> list[Expr]:
    """Whether there is the level, its price and its quantity."""
    _require_market(c, call)
    return ask(c, "engine.level", _SIDES[call.callee.name[:3]], number(call["level"]))


@emits("bid", "ask")
def price(c: FunctionContext, call: BoundCall) -> Value:
    return result(c, call, *_level(c, call)[:2])


@emits("bid_qty", "ask_qty")
def quantity(c: FunctionContext, call: BoundCall) -> Value:
    return result(c, call, _level(c, call)[2])


@emits("depth_to")
def depth(c: FunctionContext, call: BoundCall) -> Value:
    _require_market(c, call)
    return result(c, call, *ask(c, "engine.depth_to", number(call["price"])))


def _require_market(c: FunctionContext, call: BoundCall) -> None:
    """The only book that is filled is the market's."""
    if call["self"].type != MARKET_BOOK:
        raise not_supported("a book of one's own", call.node.span, "the book of the market is what `on book(b)` gives")


# ---- averages with exact sums -----------------------------------------------------------------------------------------------------


@emits("vwap")
def vwap(c: FunctionContext, call: BoundCall) -> Value:
    """Sums of price * quantity, 128 bits, and of quantities since the first call."""
    return _average(c, call, number(call["price"]), number(call["qty"]))


@emits("twap")
def twap(c: FunctionContext, call: BoundCall) -> Value:
    """The price of the call before holds until this one."""
    b = c.b
    kept = c.borrow(("before", call.node.span), c.layouts.memory(OptionType(qt.DURATION)))
    at = c.borrow(("since", call.node.span), c.layouts.memory(qt.TIMESTAMP))
    before, since, time = read_optional(kept), b.load(at), memory(c).now
    price = select(before.present, before.value, 0)
    elapsed = select(before.present, time - since, 0)
    kept.present = True
    kept.value = number(call["price"])
    b.store(at, time)
    return _average(c, call, price, elapsed)


def _average(c: FunctionContext, call: BoundCall, price: Expr, weight: Expr) -> Value:
    """Sum of price * weight over sum of weight, in the currency's units: whole ticks exactly, then what is left of one."""
    sums = c.borrow(("sums", call.node.span), struct("sums", total=I128, weight=I64))
    share = price.cast("i128").wrapping_mul(weight.cast("i128"))
    total = checked(c, "add", sums.total, share, "a sum of weighted prices, {0} + {1}, doesn't fit 128 bits")
    weights = checked(c, "add", sums.weight, weight, "a sum of weights, {0} + {1}, doesn't fit 64 bits")
    sums.total = total
    sums.weight = weights
    there = weights != 0
    divisor = select(there, weights, 1)
    ticks = total.quotient(divisor, "floor")
    rest = total.wrapping_sub(ticks.wrapping_mul(divisor.cast("i128")))
    average = ticks.cast("f64") + rest.cast("f64") / divisor.cast("f64")
    type = call["price"].type
    assert isinstance(type, qt.Exact)
    return result(c, call, there, select(there, _priced(c, average, type), 0.0))


def _priced(c: FunctionContext, ticks: Expr, type: qt.Exact) -> Expr:
    """Parts of ticks in the currency's units."""
    size = step(c, type)
    digits = decimal_places(size)
    return ticks * float(size * 10**digits) / float(10**digits)
