"""The programs of the rows, as a textbook has them: at most `@kernel(kind)` says how they should run."""

from pathlib import Path


def product(a: str = "A[i, k]", b: str = "B[k, j]", types: str = "bf16", shapes: str = "M, K|K, N", to: str = "", mode: str = "") -> str:
    """`mode`: an annotation that asks for a way of multiplying."""
    left, right = shapes.split("|")
    zero = "0" if types == "i8" else "0.0"
    result = f" -> tensor[M, N, {to}]" if to else ""
    return f"""
def f(A: tensor[{left}, {types}], B: tensor[{right}, {types}]) {{
    compute(A, B){result} @kernel(matmul){mode and " " + mode} {{
        for i in 0..M, j in 0..N:
            var s = {zero}
            for k in 0..K: s += {a} * {b}
            out[i, j] = s
    }}
}}"""


LAYOUTS = {
    "": ("A[i, k]", "B[k, j]", "M, K|K, N"),
    "B as [N, K]": ("A[i, k]", "B[j, k]", "M, K|N, K"),
    "A as [K, M]": ("A[k, i]", "B[k, j]", "K, M|K, N"),
    "A as [K, M], B as [N, K]": ("A[k, i]", "B[j, k]", "K, M|N, K"),
}


def epilogue(value: str, more: str) -> str:
    """A product whose sums `x` become `value`; `more`: the further parameter that it takes."""
    name = more.split(":")[0]
    return f"""
def f(A: tensor[M, K, bf16], B: tensor[K, N, bf16], {more}) {{
    compute(A, B, {name}) @kernel(matmul) {{
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += A[i, k] * B[k, j]
            {value}
    }}
}}"""


GELU = "0.5 * {0} * (1.0 + tanh(0.7978845608 * ({0} + 0.044715 * {0} * {0} * {0})))"
BIAS_GELU = epilogue(f"let x = s + bias[j]\n            out[i, j] = {GELU.format('x')}", "bias: tensor[N, bf16]")
RESIDUAL = epilogue("out[i, j] = s + Z[i, j]", "Z: tensor[M, N, bf16]")


def computed(left: str = "A[i, k]", right: str = "B[k, j]", when: str = "", weights: str = "K, N, bf16", scaled: bool = False) -> str:
    """A product of factors that are computed, or of the terms where a condition holds; `scaled`: a number for each column comes to it."""
    scale, named = (", scale: tensor[N]", ", scale") if scaled else ("", "")
    return f"""
def f(A: tensor[M, K, bf16], B: tensor[{weights}]{scale}) {{
    compute(A, B{named}) -> tensor[M, N, bf16] @kernel(matmul) {{
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K:
                {when and f"if {when}: "}s += {left} * {right}
            out[i, j] = s{" * scale[j]" if scaled else ""}
    }}
}}"""


GATED = """
def f(A: tensor[M, K, bf16], V: tensor[K, N, bf16], W: tensor[K, N, bf16]) {
    compute(A, V, W) -> tensor[M, N, bf16] {
        for i in 0..M, j in 0..N:
            var gate = 0.0
            var value = 0.0
            for k in 0..K:
                gate += A[i, k] * V[k, j]
                value += A[i, k] * W[k, j]
            out[i, j] = gate / (1.0 + exp(-gate)) * value
    }
}"""

BATCHED = """
def f(A: tensor[B, M, K, bf16], C: tensor[B, K, N, bf16]) {
    compute(A, C) @kernel(batched_matmul) {
        for b in 0..B, i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += A[b, i, k] * C[b, k, j]
            out[b, i, j] = s
    }
}"""


def convolution(stride: int = 1, padding: int = 0, dilation: int = 1, types: str = "bf16", last: bool = True) -> str:
    """Channels last, or first."""
    image, weight, result = ("N, H, W, C", "K, R, S, C", "N, Y, Z, K") if last else ("N, C, H, W", "K, C, R, S", "N, K, Y, Z")
    x, w, out = ("n, i, j, c", "k, r, q, c", "n, y, x, k") if last else ("n, c, i, j", "k, c, r, q", "n, k, y, x")
    return f"""
def f(X: tensor[{image}, {types}], F: tensor[{weight}, {types}]) {{
    compute(X, F) -> tensor[{result}, {types}] @kernel(conv2d, stride={stride}, padding={padding}, dilation={dilation}) {{
        for n in 0..N, y in 0..Y, x in 0..Z, k in 0..K:
            var s = 0.0
            for r in 0..R, q in 0..S:
                let i = y * stride + r * dilation - padding
                let j = x * stride + q * dilation - padding
                for c in 0..C:
                    if i >= 0 and i < H and j >= 0 and j < W:
                        s += X[{x}] * F[{w}]
            out[{out}] = s
    }}
}}"""


GROUPED = """
def f(X: tensor[N, H, W, G, C, bf16], F: tensor[G, K, R, S, C, bf16]) {
    compute(X, F) -> tensor[N, H, W, G, K, bf16] @kernel(conv2d) {
        for n in 0..N, y in 0..H, x in 0..W, g in 0..G, k in 0..K:
            var s = 0.0
            for r in 0..R, q in 0..S, c in 0..C:
                if y + r >= 1 and y + r < H + 1 and x + q >= 1 and x + q < W + 1:
                    s += X[n, y + r - 1, x + q - 1, g, c] * F[g, k, r, q, c]
            out[n, y, x, g, k] = s
    }
}"""

DEPTHWISE = """
def f(X: tensor[N, H, W, C, bf16], F: tensor[R, S, C, bf16]) {
    compute(X, F) -> tensor[N, H, W, C, bf16] @kernel(depthwise) {
        for n in 0..N, y in 0..H, x in 0..W, c in 0..C:
            var s = 0.0
            for r in 0..R, q in 0..S:
                if y + r >= 1 and y + r < H + 1 and x + q >= 1 and x + q < W + 1:
                    s += X[n, y + r - 1, x + q - 1, c] * F[r, q, c]
            out[n, y, x, c] = s
    }
}"""


def attention(causal: bool = False, together: int = 1, score: str = "s * scale", mask: str = "", given: str = "") -> str:
    """`together`: heads that share keys and values; `given`: what a score or a mask reads besides, with its type."""
    mask = "j <= i" if causal else mask
    score = f"(if {mask} {{ {score} }} else {{ -inf }})" if mask else f"({score})"
    of, heads = ("h", "H") if together == 1 else (f"h / {together}", "G")
    more, also = (f", {given}", f", {given.split(':')[0]}") if given else ("", "")
    return f"""
def f(Q: tensor[B, H, M, D, bf16], K: tensor[B, {heads}, N, D, bf16], V: tensor[B, {heads}, N, D, bf16], scale: f32{more}) {{
    compute(Q, K, V, scale{also}) @kernel(attention) {{
        for b in 0..B, h in 0..H, i in 0..M, d in 0..D:
            var m = -inf
            for j in 0..N:
                var s = 0.0
                for e in 0..D: s += Q[b, h, i, e] * K[b, {of}, j, e]
                m = max(m, {score})
            var l = 0.0
            var o = 0.0
            for j in 0..N:
                var s = 0.0
                for e in 0..D: s += Q[b, h, i, e] * K[b, {of}, j, e]
                let p = exp({score} - m)
                l += p
                o += p * V[b, {of}, j, d]
            out[b, h, i, d] = o / l
    }}
}}"""


def gelu(types: str) -> str:
    return f"""
def f(x: tensor[N, {types}]) -> tensor[N, {types}] {{
    compute(x) -> tensor[N, {types}] {{
        for i in 0..N {{
            let v = x[i] as f32
            out[i] = ({GELU.format("v")}) as {types}
        }}
    }}
}}"""


def copy(types: str) -> str:
    return f"def f(x: tensor[N, {types}]) {{ compute(x) {{ for i in 0..N: out[i] = x[i] }} }}"


def add(types: str) -> str:
    return f"def f(x: tensor[N, {types}], y: tensor[N, {types}]) {{ compute(x, y) {{ for i in 0..N: out[i] = x[i] + y[i] }} }}"


STEPS = ("{} * 1.5", "{} + 0.25", "max({}, 0.0)", "{} * {}", "{} - 1.0")
"""Five elementwise steps, one after the other."""


def chained() -> str:
    """Each step a block of its own."""
    lines, before = [], "x"
    for number, step in enumerate(STEPS):
        value = step.replace("{}", f"{before}[i]")
        lines.append(f"    let y{number} = compute({before}) {{ for i in 0..N: out[i] = {value} }}")
        before = f"y{number}"
    return "def f(x: tensor[N]) -> tensor[N] {\n" + "\n".join(lines) + f"\n    return {before}\n}}"


def at_once() -> str:
    """All steps in one block."""
    lines, before = [], "x[i]"
    for number, step in enumerate(STEPS):
        lines.append(f"            let y{number} = {step.replace('{}', before)}")
        before = f"y{number}"
    body = "\n".join(lines)
    return f"""
def f(x: tensor[N]) -> tensor[N] {{
    compute(x) {{
        for i in 0..N:
{body}
            out[i] = {before}
    }}
}}"""


TOTAL = "def f(x: tensor[N]): f32 { compute(x) @kernel reduce(+) { for i in 0..N: yield x[i] } }"
ROW_SUMS = "def f(x: tensor[M, N]) { compute(x) @kernel reduce(+, axis=1) { for i in 0..M, j in 0..N: yield x[i, j] } }"
COLUMN_SUMS = "def f(x: tensor[M, N]) { compute(x) @kernel reduce(+, axis=0) { for i in 0..M, j in 0..N: yield x[i, j] } }"
ARGMAX = "def f(x: tensor[M, N]) { compute(x) @kernel reduce(argmax, axis=1) { for i in 0..M, j in 0..N: yield (x[i, j], j) } }"
TRANSPOSE = "def f(x: tensor[M, N, bf16]) { compute(x) { for j in 0..N, i in 0..M: out[j, i] = x[i, j] } }"


def permute(types: str) -> str:
    """[A, B, C, D] to [A, C, B, D], as heads are moved."""
    return f"""
def f(x: tensor[A, B, C, D, {types}]) {{
    compute(x) {{ for a in 0..A, c in 0..C, b in 0..B, d in 0..D: out[a, c, b, d] = x[a, b, c, d] }}
}}"""


def permute_inside(types: str) -> str:
    """[A, B, C, D] to [A, D, B, C], as channels are moved."""
    return f"""
def f(x: tensor[A, B, C, D, {types}]) {{
    compute(x) {{ for a in 0..A, d in 0..D, b in 0..B, c in 0..C: out[a, d, b, c] = x[a, b, c, d] }}
}}"""


ROWS = {
    "softmax": """var m = -inf
            for j in 0..N: m = max(m, x[i, j])
            var s = 0.0
            for j in 0..N: s += exp(x[i, j] - m)
            for j in 0..N: out[i, j] = exp(x[i, j] - m) / s""",
    "rms norm": """var s = 0.0
            for j in 0..N: s += x[i, j] * x[i, j]
            let r = rsqrt(s / (N as f32) + 0.00001)
            for j in 0..N: out[i, j] = x[i, j] * r""",
    "layer norm": """var t = 0.0
            for j in 0..N: t += x[i, j]
            let mean = t / (N as f32)
            var s = 0.0
            for j in 0..N: s += (x[i, j] - mean) * (x[i, j] - mean)
            let r = rsqrt(s / (N as f32) + 0.00001)
            for j in 0..N: out[i, j] = (x[i, j] - mean) * r""",
}


def rows(name: str, types: str) -> str:
    return f"def f(x: tensor[M, N, {types}]) {{ compute(x) -> tensor[M, N, {types}] {{ for i in 0..M {{\n{ROWS[name]}\n}} }} }}"


GROUP_NORM = """def f(x: tensor[N, G, C, H, W, bf16], gain: tensor[G, C, f32]) {
    compute(x, gain) -> tensor[N, G, C, H, W, bf16] { for n in 0..N, g in 0..G {
        var t = 0.0
        for c in 0..C, h in 0..H, w in 0..W: t += x[n, g, c, h, w]
        let mean = t / ((C * H * W) as f32)
        var v = 0.0
        for c in 0..C, h in 0..H, w in 0..W: v += (x[n, g, c, h, w] - mean) * (x[n, g, c, h, w] - mean)
        let r = rsqrt(v / ((C * H * W) as f32) + 0.00001)
        for c in 0..C, h in 0..H, w in 0..W: out[n, g, c, h, w] = (x[n, g, c, h, w] - mean) * r * gain[g, c]
    } }
}"""

VARIANCES = """def f(x: tensor[N, C, H, W, bf16]) {
    compute(x) -> tensor[C, f32] { for c in 0..C {
        var t = 0.0
        for n in 0..N, h in 0..H, w in 0..W: t += x[n, c, h, w]
        let mean = t / ((N * H * W) as f32)
        var v = 0.0
        for n in 0..N, h in 0..H, w in 0..W: v += (x[n, c, h, w] - mean) * (x[n, c, h, w] - mean)
        out[c] = v / ((N * H * W) as f32)
    } }
}"""

GATHER = "def f(x: tensor[N], k: tensor[M, i32]) { compute(x, k) { for i in 0..M: out[i] = x[k[i]] } }"

LOOKUP = """def f(w: tensor[V, D, bf16], k: tensor[B, i32]) {
    compute(w, k) -> tensor[B, D, bf16] { for b in 0..B, d in 0..D: out[b, d] = w[k[b], d] }
}"""


def histogram(types: str, bins: int) -> str:
    return f"""def f(x: tensor[N, {types}]) {{
    compute(x) -> tensor[{bins}, i32] @kernel(custom) @workgroup(512) @grid(528) {{
        shared var bins[{bins}, i32]
        let t = thread_idx().x
        for b in t..{bins} step block_dim().x: bins[b] = 0
        barrier()
        for p in global_idx().x..x.numel() step grid_dim().x * block_dim().x: atomic_add(bins[x[p] as i32], 1)
        barrier()
        for b in t..{bins} step block_dim().x: atomic_add(out[b], bins[b])
    }}
}}"""


def scatter(places: int) -> str:
    return f"""def f(x: tensor[N], k: tensor[N, i32]) {{
    compute(x, k) -> tensor[{places}] @kernel(custom) @workgroup(256) @grid(1056) {{
        for p in global_idx().x..x.numel() step grid_dim().x * block_dim().x: atomic_add(out[k[p]], x[p])
    }}
}}"""


BYTES_COUNTED = "def f(x: tensor[N, u8]) { compute(x) -> tensor[256, i32] { for i in 0..N: out[x[i]] += 1 } }"


def added_by_group(annotation: str = "") -> str:
    return f"""def f(x: tensor[N], k: tensor[N, i32], G: int) {{
    compute(x, k) -> tensor[G] {annotation} {{ for i in 0..N: out[k[i]] += x[i] }}
}}"""


SCAN = "def f(x: tensor[N]) { compute(x) @kernel scan(+) { for i in 0..N: yield x[i] } }"


def sort(types: str) -> str:
    return f"def f(x: tensor[N, {types}]) {{ compute(x) @kernel(sort) {{ for i in 0..N: yield x[i] }} }}"


SORT_PAIRS = "def f(x: tensor[N, i32]) { compute(x) @kernel(sort) { for i in 0..N: yield (x[i], i) } }"
SORT_ROWS = "def f(x: tensor[M, N]) { compute(x) @kernel(sort, axis=1) { for i in 0..M, j in 0..N: yield (x[i, j], j) } }"


def scan_along(axis: int) -> str:
    return f"def f(x: tensor[M, N]) {{ compute(x) @kernel(scan, +, axis={axis}) {{ for i in 0..M, j in 0..N: yield x[i, j] }} }}"


def transformer() -> str:
    """The functions of `programs/zynml/transformer_block.zynml`, without what it prints."""
    program = Path(__file__).parents[2] / "programs" / "zynml" / "transformer_block.zynml"
    return program.read_text(encoding="utf-8").partition("\ndef filled(")[0].replace("def transformer_block(", "def f(")

SPARSE_ROWS = """
def f(start: tensor[P, i64], column: tensor[K, i64], weight: tensor[K], x: tensor[N], R: int): tensor {
    compute(start, column, weight, x) -> tensor[R] {
        for row in 0..R:
            var s = 0.0
            for k in start[row]..start[row + 1]: s += weight[k] * x[column[k]]
            out[row] = s
    }
}"""

SPARSE_PRODUCT = """
def f(start: tensor[P, i64], column: tensor[K, i64], weight: tensor[K], x: tensor[N, C], R: int): tensor {
    compute(start, column, weight, x) -> tensor[R, C] {
        for row in 0..R, c in 0..C:
            var s = 0.0
            for k in start[row]..start[row + 1]: s += weight[k] * x[column[k], c]
            out[row, c] = s
    }
}"""

BAGS = """
def f(start: tensor[P, i64], picked: tensor[K, i64], table: tensor[V, D], B: int): tensor {
    compute(start, picked, table) -> tensor[B, D] {
        for bag in 0..B, d in 0..D:
            var s = 0.0
            for k in start[bag]..start[bag + 1]: s += table[picked[k], d]
            out[bag, d] = s
    }
}"""

RECURRENCE = """
def f(a: tensor[B, T, C], b: tensor[B, T, C]): tensor {
    compute(a, b) {
        for n in 0..B, c in 0..C:
            var h = 0.0
            for t in 0..T:
                h = a[n, t, c] * h + b[n, t, c]
                out[n, t, c] = h
    }
}"""

TRIANGLES = """
def f(a: tensor[N, N], b: tensor[N, N]): tensor {
    compute(a, b) {
        for i in 0..N, j in 0..N:
            var s = 0.0
            for k in i..j + 1: s += a[i, k] * b[k, j]
            out[i, j] = s
    }
}"""


MAX_POOL = """
def f(x: tensor[N, C, H, W]): tensor {
    compute(x) { for n in 0..N, c in 0..C, y in 0..((H - 3) / 2 + 1), v in 0..((W - 3) / 2 + 1) {
        var s = -inf
        for q in 0..3, r in 0..3: s = max(s, x[n, c, 2 * y + q, 2 * v + r])
        out[n, c, y, v] = s
    } }
}"""

MEAN_POOL_3D = """
def f(x: tensor[N, D, H, W]): tensor {
    compute(x) { for n in 0..N, d in 0..(D / 2), y in 0..(H / 2), v in 0..(W / 2) {
        var s = 0.0
        for p in 0..2, q in 0..2, r in 0..2: s += x[n, 2 * d + p, 2 * y + q, 2 * v + r]
        out[n, d, y, v] = s / 8.0
    } }
}"""

MEAN_POOL_1D = """
def f(x: tensor[N, C, L]): tensor {
    compute(x) { for n in 0..N, c in 0..C, i in 0..(L - 2) {
        var s = 0.0
        for q in 0..3: s += x[n, c, i + q]
        out[n, c, i] = s / 3.0
    } }
}"""

STENCIL = """
def f(x: tensor[D, H, W]): tensor {
    compute(x) { for i in 0..D, j in 0..H, k in 0..W {
        var s = -6.0 * x[i, j, k]
        if i > 0: s += x[i - 1, j, k]
        if i < D - 1: s += x[i + 1, j, k]
        if j > 0: s += x[i, j - 1, k]
        if j < H - 1: s += x[i, j + 1, k]
        if k > 0: s += x[i, j, k - 1]
        if k < W - 1: s += x[i, j, k + 1]
        out[i, j, k] = s
    } }
}"""

LIFE = """
def f(x: tensor[H, W, u8]): tensor {
    compute(x) { for i in 0..H, j in 0..W {
        var n = 0
        for a in 0..3, b in 0..3 {
            let y = i + a - 1
            let z = j + b - 1
            if y >= 0 and y < H and z >= 0 and z < W: n += x[y, z] as i32
        }
        let alive = n == 3 or (n == 4 and x[i, j] == 1)
        out[i, j] = alive as u8
    } }
}"""

DEPTHWISE_7 = """
def f(x: tensor[N, H, W, C, bf16], w: tensor[Q, R, C, bf16]) -> tensor[N, H, W, C, bf16] {
    compute(x, w) -> tensor[N, H, W, C, bf16] { for n in 0..N, i in 0..H, j in 0..W, c in 0..C {
        var s: f32 = 0.0
        for q in 0..Q, r in 0..R {
            let y = i + q - 3
            let z = j + r - 3
            if y >= 0 and y < H and z >= 0 and z < W: s += (x[n, y, z, c] as f32) * (w[q, r, c] as f32)
        }
        out[n, i, j, c] = s as bf16
    } }
}"""

DEPTHWISE_FIRST = """
def f(x: tensor[N, C, H, W], w: tensor[C, Q, R]): tensor {
    compute(x, w) { for n in 0..N, c in 0..C, y in 0..(H - Q + 1), v in 0..(W - R + 1) {
        var s = 0.0
        for q in 0..Q, r in 0..R: s += x[n, c, y + q, v + r] * w[c, q, r]
        out[n, c, y, v] = s
    } }
}"""

ROTARY = """
def f(x: tensor[B, H, S, D, bf16], cs: tensor[S, E, f32], sn: tensor[S, E, f32]) -> tensor[B, H, S, D, bf16] {
    compute(x, cs, sn) -> tensor[B, H, S, D, bf16] { for b in 0..B, h in 0..H, s in 0..S, e in 0..E {
        let p = x[b, h, s, e] as f32
        let q = x[b, h, s, e + E] as f32
        out[b, h, s, e] = (p * cs[s, e] - q * sn[s, e]) as bf16
        out[b, h, s, e + E] = (q * cs[s, e] + p * sn[s, e]) as bf16
    } }
}"""

PACKED = """
fn f(X, W, S, dense) {
    return compute(X, W, S) -> tensor[M, N, bf16] {
        for m in 0..M, n in 0..N:
            var sum: f32 = 0.0
            for k in 0..K:
                let q = (W[k / 2, n] as i32 >> (4 * (k % 2))) & 15
                sum += X[m, k] * ((q - 8) as f32) * S[k / 128, n]
            out[m, n] = sum
    }
}"""
"""Weights of 4 bits, two in a byte, with a scale for 128 of them; `dense` is for peers."""
