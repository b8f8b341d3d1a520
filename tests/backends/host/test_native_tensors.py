"""Functions that go over elements of tensors give natively what they give on Python: the same numbers, what they leave in tensors, and the
same messages."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from native_programs import Natively, native_of, opened, outcome

DTYPES = {"i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64"}
FLOATS = {"f32": "float32", "f64": "float64"}

Array = np.ndarray[Any, Any]


def both_ways(text: str, calls: Sequence[tuple[str, tuple[Any, ...]]], native: set[str]) -> list[tuple[str, str]]:
    """The outcomes of the calls, which must be the same both ways, and leave the same in what they are given. `native`: the functions that
    Python calls natively."""
    python, natively = opened(text, "none"), opened(text, "all")
    outcomes = []
    for name, arguments in calls:
        given = [tuple(copied(value) for value in arguments) for _ in range(2)]
        expected, found = outcome(python, name, given[0]), outcome(natively, name, given[1])
        assert found == expected, (name, arguments)
        for one, other, before in zip(*given, arguments, strict=True):
            if isinstance(before, np.ndarray):
                np.testing.assert_array_equal(one, other, f"{name} {arguments}")
        outcomes.append(found)
    made = native_of(natively)
    assert set(made.python if made is not None else ()) == native
    return outcomes


def copied(value: Any) -> Any:
    """The same numbers with the same distances, in memory of their own; views of one array that overlap stay so."""
    if not isinstance(value, np.ndarray):
        return value
    base = value if value.base is None else value.base
    made = base.copy(order="K")
    start = value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    array = np.lib.stride_tricks.as_strided(np.frombuffer(made, np.uint8)[start : start + 1].view(), (1,), (1,))
    return np.ndarray(value.shape, value.dtype, made, start, value.strides) if array.size else made


SUMS = """def total(x: tensor[N, T]): T {
    mut s: T = 0
    for i in 0..N { s += x[i] }
    s
}
def turned(mut x: tensor[N, T]) {
    for i in 0..N / 2 {
        let kept = x[i]
        x[i] = x[-1 - i]
        x[N - 1 - i] = kept
    }
}
def raised(mut x: tensor[?, T], by: T) {
    for i in 0..len(x) { x[i] += by }
}
def at(x: tensor[N, M, T], i: int, j: int): T { x[i, j] }
def of(x: tensor[A, B, C, T]): (int, int, int, int, int) { (x.shape(0), x.shape(1), C, x.numel(), x.ndim()) }
"""


def views(dtype: str) -> dict[str, Array]:
    whole = (np.arange(12) % 7).astype(dtype)
    return {"whole": whole, "steps": whole[1:11:3], "back": whole[::-2], "none": whole[:0], "one": whole[3:4]}


@pytest.mark.parametrize("dtype", [*DTYPES, *FLOATS])
def test_elements_of_all_numbers(dtype: str) -> None:
    text = SUMS.replace("T]", f"{dtype}]").replace(": T", f": {dtype}")
    text = text.replace("= 0\n", "= 0.0\n") if dtype in FLOATS else text
    numpy = {**DTYPES, **FLOATS}[dtype]
    calls: list[tuple[str, tuple[Any, ...]]] = []
    for view in views(numpy).values():
        calls += [("total", (view,)), ("turned", (view,)), ("raised", (view, 3))]
    table = (np.arange(24) % 5).astype(numpy).reshape(2, 3, 4)
    for index in ((0, 0), (1, 2), (-1, -3), (2, 0), (0, 3), (-3, 0), (0, -4)):
        calls += [("at", (table[:, :, 1], *index)), ("at", (table[:, :0, 0], *index)), ("at", (table[0].T, *index))]
    calls += [("of", (table,)), ("of", (table.transpose(2, 0, 1),)), ("of", (table[:, ::-2, 1:],))]
    both_ways(text, calls, {"total", "turned", "raised", "at", "of"})


def test_what_is_computed() -> None:
    """Against NumPy, not only against Python."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(-9, 9, (7, 5)), rng.integers(-9, 9, (5, 4))
    natively = Natively("""def product(x: tensor[N, K, i64], y: tensor[K, M, i64], mut out: tensor[N, M, i64]) {
    for i in 0..N, j in 0..M {
        mut s = 0
        for k in 0..K { s += x[i, k] * y[k, j] }
        out[i, j] = s
    }
}
def sorted(mut x: tensor[N, f64]) {
    for i in 1..N {
        mut j = i
        while j > 0 and x[j - 1] > x[j] {
            let kept = x[j]
            x[j] = x[j - 1]
            x[j - 1] = kept
            j -= 1
        }
    }
}
""")
    from runtime.tensor import Tensor

    out, line = np.zeros((7, 4), np.int64), rng.normal(size=41)
    natively("product", Tensor(a), Tensor(b), Tensor(out))
    np.testing.assert_array_equal(out, a @ b)
    expected = np.sort(line)
    natively("sorted", Tensor(line))
    np.testing.assert_array_equal(line, expected)


def test_tensors_go_from_function_to_function() -> None:
    text = """def row(x: tensor[N, M, f64], i: int): float {
    mut s = 0.0
    for j in 0..M { s += x[i, j] }
    s
}
def put(mut y: tensor[K, f64], i: int, v: float) { y[i] = v }
def rows(x: tensor[R, S, f64], mut sums: tensor[R, f64]) {
    let z = x
    for i in 0..R { put(sums, i, row(z, i)) }
}
"""
    x = np.arange(6.0).reshape(3, 2)
    given: list[tuple[str, tuple[Any, ...]]] = [("rows", (x, np.zeros(3))), ("rows", (x.T, np.zeros(2))), ("rows", (x, np.zeros(2)))]
    outcomes = both_ways(text, given, {"row", "put", "rows"})
    assert outcomes[0] == ("NoneType", "None") and outcomes[2][0] == "error" and "error[ZYN0802]: size `R` is 3" in outcomes[2][1]


def test_views_of_the_same_memory() -> None:
    text = """def shifted(x: tensor[N, i64], mut y: tensor[N, i64]) {
    for i in 0..N { y[i] = x[i] + 1 }
}
"""
    natively, python = opened(text, "all"), opened(text, "none")
    found, expected = np.zeros(9, np.int64), np.zeros(9, np.int64)
    natively.functions["shifted"](found[:-1], found[1:])
    python.functions["shifted"](expected[:-1], expected[1:])
    assert found.tolist() == expected.tolist() == list(range(9))


def test_elements_take_what_they_take_on_python() -> None:
    text = """def single(mut x: tensor[N, f32], v: f64) { for i in 0..N { x[i] = v as f32 } }
def whole(mut x: tensor[N, f32], v: int) { for i in 0..N { x[i] = v } }
def truth(mut x: tensor[N, bool], y: tensor[M, f32]) { for i in 0..N { x[i] = y[i] > 0.5f32 } }
def narrow(mut x: tensor[N, i32], v: i32) { for i in 0..N { x[i] = v * 2i32 } }
"""
    wide = np.zeros(3, np.float32)
    calls: list[tuple[str, tuple[Any, ...]]] = [("single", (wide, v)) for v in (0.1, 1e300, -1e-50, float("nan"))]
    calls += [("whole", (wide, v)) for v in (3, 16777217, -(2**63))]
    calls += [("truth", (np.zeros(3, bool), np.array([0.0, 1.0, np.nan], np.float32)))]
    calls += [("narrow", (np.zeros(2, np.int32), v)) for v in (5, 2**31 - 1)]
    both_ways(text, calls, {"single", "whole", "truth", "narrow"})


def test_what_the_boundary_leaves_to_python() -> None:
    """Lists, other dtypes, other ranks, sizes that differ, memory that may not be written, unaligned elements."""
    text = """def dot(x: tensor[N, f64], y: tensor[N, f64]): float {
    mut s = 0.0
    for i in 0..N { s += x[i] * y[i] }
    s
}
def fixed(x: tensor[3, f64]): float { x[0] + x[2] }
def cleared(mut x: tensor[N, f64]) { for i in 0..N { x[i] = 0.0 } }
"""
    line = np.arange(3.0)
    sealed = np.arange(3.0)
    sealed.flags.writeable = False
    uneven = np.frombuffer(bytearray(25), np.uint8)[1:].view(np.float64)
    program, python = opened(text, "all"), opened(text, "none")
    for name, arguments in (
        ("dot", (line, line)), ("dot", ([1.0, 2.0], [3.0, 4.0])), ("dot", (line, line[:2])), ("dot", (line.astype(np.float32), line)),
        ("dot", (line, line.reshape(1, 3))), ("dot", (sealed, sealed)), ("dot", (uneven, line)), ("fixed", (line,)), ("fixed", (line[:2],)),
        ("cleared", (sealed,)), ("cleared", (uneven,)), ("dot", (None, line)),
    ):  # fmt: skip
        assert outcome(program, name, arguments) == outcome(python, name, arguments), (name, arguments)
    assert uneven.tolist() == [0.0, 0.0, 0.0]


def test_what_fails_leaves_what_was_written() -> None:
    text = """def filled(mut x: tensor[N, i64], n: int) {
    for i in 0..n { x[i] = 100 / (3 - i) }
}
"""
    outcomes = both_ways(text, [("filled", (np.zeros(n, np.int64), 6)) for n in (0, 2, 9)], {"filled"})
    assert outcomes[0][1] == """error[ZYN0801]: index 0 is out of range of axis 0: the axis is empty
 --> <program>:2:21
  |
2 |     for i in 0..n { x[i] = 100 / (3 - i) }
  |                     ^^^^"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def f(x: tensor[N, f16]): int { N }", "`x` is a tensor whose elements are no native numbers"),
        ("def f(x: tensor): int { x.numel() }", "`x` is a tensor whose elements are no native numbers"),
        ("def f(x: tensor[2*N, f64]): int { N }", "`x` is a tensor whose axes aren't known"),
        ('def f(x: tensor[N, f64] on "cpu"): int { N }', "`x` is a tensor on cpu"),
        ("def f(x: tensor[N, f64]): float { x.sum() }", "it calls `sum`, which has no native code"),
        ("def f(x: tensor[N, f64]): tensor[3, f64] { x }", "its result has an extent that is compared"),
        ("def f(n: int): tensor { rand(n) }", "it calls `rand`, which has no native code"),
        ("def f(n: int): tensor { zeros(n, dtype=bf16) }", "it makes a tensor whose elements are no native numbers"),
        ("def f(n: int): tensor { zeros(n, device=\"cpu\") }", "it makes a tensor on a device that is named"),
        ("def f(n: int): tensor { zeros(n, n, 1, 1, 2) }", "it makes a tensor of more than 4 axes"),
        ("def f(n: int, v: float): tensor { full(n, v, dtype=i32) }", "it makes a tensor by arguments that native code doesn't take"),
        ("def f(n: int): tensor { let t: tensor[3, f32] = zeros(n)\n t }", "a variable is a tensor[3, f32], whose extents are compared"),
        ("def f(x: (tensor[N, f64], int)): int { x.1 }", "`x` is a tuple with a tensor"),
        ("def f(x: tensor[N, M, f64]): float { mut s = 0.0\n for a, b in x { s += a }\n s }", "it takes rows of a tensor apart"),
        ("def f(x: tensor[N, f64]): float { mut y = x\n y += 1.0\n y[0] }", "it computes with the tensor `y`"),
        ("def f(x: tensor[N, f64]): float { let y = x + 1.0\n y[0] }", "it makes a tensor, or a part of one"),
        ("def f(x: tensor[N, f64], i: int): int { x.shape()[i] }", "it calls `shape`, which has no native code"),
        (
            "def g(x: tensor[N, f64], y: tensor[N, f64]): float { x[0] + y[0] }\ndef f(x: tensor[A, f64]): float { g(x, x) }",
            "it calls `g`, where sizes are compared",
        ),
    ],
)
def test_why_a_function_of_tensors_is_not_native(text: str, words: str) -> None:
    from compiler.options import CompileOptions
    from compiler.source import Source, Sources
    from compiler.typed_ast.check import checker_of
    from compiler.typed_ast.effects import effects
    from compiler.typed_ast.native_calls import has_native_code
    from zynml.api import open_source

    source = Source("<program>", text + "\n")
    session = open_source(source, CompileOptions(), Sources(source), lambda warning: None)
    found = effects(checker_of(session.check(), session.language.library), session.check(), has_native_code)
    assert words in [reason.words for reason in found.functions["f"].reasons]
