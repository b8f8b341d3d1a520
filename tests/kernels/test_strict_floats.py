"""`floats=strict`: every operation is rounded by itself and sums run in the written order, to the bit, on the CPU and the emulator. What is
expected is computed by loops over NumPy's scalars. `floats=contract` may round a product and its sum once: exact fractions say to what."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import zynml
from tests.kernels.checks import DEVICE, DTYPES, Array, compiled, generator

DEVICES = (DEVICE, "emulator")
FLOATS = ("f32", "f64")


def bits(array: Any) -> Array:
    """The bits, so that zeros of both signs differ."""
    made = np.asarray(array)
    return made.view(f"uint{8 * made.itemsize}")


def bit_for_bit(got: Any, want: Any) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(bits(got), bits(want))


def strict(text: str, device: str | None) -> zynml.CompiledProgram:
    return compiled(text, floats="strict", device=device)


def normal(dtype: str, *shape: int, seed: object = 0) -> Array:
    return generator(dtype, shape, seed).standard_normal(shape).astype(DTYPES[dtype])


def added_up(terms: Array, start: float = 0.0) -> Any:
    """The sum along the last axis, one after the other, in the terms' type."""
    total = np.full(terms.shape[:-1], start, terms.dtype)
    for k in range(terms.shape[-1]):
        total = total + terms[..., k]
    return total


# ---- products and sums ---------------------------------------------------------------------------------------------------


def fused(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once: exactly, then to the type (whose double rounding by way of f64 these numbers don't meet)."""
    exact = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c, strict=True)]
    return np.array([float(value) for value in exact]).astype(a.dtype)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_product_and_its_sum_are_rounded_apart(dtype: str, device: str | None) -> None:
    """(1 + e)(1 - e) - 1 is -e*e rounded once, and 0 rounded twice."""
    e = 2.0 ** -(13 if dtype == "f32" else 27)
    a = np.concatenate([[1 + e], normal(dtype, 300, seed="a")]).astype(DTYPES[dtype])
    b = np.concatenate([[1 - e], normal(dtype, 300, seed="b")]).astype(DTYPES[dtype])
    c = np.concatenate([[-1.0], normal(dtype, 300, seed="c")]).astype(DTYPES[dtype])
    text = f"def f(a: tensor[N, {dtype}], b: tensor[N, {dtype}], c: tensor[N, {dtype}]) {{ compute(a, b, c) {{ for i in 0..N: out[i] = a[i] * b[i] + c[i] }} }}"
    bit_for_bit(strict(text, device).f(a, b, c), a * b + c)
    bit_for_bit(strict(text.replace("+ c", "- c"), device).f(a, b, -c), a * b + c)
    bit_for_bit(strict(text.replace("a[i] * b[i] + c[i]", "c[i] - a[i] * b[i]"), device).f(-a, b, c), a * b + c)
    assert (a * b + c)[0] == 0.0 and fused(a, b, c)[0] == DTYPES[dtype].type(-e * e)
    if dtype == "f64":
        free = compiled(text, device=device).f(a, b, c)
        assert ((free == a * b + c) | (free == fused(a, b, c))).all()


def test_contracted_products_are_fused_on_this_cpu() -> None:
    """The switch does something: where the processor has FMAs, `contract` uses them."""
    text = "def f(a: tensor[N], b: tensor[N]) { compute(a, b) { for i in 0..N: out[i] = a[i] * b[i] + 1.5 } }"
    free, written = (compiled(text, floats=floats) for floats in ("contract", "strict"))
    assert "llvm.fma" in free.llvm and "llvm.fma" not in written.llvm and "contract" not in written.llvm and "reassoc" not in written.llvm
    assert "vfm" not in written.asm


@pytest.mark.parametrize("target", ("sm_75", "sm_80", "sm_90"))
def test_ptx_of_strict_blocks_has_no_fma(target: str) -> None:
    """Operations without `.rn` may be contracted by the assembler."""
    text = """
def f(a: tensor[M, K], b: tensor[K, N], c: tensor[N]) {
    compute(a, b, c) {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += a[i, k] * b[k, j]
            out[i, j] = s * c[j] + 1.5
    }
}
def g(a: tensor[N, f64]) { compute(a) @kernel(reduce, +) { for i in 0..N: yield a[i] * a[i] - 1.0 } }
"""
    written = str(compiled(text, floats="strict").emit("ptx", target))
    words = written.split()
    assert not [word for word in words if word.startswith(("fma.", "mad.f", "mma.", "wgmma."))]
    operations = [word for word in words if word.startswith(("add.", "sub.", "mul.")) and word.endswith(("f32", "f64"))]
    assert operations and all(".rn." in word for word in operations)
    assert "fma.rn.f32" in str(compiled(text).emit("ptx", target))


# ---- sums in written order ------------------------------------------------------------------------------------------------

SUMS: dict[str, tuple[str, Callable[[Array], Any]]] = {
    "a variable": ("for i in 0..N {{ var s = 0.0\n for k in 0..K {{ s += x[i, k] * x[i, k] }}\n out[i] = s }}", lambda x: added_up(x * x)),
    "from a number": ("for i in 0..N {{ var s = 2.5\n for k in 0..K {{ s += x[i, k] }}\n out[i] = s }}", lambda x: added_up(x, 2.5)),
    "from an element": (
        "for i in 0..N {{ var s = x[i, 0]\n for k in 1..K {{ s = s + x[i, k] }}\n out[i] = s }}",
        lambda x: added_up(np.concatenate([x[:, 1:]], 1) if x.shape[1] > 1 else x[:, :0], 0.0) if x.shape[1] == 0 else _from(x),
    ),
    "differences": ("for i in 0..N {{ var s = 0.0\n for k in 0..K {{ s -= x[i, k] }}\n out[i] = s }}", lambda x: added_up(-x)),
    "an element": ("for i in 0..N, k in 0..K: out[i] += x[i, k]", lambda x: added_up(x)),
    "loops turned": ("for k in 0..K, i in 0..N: out[i] += x[i, k] * 3.0", lambda x: added_up(x * x.dtype.type(3))),
    "guarded": ("for i in 0..N, k in 0..K: if x[i, k] > 0.0: out[i] += x[i, k]", lambda x: added_up(np.where(x > 0, x, x.dtype.type(0)))),
    "a mean": (
        "for i in 0..N {{ var s = 0.0\n for k in 0..K {{ s += x[i, k] }}\n let m = s / K\n var v = 0.0\n"
        " for k in 0..K {{ v += (x[i, k] - m) * (x[i, k] - m) }}\n out[i] = v / K }}",
        lambda x: _variance(x),
    ),
    "two sums": (
        "for i in 0..N {{ var s = 0.0\n var t = 0.0\n for k in 0..K {{ s += x[i, k]\n t += x[i, k] * x[i, k] }}\n out[i] = s * t + s }}",
        lambda x: added_up(x) * added_up(x * x) + added_up(x),
    ),
    "a product": (
        "for i in 0..N {{ var s = 1.0\n for k in 0..K {{ s *= 1.0 + x[i, k] * 0.01 }}\n out[i] = s }}",
        lambda x: np.multiply.accumulate(1 + x * x.dtype.type(0.01), 1)[:, -1],
    ),
    "a recurrence": (
        "for i in 0..N {{ var s = 0.0\n for k in 0..K {{ s = s * 0.5 + x[i, k] }}\n out[i] = s }}",
        lambda x: _recurrence(x),
    ),
}


def _from(x: Array) -> Any:
    total = x[:, 0]
    for k in range(1, x.shape[1]):
        total = total + x[:, k]
    return total


def _recurrence(x: Array) -> Any:
    total = np.zeros(len(x), x.dtype)
    for k in range(x.shape[1]):
        total = total * x.dtype.type(0.5) + x[:, k]
    return total


def _variance(x: Array) -> Any:
    count = x.dtype.type(x.shape[1])
    centred = x - (added_up(x) / count)[:, None]
    return added_up(centred * centred) / count


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("form", SUMS)
def test_sums_run_in_the_written_order(form: str, dtype: str, device: str | None) -> None:
    body, reference = SUMS[form]
    text = f"def f(x: tensor[N, K, {dtype}]) {{ compute(x) -> tensor[N, {dtype}] {{ {body.format()} }} }}"
    for shape in ((1, 1000), (37, 65), (130, 7)):
        x = normal(dtype, *shape, seed=form)
        bit_for_bit(strict(text, device).f(x), reference(x))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_what_is_yielded_is_added_up_in_the_written_order(dtype: str, device: str | None) -> None:
    x = normal(dtype, 23, 131)
    nest = "for i in 0..N, k in 0..K: yield x[i, k] * x[i, k]"
    for options, want in (
        ("", added_up((x * x).reshape(-1))),
        (", axis=1", added_up(x * x)),
        (", axis=0", added_up((x * x).T)),
    ):
        text = f"def f(x: tensor[N, K, {dtype}]) {{ compute(x) @kernel(reduce, +{options}) {{ {nest} }} }}"
        bit_for_bit(np.asarray(strict(text, device).f(x), DTYPES[dtype]), want)
    running = np.add.accumulate(x * x, axis=1)
    for options, want in (
        ("", running),
        (", exclusive=true", np.concatenate([np.zeros((23, 1), x.dtype), running[:, :-1]], 1)),
        (", reverse=true", np.add.accumulate((x * x)[:, ::-1], axis=1)[:, ::-1]),
        (", axis=0", np.add.accumulate(x * x, axis=0)),
    ):
        text = f"def f(x: tensor[N, K, {dtype}]) {{ compute(x) @kernel(scan, +{options}) {{ {nest} }} }}"
        bit_for_bit(strict(text, device).f(x), want)
    long = normal(dtype, 5000)
    text = f"def f(x: tensor[N, {dtype}]) {{ compute(x) @kernel(scan, +) {{ for i in 0..N: yield x[i] }} }}"
    bit_for_bit(strict(text, device).f(long), np.add.accumulate(long))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("loops", ("r in 0..R, q in 0..Q, c in 0..C", "c in 0..C, q in 0..Q, r in 0..R", "q in 0..Q, c in 0..C, r in 0..R"))
def test_sums_over_several_loops_run_in_their_order(loops: str, device: str | None) -> None:
    x = normal("f32", 3, 5, 7, seed="loops")
    order = [loops.index(f"{name} in") for name in "rqc"]
    terms = x.transpose(*np.argsort(order)).reshape(-1)
    for body in (f"for n in 0..2, {loops}: out[n] += x[r, q, c]", f"for n in 0..2 {{ var s = 0.0\n for {loops} {{ s += x[r, q, c] }}\n out[n] = s }}"):
        text = f"def f(x: tensor[R, Q, C]) {{ compute(x) -> tensor[2] {{ {body} }} }}"
        bit_for_bit(strict(text, device).f(x), np.repeat(added_up(terms[None]), 2))
    text = f"def f(x: tensor[R, Q, C]) {{ compute(x) @kernel(reduce, +) {{ for {loops}: yield x[r, q, c] }} }}"
    assert np.float32(strict(text, device).f(x)) == added_up(terms[None])[0]


PRODUCTS = {
    "ijk": "for i in 0..M, j in 0..N {\n var s = 0.0\n for k in 0..K { s += a[i, k] * b[k, j] }\n out[i, j] = s }",
    "kij": "for k in 0..K, i in 0..M, j in 0..N: out[i, j] += a[i, k] * b[k, j]",
    "ikj": "for i in 0..M, k in 0..K, j in 0..N: out[i, j] += a[i, k] * b[k, j]",
    "with a bias": "for i in 0..M, j in 0..N {\n var s = 0.5\n for k in 0..K { s += a[i, k] * b[k, j] }\n out[i, j] = s }",
    "tiles": "for i in 0..M step 8: out[i:i+8] = a[i:i+8] @ b[0:65]",
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("form", PRODUCTS)
def test_products_of_matrices_sum_in_the_written_order(form: str, dtype: str, device: str | None) -> None:
    a, b = normal(dtype, 37, 65, seed="a"), normal(dtype, 65, 41, seed="b")
    terms = a[:, None, :] * b.T[None]
    kind = "" if form == "tiles" else "@kernel(matmul)"
    text = f"def f(a: tensor[M, K, {dtype}], b: tensor[K, N, {dtype}]) {{ compute(a, b) -> tensor[M, N, {dtype}] {kind} {{ {PRODUCTS[form]} }} }}"
    bit_for_bit(strict(text, device).f(a, b), added_up(terms, 0.5 if form == "with a bias" else 0.0))


@pytest.mark.parametrize("device", DEVICES)
def test_windows_sum_in_the_written_order(device: str | None) -> None:
    x, w = normal("f32", 2, 3, 9, 8, seed="x"), normal("f32", 4, 3, 3, 3, seed="w")
    text = """def f(x: tensor[B, C, H, W], w: tensor[O, C, R, Q]) {
        compute(x, w) @kernel(conv2d) {
            for n in 0..B, o in 0..O, y in 0..P, z in 0..S:
                var s = 0.0
                for c in 0..C, r in 0..R, q in 0..Q:
                    s += x[n, c, y + r, z + q] * w[o, c, r, q]
                out[n, o, y, z] = s
        }
    }"""
    want = np.zeros((2, 4, 7, 6), np.float32)
    for c, r, q in np.ndindex(3, 3, 3):
        want = want + x[:, None, c, r : r + 7, q : q + 6] * w[None, :, c, r, q, None, None]
    bit_for_bit(strict(text, device).f(x, w), want)


@pytest.mark.parametrize("device", DEVICES)
def test_sums_of_halves_round_at_each_step_of_an_element(device: str | None) -> None:
    """Written into an element of 16 bits, each sum is rounded; a variable sums in f32."""
    x = normal("f16", 5, 200)
    text = "def f(x: tensor[N, K, f16]) { compute(x) -> tensor[N, f16] { for i in 0..N, k in 0..K: out[i] += x[i, k] } }"
    bit_for_bit(strict(text, device).f(x), added_up(x))
    text = "def f(x: tensor[N, K, f16]) { compute(x) { for i in 0..N {\n var s = 0.0\n for k in 0..K { s += x[i, k] }\n out[i] = s } } }"
    bit_for_bit(strict(text, device).f(x), added_up(x.astype(np.float32)).astype(np.float16))


@pytest.mark.parametrize("device", DEVICES)
def test_blocks_that_hand_on_to_each_other(device: str | None) -> None:
    x = normal("f32", 12, 33)
    text = """def f(x: tensor[N, K]) {
        let y = compute(x) { for i in 0..N, k in 0..K: out[i, k] = x[i, k] * x[i, k] }
        let s = compute(y) { for i in 0..N {
            var s = 0.0
            for k in 0..K { s += y[i, k] * 3.0 }
            out[i] = s } }
        compute(s, x) { for i in 0..N, k in 0..K: out[i, k] = x[i, k] * s[i] + 1.0 }
    }"""
    sums = added_up(x * x * np.float32(3))
    bit_for_bit(strict(text, device).f(x), x * sums[:, None] + np.float32(1))


# ---- zeros ----------------------------------------------------------------------------------------------------------------

ZEROS = np.array([[-0.0, 0.0, -0.0], [0.0, -0.0, 0.0], [-0.0, -0.0, 0.0], [-1.0, -0.0, 0.0]])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ("f16", "f32", "f64"))
@pytest.mark.parametrize("operator", (">", ">=", "<", "<="))
def test_extremes_by_hand_keep_the_zero_of_the_written_order(operator: str, dtype: str, device: str | None) -> None:
    x = (ZEROS if operator[0] == ">" else -ZEROS).astype(DTYPES[dtype])
    start = "-9.0" if operator[0] == ">" else "9.0"
    want = []
    for row in x:
        best = DTYPES[dtype].type(float(start))
        for value in row:
            if {">": value > best, ">=": value >= best, "<": value < best, "<=": value <= best}[operator]:
                best = value
        want.append(best)
    for body in (
        f"for k in 0..K {{ if x[i, k] {operator} b {{ b = x[i, k] }} }}",
        f"for k in 0..K {{ b = x[i, k] if x[i, k] {operator} b else b }}",
    ):
        text = f"def f(x: tensor[N, K, {dtype}]) {{ compute(x) {{ for i in 0..N {{\n var b = {start}\n {body}\n out[i] = b }} }} }}"
        bit_for_bit(strict(text, device).f(x), np.array(want))
        assert (compiled(text, device=device).f(x) == np.array(want)).all()  # but for the sign of zeros


@pytest.mark.parametrize("device", DEVICES)
def test_the_best_and_its_index_by_hand(device: str | None) -> None:
    x = ZEROS.astype(np.float32)
    text = """def f(x: tensor[N, K]) {
        compute(x) -> (b: tensor[N], p: tensor[N, i64]) {
            for i in 0..N {
                var best = -9.0
                var at: i64 = -1
                for k in 0..K { if x[i, k] > best { best = x[i, k]
                    at = k } }
                b[i] = best
                p[i] = at
            }
        }
    }"""
    best, at = strict(text, device).f(x)
    first = x.argmax(1)
    bit_for_bit(at, first)
    bit_for_bit(best, x[np.arange(len(x)), first])


@pytest.mark.parametrize("device", DEVICES)
def test_sums_of_negative_zeros(device: str | None) -> None:
    x = np.full((2, 3), -0.0, np.float32)
    for start, want in (("0.0", 0.0), ("-0.0", -0.0)):
        text = f"def f(x: tensor[N, K]) {{ compute(x) {{ for i in 0..N {{\n var s = {start}\n for k in 0..K {{ s += x[i, k] }}\n out[i] = s }} }} }}"
        bit_for_bit(strict(text, device).f(x), np.full(2, want, np.float32))
    text = "def f(x: tensor[N, K]) { compute(x) -> tensor[N, K] { for i in 0..N, k in 0..K: out[i, k] += x[i, k] } }"
    bit_for_bit(strict(text, device).f(x), np.zeros((2, 3), np.float32))


# ---- the switch -----------------------------------------------------------------------------------------------------------

BLOCK = "def f(a: tensor[N], b: tensor[N], c: tensor[N]) { compute(a, b, c) %s { for i in 0..N: out[i] = a[i] * b[i] + c[i] } }"


@pytest.mark.parametrize(
    ("block", "config", "option", "is_strict"),
    (
        ("", "", None, False),
        ("", "", "strict", True),
        ("", "", "contract", False),
        ("", 'config { floats: "strict" }\n', None, True),
        ("", 'config { floats: "strict" }\n', "contract", False),
        ("", 'config { floats: "contract" }\n', "strict", True),
        ("@precision(floats=strict)", "", None, True),
        ("@precision(floats=strict)", 'config { floats: "contract" }\n', "contract", True),
        ("@precision(floats=contract)", 'config { floats: "strict" }\n', "strict", False),
        ("@precision(acc=f64, floats=strict)", "", None, True),
    ),
)
def test_the_block_before_the_option_before_the_program(block: str, config: str, option: str | None, is_strict: bool) -> None:
    program = zynml.compile(config + BLOCK % block, floats=option)
    assert ("contract" not in program.hir) == is_strict
    assert ("floats=strict" in program.hir) == is_strict
    e = np.float32(2.0**-13)
    a, b, c = (np.full(40, value, np.float32) for value in (1 + e, 1 - e, -1))
    if is_strict:
        bit_for_bit(program.f(a, b, c), np.zeros(40, np.float32))


def test_an_unknown_rule_is_no_rule() -> None:
    with pytest.raises(ValueError, match="floats='loose': there is contract and strict"):
        zynml.compile("def f(x) { x }", floats="loose")


def test_programs_that_are_kept_are_kept_by_their_rule() -> None:
    from compiler.options import CompileOptions, origin
    from compiler.source import Source

    source = Source("p.zynml", BLOCK % "")
    kept = {origin(source, CompileOptions(floats=floats)) for floats in (None, "contract", "strict")}
    assert len(kept) == 3


def test_ints_of_strict_blocks_go_to_the_tensor_cores() -> None:
    text = """def f(a: tensor[M, K, i8], b: tensor[K, N, i8]) {
        compute(a, b) @tensor_cores(on) @precision(floats=strict) { for i in 0..M, j in 0..N {
            var s = 0
            for k in 0..K { s += a[i, k] * b[k, j] }
            out[i, j] = s } }
    }"""
    assert "mma" in str(zynml.compile(text).emit("ptx", "sm_90"))
