"""Weights of attention in registers, between its two products: what scores become, the maximum that grows, what earlier sums are
multiplied by, the sums of weights. As in FlashAttention-4 (2025), a maximum that grows by little is left as it is, which the division by
the sums makes up for.

What follows the sums is the field's. Where they met what they must not, they are repaired first: a tile's products are of all its keys, and
a weight of 0 times a value that is infinite or NaN is NaN, where the nest never reads that value. Rows with a NaN are summed once more, key
by key, with the weights that they had."""

from collections.abc import Callable, Sequence
from math import inf, nan

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Binary, Cast, Reduce, Select, Unary, dtype_of
from compiler.hir.gpu import Vote
from compiler.hir.instruction import Instruction, Value
from compiler.schedule.gpu.attention.exponents import LOG2_E, Exponent, Slope, multiplied, sign_of
from compiler.schedule.gpu.attention.field import AttentionField
from compiler.schedule.gpu.attention.walk import QueryTiles, Walk
from compiler.schedule.gpu.attention.walking_block import NONE, WalkingBlock
from compiler.schedule.gpu.rewrites.counted_floats import counted, parted
from compiler.schedule.gpu.tiles.block_tiles import BlockTiles
from compiler.schedule.gpu.tiles.reduction import exchanged
from compiler.schedule.region import Target, TileRegion

LARGE = 2.0**22
"""Distances times their slope up to which exponents of a tile that is not the first may be off by as little as floats of their size are."""
LOWEST = -(2.0 - 2.0**-23) * 2.0**127
"""The lowest finite f32."""
SLACK = 8.0
"""By how much the exponents of weights may be above 0 before the maximum is renewed: powers of two that all narrow types have, and that
leave sums in f32 all their digits."""

BOUNDED = {"bf16": 24.0, "f16": 12.0}
"""Exponents that weights of a type have room for, and their sums in f32, whatever the maximum is."""

Tanh = tuple[float, tuple[float, ...]]
TANHS: tuple[Tanh, ...] = (
    (0.12, (0.99999136, -0.33093333)),
    (0.3, (0.9999960123, -0.3329747955, 0.1252259095)),
    (0.7, (0.9999984955, -0.3332697309, 0.132574549, -0.05019525865, 0.01319418781)),
)
"""Numbers up to which tanh(x) is x times this polynomial of x^2, the lowest power first, to 2^-22, as f32 computes it. Of -inf
they are -inf, but for those that need no maximum."""


class AttendingBlock(WalkingBlock):
    """What a block of attention does, whoever multiplies."""

    incline: Value | None = None
    """Of scores that begin with their slope: for a unit of distance. What begins is relative to the first element of a thread, whose own
    is added to the maximum."""
    factor: Value
    outer: Value
    """The factor without what the program and the base of the exponential multiply by."""

    def __init__(self, placing: BlockTiles, attention: AttentionField, queries: QueryTiles, region: TileRegion) -> None:
        super().__init__(placing, attention, queries, region)
        self.attention, self.exponent = attention, attention.exponent
        self.sums = [op for op in attention.rule.rescaled if isinstance(op, Reduce) and op is not attention.weighted]
        """Of weights."""
        self.bases: dict[TileRegion, tuple[Value, Value]] = {}
        """Of each turn: scores without their factor, and what their exponents are less by."""
        self.small: dict[TileRegion, tuple[Value, list[Value]]] = {}
        """Of turns whose tanhs are of small numbers: scores without cap, and the polynomial of their squares by which they get one."""
        self.bounded: set[TileRegion] = set()
        """Turns whose exponents are so small that no maximum is needed."""

    def at_first(self, b: Builder) -> list[Value]:
        """The maximum and the sums of weights before any key."""
        sums = (b.const(0.0, self.tile_of_rows(dtype_of(op.results[0]))) for op in self.sums)
        return [b.const(-inf, self.tile_of_rows("f32")), *sums]

    # ---- between the products ----

    def softened(self, turn: TileRegion, scores: Value, before: Sequence[Value]) -> Sequence[Value]:
        """What earlier sums are multiplied by, and whether any of the warp's are; the maximum, the sums and the weights with this turn's
        scores. Where all of a warp's are small, caps are a polynomial, computed while the special unit is busy with the exponentials. It
        grows, so the maximum is that of scores without caps. Elsewhere the special unit computes caps, too."""
        b, cap = turn.builder, self.exponent.cap
        turn.made[self.attention.scores.results[0]] = scores
        if cap is None:
            return self.weighed(turn, before)
        value, scale = self.uncapped(turn, cap)
        (size,) = b.reduce("max", b.op("abs", value), over=(*self.columns, *self.rows))
        usual = b.op("and", b.op("ge", scale, b.const(2.0**-12, "f32")), b.op("le", scale, b.const(2.0**12, "f32")))
        tanhs = [tanh for tanh in TANHS if tanh[1][-1] > 0 or self.bounds(tanh[0])]
        return self.capped_by(turn, before, value, scale, b.select(usual, b.mul(size, scale), b.const(inf, "f32")), tanhs)

    def bounds(self, limit: float) -> bool:
        """Whether tanhs of numbers up to a limit need no maximum, which no result reads."""
        return limit * self.exponent.number <= BOUNDED[self.attention.dtype] and not self.attention.rows_read

    def capped_by(
        self, turn: TileRegion, before: Sequence[Value], value: Value, scale: Value, size: Value, tanhs: Sequence[Tanh]
    ) -> Sequence[Value]:
        """The same, of scores that get their caps by the first of the polynomials that is right for numbers of this size."""
        if not tanhs:
            return self.weighed(turn, before)
        b, ((limit, numbers), *others) = turn.builder, tanhs
        known = b.op("le", size, b.const(limit, "f32"))
        types = [before[0].type, known.type, *(each.type for each in before), value.type]
        with b.branch(b.emit(Vote(operation="all", predicate=known)).result, types) as (small, large, chosen):
            few, many = (turn.inside(way, (self.attention.along,)) for way in (small, large))
            self.compared[few] = self.compared[many] = self.compared[turn]
            power, factors = scale, list[Value]()
            for number in numbers:
                factors.append(small.mul(power, small.const(number, "f32")))
                power = small.mul(power, small.mul(scale, scale))
            self.small[few] = value, factors
            if self.bounds(limit):
                self.bounded.add(few)
            small.yield_(*self.weighed(few, before))
            large.yield_(*self.capped_by(many, before, value, scale, size, others))
        return chosen.results

    def weighed(self, turn: TileRegion, before: Sequence[Value]) -> tuple[Value, ...]:
        """The same, of scores that the turn has."""
        b, attention, (uncapped, powers) = turn.builder, self.attention, self.small.get(turn, (None, []))
        maximum, *totals = before
        value = self.placing.value(self.exponent.core, turn) if uncapped is None else uncapped
        first, most = self.first(turn), b.const(0.0, maximum.type)
        if turn not in self.bounded:
            value = self.hidden(turn, value)
            (most,) = b.reduce("max", value, over=self.columns)
            most = over_lanes(b, "max", most if first is None else b.add(most, first))
            if powers:
                most = b.mul(most, polynomial(b, b.mul(most, most), powers))
        most = b.op("max", maximum, most)
        scaled = self.scaled(b, maximum)
        if attention.exact or turn in self.bounded:
            grows = b.op("ne", most, maximum)
        else:
            grows = b.op("gt", b.sub(b.mul(most, self.factor), scaled), b.const(SLACK, "f32"))
            most = b.select(grows, most, maximum)
        grown = b.emit(Vote(operation="any", predicate=b.reduce("or", grows, over=self.rows)[0])).result
        base = self.based(b, most)
        self.bases[turn] = value, base if first is None else b.sub(base, b.mul(first, self.factor))
        turn.made[attention.rule.maximum.results[0]] = turn.made[attention.rule.total] = most
        growth = b.op("exp2", b.sub(scaled, base), flags=("afn", "ftz"))
        added = [self.added(turn, op, total, growth) for op, total in zip(self.sums, totals, strict=True)]
        return growth, grown, most, *added, self.weights(turn)

    def first(self, turn: TileRegion) -> Value | None:
        """What scores that begin with their slope lack."""
        b, slope = turn.builder, self.attention.slope
        if self.incline is None or slope is None:
            return None
        first, _ = parted(self.placing, slope.form, turn)
        return b.mul(self.incline, b.cast(b.index(first), "f32"))

    def begun(self, turn: TileRegion, slope: Slope, nothing: Value, incline: Value) -> Value:
        """What scores begin with."""
        b, (_, further) = turn.builder, parted(self.placing, slope.form, turn)
        return b.mul(b.mul(b.const(1.0, nothing.type), incline), b.cast(b.index(further), "f32"))

    def steep(self, region: TileRegion, slope: Slope) -> tuple[Value, Value]:
        """What a distance is multiplied by, and the size of what a product is."""
        b = region.builder
        steep = b.const(-1.0 if slope.below else 1.0, "f32")
        for value in slope.factors:
            steep = b.mul(steep, self.placing.value(value, region))
        return steep, b.op("abs", self.multiplied_by(region, slope.exponent))

    def inclined(self, region: TileRegion, slope: Slope) -> Value:
        """What scores that begin with their slope have for a unit of distance."""
        return region.builder.op("div", *self.steep(region, slope))

    def may_begin(self, region: TileRegion, slope: Slope) -> Value:
        """Whether scores that begin with their slope are as right as others: no number is too large to have fractions, none overflows."""
        b, axes, form = region.builder, self.placing.field.axes, slope.form
        steep, outer = self.steep(region, slope)
        size, limit = b.op("abs", steep), b.mul(outer, b.const(2.0**100, "f32"))
        reach = sum((axes.get(name, Affine.of(name)) * abs(form.coefficient(name)) for name in form.names), Affine.of(abs(form.constant)))
        far = b.mul(size, b.cast(b.index(reach), "f32"))
        return b.cast(b.op("and", b.op("le", far, b.const(LARGE, "f32")), b.op("le", size, limit)), "u32")

    def rescaled(self, b: Builder, output: Value, grown: Value, growth: Value) -> Value:
        """Earlier sums of values, times what the weights have grown by, if any have."""
        with b.branch(grown, [output.type]) as (yes, no, chosen):
            yes.yield_(yes.mul(output, growth))
            no.yield_(output)
        return chosen.results[0]

    def scaled(self, b: Builder, maximum: Value) -> Value:
        """The exponent of a maximum that earlier sums are less by: as it is, also while nothing is seen."""
        return b.mul(maximum, self.factor) if self.attention.rule.start == -inf else self.based(b, maximum)

    def based(self, b: Builder, maximum: Value) -> Value:
        """What exponents are less by: 0 while nothing is seen, or at least what the program's maximum starts from."""
        start = self.attention.rule.start
        if start != -inf:
            least = max(self.attention.exponent.constant * start, LOWEST)
            return b.op("max", b.mul(maximum, self.factor), b.const(least, "f32"))
        nothing = b.op("eq", maximum, b.const(float("-inf"), "f32"))
        return b.select(nothing, b.const(0.0, "f32"), b.mul(maximum, self.factor))

    def make(self, op: Instruction, region: TileRegion) -> Value | None:
        """Weights by the approximation that the hardware has, whose error is far below that of the 16 bits which they are rounded to; where
        nothing is hidden, what is seen; quotients of the sums by their reciprocals. None: as everywhere."""
        attention, b = self.attention, region.builder
        if self.exponent.is_weight(op) and region in self.bases:
            (scores, base), factor = self.bases[region], self.factor
            if region in self.small:
                factor = polynomial(b, b.mul(scores, scores), [b.mul(power, factor) for power in self.small[region][1]])
            weight = b.op("exp2", b.fma(scores, factor, b.op("neg", base)), flags=("afn", "ftz"))
            return self.hidden(region, weight, 0.0) if region in self.bounded else weight
        if op is self.exponent.cap and region in self.compared:
            return self.capped(region, op)
        seen = self.compared.get(region) == NONE and not self.conditions(region)
        if isinstance(op, Select) and (attention.exponent.hides(op) or (op.condition in attention.exponent.guards and seen)):
            return self.placing.value(op.then, region)
        if isinstance(op, Cast) and op.result in attention.counted:
            return counted(self.placing, op, region)
        if isinstance(op, Binary) and op.operator == "div" and op.right.source in attention.rule.rescaled and dtype_of(op.right) == "f32":
            return b.mul(self.placing.value(op.left, region), b.op("div", b.const(1.0, "f32"), self.placing.value(op.right, region)))
        return None

    def uncapped(self, region: TileRegion, cap: Unary) -> tuple[Value, Value]:
        """What a tanh is of, without what all of a tile's are multiplied by; and that."""
        b, (value, factors, divisors) = region.builder, multiplied(cap.value, set(self.attention.walked))
        scale = b.const(1.0, "f32")
        for factor in factors:
            scale = b.mul(scale, self.placing.value(factor, region))
        for divisor in divisors:
            scale = b.op("div", scale, self.placing.value(divisor, region))
        return self.placing.value(value, region), scale

    def capped(self, region: TileRegion, op: Unary) -> Value:
        """A tanh, 1 - 2 / (2^(x * 2 log2(e)) + 1), without the digits of one near 0."""
        b, unit, (value, scale) = region.builder, region.builder.const(1.0, "f32"), self.uncapped(region, op)
        power = b.op("exp2", b.mul(value, b.mul(scale, b.const(2 * LOG2_E, "f32"))), flags=("afn", "ftz"))
        return b.fma(b.op("div", unit, b.add(power, unit), flags=("afn", "ftz")), b.const(-2.0, "f32"), unit)

    def added(self, region: TileRegion, op: Reduce, total: Value, growth: Value) -> Value:
        b = region.builder
        value = self.placing.masked(self.placing.value(op.values[0], region), 0.0, [self.attention.along], region)
        flags = ("reassoc", "contract")
        return b.add(b.mul(total, growth, flags=flags), b.reduce("add", value, over=self.columns, flags=("reassoc",))[0], flags=flags)

    def weights(self, region: TileRegion) -> Value:
        return self.placing.masked(self.placing.value(self.attention.weight, region), 0.0, [self.attention.along], region)

    def signed(self, b: Builder, memory: Value, index: Sequence[Affine], sign: Value) -> None:
        """An element of a query times a sign."""
        value = b.mul(b.cast(b.load(memory, index), "f32"), sign)
        b.store(memory, b.cast(value, self.attention.dtype), index)

    def factored(
        self, b: Builder, region: TileRegion, turn_queries: Callable[[Builder, Value], None], begins: Value | None = None
    ) -> Value:
        """What scores are multiplied by in the exponents; a factor that isn't positive gives its sign to the queries, which
        `turn_queries` multiplies by it. `begins`: whether scores begin with their slope."""
        slope = self.attention.slope if begins is not None else None
        exponent = self.attention.exponent if slope is None else slope.exponent
        constant, unit, nothing = (b.const(number, "f32") for number in (exponent.constant, 1.0, 0.0))
        factor = self.multiplied_by(region, exponent)
        factor = factor if begins is None else b.select(begins, factor, unit)
        if exponent.signed:
            sign = sign_of(b, factor)
            with b.when(b.op("ne", sign, unit)) as body:
                turn_queries(body, sign)
            factor = b.select(b.op("eq", factor, nothing), unit, b.op("abs", factor))
        self.outer = factor
        return b.mul(factor, constant)

    def multiplied_by(self, region: TileRegion, exponent: Exponent) -> Value:
        """What the core is multiplied by, without the program's constant."""
        b = region.builder
        factor = b.const(1.0, "f32")
        for value in exponent.factors:
            factor = b.mul(factor, self.placing.value(value, region))
        for value in exponent.divisors:
            factor = b.op("div", factor, self.placing.value(value, region))
        return factor

    # ---- behind the sums ----

    def followed(
        self, group: Sequence[Target], region: TileRegion, walk: Walk, totals: Sequence[Value], output: Value, first: Affine
    ) -> None:
        """What follows the sums of the weights and of the values; the warp has features from the first on."""
        attention, column, (pair, feature) = self.attention, self.attention.value.axis, self.features
        region.forms[column] = first + self.across + Affine.of(feature) * 8 + pair
        if self.placing.field.axes[column].value != attention.width:
            region.masks[column] = self.placing.field.axes[column]
        for op, total in zip(self.sums, totals[1:], strict=True):
            region.made[op.results[0]] = self.total_of_row(region, op, total, totals[0]) if attention.rows_read else total
        if attention.rows_read:
            self.give_maximum(region, totals[0])
        if attention.strict:
            output = self.repaired(region, walk, totals[0], output)
        region.made[attention.weighted.results[0]] = output
        self.placing.produce(group, region, {})

    def total_of_row(self, region: TileRegion, op: Reduce, total: Value, maximum: Value) -> Value:
        """A sum of weights; where nothing but what is hidden was seen, whose exponents are -inf less -inf, it is NaN, and a maximum that is
        read says so."""
        b, attention, weight = region.builder, self.attention, op.values[0].source
        while isinstance(weight, Cast):
            weight = weight.value.source
        if attention.rule.start != -inf or not attention.exponent.is_weight(weight):
            return total
        nothing = b.op("eq", maximum, b.const(-inf, "f32"))
        keys = b.op("gt", b.index(self.placing.field.axes[attention.along]), b.const(0, "index"))
        return b.select(b.op("and", nothing, keys), b.const(nan, "f32"), total)

    def give_maximum(self, region: TileRegion, maximum: Value) -> None:
        """The maximum of what exponents are taken of, which lanes have without its factor."""
        b, rule = region.builder, self.attention.rule
        region.made[rule.maximum.results[0]] = most = b.mul(maximum, self.outer)
        if rule.total is not rule.maximum.results[0]:
            region.made[rule.total] = b.op("max", most, b.const(rule.start, "f32"))

    def repaired(self, region: TileRegion, walk: Walk, maximum: Value, output: Value) -> Value:
        """The sums, or where they are NaN those of the keys that are there and that no guard hides."""
        attention, base = self.attention, self.based(region.builder, maximum)

        def weighed(key: TileRegion) -> tuple[Value, Value]:
            score = self.score(key, attention.query, attention.key, attention.inner)
            if self.incline is not None and attention.slope is not None:
                score = key.builder.fma(self.incline, self.placing.value(attention.slope.distance.result, key), score)
            key.made[attention.scores.results[0]] = score
            self.bases[key] = self.placing.value(self.exponent.core, key), base
            return self.placing.value(attention.weight, key), self.placing.value(attention.value.load.results[0], key)

        return self.summed_again(region, walk, output, attention.exponent.guards, weighed)


def polynomial(b: Builder, value: Value, powers: Sequence[Value]) -> Value:
    """By its factors, that of the lowest power first."""
    total = powers[-1]
    for factor in powers[-2::-1]:
        total = b.fma(value, total, factor)
    return total


def over_lanes(b: Builder, operator: str, value: Value) -> Value:
    """Joined over the four lanes that have a row."""
    flags = ("reassoc",) if operator == "add" else ()
    for distance in (1, 2):
        value = b.op(operator, value, exchanged(b, value, distance), flags=flags)
    return value
