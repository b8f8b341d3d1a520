"""Sums and products of ints in the type that the language's table says, in every form: against NumPy's exact sums, on the CPU, in the
interpreter and on the emulator."""

from typing import Any

import numpy as np
import pytest

from tests.kernels.checks import DEVICE, DTYPES, INTS, Array, compiled, exactly, generator, launched, numbers

SMALLER = tuple((narrow, wide) for narrow in INTS for wide in INTS if int(narrow[1:]) < int(wide[1:]))
"""Operands and elements that are wider than they are, of either sign."""

ELEMENTS = {
    "adds": "for i in 0..M, j in 0..N, k in 0..K: out[i, j] += a[i, k] * b[k, j]",
    "subtracts": "for i in 0..M, j in 0..N, k in 0..K: out[i, j] -= a[i, k] * b[k, j]",
    "written out": "for i in 0..M, j in 0..N, k in 0..K: out[i, j] = a[i, k] * b[k, j] + out[i, j]",
    "by a name": """
        for i in 0..M, j in 0..N, k in 0..K:
            let x = a[i, k]
            let y = b[k, j]
            out[i, j] += x * y""",
    "through a function": "for i in 0..M, j in 0..N, k in 0..K: out[i, j] += product(a[i, k], b[k, j])",
    "guarded": "for i in 0..M, j in 0..N, k in 0..K: out[i, j] += a[i, k] * b[k, j] if k >= 1 else 0",
}


def element_program(form: str, wide: str, kind: str = "") -> str:
    body = ELEMENTS[form]
    return f"""def product(x, y) {{ x * y }}
def f(a, b) {{
    compute(a, b) -> tensor[M, N, {wide}] {kind} {{
        {body.strip()}
    }}
}}
"""


def extremes(dtype: str, shape: tuple[int, int], seed: object) -> Array:
    """The largest numbers of a type, and some of any size."""
    info = np.iinfo(DTYPES[dtype])
    return generator(dtype, seed).choice(np.array([info.min, info.max, info.max - 1, info.max // 2], DTYPES[dtype]), shape)


def wrapped(exact: Any, dtype: str) -> Array:
    """Python's ints as the type holds them."""
    values = np.asarray(exact, object)
    low = [int(value) & ((1 << int(dtype[1:])) - 1) for value in values.reshape(-1)]
    return np.array(low, f"uint{dtype[1:]}").view(DTYPES[dtype]).reshape(values.shape)


@pytest.mark.parametrize(
    ("narrow", "wide", "form"),
    [(narrow, wide, form) for narrow, wide in SMALLER for form in ELEMENTS if form != "written out" or narrow[0] == wide[0] or wide[0] == "i"],
)
def test_what_goes_into_a_wider_element_is_as_wide(narrow: str, wide: str, form: str) -> None:
    a, b = extremes(narrow, (2, 5), "a"), extremes(narrow, (5, 3), "b")
    exact = a.astype(object)[:, form == "guarded" :] @ b.astype(object)[form == "guarded" :]
    exactly(launched(element_program(form, wide), a, b), wrapped(-exact if form == "subtracts" else exact, wide))


@pytest.mark.parametrize("form", ELEMENTS)
@pytest.mark.parametrize(("narrow", "wide"), (("i8", "i32"), ("u8", "u32"), ("i8", "i64"), ("i32", "i64"), ("u32", "u64"), ("u16", "i32")))
def test_so_it_is_on_the_emulator(narrow: str, wide: str, form: str) -> None:
    a, b = extremes(narrow, (2, 5), "a"), extremes(narrow, (5, 3), "b")
    exact = a.astype(object)[:, form == "guarded" :] @ b.astype(object)[form == "guarded" :]
    got = compiled(element_program(form, wide), device="emulator").f(a, b)
    exactly(got, wrapped(-exact if form == "subtracts" else exact, wide))


@pytest.mark.parametrize("kind", ("@kernel(matmul)", "@precision(acc=i64)", "@kernel(matmul) @precision(acc=i64)"))
def test_a_kind_and_a_precision_change_nothing(kind: str) -> None:
    a, b = np.full((1, 2), 100, np.int8), np.full((2, 1), 100, np.int8)
    exactly(launched(element_program("adds", "i64", kind), a, b), np.array([[20000]], np.int64))


def test_operands_of_several_types() -> None:
    a, b = np.full((1, 2), -100, np.int8), np.full((2, 1), 200, np.uint8)
    for wide in ("i16", "i32", "u32", "i64", "u64"):
        exactly(launched(element_program("adds", wide), a, b), wrapped([[-40000]], wide))


def test_products_into_a_wider_element() -> None:
    a = np.array([100, 100, -3], np.int8)
    text = """def f(a) {
        compute(a) -> tensor[1, i64] { for i in 0..1 { out[i] = 1
            for k in 0..3 { out[i] *= a[k] * a[k] } } }
    }"""
    exactly(launched(text, a), np.array([100**4 * 9]))


@pytest.mark.parametrize("wide", ("i32", "i64"))
def test_updated_inputs_that_are_wider(wide: str) -> None:
    a, c = np.full(4, 100, np.int8), np.arange(4).astype(DTYPES[wide])
    text = "def f(a, mut c) { compute(a, mut c) { for i in 0..N, k in 0..N: c[i] += a[k] * a[k] }\n c }"
    got = compiled(text).f(a, c)
    exactly(got, (np.arange(4) + 40000).astype(DTYPES[wide]))


@pytest.mark.parametrize(("narrow", "declared"), (("i8", "i64"), ("i32", "i64"), ("u32", "u64"), ("u16", "u64")))
def test_variables_of_a_written_type(narrow: str, declared: str) -> None:
    a = extremes(narrow, (3, 9), "variable")
    for step in ("s += x[i, k] * x[i, k]", "s = s + x[i, k] * x[i, k]", "s = x[i, k] * x[i, k] + s"):
        text = f"def f(x) {{ compute(x) {{ for i in 0..N {{ var s: {declared} = 0\n for k in 0..K {{ {step} }}\n out[i] = s }} }} }}"
        exactly(launched(text, a), wrapped((a.astype(object) ** 2).sum(1), declared))


@pytest.mark.parametrize("narrow", ("i8", "i16", "u8", "u16", "i32", "u32"))
def test_variables_keep_32_bits(narrow: str) -> None:
    a = extremes(narrow, (2, 40), "var")
    wide = f"{narrow[0]}32"
    text = "def f(x) { compute(x) { for i in 0..N { var s = 0\n for k in 0..K { s += x[i, k] * x[i, k] }\n out[i] = s } } }"
    exactly(launched(text, a), wrapped((a.astype(object) ** 2).sum(1), wide))
    text = text.replace("{ compute(x) {", "{ compute(x) @precision(acc=i64) {")
    exactly(launched(text, a), wrapped((a.astype(object) ** 2).sum(1), "i64"))


def result_of_sums(narrow: str) -> str:
    """NumPy's rule."""
    return f"{narrow[0]}64"


@pytest.mark.parametrize("device", (DEVICE, "emulator"))
@pytest.mark.parametrize("narrow", ("i8", "i16", "i32", "u8", "u16", "u32"))
def test_what_is_yielded_sums_in_64_bits(narrow: str, device: str | None) -> None:
    x = extremes(narrow, (3, 37), "yield")
    exact, wide = x.astype(object), result_of_sums(narrow)
    f = compiled("def f(x) { compute(x) @kernel(reduce, +) { for i in 0..N, k in 0..K: yield x[i, k] * x[i, k] } }", device=device).f
    assert f(x) == wrapped((exact**2).sum(), wide)
    for axis in (0, 1):
        text = f"def f(x) {{ compute(x) @kernel(reduce, +, axis={axis}, keepdims=true) {{ for i in 0..N, k in 0..K: yield x[i, k] }} }}"
        exactly(compiled(text, device=device).f(x), wrapped(exact.sum(axis, keepdims=True), wide))
    text = "def f(x) { compute(x) @kernel(reduce, *, axis=1) { for i in 0..N, k in 0..K: yield x[i, k] } }"
    exactly(compiled(text, device=device).f(x), wrapped(exact.prod(1), wide))
    text = "def f(x) { compute(x) @kernel(scan, +) { for i in 0..N, k in 0..K: yield x[i, k] * x[i, k] } }"
    exactly(compiled(text, device=device).f(x), wrapped(np.cumsum(exact**2, 1), wide))
    text = "def f(x) { compute(x) @kernel(fused) { let t = reduce(+, x * x, axis=1)\n for i in 0..3: out[i] = t[i] } }"
    exactly(compiled(text, device=device).f(x), wrapped((exact**2).sum(1), wide))
    text = "def f(x) { compute(x) @kernel(reduce, mean) { for i in 0..N, k in 0..K: yield x[i, k] * x[i, k] } }"
    mean = float((exact**2).sum()) / x.size
    assert abs(compiled(text, device=device).f(x) - mean) <= 1e-12 * mean


def test_each_number_of_a_tuple_sums_in_its_own_type() -> None:
    x = np.array([100, 100, 3], np.int8)
    text = "def f(x, y) { compute(x, y) @kernel(reduce, +) { for i in 0..N: yield (x[i] * x[i], x[i], y[i] * y[i], x[i] * y[i]) } }"
    assert tuple(launched(text, x, np.array([0.5, 200, 4], np.float16))) == (20009, 203, 40016.25, 20062.0)


def test_tiles_of_ints_sum_as_their_loops_do() -> None:
    a, b = np.full((4, 300), 100, np.int8), np.full((300, 5), 100, np.int8)
    text = "def f(a, b) { compute(a, b) { for i in 0..M step 2: out[i:i+2] = a[i:i+2] @ b[0:300] } }"
    text = text.replace("def f(a, b)", "def f(a: tensor[M, K, i8], b: tensor[K, N, i8])")
    exactly(launched(text, a, b), np.full((4, 5), 300 * 100 * 100, np.int32))


def test_atomics_add_in_the_elements_type() -> None:
    x = np.full(64, 100, np.int8)
    text = "def f(x) { compute(x) -> tensor[1, i32] @kernel(custom) @workgroup(64) { atomic_add(out[0], x[thread_idx().x] * x[thread_idx().x]) } }"
    for device in (DEVICE, "emulator"):
        exactly(compiled(text, device=device).f(x), np.array([640000], np.int32))


def test_indices_and_conditions_stay_as_they_are() -> None:
    x, at = numbers("i8", 50), np.array([0, 49, 7], np.int32)
    text = "def f(x, at) { compute(x, at) -> tensor[1, i64] { for i in 0..1, k in 0..K: out[i] += x[at[k]] * x[at[k]] if at[k] > 0 else 0 } }"
    exactly(launched(text, x, at), np.array([int(x[49]) ** 2 + int(x[7]) ** 2]))


def test_what_a_condition_compares_is_as_narrow_as_it_is_written() -> None:
    """120 + 120 is -16 in 8 bits, also where the condition chooses what goes into a sum of 64 bits or of floats."""
    x = np.array([120, 1, 2], np.int8)
    for kind, total in (("i64", 3), ("f32", 3.0)):
        text = f"def f(x) {{ compute(x) -> tensor[1, {kind}] {{ for i in 0..1, k in 0..K: out[i] += x[k] if x[k] + x[k] > 0 else 0 }} }}"
        exactly(launched(text, x), np.array([total], np.int64 if kind == "i64" else np.float32))


@pytest.mark.parametrize(("narrow", "wide"), (("f16", "f32"), ("f16", "f64"), ("bf16", "f32"), ("f32", "f64")))
def test_floats_go_into_wider_elements_as_wide(narrow: str, wide: str) -> None:
    """1 + 2**-n squared is a number that the narrow type doesn't hold, by loads and by names."""
    bits = {"f16": 10, "bf16": 7, "f32": 23}[narrow]
    a = np.full((1, 3), 1 + 2.0**-bits).astype(DTYPES[narrow])
    want = np.full((1, 1), 3 * (1 + 2.0**-bits) ** 2, DTYPES[wide])
    for form in ("adds", "by a name", "written out", "through a function"):
        exactly(launched(element_program(form, wide), a, a.T.copy()), want)


@pytest.mark.parametrize("device", (DEVICE, "emulator"))
@pytest.mark.parametrize("dtype", ("i8", "i32", "f16", "f32", "f64"))
@pytest.mark.parametrize(("operator", "first"), ((">", True), (">=", False), ("<", True), ("<=", False)))
def test_ties_of_a_best_by_hand(operator: str, first: bool, dtype: str, device: str | None) -> None:
    """With > and < the first of the best wins, with >= and <= the last."""
    x = generator(operator, dtype).integers(0, 3, (4, 41)).astype(DTYPES[dtype])
    largest = operator[0] == ">"
    start = "-3" if largest else "9"
    text = f"""def f(x) {{
        compute(x) -> tensor[N, i64] {{
            for i in 0..N:
                var best = {start if dtype[0] == "i" else start + ".0"}
                var place: i64 = -1
                for k in 0..K:
                    if x[i, k] {operator} best:
                        best = x[i, k]
                        place = k
                out[i] = place
        }}
    }}"""
    key = x.astype(float) if largest else -x.astype(float)
    want = key.argmax(1) if first else x.shape[1] - 1 - key[:, ::-1].argmax(1)
    exactly(compiled(text, device=device).f(x), want.astype(np.int64))


PAIRED = """
def f(a: tensor[{a_dims}, {dtype}], b: tensor[{b_dims}, {dtype}]) {{
    compute(a, b) {{
        for i in 0..I, j in 0..J:
            var s = 0
            for k in 0..K: s += a[{a}] * b[{b}]
            out[i, j] = s
    }}
}}
"""


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16"])
@pytest.mark.parametrize("a", ["i, k", "k, i"])
@pytest.mark.parametrize("b", ["k, j", "j, k"])
def test_large_products_that_are_added_in_pairs(dtype: str, a: str, b: str) -> None:
    for rows, columns, terms in (67, 77, 333), (40, 33, 10401):
        left, right = extremes(dtype, (rows, terms), a), extremes(dtype, (terms, columns), b)
        text = PAIRED.format(a_dims=a.upper(), b_dims=b.upper(), dtype=dtype, a=a, b=b)
        program = compiled(text, threads=2)
        given = [np.ascontiguousarray(x if way in ("i, k", "k, j") else x.T) for x, way in ((left, a), (right, b))]
        result = np.asarray(program.f(*given))
        exact = left.astype(np.int64) @ right.astype(np.int64)
        np.testing.assert_array_equal(result, exact.astype(result.dtype))
