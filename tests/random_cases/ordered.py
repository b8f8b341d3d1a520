"""Scans in both directions along any axis, and stable sorts with what goes along."""

import numpy as np

from tests.random_cases.case import Array, Case, Draw, wide

ACCUMULATE = {"+": np.add, "max": np.maximum, "min": np.minimum}


def scan(draw: Draw) -> Case:
    op = str(draw.one(("+", "+", "+", "max", "min")))
    types = str(draw.one(("f32", "f32", "f64", "i32", "i64", "bf16")))
    rank = int(draw.one((1, 1, 2, 2, 3)))
    extents = draw.extents(rank, 1 << 22)
    axis = int(draw.chance.integers(rank))
    reverse, exclusive = draw.often(0.25), op == "+" and draw.often(0.3)
    names = [draw.name() for _ in range(rank)]
    x = draw.array(types, extents)
    options = f", axis={axis}{', reverse=true' if reverse else ''}{', exclusive=true' if exclusive else ''}"
    loops = ", ".join(f"{name} in 0..S{number}" for number, name in enumerate(names))
    source = f"""
def f(X: tensor[{", ".join(f"S{number}" for number in range(rank))}, {types}]) {{
    compute(X) @kernel scan({op}{options}) {{ for {loops}: yield X[{", ".join(names)}] }}
}}"""

    def along(values: Array) -> Array:
        values = np.flip(values, axis) if reverse else values
        made = ACCUMULATE[op].accumulate(values, axis=axis)
        if exclusive:
            made = made - values
        return np.flip(made, axis) if reverse else made

    def wanted() -> Array:
        return along((x.astype(np.int64) if op == "+" else x) if x.dtype.kind in "iu" else wide(x))

    def magnitude() -> Array:
        values = abs(wide(x))
        return ACCUMULATE["+"].accumulate(np.flip(values, axis) if reverse else values, axis=axis) if not reverse else np.flip(
            np.add.accumulate(np.flip(values, axis), axis=axis), axis
        )

    words = f"{op} of {types}, {'x'.join(map(str, extents))}{options}"
    terms = max(1, extents[axis])
    return Case("scan", source, [x], wanted, magnitude if op == "+" else None, terms, layouts=[draw.layout(x)], words=words)


def sort(draw: Draw) -> Case:
    types = str(draw.one(("i32", "f32", "i64", "f64", "u8", "i8", "f16", "bf16", "u32")))
    rank = int(draw.one((1, 1, 1, 2)))
    extents = draw.extents(rank, 1 << 20)
    axis = int(draw.chance.integers(rank))
    down, pairs, few = draw.often(0.3), draw.often(0.5), draw.often(0.4)
    names = [draw.name() for _ in range(rank)]
    x = draw.array(types, extents, whole=few)
    if types[0] in "iu" and not few:
        info = np.iinfo(x.dtype)
        x = draw.chance.integers(info.min, info.max, extents, x.dtype, endpoint=True)
    along = draw.chance.integers(-1000, 1000, extents).astype(np.int32)
    options = f", axis={axis}{', descending=true' if down else ''}"
    loops = ", ".join(f"{name} in 0..S{number}" for number, name in enumerate(names))
    shape = ", ".join(f"S{number}" for number in range(rank))
    index = ", ".join(names)
    source = f"""
def f(X: tensor[{shape}, {types}]{f", Y: tensor[{shape}, i32]" if pairs else ""}) {{
    compute(X{", Y" if pairs else ""}) @kernel(sort{options}) {{ for {loops}: yield {f"(X[{index}], Y[{index}])" if pairs else f"X[{index}]"} }}
}}"""

    def wanted() -> Array | tuple[Array, Array]:
        values = wide(x) if x.dtype.kind not in "iu" else x
        if down and x.dtype.kind in "iu":
            place = np.flip(x.shape[axis] - 1 - np.argsort(np.flip(values, axis), axis, kind="stable"), axis)
        else:
            place = np.argsort(-values if down else values, axis, kind="stable")
        keys = np.take_along_axis(x, place, axis)
        return (keys, np.take_along_axis(along, place, axis)) if pairs else keys

    words = f"{types}, {'x'.join(map(str, extents))}{options}{', pairs' if pairs else ''}"
    given = [x, along] if pairs else [x]
    return Case("sort", source, given, wanted, exact=True, layouts=[draw.layout(v) for v in given], words=words)
