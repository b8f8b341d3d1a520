"""Families that gather: products, rows, columns, ragged rows, scattered sums."""

from typing import Any

from bench.nests.elementwise import lowest, nested
from bench.nests.form import BYTES, DTYPES, FLOATS, GATHERED, BenchNest, Chance, Lookups, Operand, unit_of

TERMS = {
    "product": ("s += {a} * {b}", 1, 0),
    "squared distance": ("d: let = {a} - {b}\ns += d * d", 2, 0),
    "absolute distance": ("s += abs({a} - {b})", 2, 0),
    "shortest": ("s = min(s, {a} + {b})", 2, 1),
    "longest": ("s = max(s, {a} + {b})", 2, 1),
    "widest": ("s = max(s, min({a}, {b}))", 2, 2),
}
"""What a term adds, the issue slots that it takes, and how many of them are minima and maxima."""

EPILOGUES = {
    "": "s",
    "bias and relu": "max(s + bias[j], 0.0)",
    "scale": "s * 0.125",
    "exp of minus": "exp(-s * 0.01)",
    "add": "s + z[i, j]",
}


def products(chance: Chance) -> BenchNest:
    """Over i and j a sum, or another reduction, of pairs along k; in any layout, perhaps in batches, perhaps with an epilogue."""
    kind = chance.pick(("product", "product", "product", *list(TERMS)[1:]))
    dtype = chance.pick(DTYPES if kind in ("product", "longest", "widest") else FLOATS)
    epilogues = ("",) if dtype not in FLOATS else list(EPILOGUES) if kind == "product" else ("", "scale")
    epilogue = chance.pick(epilogues)
    gathered = GATHERED.get(dtype, dtype)
    batch = chance.pick((0, 0, chance.extent(chance.between(2, 64))))
    depth = chance.extent(chance.between(16, 1024 if kind == "product" else 256))
    each = chance.traffic / max(1, batch)
    rows = columns = 16
    while product_bytes(rows, columns, depth, dtype, gathered, epilogue) < each:
        rows, columns = (2 * rows, columns) if chance.random.random() < 0.5 else (rows, 2 * columns)
    rows, columns = chance.extent(rows), chance.extent(columns)
    x_dims, y_dims = chance.pick((("I", "K"), ("I", "K"), ("K", "I"))), chance.pick((("K", "J"), ("J", "K")))
    axis = {"I": "i", "J": "j", "K": "k"}
    ahead, dim = ("b, ", ("G",)) if batch else ("", ())
    a, b = (f"{name}[{ahead}{', '.join(axis[one] for one in dims)}]" for name, dims in (("x", x_dims), ("y", y_dims)))
    zero = "0.0" if dtype in FLOATS else "0"
    start = "inf" if kind == "shortest" else lowest(dtype) if kind in ("longest", "widest") else zero
    text, taken, compared = TERMS[kind]
    term = text.format(a=a, b=b).splitlines()
    value = EPILOGUES[epilogue].replace("z[", f"z[{ahead}")
    result = (*dim, "I", "J")
    lines = (f"s: total = {start}", "for k in range(K):", *("    " + line for line in term), f"out[{ahead}i, j] = {value}")
    loops = nested("bij" if batch else "ij", result, *lines)

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        x, y = (inputs[name] if dims[-1] == "K" else inputs[name].swapaxes(-1, -2) for name, dims in (("x", x_dims), ("y", y_dims)))
        s = x @ y.swapaxes(-1, -2) if kind == "product" else _paired(kind, library, x, y)
        match epilogue:
            case "bias and relu":
                return (s + inputs["bias"]).clip(0, None)
            case "scale":
                return s * 0.125
            case "exp of minus":
                return library.xp.exp(-s * 0.01)
            case "add":
                return s + inputs["z"]
        return s

    content = "share" if epilogue == "exp of minus" else chance.content(dtype)
    operands = {name: Operand((*dim, *dims), dtype, content) for name, dims in (("x", x_dims), ("y", y_dims))}
    if epilogue == "bias and relu":
        operands["bias"] = Operand(("J",), dtype)
    if epilogue == "add":
        operands["z"] = Operand(result, dtype)
    sizes = {**({"G": batch} if batch else {}), "I": rows, "J": columns, "K": depth}
    terms = 2.0 * max(1, batch) * rows * columns * depth
    unit = f"matrix {dtype}" if kind == "product" and dtype in ("f16", "bf16", "i8", "u8") else unit_of(dtype)
    words = f"{'batched ' if batch else ''}{kind} {''.join(x_dims)}.{''.join(y_dims)}{f', {epilogue}' if epilogue else ''}"
    return BenchNest(
        "products", words, dtype, sizes, operands, result, gathered, loops, reference, taken * terms, unit, extremes=compared * terms
    )  # fmt: skip


def product_bytes(rows: int, columns: int, depth: int, dtype: str, gathered: str, epilogue: str) -> int:
    return (rows + columns) * depth * BYTES[dtype] + rows * columns * (BYTES[gathered] + (BYTES[dtype] if epilogue == "add" else 0))


def _paired(kind: str, library: Any, x: Any, y: Any) -> Any:
    """A reduction along the last axis of all pairs of rows, a column at a time."""
    xp = library.xp
    result = None
    for k in range(x.shape[-1]):
        a, b = x[..., :, None, k], y[..., None, :, k]
        match kind:
            case "squared distance":
                term = (a - b) * (a - b)
            case "absolute distance":
                term = xp.abs(a - b)
            case "widest":
                term = xp.minimum(a, b)
            case _:
                term = a + b
        if result is None:
            result = term
        elif kind.endswith("distance"):
            result += term
        else:
            result = (xp.minimum if kind == "shortest" else xp.maximum)(result, term)
    return result


# ---- rows and columns -------------------------------------------------------------------------------------------------------

TOP = """
top: total = -inf
for j in range(N):
    top = max(top, {x})
s: total = 0.0
for j in range(N):
    s += exp({x} - top)
"""

MEAN = """
s: total = 0.0
for j in range(N):
    s += {x}
mean: let = s / N
v: total = 0.0
for j in range(N):
    d: let = {x} - mean
    v += d * d
"""

SQUARES = """
s: total = 0.0
for j in range(N):
    s += {x} * {x}
"""

ALONG = {
    "sum": "s: total = {zero}\nfor j in range(N):\n    s += {x}\nout[i] = s",
    "maximum": "s: total = {lowest}\nfor j in range(N):\n    s = max(s, {x})\nout[i] = s",
    "mean of squares": SQUARES + "out[i] = s / N",
    "log of sum of exp": TOP + "out[i] = top + log(s)",
    "variance": MEAN + "out[i] = v / N",
    "softmax": TOP + "for j in range(N):\n    {out} = exp({x} - top) / s",
    "norm by root mean square": SQUARES + "scale: let = 1.0 / sqrt(s / N + 0.00001)\nfor j in range(N):\n    {out} = {x} * scale * w[j]",
    "standardised": MEAN + "scale: let = 1.0 / sqrt(v / N + 0.00001)\nfor j in range(N):\n    {out} = ({x} - mean) * scale",
    "share of the sum": "s: total = 0.0\nfor j in range(N):\n    s += abs({x})\nfor j in range(N):\n    {out} = {x} / s",
}
"""What is computed along an axis, of `{x}`."""


def along(library: Any, kind: str, x: Any, w: Any) -> Any:
    """The same of whole arrays, along the last axis."""
    xp = library.xp
    mean = x.sum(-1)[..., None] / x.shape[-1]
    match kind:
        case "sum":
            return x.sum(-1)
        case "maximum":
            return xp.amax(x, -1)
        case "mean of squares":
            return (x * x).sum(-1) / x.shape[-1]
        case "log of sum of exp":
            top = xp.amax(x, -1)
            return top + xp.log(xp.exp(x - top[..., None]).sum(-1))
        case "variance":
            return ((x - mean) * (x - mean)).sum(-1) / x.shape[-1]
        case "softmax":
            e = xp.exp(x - xp.amax(x, -1)[..., None])
            return e / e.sum(-1)[..., None]
        case "norm by root mean square":
            return x / xp.sqrt((x * x).sum(-1)[..., None] / x.shape[-1] + 1e-5) * w
        case "standardised":
            d = x - mean
            return d / xp.sqrt((d * d).sum(-1)[..., None] / x.shape[-1] + 1e-5)
        case "share of the sum":
            return x / xp.abs(x).sum(-1)[..., None]
    raise ValueError(kind)


def rows(chance: Chance) -> BenchNest:
    """Along the axis that lies in a row."""
    return _along(chance, "rows", chance.between(64, 1 << 17))


def columns(chance: Chance) -> BenchNest:
    """Along an axis that doesn't: each column's elements are far apart."""
    return _along(chance, "columns", chance.between(64, 1 << 17))


def _along(chance: Chance, family: str, length: float) -> BenchNest:
    dtype = chance.pick(DTYPES)
    kind = chance.pick(list(ALONG) if dtype in FLOATS else ("sum", "maximum"))
    text = ALONG[kind]
    kept = "{out}" in text
    n = chance.extent(min(length, max(64.0, chance.traffic / BYTES[dtype] / 32)))
    m = chance.extent(max(1.0, chance.traffic / (n * BYTES[dtype] * (1 + kept))))
    down = family == "columns"
    place = "j, i" if down else "i, j"
    lines = (
        text.format(x=f"x[{place}]", out=f"out[{place}]", zero="0.0" if dtype in FLOATS else "0", lowest=lowest(dtype)).strip().splitlines()
    )
    dims = ("N", "M") if down else ("M", "N")
    result = dims if kept else ("M",)

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        x = inputs["x"].swapaxes(0, 1) if down else inputs["x"]
        answer = along(library, kind, x, inputs.get("w"))
        return answer.swapaxes(0, 1) if down and kept else answer

    operands = {"x": Operand(dims, dtype, chance.content(dtype), chance.pick(("rows", "rows", "padded")))}
    if "w[" in text:
        operands["w"] = Operand(("N",), dtype)
    gathered = dtype if kept else GATHERED.get(dtype, dtype)
    return BenchNest(family, kind, dtype, {"M": m, "N": n}, operands, result, gathered, nested("i", ("M",), *lines), reference)


# ---- ragged rows and scattered sums -----------------------------------------------------------------------------------------


def ragged(chance: Chance) -> BenchNest:
    """Rows of different lengths behind each other: sums, maxima, means, and a sparse matrix by a vector."""
    kind = chance.pick(("sparse by vector", "sparse by vector", "sum", "maximum", "mean"))
    dtype = chance.pick(FLOATS if kind in ("sparse by vector", "mean") else DTYPES)
    gathered = ("f64" if dtype == "f64" else "f32") if kind == "mean" else GATHERED.get(dtype, dtype)
    sparse = kind == "sparse by vector"
    length = chance.between(4, 1024)
    count = chance.extent(chance.traffic / (BYTES[dtype] + 4 * sparse + 8 / length))
    rows = max(1, chance.extent(count / length))
    table = chance.extent(min(count, chance.between(1 << 10, 1 << 22)))
    value = "a[k] * v[x[k]]" if sparse else "a[k]"
    start = lowest(dtype) if kind == "maximum" else "0.0" if dtype in FLOATS else "0"
    line = f"s = max(s, {value})" if kind == "maximum" else f"s += {value}"
    store = "out[r] = s / max(f32(p[r + 1] - p[r]), 1.0)" if kind == "mean" else "out[r] = s"
    loops = nested("r", ("P - 1",), f"s: total = {start}", "for k in range(p[r], p[r + 1]):", f"    {line}", store)

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        p, values = inputs["p"], inputs["a"]
        lengths = p[1:] - p[:-1]
        row = library.repeated(lengths)
        result = library.zeros(sizes["P"] - 1)
        if kind == "maximum":
            result += -library.xp.inf if dtype in FLOATS else int(lowest(dtype))
            library.largest_at(result, row, values)
            return result
        library.add_at(result, row, values * inputs["v"][inputs["x"]] if sparse else values)
        return result / lengths.clip(1, None) if kind == "mean" else result

    operands = {"a": Operand(("K",), dtype, chance.content(dtype)), "p": Operand(("P",), "i32", "pointers", below="K")}
    if sparse:
        operands |= {"x": Operand(("K",), "i32", "table", below="V"), "v": Operand(("V",), dtype)}
    sizes = {"K": count, "P": rows + 1, **({"V": table} if sparse else {})}
    found, words = Lookups(count, table, BYTES[dtype]) if sparse else None, f"{kind}, rows of {length:.0f}"
    return BenchNest(
        "ragged", words, dtype, sizes, operands, ("P - 1",), gathered, loops, reference, lookups=found, lengths=rows
    )  # fmt: skip


def scatter(chance: Chance) -> BenchNest:
    return chance.pick((counted, scattered_sums, scattered_rows, scattered_maxima))(chance)


def counted(chance: Chance) -> BenchNest:
    """How often each index occurs."""
    index = chance.pick(("u8", "i32", "i32"))
    (count,) = chance.extents(chance.traffic / BYTES[index], 1)
    bins = 256 if index == "u8" else chance.extent(min(count, chance.between(64, 1 << 22)))
    loops = nested("i", ("N",), "out[x[i]] += 1")

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        return library.counted(inputs["x"], sizes["B"])

    operands = {"x": Operand(("N",), index, "table", below="B")}
    sizes = {"N": count, "B": bins}
    found = Lookups(count, bins, 4, True)
    return BenchNest(
        "scatter", "counts", index, sizes, operands, ("B",), "i32", loops, reference, stated=True, zeroed=True, lookups=found
    )  # fmt: skip


def scattered_sums(chance: Chance) -> BenchNest:
    dtype = chance.pick(("f64", "f32", "i64", "i32"))
    (count,) = chance.extents(chance.traffic / (BYTES[dtype] + 4), 1)
    bins = chance.extent(min(count, chance.between(64, 1 << 24)))
    loops = nested("i", ("N",), "out[x[i]] += v[i]")

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        result = library.zeros(sizes["B"])
        library.add_at(result, inputs["x"], inputs["v"])
        return result

    operands = {"x": Operand(("N",), "i32", "table", below="B"), "v": Operand(("N",), dtype, chance.content(dtype))}
    sizes = {"N": count, "B": bins}
    found = Lookups(count, bins, BYTES[dtype], True)
    return BenchNest(
        "scatter", "sums", dtype, sizes, operands, ("B",), dtype, loops, reference, stated=True, zeroed=True, lookups=found
    )  # fmt: skip


def scattered_rows(chance: Chance) -> BenchNest:
    """Whole rows are added where indices say, as in the gradient of an embedding."""
    dtype, width = chance.pick(("f64", "f32", "i32")), chance.extent(chance.between(8, 1024))
    rows = chance.extent(max(1.0, chance.traffic / (1.5 * BYTES[dtype] * width)))
    bins = max(1, chance.extent(rows / 2))
    loops = nested("ic", ("N", "C"), "out[x[i], c] += v[i, c]")

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        result = library.zeros(sizes["B"], sizes["C"])
        library.add_at(result, inputs["x"], inputs["v"])
        return result

    operands = {"x": Operand(("N",), "i32", "table", below="B"), "v": Operand(("N", "C"), dtype, chance.content(dtype))}
    sizes = {"N": rows, "C": width, "B": bins}
    found = Lookups(rows, bins, width * BYTES[dtype], True)
    return BenchNest(
        "scatter", "rows", dtype, sizes, operands, ("B", "C"), dtype, loops, reference, stated=True, zeroed=True, lookups=found
    )  # fmt: skip


def scattered_maxima(chance: Chance) -> BenchNest:
    """The largest of the positive numbers of each index."""
    dtype = chance.pick(("f64", "f32", "i32"))
    (count,) = chance.extents(chance.traffic / (BYTES[dtype] + 4), 1)
    bins = chance.extent(min(count, chance.between(64, 1 << 22)))
    loops = nested("i", ("N",), "out[x[i]] = max(out[x[i]], v[i])")

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        result = library.zeros(sizes["B"])
        library.largest_at(result, inputs["x"], inputs["v"])
        return result

    content = "share" if dtype in FLOATS else "whole"
    operands = {"x": Operand(("N",), "i32", "table", below="B"), "v": Operand(("N",), dtype, content)}
    sizes = {"N": count, "B": bins}
    found = Lookups(count, bins, BYTES[dtype], True, few=True)
    return BenchNest(
        "scatter", "maxima", dtype, sizes, operands, ("B",), dtype, loops, reference, stated=True, zeroed=True, lookups=found
    )  # fmt: skip
