"""Plain arithmetic, monoids and axes: the instructions that compute. All are pure; the axes of a result are the union of its
operands' axes, met by name.

Meaning of the numbers: ints wrap; `div` and `rem` round toward zero and must be guarded by a `check` against zero (the most
negative number divided by -1 wraps); shifts take the amount modulo the width; `shr` keeps the sign of signed types. `min` and
`max` give NaN when one operand is NaN. `cast` from float to int truncates toward zero, saturates, and takes NaN to 0; from int
to a narrower int it wraps; to `i1` it asks for nonzero. Every float operation rounds to its dtype."""

from collections.abc import Iterator
from typing import Any

from compiler.hir.affine import Affine
from compiler.hir.instruction import (
    Instruction,
    InstructionFamily,
    Value,
    ValueScope,
    attribute,
    instruction,
    instruction_table,
    operand,
    operands,
    optional_operand,
)
from compiler.hir.types import DTYPES, FLOATS, Axis, HirType, Tile, is_float, is_wide

BINARY = {
    "add": "a + b",
    "sub": "a - b",
    "mul": "a * b",
    "div": "a / b",
    "rem": "the remainder, with the dividend's sign",
    "min": "the smaller; NaN wins",
    "max": "the larger; NaN wins",
    "and": "bits of ints, truth of i1",
    "or": "bits of ints, truth of i1",
    "xor": "bits of ints, truth of i1",
    "shl": "a shifted left by b bits",
    "shr": "a shifted right by b bits",
    "pow": "a to the power b",
    "atan2": "the angle of the point (b, a)",
}
COMPARE = {"eq": "a == b", "ne": "a != b", "lt": "a < b", "le": "a <= b", "gt": "a > b", "ge": "a >= b"}
UNARY = {
    "neg": "-a",
    "not": "every bit turned",
    "abs": "|a|",
    "sign": "-1, 0 or 1; NaN stays",
    "floor": "toward minus infinity",
    "ceil": "toward infinity",
    "round": "to the nearest integer, halves to even",
    "trunc": "toward zero",
    "popcount": "how many bits of an int are 1",
    "leading_zeros": "how many bits of an int stand above the highest that is 1; all where none is",
    "trailing_zeros": "how many stand below the lowest that is 1; all where none is",
    "sqrt": "correctly rounded",
    "rsqrt": "1 / sqrt(a)",
    **dict.fromkeys(("exp", "exp2", "log", "log2", "erf"), "the function of that name"),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan"), "the function of that name, in radians"),
    **dict.fromkeys(("sinh", "cosh", "tanh"), "the hyperbolic function of that name"),
}
BIT_COUNTS = frozenset({"popcount", "leading_zeros", "trailing_zeros"})
FLOAT_FUNCTIONS = frozenset(UNARY) - {"neg", "not", "abs", "sign", "floor", "ceil", "round", "trunc", *BIT_COUNTS}
"""Unary operators that ints don't have. (The roundings leave an int as it is.)"""

NARROW_FLOATS = frozenset(FLOATS) - {"f64"}

MONOIDS = ("add", "mul", "min", "max", "and", "or", "xor", "argmin", "argmax")
"""Names of reductions. `argmin` and `argmax` work on pairs (value, index): NaN wins, then the lower index."""

JOINED_PASSES = ("moments", "exponentials")
"""Reductions that stand for two, which fields have between passes and tiles do not. `moments` of (x, 0, 1): the sum, the sum of squares of
what is left behind the mean, and the number of elements; `exponentials` of (x, 1): the maximum, and the sum of exp(x - maximum)."""


def plain_number(value: Any) -> Any:
    """A Python number, also of a NumPy one, so that it prints and compares as what it is."""
    return value.item() if hasattr(value, "item") else value


def _strings(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(names)


def union_axes(*values: Value) -> tuple[Axis, ...]:
    """The axes along which any of the values varies, each once, in order of first appearance."""
    axes: dict[str, Affine] = {}
    for value in values:
        if isinstance(value.type, Tile):
            for name, extent in value.type.axes:
                axes.setdefault(name, extent)
    return tuple(axes.items())


def names_of_axes(*values: Value) -> set[str]:
    return {name for name, _ in union_axes(*values)}


def dtype_of(value: Value) -> str:
    """The scalar type of a number or tile."""
    assert isinstance(value.type, Tile), f"{value} is no number: {value.type}"
    return value.type.dtype


def _one_dtype(*values: Value) -> Iterator[str]:
    dtypes = list(dict.fromkeys(map(dtype_of, values)))
    if len(dtypes) > 1:
        yield f"operands of {' and '.join(dtypes)}"


def _without(axes: tuple[Axis, ...], over: tuple[str, ...]) -> tuple[Axis, ...]:
    return tuple(axis for axis in axes if axis[0] not in over)


@instruction("const", InstructionFamily.PLAIN)
class Const(Instruction):
    """A number of a type: `%z = const 0.0 : f32`. Of a tile type, every element is that number."""

    value: int | float | bool = attribute(converter=plain_number)
    type: HirType = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.type]


@instruction_table(BINARY, InstructionFamily.PLAIN)
class Binary(Instruction):
    """`%r = add %a, %b`. Both operands have one dtype, the result's. `flags`: of `reassoc contract afn`, the liberties granted
    with floats, and for quotients `ftz`: neither the divisor nor its reciprocal is subnormal, but they may be 0 and infinite."""

    operator: str = attribute()
    left: Value = operand()
    right: Value = operand()
    flags: tuple[str, ...] = attribute((), _strings)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile(dtype_of(self.left), union_axes(self.left, self.right))]

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _one_dtype(self.left, self.right)
        if self.operator in ("and", "or", "xor", "shl", "shr") and is_float(dtype_of(self.left)):
            yield "bits of a float"
        if self.operator in ("div", "rem", "pow") and is_wide(dtype_of(self.left)):
            yield f"`{self.operator}` of {dtype_of(self.left)}; `quotient` divides by 64 bits"


@instruction_table(COMPARE, InstructionFamily.PLAIN)
class Compare(Instruction):
    """`%r = lt %a, %b : i1`. With a NaN all are false but `ne`."""

    operator: str = attribute()
    left: Value = operand()
    right: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile("i1", union_axes(self.left, self.right))]

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _one_dtype(self.left, self.right)


@instruction_table(UNARY, InstructionFamily.PLAIN)
class Unary(Instruction):
    """`%r = exp %a afn : f32`: a function of one number, element by element. `flags` as of `add`, and `ftz`: results below 2^-126 may be
    0."""

    operator: str = attribute()
    value: Value = operand()
    flags: tuple[str, ...] = attribute((), _strings)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.value.type]

    def check(self, scope: ValueScope) -> Iterator[str]:
        floating = is_float(dtype_of(self.value))
        if (self.operator == "not" or self.operator in BIT_COUNTS) and floating:
            yield "bits of a float"
        if self.operator in FLOAT_FUNCTIONS and not floating:
            yield f"a function of floats on {dtype_of(self.value)}"


@instruction("isnan", InstructionFamily.PLAIN)
class IsNan(Instruction):
    """1 where the value is NaN, as `i1`."""

    value: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile("i1", union_axes(self.value))]


@instruction("fma", InstructionFamily.PLAIN)
class Fma(Instruction):
    """`%r = fma %a, %b, %c`: a * b + c, rounded once."""

    a: Value = operand()
    b: Value = operand()
    c: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile(dtype_of(self.a), union_axes(self.a, self.b, self.c))]

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _one_dtype(self.a, self.b, self.c)


@instruction("select", InstructionFamily.PLAIN)
class Select(Instruction):
    """`then` where `condition` (i1) holds, else `otherwise`."""

    condition: Value = operand()
    then: Value = operand()
    otherwise: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile(dtype_of(self.then), union_axes(self.condition, self.then, self.otherwise))]

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _one_dtype(self.then, self.otherwise)
        if dtype_of(self.condition) != "i1":
            yield f"a condition of type {self.condition.type}"


@instruction("cast", InstructionFamily.PLAIN)
class Cast(Instruction):
    """`%r = cast %a to=f32`: the number in another type; float to narrower float rounds to nearest even."""

    value: Value = operand()
    to: str = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile(self.to, union_axes(self.value))]

    def check(self, scope: ValueScope) -> Iterator[str]:
        if self.to not in DTYPES:
            yield f"{self.to} is no scalar type"
        elif (is_wide(self.to) and is_float(dtype_of(self.value))) or (is_wide(dtype_of(self.value)) and self.to in NARROW_FLOATS):
            yield f"{dtype_of(self.value)} to {self.to}; go through f64 or 64 bits"


@instruction("bitcast", InstructionFamily.PLAIN)
class Bitcast(Instruction):
    """The same bits as another type of the same width."""

    value: Value = operand()
    to: str = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile(self.to, union_axes(self.value))]

    def check(self, scope: ValueScope) -> Iterator[str]:
        if DTYPES.get(self.to) != DTYPES[dtype_of(self.value)]:
            yield f"{dtype_of(self.value)} and {self.to} differ in width"


@instruction("index", InstructionFamily.PLAIN)
class Index(Instruction):
    """`%r = index of=2*i+1`: an affine form as a value of type `index`, varying along the axes it names."""

    of: Affine = attribute(converter=Affine.of)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile("index", scope.axes_of(self.of))]


@instruction("threads", InstructionFamily.PLAIN)
class Threads(Instruction):
    """`%t = threads : index`: how many threads of a CPU share loops out here. Nothing that is computed may depend on it but who does it."""

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile("index")]


@instruction("inbounds", InstructionFamily.PLAIN)
class InBounds(Instruction):
    """`%r = inbounds of=128*i0+i below=M`: whether 0 <= of < below, as `i1`."""

    of: Affine = attribute(converter=Affine.of)
    below: Affine = attribute(converter=Affine.of)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile("i1", scope.axes_of(self.of, self.below))]


@instruction("combine", InstructionFamily.MONOID)
class Combine(Instruction):
    """`%v, %i = combine argmin %v0, %i0, %v1, %i1`: two elements of a monoid on pairs made one: the second pair where it beats
    the first."""

    monoid: str = attribute()
    operands_: tuple[Value, ...] = operands()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        half = len(self.operands_) // 2
        axes = union_axes(*self.operands_)
        return [Tile(dtype_of(value), axes) for value in self.operands_[:half]]

    def check(self, scope: ValueScope) -> Iterator[str]:
        half = len(self.operands_) // 2
        if self.monoid not in MONOIDS:
            yield f"no monoid {self.monoid}"
        if [dtype_of(v) for v in self.operands_[:half]] != [dtype_of(v) for v in self.operands_[half:]]:
            yield "two elements of different types"
        if self.monoid in MONOIDS[-2:] and half < 2:
            yield f"`{self.monoid}` without an index"


@instruction("reduce", InstructionFamily.MONOID)
class Reduce(Instruction):
    """`%s = reduce add %x over=[j]`: all elements along the axes combined, beginning with the identity. `argmin`/`argmax` take
    (and give) the value and the index; `moments` and `exponentials` stand for two reductions, in fields alone. `flags`: `reassoc`
    lets floats be summed in any order; without it the order is the axes', first slowest; `factors` as of `contract`; `parts`: a factor of
    what is summed is one number in parts, `(a + b) * c`."""

    monoid: str = attribute()
    values: tuple[Value, ...] = operands()
    over: tuple[str, ...] = attribute((), _strings)
    flags: tuple[str, ...] = attribute((), _strings)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        axes = _without(union_axes(*self.values), self.over)
        return [Tile(dtype_of(value), axes) for value in self.values]

    def check(self, scope: ValueScope) -> Iterator[str]:
        if self.monoid not in (*MONOIDS, *JOINED_PASSES):
            yield f"no monoid {self.monoid}"
        have = {name for name, _ in union_axes(*self.values)}
        yield from (f"no operand varies along {axis}" for axis in self.over if axis not in have)


@instruction("scan", InstructionFamily.MONOID)
class Scan(Instruction):
    """`%p = scan add %x over=[j]`: the running combination along one axis; `exclusive` starts with the identity, `reverse` runs
    from the end."""

    monoid: str = attribute()
    value: Value = operand()
    over: tuple[str, ...] = attribute((), _strings)
    exclusive: bool = attribute(False)
    reverse: bool = attribute(False)
    flags: tuple[str, ...] = attribute((), _strings)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.value.type]

    def check(self, scope: ValueScope) -> Iterator[str]:
        if self.monoid not in MONOIDS[:-2]:
            yield f"no monoid {self.monoid} on one value"
        if len(self.over) != 1 or self.over[0] not in dict(union_axes(self.value)):
            yield f"over {list(self.over)}: one axis of the operand is wanted"


@instruction("contract", InstructionFamily.MONOID)
class Contract(Instruction):
    """`%c = contract %a, %b, %acc over=[k] : tile<i, j, f32>`: acc plus the sum over the axes of a * b, in the accumulator's type
    `to`. Axes of both operands that are not summed are batch axes. `flags`: of `reassoc contract`, and `factors`: it sums some factors of
    a product whose order is free."""

    a: Value = operand()
    b: Value = operand()
    accumulator: Value | None = optional_operand()
    over: tuple[str, ...] = attribute((), _strings)
    to: str = attribute("f32")
    flags: tuple[str, ...] = attribute(("reassoc", "contract"), _strings)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        values = [self.a, self.b] + ([self.accumulator] if self.accumulator else [])
        return [Tile(self.to, _without(union_axes(*values), self.over))]

    def check(self, scope: ValueScope) -> Iterator[str]:
        have = dict(union_axes(self.a, self.b))
        yield from (f"no operand varies along {axis}" for axis in self.over if axis not in have)
        if self.accumulator is not None and dtype_of(self.accumulator) != self.to:
            yield f"an accumulator of {dtype_of(self.accumulator)} for a result of {self.to}"
        if self.accumulator is not None and set(dict(union_axes(self.accumulator))) & set(self.over):
            yield "an accumulator that varies along a summed axis"


@instruction("take", InstructionFamily.AXIS)
class Take(Instruction):
    """`%r = take %x axis=j at=3`: one element along an axis, which the result lacks."""

    value: Value = operand()
    axis: str = attribute()
    at: Affine = attribute(converter=Affine.of)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile(dtype_of(self.value), _without(union_axes(self.value), (self.axis,)))]

    def check(self, scope: ValueScope) -> Iterator[str]:
        if self.axis not in dict(union_axes(self.value)):
            yield f"{self.value} doesn't vary along {self.axis}"


@instruction("concat", InstructionFamily.AXIS)
class Concat(Instruction):
    """Tiles put one behind the other along an axis."""

    values: tuple[Value, ...] = operands()
    axis: str = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        types = [value.type for value in self.values]
        total = Affine()
        for type_ in types:
            assert isinstance(type_, Tile)
            total = total + type_.extent(self.axis)
        first = types[0]
        assert isinstance(first, Tile)
        return [Tile(first.dtype, tuple((n, total if n == self.axis else e) for n, e in first.axes))]


@instruction("stack", InstructionFamily.AXIS)
class Stack(Instruction):
    """`%r = stack %a, %b axis=simd : tile<simd:2, f32>`: scalars of one type side by side along an axis that has as many places."""

    values: tuple[Value, ...] = operands()
    axis: str = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile(dtype_of(self.values[0]), ((self.axis, Affine((), len(self.values))),))]

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _one_dtype(*self.values)
        if any(union_axes(value) for value in self.values):
            yield "a value with axes: scalars are wanted"
        if scope.axes.get(self.axis) != Affine((), len(self.values)):
            yield f"{len(self.values)} values along {self.axis}"


@instruction("pack2", InstructionFamily.AXIS)
class Pack2(Instruction):
    """Two neighbours along an axis of extent 2, of a 16-bit type, as one `u32`; the first in the low half."""

    value: Value = operand()
    over: str = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [Tile("u32", _without(union_axes(self.value), (self.over,)))]


@instruction("convert", InstructionFamily.AXIS)
class Convert(Instruction):
    """The same value in another layout (the order in which its digits lie in lanes and registers) or place. What roles pass on in
    shared memory may wait in a `ring` of its own, which loops one behind the other share."""

    value: Value = operand()
    layout: str = attribute("")
    place: str = attribute("reg")
    ring: str = attribute("")

    def result_types(self, scope: ValueScope) -> list[HirType]:
        assert isinstance(self.value.type, Tile)
        return [Tile(self.value.type.dtype, self.value.type.axes, self.place)]
