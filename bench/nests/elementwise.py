"""Families whose elements are computed each by itself: maps, windows, transposes, gathers."""

import ast
import math
from typing import Any

from bench.nests.form import BYTES, DTYPES, FLOATS, GATHERED, INTS, BenchNest, Chance, Lookups, Operand, extremes, slots, unit_of

AXES = "ijkl"
EXTENTS = ("A", "B", "C", "D")

FLOAT_MAPS = (
    "x * 1.5 + y",
    "max(x, 0.0) * y + 0.25",
    "x / (1.0 + exp(-x))",
    "tanh(x) * y",
    "sqrt(abs(x)) + y",
    "0.5 * x * (1.0 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)))",
    "log(1.0 + exp(x))",
    "exp(-x * x) + y",
    "0.5 * x * (1.0 + erf(x * 0.70710678))",
    "x * y + z",
    "min(max(x, -1.0), 1.0) * z - y",
    "x if x > y else 0.1 * y",
)
INT_MAPS = ("x * 3 + 1", "max(x, y) + z", "min(x, y) * 2", "x + y", "x if x > y else y + 2")

NUMPY_WORDS = {"max": "maximum", "min": "minimum"}


def nested(axes: str, extents: tuple[str, ...], *lines: str) -> str:
    """Loops over axes in each other, around lines."""
    text = [f"{'    ' * depth}for {axis} in range({extent}):" for depth, (axis, extent) in enumerate(zip(axes, extents, strict=True))]
    return "\n".join([*text, *("    " * len(axes) + line for line in lines)])


def maps(chance: Chance) -> BenchNest:
    dtype = chance.pick(DTYPES)
    expression = chance.pick(FLOAT_MAPS if dtype in FLOATS else INT_MAPS)
    names = [name for name in "xyz" if name in expression.replace("exp", "").replace("max", "")]
    rank = chance.pick((1, 2, 2, 3, 4))
    along = "y" in names and rank > 1 and chance.random.random() < 0.3
    full = len(names) - along
    dims = chance.extents(chance.traffic / ((full + 1) * BYTES[dtype]), rank)
    extents, axes = EXTENTS[:rank], AXES[:rank]
    operands = {
        name: Operand(extents[-1:], dtype, chance.content(dtype))
        if along and name == "y"
        else Operand(extents, dtype, chance.content(dtype), chance.layout() if rank > 1 else "rows")
        for name in names
    }
    index = ", ".join(axes)
    words = {name: f"{name}[{axes[-1] if along and name == 'y' else index}]" for name in names}

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        return evaluated(expression, library, inputs)

    line = f"out[{index}] = {substituted(expression, words)}"
    elements = math.prod(dims)
    operations, compared = 2.0 * slots(expression) * elements, 2.0 * extremes(expression) * elements
    kind = f"{expression}{' with y along rows' if along else ''}"
    sizes = dict(zip(extents, dims, strict=True))
    loops = nested(axes, extents, line)
    return BenchNest(
        "maps", kind, dtype, sizes, operands, extents, dtype, loops, reference, operations, unit_of(dtype), extremes=compared
    )  # fmt: skip


def substituted(expression: str, words: dict[str, str]) -> str:
    """The expression with other words for its names."""
    tree = ast.parse(expression, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in words:
            node.id = words[node.id]
    return ast.unparse(tree)


def evaluated(expression: str, library: Any, values: Any) -> Any:
    """The expression of whole arrays."""
    tree = ast.parse(expression, mode="eval")

    def value(node: ast.expr) -> Any:
        xp = library.xp
        match node:
            case ast.Constant(number):
                return number
            case ast.Name(name):
                return values[name]
            case ast.UnaryOp(ast.USub(), operand):
                return -value(operand)
            case ast.BinOp(left, ast.Add(), right):
                return value(left) + value(right)
            case ast.BinOp(left, ast.Sub(), right):
                return value(left) - value(right)
            case ast.BinOp(left, ast.Mult(), right):
                return value(left) * value(right)
            case ast.BinOp(left, ast.Div(), right):
                return value(left) / value(right)
            case ast.IfExp(ast.Compare(left, [ast.Gt()], [right]), body, orelse):
                return xp.where(value(left) > value(right), value(body), value(orelse))
            case ast.Call(ast.Name("max"), [left, ast.Constant() | ast.UnaryOp() as bound]):
                return value(left).clip(min=ast.literal_eval(bound))
            case ast.Call(ast.Name("min"), [left, ast.Constant() | ast.UnaryOp() as bound]):
                return value(left).clip(max=ast.literal_eval(bound))
            case ast.Call(ast.Name("erf"), [operand]):
                return library.erf(value(operand))
            case ast.Call(ast.Name(name), operands):
                return getattr(xp, NUMPY_WORDS.get(name, name))(*map(value, operands))
        raise ValueError(ast.unparse(node))

    return value(tree.body)


# ---- windows ----------------------------------------------------------------------------------------------------------------


def windows(chance: Chance) -> BenchNest:
    return chance.pick((stencil, pool, mean_pool, depthwise, filtered, neighbours))(chance)


def stencil(chance: Chance) -> BenchNest:
    """The middle and its neighbours along each axis; outside of the grid is 0."""
    dtype, rank = chance.pick(FLOATS), chance.pick((2, 3))
    extents, axes = EXTENTS[:rank], AXES[:rank]
    dims = chance.extents(chance.traffic / (2 * BYTES[dtype]), rank, 64)
    index = ", ".join(axes)
    lines = [f"s: total = 0.5 * x[{index}]"]
    for number, (axis, extent) in enumerate(zip(axes, extents, strict=True)):
        for test, step in ((f"{axis} > 0", "- 1"), (f"{axis} < {extent} - 1", "+ 1")):
            place = ", ".join(f"{other} {step}" if other == axis else other for other in axes)
            lines += [f"if {test}:", f"    s += {0.1 + 0.05 * number} * x[{place}]"]
    lines.append(f"out[{index}] = s")

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        x = inputs["x"]
        result = 0.5 * x
        for axis in range(rank):
            low = (slice(None),) * axis + (slice(None, -1),)
            high = (slice(None),) * axis + (slice(1, None),)
            result[high] += (0.1 + 0.05 * axis) * x[low]
            result[low] += (0.1 + 0.05 * axis) * x[high]
        return result

    operands = {"x": Operand(extents, dtype, "normal", chance.layout())}
    sizes = dict(zip(extents, dims, strict=True))
    loops = nested(axes, extents, *lines)
    return BenchNest("windows", f"{2 * rank + 1}-point stencil", dtype, sizes, operands, extents, dtype, loops, reference)


def pool(chance: Chance) -> BenchNest:
    """The maximum of a window, in one or two dimensions."""
    dtype, window = chance.pick(DTYPES), chance.pick((2, 3, 3, 5))
    stride = chance.pick([step for step in (1, 2, 3) if step <= window])
    flat = chance.random.random() < 0.3
    each = BYTES[dtype] + BYTES[GATHERED.get(dtype, dtype)] / (stride if flat else stride * stride)
    pictures, height, width = chance.extents(chance.traffic / each, 3, 32)
    height, width = max(height, window), max(width, window)
    outputs = tuple(f"({extent} - R) // T + 1" for extent in ("H", "W"))
    least = lowest(dtype)
    if flat:
        inner = ["for q in range(R):", "    m = max(m, x[n, h, T * v + q])"]
    else:
        inner = ["for r in range(R):", "    for q in range(R):", "        m = max(m, x[n, T * h + r, T * v + q])"]
    result = ("N", "H", outputs[1]) if flat else ("N", *outputs)
    loops = nested("nhv", result, f"m: total = {least}", *inner, "out[n, h, v] = m")

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        x, r, t = inputs["x"], sizes["R"], sizes["T"]
        down = (x.shape[1] - r) // t + 1
        across = (x.shape[2] - r) // t + 1
        largest = None
        for a in range(1 if flat else r):
            rows = x if flat else x[:, a : a + t * (down - 1) + 1 : t]
            for b in range(r):
                part = rows[:, :, b : b + t * (across - 1) + 1 : t]
                largest = part if largest is None else library.xp.maximum(largest, part)
        return largest

    sizes = {"N": pictures, "H": height, "W": width, "R": window, "T": stride}
    operands = {"x": Operand(("N", "H", "W"), dtype, chance.content(dtype), chance.layout())}
    kind = f"max pool {'1' if flat else '2'}-D, {window} by {stride}"
    return BenchNest("windows", kind, dtype, sizes, operands, result, GATHERED.get(dtype, dtype), loops, reference)


def mean_pool(chance: Chance) -> BenchNest:
    """The mean of a window whose stride is its extent, in one to three dimensions."""
    dtype, window, rank = chance.pick(FLOATS), chance.pick((2, 3, 4)), chance.pick((1, 2, 3))
    dims = chance.extents(chance.traffic / (BYTES[dtype] * (1 + window**-rank)), rank + 1, 32)
    dims = [dims[0], *(max(extent, window) for extent in dims[1:])]
    extents = EXTENTS[: rank + 1]
    outputs = (extents[0], *(f"{extent} // R" for extent in extents[1:]))
    axes, taps = AXES[: rank + 1], "pqr"[:rank]
    place = ", ".join([axes[0], *(f"R * {axis} + {tap}" for axis, tap in zip(axes[1:], taps, strict=True))])
    inner = nested(taps, ("R",) * rank, f"s += x[{place}]").splitlines()
    scale = " * ".join(["R"] * rank)
    loops = nested(axes, outputs, "s: total = 0.0", *inner, f"out[{', '.join(axes)}] = s / ({scale})")

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        x, r = inputs["x"], sizes["R"]
        for axis in range(1, rank + 1):
            count = x.shape[axis] // r
            ahead = (slice(None),) * axis
            x = sum(x[(*ahead, slice(tap, tap + r * (count - 1) + 1, r))] for tap in range(r)) / r
        return x

    sizes = {**dict(zip(extents, dims, strict=True)), "R": window}
    operands = {"x": Operand(extents, dtype, "normal", chance.layout())}
    return BenchNest("windows", f"mean pool {rank}-D, {window}", dtype, sizes, operands, outputs, dtype, loops, reference)


def depthwise(chance: Chance) -> BenchNest:
    """A window of weights for each channel, which come first or last."""
    dtype, window = chance.pick(FLOATS), chance.pick((3, 3, 5, 7))
    last = chance.random.random() < 0.5
    channels = chance.extent(chance.between(16, 512))
    pictures, height, width = chance.extents(chance.traffic / (2 * BYTES[dtype] * channels), 3, 32)
    height, width = max(height, window), max(width, window)
    where = "n, h + r, v + q, c" if last else "n, c, h + r, v + q"
    inner = ("for r in range(R):", "    for q in range(Q):", f"        s += x[{where}] * w[{'r, q, c' if last else 'c, r, q'}]")
    store = f"out[{'n, h, v, c' if last else 'n, c, h, v'}] = s"
    outputs = ("N", "H - R + 1", "W - Q + 1", "C") if last else ("N", "C", "H - R + 1", "W - Q + 1")
    loops = nested("nhvc" if last else "nchv", outputs, "s: total = 0.0", *inner, store)

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        x, w = inputs["x"], inputs["w"]
        if not last:
            x, w = library.xp.moveaxis(x, 1, 3), library.xp.moveaxis(w, 0, 2)
        down, across = x.shape[1] - w.shape[0] + 1, x.shape[2] - w.shape[1] + 1
        result = sum(x[:, r : r + down, q : q + across] * w[r, q] for r in range(w.shape[0]) for q in range(w.shape[1]))
        return result if last else library.xp.moveaxis(result, 3, 1)

    sizes = {"N": pictures, "C": channels, "H": height, "W": width, "R": window, "Q": window}
    operands = {
        "x": Operand(("N", "H", "W", "C") if last else ("N", "C", "H", "W"), dtype),
        "w": Operand(("R", "Q", "C") if last else ("C", "R", "Q"), dtype),
    }
    operations = 2.0 * pictures * channels * (height - window + 1) * (width - window + 1) * window * window
    kind = f"depthwise {window}x{window}, channels {'last' if last else 'first'}"
    return BenchNest("windows", kind, dtype, sizes, operands, outputs, dtype, loops, reference, operations, unit_of(dtype))


def filtered(chance: Chance) -> BenchNest:
    """A filter of one dimension over rows, with a dilation."""
    dtype, window, apart = chance.pick((*FLOATS, "i32")), chance.pick((3, 7, 15, 31)), chance.pick((1, 1, 2))
    rows, columns = chance.extents(chance.traffic / (2 * BYTES[dtype]), 2, 256)
    columns = max(columns, apart * window)
    zero = "0.0" if dtype in FLOATS else "0"
    outputs = ("M", "N - E * (R - 1)")
    loops = nested("ij", outputs, f"s: total = {zero}", "for r in range(R):", "    s += w[r] * x[i, j + E * r]", "out[i, j] = s")

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        x, w, e = inputs["x"], inputs["w"], sizes["E"]
        across = x.shape[1] - e * (w.shape[0] - 1)
        return sum(w[r] * x[:, e * r : e * r + across] for r in range(w.shape[0]))

    sizes = {"M": rows, "N": columns, "R": window, "E": apart}
    operands = {"w": Operand(("R",), dtype, chance.content(dtype)), "x": Operand(("M", "N"), dtype, chance.content(dtype), chance.layout())}
    operations = 2.0 * rows * (columns - apart * (window - 1)) * window
    kind = f"filter of {window}, {apart} apart"
    return BenchNest("windows", kind, dtype, sizes, operands, outputs, dtype, loops, reference, operations, unit_of(dtype))


def neighbours(chance: Chance) -> BenchNest:
    """Sums of the eight cells around each, of small ints, and what a rule makes of them."""
    dtype = chance.pick(("u8", "i8", "i32"))
    dims = chance.extents(chance.traffic / (2 * BYTES[dtype]), 2, 64)
    inner = (
        "s: total = 0",
        "for r in range(3):",
        "    for q in range(3):",
        "        y: index = i + r - 1",
        "        z: index = j + q - 1",
        "        if y >= 0 and y < H and z >= 0 and z < W:",
        "            s += x[y, z]",
        "out[i, j] = 1 if s == 3 or (s == 4 and x[i, j] == 1) else 0",
    )
    loops = nested("ij", ("H", "W"), *inner)

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        x = inputs["x"]
        padded = library.zeros(x.shape[0] + 2, x.shape[1] + 2)
        padded[1:-1, 1:-1] = x
        sums = sum(padded[r : r + x.shape[0], q : q + x.shape[1]] for r in range(3) for q in range(3))
        return library.wide((sums == 3) | ((sums == 4) & (x == 1)))

    sizes = {"H": dims[0], "W": dims[1]}
    operands = {"x": Operand(("H", "W"), dtype, "whole", chance.layout())}
    return BenchNest("windows", "life", dtype, sizes, operands, ("H", "W"), dtype, loops, reference, stated=True)


def lowest(dtype: str) -> str:
    """What a maximum begins with."""
    return "-inf" if dtype in FLOATS else "0" if dtype == "u8" else "-100"


# ---- transposes and gathers -------------------------------------------------------------------------------------------------


def transposes(chance: Chance) -> BenchNest:
    """Axes in another order, and perhaps a little arithmetic."""
    dtype, rank = chance.pick(DTYPES), chance.pick((2, 2, 3, 3, 4))
    order = chance.order(rank)
    dims = chance.extents(chance.traffic / (2 * BYTES[dtype]), rank, 32)
    scaled = dtype in FLOATS and chance.random.random() < 0.4
    extents, axes = EXTENTS[:rank], AXES[:rank]
    turned = "".join(axes[axis] for axis in order)
    value = f"x[{', '.join(axes)}]{' * 0.5' if scaled else ''}"
    results = tuple(extents[axis] for axis in order)
    by_result = chance.random.random() < 0.5
    line = f"out[{', '.join(turned)}] = {value}"
    loops = nested(turned, results, line) if by_result else nested(axes, extents, line)

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        moved = library.xp.moveaxis(inputs["x"], order, list(range(rank)))
        return moved * 0.5 if scaled else moved

    operands = {"x": Operand(extents, dtype, chance.content(dtype), chance.pick(("rows", "rows", "padded")))}
    kind = f"axes {''.join(map(str, order))}{', scaled' if scaled else ''}, loops over the {'result' if by_result else 'input'}"
    return BenchNest("transposes", kind, dtype, dict(zip(extents, dims, strict=True)), operands, results, dtype, loops, reference)


def gather(chance: Chance) -> BenchNest:
    return chance.pick((gathered_elements, gathered_rows, gathered_within_rows))(chance)


def gathered_elements(chance: Chance) -> BenchNest:
    """Elements of a table by indices; what the table gives can't be less than the elements that are asked for."""
    dtype, index = chance.pick(DTYPES), chance.pick(("i32", "i64"))
    (count,) = chance.extents(chance.traffic / (2 * BYTES[dtype] + BYTES[index]), 1)
    table = min(chance.extent(chance.between(1 << 10, 1 << 24)), count)
    loops = nested("i", ("N",), "out[i] = t[x[i]]")

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        return inputs["t"][inputs["x"]]

    operands = {"t": Operand(("V",), dtype, chance.content(dtype)), "x": Operand(("N",), index, "table", below="V")}
    touched = table * BYTES[dtype] + count * (BYTES[dtype] + BYTES[index])
    sizes = {"V": table, "N": count}
    found, kind = Lookups(count, table, BYTES[dtype]), "elements of a table"
    return BenchNest("gather", kind, dtype, sizes, operands, ("N",), dtype, loops, reference, touched=touched, lookups=found)


def gathered_rows(chance: Chance) -> BenchNest:
    """Rows of a table by indices, as of an embedding."""
    dtype, width = chance.pick(DTYPES), chance.extent(chance.between(16, 4096))
    rows = chance.extent(max(1.0, chance.traffic / (2 * BYTES[dtype] * width)))
    table = max(1, chance.extent(rows * chance.between(0.2, 2)))
    loops = nested("ic", ("N", "C"), "out[i, c] = t[x[i], c]")

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        return inputs["t"][inputs["x"]]

    operands = {"t": Operand(("V", "C"), dtype, chance.content(dtype)), "x": Operand(("N",), "i32", "table", below="V")}
    read = table * (1 - (1 - 1 / table) ** rows)
    touched = read * width * BYTES[dtype] + rows * (4 + width * BYTES[dtype])
    sizes = {"V": table, "C": width, "N": rows}
    found, kind = Lookups(rows, table, width * BYTES[dtype]), "rows of a table"
    return BenchNest("gather", kind, dtype, sizes, operands, ("N", "C"), dtype, loops, reference, touched=touched, lookups=found)


def gathered_within_rows(chance: Chance) -> BenchNest:
    """In each row, elements by indices of that row, added to others."""
    dtype = chance.pick((*FLOATS, *INTS[:2]))
    rows, columns = chance.extents(chance.traffic / (3 * BYTES[dtype] + 4), 2, 64)
    loops = nested("ij", ("M", "N"), "out[i, j] = y[i, j] + t[i, x[i, j]]")

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        return inputs["y"] + inputs["t"][library.arange(sizes["M"])[:, None], inputs["x"]]

    operands = {
        "t": Operand(("M", "N"), dtype, chance.content(dtype)),
        "x": Operand(("M", "N"), "i32", "table", below="N"),
        "y": Operand(("M", "N"), dtype, chance.content(dtype), chance.layout()),
    }
    read = rows * columns * (1 - (1 - 1 / columns) ** columns)
    touched = read * BYTES[dtype] + rows * columns * (2 * BYTES[dtype] + 4)
    sizes = {"M": rows, "N": columns}
    found, kind = Lookups(rows * columns, columns, BYTES[dtype]), "within rows"
    return BenchNest("gather", kind, dtype, sizes, operands, ("M", "N"), dtype, loops, reference, touched=touched, lookups=found)
