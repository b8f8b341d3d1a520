"""Maps with broadcasts and casts, permutations of axes, reductions over any axes, and rows that are normalised."""

from typing import Any

import numpy as np

from tests.random_cases.case import Array, Case, Draw, wide

FLOATS = ("f32", "f32", "bf16", "f16", "f64")
MAPS = {
    "{x} * 2.0 + {y}": (lambda x, y: x * 2 + y, lambda x, y: abs(x) * 2 + abs(y)),
    "max({x}, {y}) - 0.5": (lambda x, y: np.maximum(x, y) - 0.5, lambda x, y: abs(x) + abs(y) + 0.5),
    "if {x} > {y} {{ {x} * {x} }} else {{ {y} }}": (lambda x, y: np.where(x > y, x * x, y), lambda x, y: x * x + abs(y)),
    "if {x} <= {y} {{ {y} }} else {{ {x} - {y} }}": (lambda x, y: np.where(x <= y, y, x - y), lambda x, y: abs(x) + 2 * abs(y)),
    "{x} >= {y} ? {x} : {y} * 0.5": (lambda x, y: np.where(x >= y, x, y * 0.5), lambda x, y: abs(x) + abs(y)),
    "{x} * sigmoid({y})": (lambda x, y: x / (1 + np.exp(-y)), lambda x, y: abs(x) * (1 + abs(y))),
    "tanh({x}) + exp({y} * 0.5)": (lambda x, y: np.tanh(x) + np.exp(y * 0.5), lambda x, y: 1 + (1 + abs(y)) * np.exp(y * 0.5)),
    "abs({x} - {y})": (lambda x, y: abs(x - y), lambda x, y: abs(x) + abs(y)),
}
"""And what their terms amount to."""


def map_(draw: Draw) -> Case:
    types = str(draw.one((*FLOATS, "i32", "i64")))
    whole = types[0] == "i"
    text = str(draw.one([text for text in MAPS if not whole or "{y})" not in text.replace("abs({x} - {y})", "")]))
    if whole:
        text = "abs({x} - {y})"
    rank = draw.extent(4) if not draw.tiny else int(draw.one((1, 2, 3)))
    rank = min(rank, 4)
    extents = draw.extents(rank, 1 << 22)
    names = [draw.name() for _ in range(rank)]
    kept = [axis for axis in range(rank) if draw.often(0.6)] or [int(draw.chance.integers(rank))]
    order = [int(axis) for axis in draw.chance.permutation(rank)] if draw.often(0.3) else [*range(rank)]
    x = draw.array(types, [extents[axis] for axis in order])
    y = draw.array(types, [extents[axis] for axis in kept])
    value = text.format(x=f"X[{', '.join(names[axis] for axis in order)}]", y=f"Y[{', '.join(names[axis] for axis in kept)}]")
    loops = draw.loops([f"{name} in 0..S{axis}" for axis, name in enumerate(names)], f"out[{', '.join(names)}] = {value}", "        ")
    source = f"""
def f(X: tensor[{", ".join(f"S{axis}" for axis in order)}, {types}], Y: tensor[{", ".join(f"S{axis}" for axis in kept)}, {types}]) {{
    compute(X, Y) -> tensor[{", ".join(f"S{axis}" for axis in range(rank))}, {types}] {{
{loops}
    }}
}}"""

    def both() -> tuple[Any, Any]:
        left = np.transpose(x if whole else wide(x), np.argsort(order))
        right = (y if whole else wide(y)).reshape([extents[axis] if axis in kept else 1 for axis in range(rank)])
        return left, right

    def wanted() -> Array:
        return np.broadcast_to(MAPS[text][0](*both()), extents)

    # each step of a map in 16 bits is rounded; functions may be off by units in the last place
    coarse = {"bf16": 2.0**-7, "f16": 2.0**-10}.get(types, 1e-6) / 1e-6
    words = f"{types}, {'x'.join(map(str, extents))}, {text}"
    layouts = [draw.layout(x), draw.layout(y)]

    def magnitude() -> Array:
        return np.broadcast_to(MAPS[text][1](*both()), extents) * coarse

    return Case("map", source, [x, y], wanted, magnitude, 4, whole, layouts, words)


def permutation(draw: Draw) -> Case:
    types = str(draw.one(("bf16", "f32", "f64", "i8", "i32", "f16", "u8", "i64")))
    rank = int(draw.one((2, 2, 3, 4)))
    extents = draw.extents(rank, 1 << 22)
    order = [int(axis) for axis in draw.chance.permutation(rank)]
    names = [draw.name() for _ in range(rank)]
    x = draw.array(types, extents)
    body = f"out[{', '.join(names[axis] for axis in order)}] = X[{', '.join(names)}]"
    loops = draw.loops([f"{name} in 0..S{axis}" for axis, name in enumerate(names)], body, "        ")
    source = f"""
def f(X: tensor[{", ".join(f"S{axis}" for axis in range(rank))}, {types}]) {{
    compute(X) {{
{loops}
    }}
}}"""
    words = f"{types}, {'x'.join(map(str, extents))} to {order}"
    return Case("permutation", source, [x], lambda: np.transpose(x, order), exact=True, layouts=[draw.layout(x)], words=words)


def reduction(draw: Draw) -> Case:
    op = str(draw.one(("+", "+", "+", "min", "max", "mean", "argmax", "argmin", "*")))
    types = str(draw.one(("f32", "f32", "bf16", "f64", "f16", *(("i8", "i16") if op == "+" else ())) if op in ("+", "mean", "*") else ("f32", "i32", "bf16", "f64", "i64")))
    rank = int(draw.one((1, 2, 2, 2, 3)))
    extents = draw.extents(rank, 1 << 22, zeros=op in "+*")
    axis = int(draw.chance.integers(rank))
    everything = draw.often(0.25) and not op.startswith("arg")
    names = [draw.name() for _ in range(rank)]
    x = draw.array(types, extents)
    if op == "*":
        x = np.where(draw.chance.random(extents) < 0.5, 1, -1).astype(x.dtype)
    where = f", axis={axis}" if not everything and (rank > 1 or draw.often(0.5)) else ""
    everything = not where
    element = f"X[{', '.join(names)}]"
    value = element
    square = op == "+" and draw.often(0.4)
    if square:
        value = f"{element} * {element}"
    if op.startswith("arg"):
        value = f"({element}, {names[axis]})"
    loops = ", ".join(f"{name} in 0..S{number}" for number, name in enumerate(names))
    source = f"""
def f(X: tensor[{", ".join(f"S{number}" for number in range(rank))}, {types}]) {{
    compute(X) @kernel reduce({op}{where}) {{ for {loops}: yield {value} }}
}}"""
    if op.startswith("arg") and everything:
        axis = 0
    over: Any = None if everything else axis

    def wanted() -> Any:
        values = wide(x) if x.dtype.kind not in "iub" else x
        if op == "+" and values.dtype.kind == "i":
            values = values.astype(np.int64)  # what ints sum in, and so what they are squared in
        terms = values * values if square else values
        match op:
            case "+":
                return np.asarray(terms.sum(over))
            case "*":
                return np.asarray(terms.prod(over))
            case "mean":
                return np.asarray(terms.mean(over))
            case "min" | "max":
                return np.asarray(getattr(values, op)(over))
            case _:
                place = getattr(values, op)(axis)
                return np.take_along_axis(values, np.expand_dims(place, axis), axis).squeeze(axis), place

    def magnitude() -> Any:
        values = abs(wide(x))
        total = (values * values if square else values).sum(over)
        return total / (max(1, x.size if everything else x.shape[axis]) if op == "mean" else 1)

    terms = max(1, x.size if everything else x.shape[axis])
    words = f"{op} of {types}, {'x'.join(map(str, extents))}, {'all' if everything else f'axis {axis}'}{', squares' if square else ''}"
    summed = op in ("+", "mean") and x.dtype.kind not in "iu"
    exact = op == "+" and x.dtype.kind in "iu"
    return Case("reduction", source, [x], wanted, magnitude if summed else None, terms, exact, [draw.layout(x)], words)


def sides(draw: Draw) -> Case:
    """A sum that only the other side of a branch adds to, or either side adds something else to; of one memory or of two."""
    types = str(draw.one(("f32", "f64", "i8", "i16", "i32")))
    m, n = draw.extents(2, 1 << 20, zeros=False)
    i, j = draw.name(), draw.name()
    sign = str(draw.one((">", ">=", "<", "<=")))
    x, y = (draw.array(types, (m, n), whole=True) for _ in range(2))
    if draw.often(0.4):
        y = x
    both = draw.often(0.5)
    element, other = f"X[{i}, {j}]", f"Y[{i}, {j}]"
    zero = "0.0" if types[0] == "f" else "0"
    source = f"""
def f(X: tensor[M, N, {types}], Y: tensor[M, N, {types}]) {{
    compute(X, Y) {{
        for {i} in 0..M:
            var s = {zero}
            for {j} in 0..N:
                if {element} {sign} {other} {{ {f"s -= {other}" if both else ""} }} else {{ s += {element} }}
            out[{i}] = s
    }}
}}"""

    def wanted() -> Array:
        left, right = (wide(v) for v in (x, y))
        holds = {">": left > right, ">=": left >= right, "<": left < right, "<=": left <= right}[sign]
        total = np.asarray(np.where(holds, -right if both else 0, left).sum(1))
        return total.astype({"i8": np.int32, "i16": np.int32}.get(types, x.dtype))

    layouts = [draw.layout(x)] * 2
    return Case("sides", source, [x, y], wanted, exact=True, layouts=layouts, words=f"{types}, {m}x{n}, {sign}, {'both' if both else 'else'}")


ROWS = {
    "softmax": """var m = -inf
for J in 0..N: m = max(m, X[I, J])
var s = 0.0
for J in 0..N: s += exp(X[I, J] - m)
for J in 0..N: out[I, J] = exp(X[I, J] - m) / s""",
    "rms norm": """var s = 0.0
for J in 0..N: s += X[I, J] * X[I, J]
let r = rsqrt(s / (N as f32) + 0.00001)
for J in 0..N: out[I, J] = X[I, J] * r * W[J]""",
    "layer norm": """var t = 0.0
for J in 0..N: t += X[I, J]
let mean = t / (N as f32)
var s = 0.0
for J in 0..N: s += (X[I, J] - mean) * (X[I, J] - mean)
let r = rsqrt(s / (N as f32) + 0.01)
for J in 0..N: out[I, J] = (X[I, J] - mean) * r""",
    "centred": """var t = 0.0
for J in 0..N: t += X[I, J]
for J in 0..N: out[I, J] = X[I, J] - t / (N as f32)""",
}


def rows(draw: Draw) -> Case:
    name = str(draw.one(list(ROWS)))
    types = str(draw.one(("f32", "bf16", "f16")))
    n = draw.extent(64 if draw.tiny else 1024) if draw.often(0.7) or draw.tiny else int(draw.one((2048, 4099, 8192, 20000, 33000)))
    m = draw.extent(max(1, min(1024, (1 << 21) // n)))
    i, j = draw.name(), draw.name()
    x, w = draw.array(types, (m, n)), draw.array(types, (n,))
    weighted = "W[" in ROWS[name]
    body = ROWS[name].replace("[I, J]", f"[{i}, {j}]").replace("[J]", f"[{j}]").replace("for J in", f"for {j} in")
    indented = "\n".join("            " + line for line in body.split("\n"))
    source = f"""
def f(X: tensor[M, N, {types}]{f", W: tensor[N, {types}]" if weighted else ""}) {{
    compute(X{", W" if weighted else ""}) -> tensor[M, N, {types}] {{
        for {i} in 0..M:
{indented}
    }}
}}"""

    def wanted() -> Array:
        v = wide(x)
        match name:
            case "softmax":
                powers = np.exp(v - v.max(1, keepdims=True))
                return np.asarray(powers / powers.sum(1, keepdims=True))
            case "rms norm":
                return np.asarray(v / np.sqrt((v * v).mean(1, keepdims=True) + 1e-5) * wide(w))
            case "layer norm":
                away = v - v.mean(1, keepdims=True)
                return np.asarray(away / np.sqrt((away * away).mean(1, keepdims=True) + 1e-2))
            case _:
                return np.asarray(v - v.mean(1, keepdims=True))

    def magnitude() -> Array:
        v = wide(x)
        match name:
            case "softmax":
                return np.asarray(wanted() * (4 + abs(v) + abs(v).max(1, keepdims=True)))
            case "rms norm":
                return np.asarray(4 * abs(wanted()))
            case "layer norm":
                return np.asarray(40 * (abs(v) + abs(v).mean(1, keepdims=True)))
            case _:
                return np.asarray(abs(v) + abs(v).mean(1, keepdims=True))

    given = [x, w] if weighted else [x]
    return Case("rows", source, given, wanted, magnitude, n, layouts=[draw.layout(v) for v in given], words=f"{name} {types}, {m}x{n}")
