"""Reductions and scans that a function combines, and what `init=` starts them with, beside NumPy."""

import functools

import numpy as np
import pytest

from tests.kernels.checks import Array, launched, numbers


def complex_of(parts: Array) -> Array:
    return parts[0].astype(np.complex128) + 1j * parts[1].astype(np.complex128)


LARGER = "compute(x) @kernel(reduce, def(a, b): a if a > b else b, init=-inf, axis={}) {{ for i in 0..M, j in 0..N, k in 0..K: yield x[i, j, k] }}"


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_every_choice_of_axes(axes: tuple[int, ...]) -> None:
    for shape in ((3, 5, 7), (1, 33, 2), (4, 1, 1)):
        x = numbers("f32", shape)
        got = launched("def f(x) { " + LARGER.format(axes if len(axes) > 1 else axes[0]) + " }", x)
        assert np.array_equal(got, x.max(axes))


def test_of_nothing_it_is_what_it_starts_with() -> None:
    got = launched("def f(x) { " + LARGER.format(1).replace("-inf", "2.5") + " }", numbers("f32", (3, 0, 2)))
    assert np.array_equal(got, np.full((3, 2), 2.5))


COMPLEX = "def(a, b): (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)"


def test_products_of_complex_numbers() -> None:
    text = f"""def f(re, im) {{
        compute(re, im) @kernel(reduce, {COMPLEX}, init=(1.0, 0.0), axis=0) {{ for i in 0..M, j in 0..N: yield (re[i, j], im[i, j]) }}
    }}"""
    parts = [numbers("f64", (9, 4), seed) for seed in (1, 2)]
    wanted = complex_of(np.stack(parts)).prod(0)
    real, imaginary = launched(text, *parts)
    # eight products and sums, each rounded once
    assert np.allclose(real, wanted.real, rtol=1e-13, atol=1e-13) and np.allclose(imaginary, wanted.imag, rtol=1e-13, atol=1e-13)


def test_the_function_isnt_commutative() -> None:
    """`b` of non-zero `b`, else `a`: the last number that isn't zero, in the order of the loops."""
    text = """def f(x) {
        compute(x) @kernel(reduce, def(a, b) { if b == 0 { a } else { b } }, init=0, axis=0) { for i in 0..M, j in 0..N: yield x[i, j] }
    }"""
    x = numbers("i32", (40, 7), small=True)
    wanted = [functools.reduce(lambda a, b: b or a, column.tolist(), 0) for column in x.T]
    assert launched(text, x).tolist() == wanted


def test_scans_of_a_linear_recurrence() -> None:
    step = "def(p, q): (p.0 * q.0, p.1 * q.0 + q.1)"
    text = f"def f(a, x) {{ compute(a, x) @kernel(scan, {step}, init=(1.0, 0.0), axis=0) {{ for i in 0..N, j in 0..K: yield (a[i, j], x[i, j]) }} }}"
    a, x = numbers("f64", (12, 3), 1), numbers("f64", (12, 3), 2)
    factor, state = np.ones(3), np.zeros(3)
    factors, states = [], []
    for row in range(12):
        factor, state = factor * a[row], state * a[row] + x[row]
        factors.append(factor)
        states.append(state)
    got = launched(text, a, x)
    assert np.allclose(got[0], factors, rtol=1e-13) and np.allclose(got[1], states, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_start_with_init(exclusive: bool, reverse: bool) -> None:
    flags = f"exclusive={str(exclusive).lower()}, reverse={str(reverse).lower()}"
    x = numbers("i32", 9, small=True)
    turned = x[::-1] if reverse else x
    sums = 10 + np.concatenate([[0], np.cumsum(turned)]).astype(np.int64)
    wanted = sums[:-1] if exclusive else sums[1:]
    for operator in ("+", "def(a, b): a + b"):
        text = f"def f(x) {{ compute(x) @kernel(scan, {operator}, init=10, {flags}) {{ for i in 0..N: yield x[i] }} }}"
        assert launched(text, x).tolist() == (wanted[::-1] if reverse else wanted).tolist()


@pytest.mark.parametrize(("operator", "wanted"), [("+", 6.5), ("*", 12.0), ("min", 1.0), ("max", 3.0)])
def test_operators_start_with_init(operator: str, wanted: float) -> None:
    start = {"+": 0.5, "*": 2.0, "min": 7.0, "max": -1.0}[operator]
    text = f"def f(x) {{ compute(x) @kernel(reduce, {operator}, init={start}) {{ for i in 0..N: yield x[i] }} }}"
    assert launched(text, np.array([1.0, 2.0, 3.0], np.float32)) == wanted


def test_an_operator_for_each_component() -> None:
    text = "def f(x) { compute(x) @kernel(reduce, (min, max, sum), axis=1) { for i in 0..M, j in 0..N: yield (x[i, j], x[i, j], 1) } }"
    x = numbers("f32", (5, 33))
    low, high, count = launched(text, x)
    assert np.array_equal(low, x.min(1)) and np.array_equal(high, x.max(1)) and count.tolist() == [33] * 5


def test_sums_in_f16_are_kept_in_f32() -> None:
    text = "def f(x) { compute(x) @kernel(reduce, def(a, b): a + b, init=0.0) { for i in 0..N: yield x[i] } }"
    got = launched(text, np.ones(3000, np.float16))
    assert got == 3000 and np.asarray(got).dtype == np.float16
