"""What the prelude's functions say of the market."""

from compiler.hir import instruction as hir
from compiler.typed_ast.types import OptionType
from quantdsl import types as qt
from quantdsl.check.exact import decimal_places
from quantdsl.elaborate.arithmetic import checked
from quantdsl.elaborate.calls import BoundCall, emits
from quantdsl.elaborate.context import FunctionContext
from quantdsl.elaborate.engine_calls import ask, memory
from quantdsl.elaborate.layouts import MARKET_BOOK
from quantdsl.elaborate.literals import step
from quantdsl.elaborate.refused import not_supported
from quantdsl.elaborate.values import ScalarValue, Value
from quantdsl.engine.layout import BUY, SELL
from quantdsl.native.types import I64, I128, struct
from quantdsl.native.values import read_optional


def result(c: FunctionContext, call: BoundCall, *numbers: hir.Value) -> Value:
    """What a call gives, of its numbers."""
    return c.of_numbers(c.type(call.node), iter(numbers))


def number(value: Value) -> hir.Value:
    assert isinstance(value, ScalarValue)
    return value.value


@emits("touch")
def touch(c: FunctionContext, call: BoundCall) -> Value:
    return result(c, call, *ask(c, "desk.touch", number(call["side"])))


@emits("mid", "spread")
def of_both_sides(c: FunctionContext, call: BoundCall) -> Value:
    return result(c, call, *ask(c, f"desk.{call.callee.name}"))


@emits("microprice")
def microprice(c: FunctionContext, call: BoundCall) -> Value:
    there, ticks = ask(c, "desk.microprice")
    return result(c, call, there, _priced(c, ticks, qt.PriceType(c.around.market[0])))


@emits("imbalance")
def imbalance(c: FunctionContext, call: BoundCall) -> Value:
    levels = call.constants["levels"]
    if levels < 1:
        raise c.refuse("0705", f"the imbalance of {levels} levels says nothing", "take 1 level, or more", call.node.span)
    return result(c, call, *ask(c, "desk.imbalance", levels))


@emits("level")
def level(c: FunctionContext, call: BoundCall) -> Value:
    return result(c, call, *ask(c, "desk.level", number(call["side"]), number(call["number"])))


@emits("last")
def last(c: FunctionContext, call: BoundCall) -> Value:
    return result(c, call, *read_optional(c.b, memory(c), "last").parts)


@emits("now")
def now(c: FunctionContext, call: BoundCall) -> Value:
    return result(c, call, c.b.get(memory(c), "now"))


# ---- the book of `on book(b)` -----------------------------------------------------------------------------------------------------


_SIDES = {"bid": BUY, "ask": SELL}


def _level(c: FunctionContext, call: BoundCall) -> list[hir.Value]:
    """Whether there is the level, its price and its quantity."""
    _require_market(c, call)
    return ask(c, "desk.level", _SIDES[call.callee.name[:3]], number(call["level"]))


@emits("bid", "ask")
def price(c: FunctionContext, call: BoundCall) -> Value:
    return result(c, call, *_level(c, call)[:2])


@emits("bid_qty", "ask_qty")
def quantity(c: FunctionContext, call: BoundCall) -> Value:
    return result(c, call, _level(c, call)[2])


@emits("depth_to")
def depth(c: FunctionContext, call: BoundCall) -> Value:
    _require_market(c, call)
    return result(c, call, *ask(c, "desk.depth_to", number(call["price"])))


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
    before, since, time = read_optional(b, kept), b.get(at), b.get(memory(c), "now")
    price = b.select(before.present, before.value, 0)
    elapsed = b.select(before.present, b.sub(time, since), 0)
    b.put(kept, "present", True)
    b.put(kept, "value", number(call["price"]))
    b.put(at, time)
    return _average(c, call, price, elapsed)


def _average(c: FunctionContext, call: BoundCall, price: hir.Value, weight: hir.Value) -> Value:
    """Sum of price * weight over sum of weight, in the currency's units: whole ticks exactly, then what is left of one."""
    b = c.b
    sums = c.borrow(("sums", call.node.span), struct("sums", total=I128, weight=I64))
    share = b.wrapping("mul", b.cast(price, "i128"), b.cast(weight, "i128"))
    total = checked(c, "add", b.get(sums, "total"), share, "a sum of weighted prices, {0} + {1}, doesn't fit 128 bits")
    weights = checked(c, "add", b.get(sums, "weight"), weight, "a sum of weights, {0} + {1}, doesn't fit 64 bits")
    b.put(sums, "total", total)
    b.put(sums, "weight", weights)
    there = b.ne(weights, 0)
    divisor = b.select(there, weights, 1)
    ticks = b.quotient(total, divisor, "floor")
    rest = b.wrapping("sub", total, b.wrapping("mul", ticks, b.cast(divisor, "i128")))
    average = b.add(b.cast(ticks, "f64"), b.div(b.cast(rest, "f64"), b.cast(divisor, "f64")))
    type = call["price"].type
    assert isinstance(type, qt.Exact)
    return result(c, call, there, b.select(there, _priced(c, average, type), 0.0))


def _priced(c: FunctionContext, ticks: hir.Value, type: qt.Exact) -> hir.Value:
    """Parts of ticks in the currency's units."""
    size = step(c, type)
    digits = decimal_places(size)
    return c.b.div(c.b.mul(ticks, float(size * 10**digits)), float(10**digits))
