"""`to_price`, `to_qty`, `to_money`: a double as a whole number of steps.

The double that is nearest to the value of a step stands for that step: so `to_price(p.f64, round)` is p, however it rounds. Any other is
rounded as the exact number that it is. A step is divisor / 10**digits. While x * 10**digits is small, steps and the middles between them
are compared as the doubles nearest to them, which tells exactly; else x is m * 2**e with whole m, and m * 10**digits * 2**e is divided by
the divisor in ints of 128 bits."""

from typing import NamedTuple

from compiler.hir import instruction as hir
from compiler.hir.core import Bitcast
from compiler.typed_ast.types import OptionType
from quantdsl import types as qt
from quantdsl.check.exact import decimal_places
from quantdsl.elaborate.calls import BoundCall, emits
from quantdsl.elaborate.context import FunctionContext
from quantdsl.elaborate.literals import step
from quantdsl.elaborate.refused import not_supported
from quantdsl.elaborate.values import ScalarValue, Value
from quantdsl.native.build import FunctionCode, ModuleBuilder
from quantdsl.native.types import F64, I1, I64

NEAREST, DOWN, UP, PASSIVE, AGGRESSIVE = range(5)
"""As the prelude's enum `Rounding` counts them."""
_WORDS = {NEAREST: "nearest", DOWN: "down", UP: "up"}
_SMALL = 2**51
_LARGEST_POWER = 10**18


class Grid(NamedTuple):
    """A step of divisor / power."""

    divisor: int
    power: int


@emits("to_price", "to_qty", "to_money")
def to_exact(c: FunctionContext, call: BoundCall) -> Value:
    """None for NaN, infinities, and what 64 bits of steps don't hold."""
    type = c.type(call.node)
    assert isinstance(type, OptionType) and isinstance(type.value, qt.Exact)
    size = step(c, type.value)
    power = 10 ** decimal_places(size)
    grid = Grid(int(size * power), power)
    if grid.divisor >= _SMALL or grid.power > _LARGEST_POWER:
        raise not_supported(f"`{call.callee.name}` with steps of more than 15 digits", call.node.span, "use a coarser tick, lot or scale")
    x, mode = call["x"], call["round"]
    assert isinstance(x, ScalarValue) and isinstance(mode, ScalarValue)
    rounding, there = _rounding(c, call, mode)
    if rounding.constant is not None:
        assert isinstance(rounding.constant, int)
        present, count = c.b.call(rounded(c.b.program, grid, rounding.constant), x.value)
    else:
        present, count = _by_mode(c.b, grid, rounding.value, x.value)
    if there is not None:
        present = c.b.both(there, present)
        count = c.b.select(present, count, 0)
    return c.make(type, {"present": c.truth(present), "value": ScalarValue(type.value, count)})


def _rounding(c: FunctionContext, call: BoundCall, mode: ScalarValue) -> tuple[ScalarValue, hir.Value | None]:
    """NEAREST, DOWN or UP; and whether there is a side, where that decides. Passive is down for a buy and up for a sell."""
    if mode.constant in _WORDS:
        return mode, None
    sided = any(argument.name == "side" for argument in call.node.arguments) or len(call.node.arguments) > 2
    if mode.constant is not None and not sided:
        hint = "name it: `to_price(x, round = passive, side = Buy)`"
        raise c.refuse("0204", "whether this rounds up or down depends on the side", hint, call.node.span)
    side, b = call["side"], c.b
    present, value = (c.part(side, part) for part in ("present", "value"))
    assert isinstance(present, ScalarValue) and isinstance(value, ScalarValue)
    depends = b.ge(mode.value, PASSIVE)
    up = b.ne(b.eq(value.value, 1), b.eq(mode.value, AGGRESSIVE))
    found = b.select(depends, b.select(up, b.const(UP, "u8"), b.const(DOWN, "u8")), mode.value)
    return ScalarValue(mode.type, found), b.either(present.value, b.negate(depends))


def _by_mode(b: FunctionCode, grid: Grid, mode: hir.Value, x: hir.Value) -> tuple[hir.Value, hir.Value]:
    """The rounding is known only as the program runs."""
    found = [b.call(rounded(b.program, grid, each), x) for each in _WORDS]
    present, count = found[NEAREST]
    for each in (DOWN, UP):
        count = b.select(b.eq(mode, each), found[each][1], count)
        present = b.select(b.eq(mode, each), found[each][0], present)
    return present, count


def rounded(program: ModuleBuilder, grid: Grid, mode: int) -> str:
    """The function from a double to (whether there is one, steps) with this rounding."""
    name = f"round.{_WORDS[mode]}.d{grid.divisor}.p{grid.power}"
    if program.has(name):
        return name
    exact = _exact(program, grid, mode, f"{name}.exact")
    with program.function(name, {"x": F64}, [I1, I64], internal=True) as b:
        (x,) = b.parameters
        scaled = b.mul(x, float(grid.power))
        with b.when(b.negate(b.lt(b.here.op("abs", scaled), float(_SMALL)))):
            b.give(*b.call(exact, x))
        count = b.cast(b.here.op("round", b.div(scaled, float(grid.divisor))), "i64")
        if mode == NEAREST:
            twice, odd = b.wrapping("mul", count, 2), b.ne(b.wrapping("and", count, 1), 0)
            above, below = (_value(b, b.wrapping("add", twice, side), grid.divisor, 2 * grid.power) for side in (1, -1))
            further = b.either(b.gt(x, above), b.both(b.eq(x, above), odd))
            nearer = b.either(b.lt(x, below), b.both(b.eq(x, below), odd))
        else:
            here = _value(b, count, grid.divisor, grid.power)
            no = b.const(False, "i1")
            further, nearer = (b.gt(x, here), no) if mode == UP else (no, b.lt(x, here))
        b.give(True, b.wrapping("sub", b.wrapping("add", count, b.cast(further, "i64")), b.cast(nearer, "i64")))
    return name


def _value(b: FunctionCode, count: hir.Value, divisor: int, power: int) -> hir.Value:
    """The double nearest to count * divisor / power, where the product is below 2**53."""
    return b.div(b.cast(b.wrapping("mul", count, divisor), "f64"), float(power))


def _exact(program: ModuleBuilder, grid: Grid, mode: int, name: str) -> str:
    """For large numbers, at the cost of a division in 128 bits."""
    with program.function(name, {"x": F64}, [I1, I64], internal=True, attributes=("noalias", "cold", "noinline")) as b:
        (x,) = b.parameters
        near = b.div(b.mul(x, float(grid.power)), float(grid.divisor))
        with b.when(b.negate(b.lt(b.here.op("abs", near), 2.0**63 * 1.001))):
            b.give(False, 0)
        negative = b.lt(x, 0.0)
        bits = b.here.emit(Bitcast(value=x, to="u64")).result
        mantissa = b.wrapping("or", b.wrapping("and", bits, 2**52 - 1), 2**52)
        exponent = b.wrapping("sub", b.cast(b.wrapping("and", b.wrapping("shr", bits, 52), 2**11 - 1), "i64"), 1075)
        left, right = (b.cast(b.larger(e, 0), "u128") for e in (exponent, b.wrapping("sub", 0, exponent)))
        whole = b.wrapping("shl", b.wrapping("mul", b.cast(mantissa, "u128"), grid.power), left)
        floor = b.wrapping("shr", whole, right)
        steps = b.quotient(floor, b.const(grid.divisor, "u64"), "floor")
        rest = b.wrapping("sub", whole, b.wrapping("shl", b.wrapping("mul", steps, grid.divisor), right))
        unit = b.wrapping("shl", b.const(grid.divisor, "u128"), right)
        twice, odd = b.wrapping("mul", rest, 2), b.ne(b.wrapping("and", steps, 1), 0)
        nearest = b.wrapping("add", steps, b.cast(b.either(b.gt(twice, unit), b.both(b.eq(twice, unit), odd)), "u128"))
        found = nearest
        if mode != NEAREST:
            away = b.negate(negative) if mode == UP else negative
            found = b.wrapping("add", steps, b.cast(b.both(away, b.ne(rest, 0)), "u128"))
            product = b.wrapping("mul", nearest, grid.divisor)
            small = b.le(product, 2**53)
            value = b.div(b.cast(b.cast(b.select(small, product, 0), "i64"), "f64"), float(grid.power))
            found = b.select(b.both(small, b.eq(value, b.here.op("abs", x))), nearest, found)
        fits = b.either(b.lt(found, 2**63), b.both(negative, b.eq(found, 2**63)))
        magnitude = b.cast(b.select(fits, found, 0), "i64")
        b.give(fits, b.select(negative, b.wrapping("sub", 0, magnitude), magnitude))
    return name
