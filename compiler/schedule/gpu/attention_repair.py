"""What follows the sums of attention. Where they met what they must not, they are repaired first: a tile's products are of all its keys,
and a weight of 0 times a value that is infinite or NaN is NaN, where the nest never reads that value. Rows with a NaN are summed once more,
key by key, with the weights that they had."""

from collections.abc import Sequence

from compiler.hir.affine import Affine
from compiler.hir.core import IsNan
from compiler.hir.gpu import Vote
from compiler.hir.instruction import Value
from compiler.schedule.gpu.attention_walk import Walk
from compiler.schedule.gpu.attention_weights import AttendingBlock
from compiler.schedule.region import Target, TileRegion


def followed(
    block: AttendingBlock, group: Sequence[Target], region: TileRegion, walk: Walk, totals: Sequence[Value], output: Value, first: Affine
) -> None:
    """What follows the sums of the weights and of the values; the warp has features from the first on."""
    attention, column, (pair, feature) = block.attention, block.attention.value.axis, block.features
    region.forms[column] = first + block.across + Affine.of(feature) * 8 + pair
    if block.placing.field.axes[column].value != attention.width:
        region.masks[column] = block.placing.field.axes[column]
    for op, total in zip(block.sums, totals[1:], strict=True):
        region.made[op.results[0]] = total
    if attention.strict:
        output = repaired(block, region, walk, totals[0], output)
    region.made[attention.weighted.results[0]] = output
    block.placing.produce(group, region, {})


def repaired(block: AttendingBlock, region: TileRegion, walk: Walk, maximum: Value, output: Value) -> Value:
    """The sums, or where they are NaN those of the keys that are there and that no guard hides."""
    b, attention = region.builder, block.attention
    wrong = b.emit(IsNan(value=output)).result
    (any_wrong,) = b.reduce("or", wrong, over=(*block.features, *block.rows))
    with b.branch(b.emit(Vote(operation="any", predicate=any_wrong)).result, [output.type]) as (again, fine, chosen):
        first = again.index((Affine.of(walk.last.name) - walk.turns.name) * attention.terms)
        end = again.op(
            "min", again.index(Affine.of(walk.last.name) * attention.terms), again.index(block.placing.field.axes[attention.along])
        )
        base = block.based(again, maximum)
        with again.loop("key", first.name, end.name, carried=[again.const(0.0, output.type)]) as (body, loop):
            key = region.inside(body, (attention.along,))
            key.forms[attention.along] = Affine.of(loop.variable.name)
            key.made[attention.scores.results[0]] = _score(block, key)
            block.bases[key] = block.placing.value(attention.exponent.core, key), base
            weight, value = (block.placing.value(factor, key) for factor in (attention.weight, attention.value.load.results[0]))
            product = body.mul(body.cast(weight, "f32"), body.cast(value, "f32"))
            for guard in attention.exponent.guards:
                product = body.select(block.placing.value(guard, key), product, body.const(0.0, "f32"))
            body.yield_(body.add(loop.carried[0], product))
        again.yield_(again.select(wrong, loop.results[0], output))
        fine.yield_(output)
    return chosen.results[0]


def _score(block: AttendingBlock, region: TileRegion) -> Value:
    """The sum of products of the thread's rows and one key."""
    attention, b = block.attention, region.builder
    rows = block.tile_of_rows("f32")
    extent = block.placing.field.axes[attention.inner]
    with b.loop("element", 0, extent, carried=[b.const(0.0, rows)]) as (body, loop):
        inner = region.inside(body, (attention.inner,))
        inner.forms[attention.inner] = Affine.of(loop.variable.name)
        query, key = (body.cast(block.placing.value(side.load.results[0], inner), "f32") for side in (attention.query, attention.key))
        body.yield_(body.fma(query, key, loop.carried[0]))
    return loop.results[0]
