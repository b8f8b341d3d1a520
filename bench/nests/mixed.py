"""Families with an order or several steps: recurrences, triangles, mixtures."""

from collections.abc import Mapping
from typing import Any

from bench.nests.elementwise import lowest, nested
from bench.nests.form import BYTES, DTYPES, FLOATS, GATHERED, INTS, BenchNest, Chance, Operand, unit_of

STEPS = {
    "linear": "h = {a} * h + {x}",
    "decaying mean": "h = 0.9 * h + 0.1 * {x}",
    "sums so far": "h += {x}",
    "largest so far": "h = max(h, {x})",
    "longest path": "h = max(h + {a}, {x})",
}
"""What a step makes of the state `h`."""


def recurrences(chance: Chance) -> BenchNest:
    """Along the last axis, the first, or one in the middle, each line by itself."""
    kind = chance.pick(list(STEPS))
    dtype = chance.pick(DTYPES if kind.endswith("so far") else FLOATS)
    gathered = GATHERED.get(dtype, dtype)
    shape, line = chance.pick((("IT", "i"), ("TJ", "j"), ("ITJ", "ij"), ("ITJ", "ij")))
    second = "{a}" in STEPS[kind]
    elements = chance.traffic / (BYTES[dtype] * (1 + second) + BYTES[gathered])
    steps = chance.extent(chance.between(64, min(16384, max(65.0, elements / 16))))
    lines = chance.extents(elements / steps, len(line))
    sizes = {"T": steps, **dict(zip((name for name in shape if name != "T"), lines, strict=True))}
    place = ", ".join(shape.lower())
    start = lowest(dtype) if kind in ("largest so far", "longest path") else "0.0" if dtype in FLOATS else "0"
    step = STEPS[kind].format(a=f"a[{place}]", x=f"x[{place}]")
    loops = nested(line, tuple(line.upper()), f"h: total = {start}", "for t in range(T):", f"    {step}", f"    out[{place}] = h")
    axis = shape.index("T")

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        xp = library.xp
        x = xp.moveaxis(inputs["x"], axis, 0)
        a = xp.moveaxis(inputs["a"], axis, 0) if second else None
        result = library.zeros(*x.shape)
        h = library.zeros(*x.shape[1:]) + (float(start) if start != "-inf" else -xp.inf)
        for t in range(x.shape[0]):
            h = _after_step(kind, xp, h, x[t], a[t] if a is not None else None)
            result[t] = h
        return xp.moveaxis(result, 0, axis)

    operands = {"x": Operand(tuple(shape), dtype, chance.content(dtype))}
    if second:
        operands["a"] = Operand(tuple(shape), dtype, "share")
    return BenchNest("recurrences", f"{kind} along {shape}", dtype, sizes, operands, tuple(shape), gathered, loops, reference)


def _after_step(kind: str, xp: Any, h: Any, x: Any, a: Any) -> Any:
    match kind:
        case "linear":
            return a * h + x
        case "decaying mean":
            return 0.9 * h + 0.1 * x
        case "sums so far":
            return h + x
        case "largest so far":
            return xp.maximum(h, x)
        case _:
            return xp.maximum(h + a, x)


# ---- triangles --------------------------------------------------------------------------------------------------------------


def triangles(chance: Chance) -> BenchNest:
    return chance.pick((triangular_product, triangle_by_matrix, lower_part, lower_sums, causal_softmax, below_distances))(chance)


def square(chance: Chance, dtype: str, matrices: float) -> int:
    return chance.extent(max(4.0, (chance.traffic / (BYTES[dtype] * matrices)) ** 0.5))


def triangular_product(chance: Chance) -> BenchNest:
    """Of two upper triangles, which is one."""
    dtype = chance.pick(FLOATS)
    n = min(square(chance, dtype, 2), chance.extent(8192))
    lines = ("s: total = 0.0", "for k in range(i, j + 1):", "    s += x[i, k] * y[k, j]", "out[i, j] = s")

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        return library.xp.triu(inputs["x"]) @ library.xp.triu(inputs["y"])

    operands = {name: Operand(("N", "N"), dtype) for name in "xy"}
    unit = f"matrix {dtype}" if dtype in ("f16", "bf16") else unit_of(dtype)
    touched = 2.0 * n * n * BYTES[dtype]
    loops = nested("ij", ("N", "N"), *lines)
    return BenchNest(
        "triangles", "product of upper", dtype, {"N": n}, operands, ("N", "N"), dtype, loops, reference, n**3 / 3, unit, touched
    )  # fmt: skip


def triangle_by_matrix(chance: Chance) -> BenchNest:
    """A lower triangle by a matrix of some columns."""
    dtype, columns = chance.pick(FLOATS), chance.extent(chance.between(1, 256))
    n = square(chance, dtype, 0.5)
    lines = ("s: total = 0.0", "for k in range(i + 1):", "    s += x[i, k] * y[k, j]", "out[i, j] = s")

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        return library.xp.tril(inputs["x"]) @ inputs["y"]

    operands = {"x": Operand(("N", "N"), dtype, "normal", chance.layout()), "y": Operand(("N", "M"), dtype)}
    unit = f"matrix {dtype}" if dtype in ("f16", "bf16") else unit_of(dtype)
    touched = (n * n / 2 + 2 * n * columns) * BYTES[dtype]
    loops, sizes = nested("ij", ("N", "M"), *lines), {"N": n, "M": columns}
    operations = float(n * n * columns)
    return BenchNest(
        "triangles", "lower by matrix", dtype, sizes, operands, ("N", "M"), dtype, loops, reference, operations, unit, touched
    )  # fmt: skip


def lower_part(chance: Chance) -> BenchNest:
    """What is on the diagonal and below, and zeros."""
    dtype = chance.pick(DTYPES)
    n = square(chance, dtype, 1.5)
    loops = nested("ij", ("N", "N"), f"out[i, j] = x[i, j] if j <= i else {'0.0' if dtype in FLOATS else '0'}")

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        return library.xp.tril(inputs["x"])

    operands = {"x": Operand(("N", "N"), dtype, chance.content(dtype), chance.layout())}
    touched = 1.5 * n * n * BYTES[dtype]
    return BenchNest("triangles", "lower part", dtype, {"N": n}, operands, ("N", "N"), dtype, loops, reference, touched=touched)


def lower_sums(chance: Chance) -> BenchNest:
    """Sums of rows up to the diagonal, or of columns from it on."""
    dtype, down = chance.pick(DTYPES), chance.pick((False, True))
    n = square(chance, dtype, 0.5)
    zero = "0.0" if dtype in FLOATS else "0"
    bounds, place = ("i, N", "x[k, i]") if down else ("i + 1", "x[i, k]")
    loops = nested("i", ("N",), f"s: total = {zero}", f"for k in range({bounds}):", f"    s += {place}", "out[i] = s")

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        return library.xp.tril(inputs["x"]).sum(0 if down else 1)

    operands = {"x": Operand(("N", "N"), dtype, chance.content(dtype))}
    touched = 0.5 * n * n * BYTES[dtype]
    kind = f"sums of {'columns from' if down else 'rows up to'} the diagonal"
    return BenchNest("triangles", kind, dtype, {"N": n}, operands, ("N",), GATHERED.get(dtype, dtype), loops, reference, touched=touched)


def causal_softmax(chance: Chance) -> BenchNest:
    """Softmax of rows up to the diagonal; zeros behind it."""
    dtype = chance.pick(FLOATS)
    batch = chance.extent(chance.between(1, 64))
    n = chance.extent(max(4.0, (chance.traffic / (1.5 * batch * BYTES[dtype])) ** 0.5))
    lines = (
        "top: total = -inf",
        "for j in range(i + 1):",
        "    top = max(top, x[b, i, j])",
        "s: total = 0.0",
        "for j in range(i + 1):",
        "    s += exp(x[b, i, j] - top)",
        "for j in range(N):",
        "    out[b, i, j] = exp(x[b, i, j] - top) / s if j <= i else 0.0",
    )

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        x = inputs["x"]
        e = library.xp.tril(library.xp.exp(x - library.xp.amax(x, -1)[..., None]))
        return e / e.sum(-1)[..., None]

    operands = {"x": Operand(("B", "N", "N"), dtype)}
    sizes = {"B": batch, "N": n}
    touched = 1.5 * batch * n * n * BYTES[dtype]
    loops = nested("bi", ("B", "N"), *lines)
    return BenchNest("triangles", "causal softmax", dtype, sizes, operands, ("B", "N", "N"), dtype, loops, reference, touched=touched)


def below_distances(chance: Chance) -> BenchNest:
    """Squared distances of the pairs with j < i; zeros elsewhere."""
    dtype, depth = chance.pick(("f64", "f32")), chance.extent(chance.between(2, 64))
    n = square(chance, dtype, 1)
    inner = (
        "for j in range(i):",
        "    s: total = 0.0",
        "    for k in range(K):",
        "        d: let = x[i, k] - x[j, k]",
        "        s += d * d",
        "    out[i, j] = s",
    )

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        x = inputs["x"]
        squares = (x * x).sum(-1)
        return library.xp.tril(squares[:, None] + squares[None] - 2 * (x @ x.swapaxes(0, 1)), -1)

    operands = {"x": Operand(("N", "K"), dtype)}
    sizes, operations, unit = {"N": n, "K": depth}, 2.0 * n * n * depth, unit_of(dtype)
    loops, dims, kind = nested("i", ("N",), *inner), ("N", "N"), "distances below"
    return BenchNest("triangles", kind, dtype, sizes, operands, dims, dtype, loops, reference, operations, unit, stated=True, zeroed=True)


# ---- mixtures ---------------------------------------------------------------------------------------------------------------


def mixtures(chance: Chance) -> BenchNest:
    return chance.pick((gated_norm, rotary, narrow_weights, nearest, joined_vectors, channel_norm, group_norm, bodies))(chance)


def gated_norm(chance: Chance) -> BenchNest:
    """A residual is added, the row is normed, and a gate lets through."""
    dtype = chance.pick(FLOATS)
    columns = chance.extent(chance.between(256, 16384))
    rows = chance.extent(max(1.0, chance.traffic / (4 * BYTES[dtype] * columns)))
    lines = (
        "s: total = 0.0",
        "for j in range(N):",
        "    y: let = x[i, j] + r[i, j]",
        "    s += y * y",
        "scale: let = 1.0 / sqrt(s / N + 0.00001)",
        "for j in range(N):",
        "    out[i, j] = (x[i, j] + r[i, j]) * scale * w[j] * (g[i, j] / (1.0 + exp(-g[i, j])))",
    )

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        y, g = inputs["x"] + inputs["r"], inputs["g"]
        scale = 1 / library.xp.sqrt((y * y).sum(-1)[:, None] / y.shape[1] + 1e-5)
        return y * scale * inputs["w"] * (g / (1 + library.xp.exp(-g)))

    operands = {name: Operand(("M", "N"), dtype) for name in "xrg"} | {"w": Operand(("N",), dtype)}
    loops = nested("i", ("M",), *lines)
    return BenchNest("mixtures", "residual, norm, gate", dtype, {"M": rows, "N": columns}, operands, ("M", "N"), dtype, loops, reference)


def rotary(chance: Chance) -> BenchNest:
    """Both halves of a head are turned: two stores to one result."""
    dtype, half = chance.pick(FLOATS), chance.pick((32, 64, 64, 128))
    texts = chance.extent(chance.between(1, 64))
    tokens = chance.extent(max(1.0, chance.traffic / (BYTES[dtype] * 4 * half * texts + 16 * half)))
    lines = (
        "out[b, t, e] = x[b, t, e] * c[t, e] - x[b, t, e + E] * s[t, e]",
        "out[b, t, e + E] = x[b, t, e + E] * c[t, e] + x[b, t, e] * s[t, e]",
    )
    turned = "f64" if dtype == "f64" else "f32"

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        x, c, s = inputs["x"], inputs["c"], inputs["s"]
        low, high = x[..., : sizes["E"]], x[..., sizes["E"] :]
        result = library.zeros(*x.shape)
        result[..., : sizes["E"]] = low * c - high * s
        result[..., sizes["E"] :] = high * c + low * s
        return result

    operands = {"x": Operand(("B", "T", "2 * E"), dtype), "c": Operand(("T", "E"), turned), "s": Operand(("T", "E"), turned)}
    sizes = {"B": texts, "T": tokens, "E": half}
    result = ("B", "T", "2 * E")
    loops = nested("bte", ("B", "T", "E"), *lines)
    return BenchNest("mixtures", "rotary embedding", dtype, sizes, operands, result, dtype, loops, reference, stated=True)


def narrow_weights(chance: Chance) -> BenchNest:
    """A matrix of small ints, scaled by rows, by a vector."""
    narrow = chance.pick(("i8", "u8", "i16"))
    columns = chance.extent(chance.between(256, 16384))
    rows = chance.extent(max(1.0, chance.traffic / (BYTES[narrow] * columns)))
    lines = ("s: total = 0.0", "for k in range(K):", "    s += f32(w[i, k]) * x[k]", "out[i] = s * scale[i]")

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        return inputs["w"] @ inputs["x"] * inputs["scale"]

    operands = {"w": Operand(("M", "K"), narrow, "whole", chance.layout()), "x": Operand(("K",), "f32"), "scale": Operand(("M",), "f32")}
    loops = nested("i", ("M",), *lines)
    return BenchNest("mixtures", "weights of few bits", narrow, {"M": rows, "K": columns}, operands, ("M",), "f32", loops, reference)


def nearest(chance: Chance) -> BenchNest:
    """The squared distance to the nearest of some centres."""
    dtype, depth = chance.pick(("f64", "f32", "f32", "f16")), chance.extent(chance.between(4, 128))
    centres = chance.extent(chance.between(8, 512))
    points = chance.extent(max(1.0, chance.traffic / (BYTES[dtype] * depth)))
    lines = (
        "best: total = inf",
        "for j in range(C):",
        "    s: total = 0.0",
        "    for k in range(K):",
        "        d: let = x[i, k] - y[j, k]",
        "        s += d * d",
        "    best = min(best, s)",
        "out[i] = best",
    )

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        x, y = inputs["x"], inputs["y"]
        best, lengths = library.zeros(x.shape[0]), (y * y).sum(-1)
        for start in range(0, x.shape[0], 65536):
            part = x[start : start + 65536]
            squares = (part * part).sum(-1)[:, None] - 2 * (part @ y.swapaxes(0, 1)) + lengths
            best[start : start + 65536] = library.xp.amin(squares, -1)
        return best

    operands = {"x": Operand(("N", "K"), dtype), "y": Operand(("C", "K"), dtype)}
    sizes, operations = {"N": points, "C": centres, "K": depth}, 4.0 * points * centres * depth
    loops = nested("i", ("N",), *lines)
    return BenchNest("mixtures", "nearest centre", dtype, sizes, operands, ("N",), dtype, loops, reference, operations, unit_of(dtype))


def joined_vectors(chance: Chance) -> BenchNest:
    """A matrix, a vector along its rows and one along its columns."""
    dtype = chance.pick((*FLOATS, *INTS[:2]))
    dims = chance.extents(chance.traffic / (2 * BYTES[dtype]), 2)
    loops = nested("ij", ("M", "N"), "out[i, j] = max(u[i] + v[j], x[i, j]) - v[j]")

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        return library.xp.maximum(inputs["u"][:, None] + inputs["v"], inputs["x"]) - inputs["v"]

    content = chance.content(dtype)
    operands = {"x": Operand(("M", "N"), dtype, content, chance.layout())}
    operands |= {"u": Operand(("M",), dtype, content), "v": Operand(("N",), dtype, content)}
    sizes = dict(zip("MN", dims, strict=True))
    return BenchNest("mixtures", "matrix and two vectors", dtype, sizes, operands, ("M", "N"), dtype, loops, reference)


def channel_norm(chance: Chance) -> BenchNest:
    """Each channel of a batch of pictures is standardised."""
    dtype = chance.pick(FLOATS)
    channels = chance.extent(chance.between(16, 512))
    pictures, pixels = chance.extents(max(2.0, chance.traffic / (2 * BYTES[dtype] * channels)), 2, 64)
    lines = (
        "s: total = 0.0",
        "for n in range(N):",
        "    for p in range(P):",
        "        s += x[n, c, p]",
        "mean: let = s / (N * P)",
        "v: total = 0.0",
        "for n in range(N):",
        "    for p in range(P):",
        "        d: let = x[n, c, p] - mean",
        "        v += d * d",
        "scale: let = 1.0 / sqrt(v / (N * P) + 0.00001)",
        "for n in range(N):",
        "    for p in range(P):",
        "        out[n, c, p] = (x[n, c, p] - mean) * scale",
    )

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        x = inputs["x"]
        d = x - x.mean((0, 2))[None, :, None]
        return d / library.xp.sqrt((d * d).mean((0, 2))[None, :, None] + 1e-5)

    dims = ("N", "C", "P")
    sizes: Mapping[str, int] = {"N": pictures, "C": channels, "P": pixels}
    loops = nested("c", ("C",), *lines)
    return BenchNest("mixtures", "norm of channels", dtype, sizes, {"x": Operand(dims, dtype)}, dims, dtype, loops, reference)


def group_norm(chance: Chance) -> BenchNest:
    """Groups of O channels are standardised."""
    dtype, groups, together = chance.pick(FLOATS), chance.pick((2, 4, 8, 32)), chance.extent(chance.between(2, 32))
    pictures, pixels = chance.extents(max(2.0, chance.traffic / (2 * BYTES[dtype] * groups * together)), 2, 64)
    lines = (
        "s: total = 0.0",
        "q: total = 0.0",
        "for o in range(O):",
        "    for p in range(P):",
        "        s += x[n, g * O + o, p]",
        "        q += x[n, g * O + o, p] * x[n, g * O + o, p]",
        "mean: let = s / (O * P)",
        "scale: let = 1.0 / sqrt(q / (O * P) - mean * mean + 0.00001)",
        "for o in range(O):",
        "    for p in range(P):",
        "        out[n, g * O + o, p] = (x[n, g * O + o, p] - mean) * scale",
    )

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        x = inputs["x"].reshape(sizes["N"], sizes["G"], -1)
        d = x - x.mean(-1)[..., None]
        return (d / library.xp.sqrt((d * d).mean(-1)[..., None] + 1e-5)).reshape(inputs["x"].shape)

    dims = ("N", "G * O", "P")
    sizes = {"N": pictures, "G": groups, "O": together, "P": pixels}
    loops = nested("ng", ("N", "G"), *lines)
    return BenchNest("mixtures", "norm of groups", dtype, sizes, {"x": Operand(dims, dtype)}, dims, dtype, loops, reference, stated=True)


def bodies(chance: Chance) -> BenchNest:
    """Potentials of bodies that attract each other; few bytes, much arithmetic."""
    dtype, dims = chance.pick(("f64", "f32", "f32")), chance.pick((2, 3))
    count = chance.extent(min(32768.0, (chance.traffic / 8) ** 0.5))
    lines = (
        "s: total = 0.0",
        "for j in range(N):",
        *(f"    d{axis}: let = x[i, {axis}] - x[j, {axis}]" for axis in range(dims)),
        f"    s += m[j] / sqrt({' + '.join(f'd{axis} * d{axis}' for axis in range(dims))} + 0.01)",
        "out[i] = s",
    )

    def reference(library: Any, inputs: Any, sizes: Any) -> Any:
        x, m = inputs["x"], inputs["m"]
        result = library.zeros(x.shape[0])
        for start in range(0, x.shape[0], 1024):
            d = x[start : start + 1024, None] - x[None]
            result[start : start + 1024] = (m / library.xp.sqrt((d * d).sum(-1) + 0.01)).sum(-1)
        return result

    operands = {"x": Operand(("N", str(dims)), dtype), "m": Operand(("N",), dtype, "share")}
    operations = 2.0 * count * count * (2 * dims + 1 + 8)
    loops = nested("i", ("N",), *lines)
    return BenchNest("mixtures", "bodies", dtype, {"N": count}, operands, ("N",), dtype, loops, reference, operations, unit_of(dtype))
