"""Sizes solved from indices, guards, declared dims and scalars; shapes and dtypes of results; where checks go."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import block_of, lower_block, run_block, run_lowered, signature_for

from compiler.diagnostics import ZyntaxError
from compiler.launch.signature import signature_of
from compiler.lowering.compute import lower_compute
from compiler.lowering.launch import evaluate
from compiler.lowering.outcome import outcome_type
from compiler.typed_ast.types import DType, Scalar, ShapeExpr, StaticShape, SymbolicShape, TensorShape, TensorType


def sizes_of(text: str, dims: Any = None, **arrays: Any) -> dict[str, int]:
    lowered = lower_block(text, dims, **arrays)
    shapes = {name: value.shape for name, value in arrays.items() if isinstance(value, np.ndarray)}
    scalars = {name: value for name, value in arrays.items() if name not in shapes}
    return dict(evaluate(lowered.plan, shapes, scalars).values)


def zeros(*shape: int, dtype: Any = "f4") -> np.ndarray:
    return np.zeros(shape, dtype)


TABLE = (
    ("for i in 0..S: out[i] = x[i]", 10, {"S": 10}, (10,)),
    ("for i in 0..S: out[i] = x[i + 1]", 10, {"S": 9}, (9,)),
    ("for i in 0..S: out[i] = x[i] - x[i + 2]", 10, {"S": 8}, (8,)),
    ("for i in 0..S: out[i] = x[2 * i]", 9, {"S": 5}, (5,)),
    ("for i in 0..S: out[i] = x[2 * i]", 10, {"S": 5}, (5,)),
    ("for i in 0..S: out[i] = x[3 * i + 1]", 11, {"S": 4}, (4,)),
    ("for d in 0..H/2: out[d] = x[2 * d + 1]", 10, {"H": 10}, (5,)),
    ("for d in 0..H/2: out[d] = x[2 * d + 1]", 11, {"H": 11}, (5,)),
    ("for i in 1..S - 1: out[i] = x[i - 1] + x[i + 1]", 10, {"S": 10}, (9,)),
    ("for i in 0..=S: out[i] = x[i]", 10, {"S": 9}, (10,)),
    ("for i in S - 1..-1 step -1: out[i] = x[i]", 10, {"S": 10}, (10,)),
    ("for q in 0..S step 4, t in 0..4: out[q + t] = x[q + t]", 12, {"S": 12}, (12,)),
    ("for j in 0..8 { if j < W { out[j] = x[j] } }", 5, {"W": 5}, (5,)),
    ("for i in 0..S: out[i] = x[clamp(i + 3, 0, S - 1)]", 7, {"S": 7}, (7,)),
    ("for i in 0..S { for j in 0..=i: out[i, j] = x[j] }", 4, {"S": 4}, (4, 4)),
    ("for i in 0..len: out[i] = x[i]", 6, {"len": 6}, (6,)),
    ("for i in 0..len(x): out[i] = x[i]", 6, {}, (6,)),
    ("for i in 0..x.shape[0] / 2: out[i] = x[i]", 7, {}, (3,)),
)


@pytest.mark.parametrize(("body", "extent", "solved", "shape"), TABLE)
@pytest.mark.parametrize("static", (False, True))
def test_a_size_is_the_largest_for_which_all_indices_are_inside(
    body: str, extent: int, solved: dict[str, int], shape: tuple[int, ...], static: bool
) -> None:
    x = zeros(extent)
    text = f"let y = compute(x) {{ {body} }}"
    dims = {"x": (extent,)} if static else None
    found = sizes_of(text, dims, x=x)
    assert {name: found[name] for name in solved} == solved
    assert run_block(text, dims, x=x).shape == shape


def test_a_window_solves_two_sizes_one_after_the_other() -> None:
    text = "let y = compute(x, w) { for o in 0..O { for k in 0..K: out[o] += x[o + k] * w[k] } }"
    found = sizes_of(text, x=zeros(10), w=zeros(3))
    assert (found["O"], found["K"]) == (8, 3)


def test_a_declared_dim_comes_first_then_an_int_in_scope() -> None:
    declared = sizes_of("let y = compute(x) { for i in 0..N: out[i] = x[i] }", {"x": ("N",)}, x=zeros(5))
    assert declared["N"] == 5
    text = "let y = compute(x, n) { for i in 0..n: out[i] = x[i] }"
    assert run_block(text, x=zeros(5), n=3).shape == (3,)


def test_equal_dims_of_two_inputs_are_asked_at_launch() -> None:
    text = "let y = compute(a, b) { for i in 0..N: out[i] = a[i] + b[i] }"
    assert run_block(text, a=zeros(4), b=zeros(4)).shape == (4,)
    with pytest.raises(ZyntaxError) as caught:
        run_block(text, a=zeros(4), b=zeros(5))
    assert [d.code for d in caught.value.diagnostics] == ["0802"]


@pytest.mark.parametrize(
    ("body", "checks"),
    (
        ("for i in 0..N: out[i] = x[i]", 0),
        ("for i in 0..N { if i > 0 { out[i] = x[i - 1] + x[i] } }", 0),
        ("for i in 0..N { if 0 <= i - 2 and i - 2 < N { out[i] = x[i - 2] + x[i] } }", 0),
        ("for i in 0..N { if not (i < 1 or i >= N - 1) { out[i] = x[i - 1] + x[i + 1] } }", 0),
        ("for i in 0..N: out[i] = (i > 0 ? x[i - 1] : 0.0) + x[i]", 0),
        ("for i in 0..N { if i == 0 { continue }\n out[i] = x[i - 1] + x[i] }", 0),
        ("for i in 0..N { for j in i..N: out[i, j] = x[j - i] + x[j] }", 0),
        ("for i in 0..N: out[i] = x[i / 2] + x[i] + x[i - i % 3]", 0),
        ("for i in 0..N: out[i] = x[min(i + 1, N - 1)] + x[i]", 0),
        ("for i in 0..N: out[i] = x[N - 1 - i]", 0),
        ("for i in 0..(N - 3) / 2 + 1 { for r in 0..3: out[i] += x[2 * i + r] }", 0),
        ("for i in 0..N: out[i] = x[x[i] as i32]", 1),
        ("for i in 0..N { for j in 0..i * i: out[i] += x[j] + x[i] }", 1),
    ),
)
def test_indices_are_proved_in_bounds_by_ranges_and_guards(body: str, checks: int) -> None:
    lowered = lower_block(f"let y = compute(x) {{ {body} }}", x=zeros(9))
    assert len(lowered.function.sites) == checks


@pytest.mark.parametrize(
    ("body", "checks"),
    (
        ("for i in 0..N { out[i] = x[i]\n if i + 1 < N { out[i] = x[i + 1] } }", 0),
        ("for i in 0..N { out[i] = x[i]\n if i + 1 <= N { out[i] = x[i + 1] } }", 1),
        ("for i in 0..N { out[i] = x[i]\n if i + 2 <= N { out[i] = x[i + 1] } }", 0),
        ("for i in 0..N { out[i] = x[i]\n if i + 1 > N { } else { out[i] = x[i + 1] } }", 1),
        ("for i in 0..N { out[i] = x[i]\n if i + 2 > N { } else { out[i] = x[i + 1] } }", 0),
        ("for i in 0..N { if i < 1 { out[i] = 0.0 } else { out[i] = x[i - 1] + x[i] } }", 0),
        ("for i in 0..N { if i < 1 { out[i] = 0.0 } else { out[i] = x[i - 2] + x[i] } }", 1),
        ("for i in 0..N { if i <= 1 { out[i] = 0.0 } else { out[i] = x[i - 2] + x[i] } }", 0),
        ("for i in 0..N { if i >= 1 { out[i] = x[i - 1] + x[i] } else { out[i] = x[i] } }", 0),
        ("for i in 0..N { if i >= 1 { out[i] = x[i - 2] + x[i] } else { out[i] = x[i] } }", 1),
    ),
)
def test_what_a_comparison_says_on_either_side_is_exact(body: str, checks: int) -> None:
    lowered = lower_block(f"let y = compute(x) {{ {body} }}", {"x": ("N",)}, x=zeros(9))
    assert len(lowered.function.sites) == checks


def test_a_number_among_declared_dims_is_asked_at_launch() -> None:
    text = "let y = compute(x) { for i in 0..N { for c in 0..3 { if i > c { out[i] += x[i, c] } } } }"
    assert not lower_block(text, {"x": ("N", 3)}, x=zeros(4, 3)).function.sites
    assert run_block(text, {"x": ("N", 3)}, x=zeros(4, 3)).shape == (4,)
    with pytest.raises(ZyntaxError) as caught:
        run_block(text, {"x": ("N", 3)}, x=zeros(4, 2))
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [
        ("0802", "axis 1 of `x` is declared as 3, which is 3, but it has 2 elements")
    ]


@pytest.mark.parametrize("shape", [StaticShape((4, 3)), SymbolicShape((ShapeExpr.of(4), ShapeExpr.of(3)))])
def test_dims_that_a_type_gives_as_numbers_are_numbers_in_the_kernel(shape: TensorShape) -> None:
    compute, functions, _ = block_of("let y = compute(x) { for i in 0..4, c in 0..3 { out[i, c] = x[i, c] } }")
    signature = signature_of(compute, {"x": zeros(4, 3)}, {"x": TensorType(Scalar(DType.F32), shape)}, functions, frozenset())
    assert signature.tensors[0].dims == (4, 3)
    assert not lower_compute(compute, signature).function.sites


@pytest.mark.parametrize("declared", ("", " -> tensor[(N - 3) / 2 + 1, f32]"))
@pytest.mark.parametrize(("extent", "windows"), ((9, 4), (8, 3), (3, 1), (1, 0)))
def test_the_number_of_windows_is_a_quotient(declared: str, extent: int, windows: int) -> None:
    text = f"let y = compute(x){declared} {{ for i in 0..(N - 3) / 2 + 1 {{ for r in 0..3: out[i] += x[2 * i + r] }} }}"
    assert run_block(text, {"x": ("N",)}, x=zeros(extent)).shape == (windows,)


@pytest.mark.parametrize(
    ("text", "dtypes", "want"),
    (
        ("a[i] + 1", ("i4",), "i32"),
        ("a[i] * 0.5", ("i4",), "f64"),
        ("a[i] * 0.5", ("f4",), "f32"),
        ("a[i] * i", ("f4",), "f32"),
        ("a[i] + b[i]", ("f4", "f8"), "f64"),
        ("a[i] + b[i]", ("f2", ml_dtypes.bfloat16), "f32"),
        ("a[i] + b[i]", ("i4", "f2"), "f16"),
        ("a[i] + b[i]", ("u1", "i1"), "i16"),
        ("a[i] + b[i]", ("u4", "i4"), "i64"),
        ("a[i] > b[i]", ("f4", "f4"), "bool"),
        ("sqrt(a[i])", ("f2",), "f16"),
        ("sqrt(a[i])", ("i4",), "f64"),
        ("a[i] as f16", ("f4",), "f16"),
        ("scale * a[i]", ("f4",), "f32"),
        ("n * a[i]", ("i2",), "i16"),
        ("2.0f64 * a[i]", ("f4",), "f64"),
        ("i", ("f4",), "i64"),
        ("where(a[i] > 0.0, 1.0, 0.0)", ("f4",), "f64"),
    ),
)
def test_the_dtype_of_out_is_the_join_of_the_tensors_that_reach_it(text: str, dtypes: tuple[Any, ...], want: str) -> None:
    arrays = {name: zeros(3, dtype=dtype) for name, dtype in zip("ab", dtypes, strict=False)}
    program = f"let y = compute({', '.join(arrays)}, scale, n) {{ for i in 0..a.shape[0]: out[i] = {text} }}"
    lowered = lower_block(program, **arrays, scale=2.0, n=3)
    assert lowered.plan.results[0].dtype.value == want


@pytest.mark.parametrize(
    ("dtype", "start", "want"), (("f2", "0.0", "f16"), ("i1", "0", "i32"), ("i2", "1", "i32"), ("i8", "0", "i64"), ("f4", "0.0f64", "f64"))
)
def test_a_sum_takes_the_type_that_flows_in(dtype: str, start: str, want: str) -> None:
    text = f"let y = compute(a) {{ for i in 0..N {{ var s = {start}\n for j in 0..M {{ s += a[i, j] }}\n out[i] = s }} }}"
    assert lower_block(text, a=zeros(2, 3, dtype=dtype)).plan.results[0].dtype.value == want


@pytest.mark.parametrize(
    ("body", "zeroed", "warned"),
    (
        ("for i in 0..N: out[i] = x[i]", False, False),
        ("for i in 0..N: out[N - 1 - i] = x[i]", False, False),
        ("for i in 0..N: out[i] += x[i]", True, False),
        ("for i in 1..N: out[i] = x[i]", True, True),
        ("for i in 0..N step 2: out[i] = x[i]", True, True),
        ("for i in 0..N { if x[i] > 0.0 { out[i] = x[i] } }", True, False),
        ("for i in 0..N { if x[i] > 0.0 { out[i] = x[i] } else { out[i] = 0.0 } }", False, False),
        ("out[0] = x[0]\n for i in 1..N: out[i] = x[i]", False, False),
    ),
)
def test_elements_that_no_write_covers_are_zero(body: str, zeroed: bool, warned: bool) -> None:
    lowered = lower_block(f"let y = compute(x) {{ {body} }}", x=zeros(9))
    assert lowered.plan.results[0].zeroed == zeroed
    assert bool(lowered.warnings) == warned


def digits(factors: tuple[int, ...], extents: tuple[int, ...], size: int, down: bool = False) -> np.ndarray:
    """Ones at the sums of loops' variables times factors, zeros elsewhere."""
    want = np.zeros(size, "f4")
    for index in np.ndindex(*(max(0, extent) for extent in extents)):
        place = int(np.dot(index, factors))
        want[size - 1 - place if down else place] = 1.0
    return want


@pytest.mark.parametrize(
    ("extent", "body", "want", "full"),
    (
        ("n", "for h in 0..n / 4, d in 0..4: out[h * 4 + d]", lambda n, m: digits((4, 1), (n // 4, 4), n), lambda n, m: n % 4 == 0),
        (
            "n",
            "for d in 0..4, h in 0..n / 4: out[n - 1 - h * 4 - d]",
            lambda n, m: digits((4, 1), (n // 4, 4), n, down=True),
            lambda n, m: n % 4 == 0,
        ),
        (
            "n",
            "for a in 0..n / 6, c in 0..2, b in 0..3: out[a * 6 + c + b * 2]",
            lambda n, m: digits((6, 1, 2), (n // 6, 2, 3), n),
            lambda n, m: n % 6 == 0,
        ),
        ("4 * n", "for h in 0..n, d in 0..4: out[h * 4 + d]", lambda n, m: digits((4, 1), (n, 4), 4 * n), lambda n, m: True),
        (
            "4 * n",
            "for h in 0..n, d in 0..min(m, 4): out[h * 4 + d]",
            lambda n, m: digits((4, 1), (n, min(m, 4)), 4 * n),
            None,
        ),
        ("n", "for i in 0..min(n, m): out[i]", lambda n, m: digits((1,), (min(n, m),), n), None),
        ("n", "for i in 0..n, k in 0..m: out[i]", lambda n, m: digits((1, 0), (n, m), n), lambda n, m: m > 0),
        ("n", "for k in 0..m step 2, i in 0..n: out[i]", lambda n, m: digits((1, 0), (n, m), n), lambda n, m: m > 0),
    ),
)
def test_sizes_decide_whether_elements_are_left_out(extent: str, body: str, want: Any, full: Any) -> None:
    text = f"let y = compute(n, m) -> tensor[{extent}, f32] {{ {body} = 1.0 }}"
    for n, m in ((n, m) for n in (0, 1, 3, 4, 6, 7, 8, 12, 24) for m in (0, 1, 3, 4, 5, 13)):
        lowered = lower_block(text, n=n, m=m)
        np.testing.assert_array_equal(run_lowered(lowered, n=n, m=m), want(n, m))
        if full is not None:
            assert evaluate(lowered.plan, {}, {"n": n, "m": m}).zeroed == (not full(n, m),)


def test_sizes_decide_whether_halves_side_by_side_are_all() -> None:
    """As a rotary embedding writes them."""
    text = "let y = compute(n, x) -> tensor[n, f32] { for i in 0..x.shape[0] { out[i] = 1.0\n out[i + x.shape[0]] = 1.0 } }"
    lowered = lower_block(text, n=8, x=zeros(4))
    for n in (6, 7, 8):
        np.testing.assert_array_equal(run_lowered(lowered, n=n, x=zeros(3)), np.arange(n) < 6)
        assert evaluate(lowered.plan, {"x": (3,)}, {"n": n}).zeroed == (n > 6,)


def test_the_static_type_of_the_value() -> None:
    text = "let y = compute(A, B) { for i in 0..M, j in 0..N, k in 0..K: out[i, j] += A[i, k] * B[k, j] }"
    compute, functions, _ = block_of(text)
    arrays = {"A": zeros(2, 3), "B": zeros(3, 4)}
    for dims, want in (
        ({"A": (2, 3), "B": (3, 4)}, "tensor[2, 4, f32]"),
        ({"A": ("P", 3), "B": (3, "Q")}, "tensor[P, Q, f32]"),
        ({}, "tensor[?, ?, f32]"),
    ):
        lowered = lower_compute(compute, signature_for(compute, functions, arrays, dims))
        assert str(outcome_type(lowered)) == want
    scalar = lower_block("let s = compute(A) @kernel(reduce, argmax) { for i in 0..N, j in 0..M: yield (A[i, j], (i, j)) }", A=zeros(2, 3))
    assert str(outcome_type(scalar)) == "(f32, (i64, i64))"


@pytest.mark.parametrize("other", [(2, 3, 5), (3, 3, 4), (3, 2, 4), (2, 4, 3), (2, 2, 6)])
def test_every_axis_of_tensors_that_run_flat_is_compared(other: tuple[int, ...]) -> None:
    """Also where they have as many elements."""
    text = "let y = compute(a, b) { for i in 0..N: out[i] = a[i] + b[i] }"
    assert run_block(text, a=zeros(2, 3, 4), b=zeros(2, 3, 4)).shape == (2, 3, 4)
    with pytest.raises(ZyntaxError) as caught:
        run_block(text, a=zeros(2, 3, 4), b=zeros(*other))
    assert {d.code for d in caught.value.diagnostics} == {"0802"}
