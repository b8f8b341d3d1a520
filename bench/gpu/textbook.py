"""Single operations of neural networks as a textbook writes them, in ZynML: sizes are names, strides and paddings are numbers."""

from collections.abc import Mapping, Sequence
from textwrap import indent

OUTER = ("y", "z", "w")
TAPS = ("q", "r", "t")
INNER = ("i", "j", "k")
EXTENTS = ("H", "W", "D")
WINDOW = ("Q", "R", "S")
"""Of one to three dimensions: indices of the result, of the window, of the input; extents of the input and of the window."""

AXES = ("i", "j", "k", "l", "m")
SIZES = ("A", "B", "C", "D", "E")


def function(parameters: Mapping[str, str], body: str, kind: str = "") -> str:
    """A function `f` of one block."""
    words = ", ".join(f"{name}: {type_}" for name, type_ in parameters.items())
    head = f"compute({', '.join(parameters)}){' ' if kind else ''}{kind} {{"
    return f"def f({words}) {{\n    {head}\n{indent(body.strip(), ' ' * 8)}\n    }}\n}}\n"


def tensor(*dims: str) -> str:
    return f"tensor[{', '.join(dims)}]"


# ---- maps -------------------------------------------------------------------------------------------------------------------

ACTIVATIONS = {
    "relu": "max({x}, 0.0)",
    "sigmoid": "1.0 / (1.0 + exp(-{x}))",
    "tanh": "tanh({x})",
    "swish": "{x} / (1.0 + exp(-{x}))",
    "gelu": "0.5 * {x} * (1.0 + erf({x} * 0.7071067811865476))",
    "tanh gelu": "0.5 * {x} * (1.0 + tanh(0.7978845608028654 * ({x} + 0.044715 * {x} * {x} * {x})))",
    "selu": "1.0507009873554805 * ({x} > 0.0 ? {x} : 1.6732632423543772 * (exp({x}) - 1.0))",
    "hard sigmoid": "min(max({x} + 3.0, 0.0), 6.0) / 6.0",
    "softplus": "log(1.0 + exp({x}))",
    "softsign": "{x} / (1.0 + abs({x}))",
    "hard tanh": "min(max({x}, -1.0), 1.0)",
}


def leaky_relu(slope: float) -> str:
    return f"{{x}} > 0.0 ? {{x}} : {slope} * {{x}}"


def elu(alpha: float) -> str:
    return f"{{x}} > 0.0 ? {{x}} : {alpha} * (exp({{x}}) - 1.0)"


def elementwise(rank: int, expression: str) -> str:
    index = ", ".join(AXES[:rank])
    loops = ", ".join(f"{axis} in 0..{size}" for axis, size in zip(AXES[:rank], SIZES[:rank], strict=True))
    return function({"x": tensor(*SIZES[:rank])}, f"for {loops}:\n    out[{index}] = {expression.format(x=f'x[{index}]')}")


SCALED = function({"x": tensor("M", "N"), "s": "f32"}, "for i in 0..M, j in 0..N:\n    out[i, j] = x[i, j] * s")

# ---- products ---------------------------------------------------------------------------------------------------------------


def product(a: Sequence[str], b: Sequence[str], result: Sequence[str], bounds: str = "0..K") -> str:
    """The sum over `k`, within bounds, of two operands whose dims are named."""

    def element(name: str, dims: Sequence[str]) -> str:
        return f"{name}[{', '.join(dims).lower()}]"

    loops = ", ".join(f"{dim.lower()} in 0..{dim}" for dim in result)
    body = f"""
for {loops}:
    var total = 0.0
    for k in {bounds}:
        total += {element("a", a)} * {element("b", b)}
    {element("out", result)} = total"""
    return function({"a": tensor(*a), "b": tensor(*b)}, body)


UPPER = (
    product("IK", "KJ", "IJ", "i..j + 1")
    .replace("[I, K]", "[N, N]")
    .replace("[K, J]", "[N, N]")
    .replace("0..I, j in 0..J", "0..N, j in 0..N")
)
LOWER = UPPER.replace("i..j + 1", "j..i + 1")
DIAGONAL = function({"a": tensor("N"), "b": tensor("N", "M")}, "for i in 0..N, j in 0..M:\n    out[i, j] = a[i] * b[i, j]")

ATTENTION = function(
    {name: tensor("B", "H", "N", "D") for name in "qkv"},
    """
for b in 0..B, h in 0..H, i in 0..N:
    var top = -inf
    for j in 0..N:
        var s = 0.0
        for d in 0..D: s += q[b, h, i, d] * k[b, h, j, d]
        top = max(top, s / sqrt(D as f32))
    var total = 0.0
    for j in 0..N:
        var s = 0.0
        for d in 0..D: s += q[b, h, i, d] * k[b, h, j, d]
        total += exp(s / sqrt(D as f32) - top)
    for c in 0..D:
        var o = 0.0
        for j in 0..N:
            var s = 0.0
            for d in 0..D: s += q[b, h, i, d] * k[b, h, j, d]
            o += exp(s / sqrt(D as f32) - top) * v[b, h, j, c]
        out[b, h, i, c] = o / total""",
)

# ---- rows, norms, reductions, scans -----------------------------------------------------------------------------------------

TOP = """
    var top = -inf
    for j in 0..N: top = max(top, x[i, j])
    var total = 0.0
    for j in 0..N: total += exp(x[i, j] - top)
"""

ROWS = {
    "softmax": TOP + "    for j in 0..N: out[i, j] = exp(x[i, j] - top) / total",
    "log softmax": TOP + "    for j in 0..N: out[i, j] = x[i, j] - top - log(total)",
    "l1 norm": """
    var total = 0.0
    for j in 0..N: total += abs(x[i, j])
    for j in 0..N: out[i, j] = x[i, j] / (total / N)""",
    "l2 norm": """
    var total = 0.0
    for j in 0..N: total += x[i, j] * x[i, j]
    for j in 0..N: out[i, j] = x[i, j] / sqrt(total)""",
    "sums so far": """
    var total = 0.0
    for j in 0..N:
        total += x[i, j]
        out[i, j] = total""",
    "products so far": """
    var total = 1.0
    for j in 0..N:
        total = total * x[i, j]
        out[i, j] = total""",
    "sums from the end": """
    var total = 0.0
    for j in 0..N:
        total += x[i, N - 1 - j]
        out[i, N - 1 - j] = total""",
    "sums before": """
    var total = 0.0
    for j in 0..N:
        out[i, j] = total
        total += x[i, j]""",
}
"""What is done in each row."""

MASKED_SUMS = function(
    {"x": tensor("M", "N"), "mask": "tensor[M, N, bool]"},
    "for i in 0..M:\n    var total = 0.0\n    for j in 0..N:\n        if mask[i, j]: total += x[i, j]\n        out[i, j] = total",
)


def of_rows(name: str) -> str:
    return function({"x": tensor("M", "N")}, f"for i in 0..M:\n{ROWS[name].lstrip(chr(10))}")


RMS_NORM = """
for n in 0..N, y in 0..H, z in 0..W:
    var total = 0.0
    for c in 0..C: total += x[n, c, y, z] * x[n, c, y, z]
    for c in 0..C: out[n, c, y, z] = x[n, c, y, z] / sqrt(total / C + EPSILON)"""


def rms_norm(epsilon: float) -> str:
    return function({"x": tensor("N", "C", "H", "W")}, RMS_NORM.replace("EPSILON", f"{epsilon}"))


def standardised(outer: str, inner: str, index: str, count: str, epsilon: float, after: str = "{value}") -> str:
    """Loops whose elements lose their mean and get a variance of 1, in each turn of the outer ones."""
    return f"""
for {outer}:
    var total = 0.0
    for {inner}: total += x[{index}]
    let mean = total / ({count})
    var squares = 0.0
    for {inner}:
        let d = x[{index}] - mean
        squares += d * d
    let scale = 1.0 / sqrt(squares / ({count}) + {epsilon})
    for {inner}: out[{index}] = {after.format(value=f"(x[{index}] - mean) * scale")}"""


PICTURES = {"x": tensor("N", "C", "H", "W")}
PIXELS = "y in 0..H, z in 0..W"


def batch_norm(epsilon: float) -> str:
    body = standardised("c in 0..C", f"n in 0..N, {PIXELS}", "n, c, y, z", "N * H * W", epsilon, "{value} * weight[c] + bias[c]")
    return function({**PICTURES, "weight": tensor("C"), "bias": tensor("C")}, body)


def instance_norm(epsilon: float) -> str:
    return function(PICTURES, standardised("n in 0..N, c in 0..C", PIXELS, "n, c, y, z", "H * W", epsilon))


def group_norm(epsilon: float) -> str:
    index, after = "n, g * (C / G) + o, y, z", "{value} * weight[g * (C / G) + o] + bias[g * (C / G) + o]"
    body = standardised("n in 0..N, g in 0..G", f"o in 0..C / G, {PIXELS}", index, "C / G * H * W", epsilon, after)
    return function({**PICTURES, "weight": tensor("C"), "bias": tensor("C"), "G": "int"}, body)


def layer_norm(epsilon: float) -> str:
    """Over all axes but the first."""
    index = "c, y, z"
    body = standardised(
        "n in 0..N", f"c in 0..C, {PIXELS}", f"n, {index}", "C * H * W", epsilon, f"{{value}} * weight[{index}] + bias[{index}]"
    )
    return function({**PICTURES, "weight": tensor("C", "H", "W"), "bias": tensor("C", "H", "W")}, body)


FROBENIUS = """def f(x: tensor[N, C, H, W]) {
    let total = compute(x) {
        for n in 0..N, c in 0..C, y in 0..H, z in 0..W: yield x[n, c, y, z] * x[n, c, y, z]
    }
    compute(x, total) {
        for n in 0..N, c in 0..C, y in 0..H, z in 0..W: out[n, c, y, z] = x[n, c, y, z] / sqrt(total)
    }
}
"""

REDUCTIONS = {
    "sum": ("var total = 0.0", "total += {x}", "total"),
    "mean": ("var total = 0.0", "total += {x}", "total / N"),
    "max": ("var total = -inf", "total = max(total, {x})", "total"),
    "min": ("var total = inf", "total = min(total, {x})", "total"),
    "argmax": ("var best = -inf\nvar at = 0", "if {x} > best:\n    best = {x}\n    at = n", "at"),
    "argmin": ("var best = inf\nvar at = 0", "if {x} < best:\n    best = {x}\n    at = n", "at"),
}
"""What begins, what is done with each element, and what is stored."""


def reduction(name: str, rank: int, axis: int, kept: bool = False) -> str:
    """Along an axis, which stays with extent 1 where it is `kept`."""
    start, step, stop = REDUCTIONS[name]
    axes = ["n" if position == axis else AXES[position] for position in range(rank)]
    sizes = ["N" if position == axis else SIZES[position] for position in range(rank)]
    outer = ", ".join(f"{index} in 0..{size}" for index, size in zip(axes, sizes, strict=True) if index != "n")
    stored = ", ".join("0" if index == "n" else index for index in axes if kept or index != "n")
    lines = [start, "for n in 0..N:", indent(step.format(x=f"x[{', '.join(axes)}]"), "    "), f"out[{stored}] = {stop}"]
    return function({"x": tensor(*sizes)}, f"for {outer}:\n" + indent("\n".join(lines), "    "))


# ---- losses -----------------------------------------------------------------------------------------------------------------

PAIR = {"p": tensor("M", "N"), "t": tensor("M", "N")}
MEAN = "@kernel(reduce, mean)"

LOSSES = {
    "mean square": function(PAIR, "for i in 0..M, j in 0..N:\n    let d = p[i, j] - t[i, j]\n    yield d * d", MEAN),
    "huber": function(
        PAIR, "for i in 0..M, j in 0..N:\n    let d = abs(p[i, j] - t[i, j])\n    yield d < 1.0 ? 0.5 * d * d : d - 0.5", MEAN
    ),
    "divergence": function(
        PAIR, "for i in 0..M, j in 0..N: yield t[i, j] * (log(t[i, j]) - log(p[i, j])) / M", "@kernel(reduce, +)"
    ),
    "hinge": function({**PAIR, "t": tensor("N")}, "for i in 0..M, j in 0..N: yield max(1.0 - p[i, j] * t[j], 0.0)", MEAN),
    "cross entropy": function(
        {**PAIR, "t": "tensor[M, i64]"},
        """
for i in 0..M:
    var top = -inf
    for j in 0..N: top = max(top, p[i, j])
    var total = 0.0
    for j in 0..N: total += exp(p[i, j] - top)
    yield top + log(total) - p[i, t[i]]""",
        MEAN,
    ),
}  # fmt: skip


def triplet(margin: float) -> str:
    return function(
        {name: tensor("M", "N") for name in ("a", "p", "n")},
        f"""
for i in 0..M:
    var near = 0.0
    var far = 0.0
    for j in 0..N:
        let d = a[i, j] - p[i, j] + 0.000001
        let e = a[i, j] - n[i, j] + 0.000001
        near += d * d
        far += e * e
    yield max(sqrt(near) - sqrt(far) + {margin}, 0.0)""",
        MEAN,
    )


# ---- windows ----------------------------------------------------------------------------------------------------------------


def scaled(words: str, factor: int) -> str:
    return words if factor == 1 else f"{words} * {factor}"


def shifted(words: str, by: int) -> str:
    return words if by == 0 else f"{words} {'-' if by < 0 else '+'} {abs(by)}"


def windowed(
    rank: int, window: Sequence[str], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> tuple[str, str, str, str]:
    """Of a window that moves over a picture: the loops over the result and over the window, the lines in front of a read and its index."""
    extents, places, lines, tests = [], [], [], []
    for axis in range(rank):
        reach = (
            scaled(f"({window[axis]} - 1)", dilation[axis]) if not window[axis].isdigit() else str((int(window[axis]) - 1) * dilation[axis])
        )
        room = f"{shifted(EXTENTS[axis], 2 * padding[axis])} - {reach}"
        extents.append(f"{OUTER[axis]} in 0..{f'({room} - 1) / {stride[axis]} + 1' if stride[axis] > 1 else room}")
        place = shifted(f"{scaled(OUTER[axis], stride[axis])} + {scaled(TAPS[axis], dilation[axis])}", -padding[axis])
        if padding[axis]:
            lines.append(f"let {INNER[axis]} = {place}")
            tests.append(f"{INNER[axis]} >= 0 and {INNER[axis]} < {EXTENTS[axis]}")
            place = INNER[axis]
        places.append(place)
    if tests:
        lines.append(f"if {' and '.join(tests)}:")
    taps = ", ".join(f"{TAPS[axis]} in 0..{window[axis]}" for axis in range(rank))
    return ", ".join(extents), taps, "\n".join(lines), ", ".join(places)


def guarded(lines: str, statement: str) -> str:
    """A statement behind lines, of which the last may be a condition."""
    if not lines:
        return statement
    return f"{lines}\n    {statement}" if lines.endswith(":") else f"{lines}\n{statement}"


def convolution(rank: int, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], bias: bool = False) -> str:
    outer, taps, lines, place = windowed(rank, WINDOW[:rank], stride, padding, dilation)
    step = guarded(lines, f"total += x[n, c, {place}] * weight[o, c, {', '.join(TAPS[:rank])}]")
    body = f"""
for n in 0..N, o in 0..O, {outer}:
    var total = {"bias[o]" if bias else "0.0"}
    for c in 0..C, {taps}:
{indent(step, " " * 8)}
    out[n, o, {", ".join(OUTER[:rank])}] = total"""
    parameters = {"x": tensor("N", "C", *EXTENTS[:rank]), "weight": tensor("O", "C", *WINDOW[:rank])}
    return function(parameters | ({"bias": tensor("O")} if bias else {}), body)


def depthwise(rank: int, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> str:
    outer, taps, lines, place = windowed(rank, WINDOW[:rank], stride, padding, dilation)
    step = guarded(lines, f"total += x[n, c, {place}] * weight[c, {', '.join(TAPS[:rank])}]")
    body = f"""
for n in 0..N, c in 0..C, {outer}:
    var total = 0.0
    for {taps}:
{indent(step, " " * 8)}
    out[n, c, {", ".join(OUTER[:rank])}] = total"""
    return function({"x": tensor("N", "C", *EXTENTS[:rank]), "weight": tensor("C", *WINDOW[:rank])}, body)


def separable(stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> str:
    """A depthwise window, then a product over the channels."""
    first = depthwise(2, stride, padding, dilation).replace("def f(", "def by_channel(")
    second = """def f(x: tensor[N, C, H, W], weight: tensor[C, Q, R], point: tensor[O, C]) {
    let middle = by_channel(x, weight)
    compute(middle, point) {
        for n in 0..N, o in 0..O, y in 0..Y, z in 0..Z:
            var total = 0.0
            for c in 0..C:
                total += middle[n, c, y, z] * point[o, c]
            out[n, o, y, z] = total
    }
}
"""
    return first + second


def transposed(
    rank: int, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], beyond: Sequence[int], grouped: bool = False
) -> str:
    """A transposed convolution, gathered. `beyond`: the padding of the result."""
    outer, lines, tests, places = [], [], [], []
    for axis in range(rank):
        s, p, d, y, i = stride[axis], padding[axis], dilation[axis], OUTER[axis], INNER[axis]
        reach = scaled(f"({WINDOW[axis]} - 1)", d)
        extent = f"{scaled(f'({EXTENTS[axis]} - 1)', s)} + {reach}"
        outer.append(f"{y} in 0..{shifted(extent, 1 + beyond[axis] - 2 * p)}")
        lines.append(f"let {i} = {shifted(y, p)} - {scaled(TAPS[axis], d)}")
        tests.append(f"{i} >= 0 and {i} < {EXTENTS[axis]}" if s == 1 else f"{i} >= 0 and {i} % {s} == 0 and {i} / {s} < {EXTENTS[axis]}")
        places.append(i if s == 1 else f"{i} / {s}")
    channel = "g * (C / G) + c" if grouped else "c"
    step = f"total += x[n, {channel}, {', '.join(places)}] * weight[{channel}, o, {', '.join(TAPS[:rank])}]"
    inner = guarded("\n".join([*lines, f"if {' and '.join(tests)}:"]), step)
    body = f"""
for n in 0..N, {"g in 0..G, " if grouped else ""}o in 0..O, {", ".join(outer)}:
    var total = 0.0
    for c in 0..{"C / G" if grouped else "C"}, {", ".join(f"{TAPS[axis]} in 0..{WINDOW[axis]}" for axis in range(rank))}:
{indent(inner, " " * 8)}
    out[n, {"g * O + o" if grouped else "o"}, {", ".join(OUTER[:rank])}] = total"""
    parameters = {"x": tensor("N", "C", *EXTENTS[:rank]), "weight": tensor("C", "O", *WINDOW[:rank])}
    return function(parameters | ({"G": "int"} if grouped else {}), body)


def pool(rank: int, window: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], mean: bool) -> str:
    """The maximum of windows, or the mean with zeros outside of the picture."""
    outer, taps, lines, place = windowed(rank, [str(extent) for extent in window], stride, padding, dilation)
    element = f"x[n, c, {place}]"
    step = guarded(lines, f"total += {element}" if mean else f"total = max(total, {element})")
    count = 1
    for extent in window:
        count *= extent
    body = f"""
for n in 0..N, c in 0..C, {outer}:
    var total = {"0.0" if mean else "-inf"}
    for {taps}:
{indent(step, " " * 8)}
    out[n, c, {", ".join(OUTER[:rank])}] = total{f" / {count}" if mean else ""}"""
    return function({"x": tensor("N", "C", *EXTENTS[:rank])}, body)
