"""`to_price`, `to_qty`, `to_money`: a double as a whole number of steps.

The double that is nearest to the value of a step stands for that step: so `to_price(p.f64, round)` is p, however it rounds. Any other is
rounded as the exact number that it is. A step is divisor / 10**digits. While x * 10**digits is small, steps and the middles between them
are compared as the doubles nearest to them, which tells exactly; else x is m * 2**e with whole m, and m * 10**digits * 2**e is divided by
the divisor in ints of 128 bits."""

from typing import NamedTuple

from compiler.hir.core import Bitcast
from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, maximum, select
from compiler.hir.native_types import F64, I1, I64
from compiler.lowering.native.calls import BoundCall
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.values import ScalarValue, Value
from compiler.typed_ast.types import OptionType
from quantdsl import types as qt
from quantdsl.check.exact import decimal_places
from quantdsl.elaborate.exact_literals import step
from quantdsl.elaborate.rules import emits, not_supported

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
        present = there & present
        count = select(present, count, 0)
    return c.make(type, {"present": c.truth(present), "value": ScalarValue(type.value, count)})


def _rounding(c: FunctionContext, call: BoundCall, mode: ScalarValue) -> tuple[ScalarValue, Expr | None]:
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
    depends = mode.value >= PASSIVE
    up = (value.value == 1) != (mode.value == AGGRESSIVE)
    found = select(depends, select(up, b.const(UP, "u8"), b.const(DOWN, "u8")), mode.value)
    return ScalarValue(mode.type, found), present.value | ~depends


def _by_mode(b: FunctionCode, grid: Grid, mode: Expr, x: Expr) -> tuple[Expr, Expr]:
    """The rounding is known only as the program runs."""
    found = [b.call(rounded(b.program, grid, each), x) for each in _WORDS]
    present, count = found[NEAREST]
    for each in (DOWN, UP):
        count = select(mode == each, found[each][1], count)
        present = select(mode == each, found[each][0], present)
    return present, count


def rounded(program: ModuleBuilder, grid: Grid, mode: int) -> str:
    """The function from a double to (whether there is one, steps) with this rounding."""
    name = f"round.{_WORDS[mode]}.d{grid.divisor}.p{grid.power}"
    if program.has(name):
        return name
    exact = _exact(program, grid, mode, f"{name}.exact")
    with program.function(name, {"x": F64}, [I1, I64], internal=True) as b:
        (x,) = b.parameters
        scaled = x * float(grid.power)
        with b.when(~(b.op("abs", scaled) < float(_SMALL))):
            b.ret(*b.call(exact, x))
        count = b.op("round", scaled / float(grid.divisor)).cast("i64")
        if mode == NEAREST:
            twice, odd = count.wrapping_mul(2), (count & 1) != 0
            above, below = (_value(b, twice.wrapping_add(side), grid.divisor, 2 * grid.power) for side in (1, -1))
            further = (x > above) | ((x == above) & odd)
            nearer = (x < below) | ((x == below) & odd)
        else:
            here = _value(b, count, grid.divisor, grid.power)
            no = b.const(False, "i1")
            further, nearer = (x > here, no) if mode == UP else (no, x < here)
        b.ret(True, count.wrapping_add(further.cast("i64")).wrapping_sub(nearer.cast("i64")))
    return name


def _value(b: FunctionCode, count: Expr, divisor: int, power: int) -> Expr:
    """The double nearest to count * divisor / power, where the product is below 2**53."""
    return count.wrapping_mul(divisor).cast("f64") / float(power)


def _exact(program: ModuleBuilder, grid: Grid, mode: int, name: str) -> str:
    """For large numbers, at the cost of a division in 128 bits."""
    with program.function(name, {"x": F64}, [I1, I64], internal=True, attributes=("noalias", "cold", "noinline")) as b:
        (x,) = b.parameters
        near = x * float(grid.power) / float(grid.divisor)
        with b.when(~(b.op("abs", near) < 2.0**63 * 1.001)):
            b.ret(False, 0)
        negative = x < 0.0
        bits = b.emit(Bitcast(value=x.hir, to="u64"))
        mantissa = (bits & (2**52 - 1)) | 2**52
        exponent = ((bits >> 52) & (2**11 - 1)).cast("i64").wrapping_sub(1075)
        left, right = (maximum(e, 0).cast("u128") for e in (exponent, exponent.wrapping_neg()))
        whole = mantissa.cast("u128").wrapping_mul(grid.power) << left
        floor = whole >> right
        steps = floor.quotient(b.const(grid.divisor, "u64"), "floor")
        rest = whole.wrapping_sub(steps.wrapping_mul(grid.divisor) << right)
        unit = b.const(grid.divisor, "u128") << right
        twice, odd = rest.wrapping_mul(2), (steps & 1) != 0
        nearest = steps.wrapping_add(((twice > unit) | ((twice == unit) & odd)).cast("u128"))
        found = nearest
        if mode != NEAREST:
            away = ~negative if mode == UP else negative
            found = steps.wrapping_add((away & (rest != 0)).cast("u128"))
            product = nearest.wrapping_mul(grid.divisor)
            small = product <= 2**53
            value = select(small, product, 0).cast("i64").cast("f64") / float(grid.power)
            found = select(small & (value == b.op("abs", x)), nearest, found)
        fits = (found < 2**63) | (negative & (found == 2**63))
        magnitude = select(fits, found, 0).cast("i64")
        b.ret(fits, select(negative, magnitude.wrapping_neg(), magnitude))
    return name
