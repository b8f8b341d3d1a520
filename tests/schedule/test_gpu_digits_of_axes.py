"""Axes that indices divide: scales of groups, enlarged pictures, channels that become pixels. Each has two digits, with which all indices
are affine; where the divisor doesn't divide the extent nothing is taken apart. Expected values from NumPy, of whole numbers."""

import numpy as np
import pytest

import zynml
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.memory import Load
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import Mem
from compiler.schedule.gpu.rewrites.digits_of_axes import with_digits_of_axes

UNPACKED = """def f(q: tensor[N, K, u8], s: tensor[N, G]) {
    compute(q, s) -> tensor[N, 2*K, f32] {
        for i in 0..N, k in 0..K:
            out[i, 2 * k] = (((q[i, k] & 15) as i32) - 8) as f32 * s[i, k / 16]
            out[i, 2 * k + 1] = (((q[i, k] >> 4) as i32) - 8) as f32 * s[i, k / 16]
    }
}"""
ENLARGED = """def f(x: tensor[N, H, W, f32]) {
    compute(x) -> tensor[N, 2*H, 3*W, f32] { for n in 0..N, y in 0..2*H, q in 0..3*W: out[n, y, q] = x[n, y / 2, q / 3] }
}"""
SHUFFLED = """def f(x: tensor[N, C, H, W, f32]) {
    compute(x) -> tensor[N, C / 4, 2*H, 2*W, f32] {
        for n in 0..N, c in 0..C / 4, y in 0..2*H, q in 0..2*W: out[n, c, y, q] = x[n, 4 * c + (y % 2) * 2 + q % 2, y / 2, q / 2]
    }
}"""


def whole(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).integers(0, 100, shape).astype(np.float32)


@pytest.mark.parametrize("target", ["emulator:sm_90a", "cpu"])
@pytest.mark.parametrize("columns", [16, 64, 256, 40])
def test_scales_of_groups(target: str, columns: int) -> None:
    q = np.random.default_rng(columns).integers(0, 256, (5, columns), dtype=np.uint8)
    s = whole(5, -(-columns // 16))
    scales = s.repeat(16, axis=1)[:, :columns]
    wanted = np.stack([((q & 15).astype(np.int32) - 8) * scales, ((q >> 4).astype(np.int32) - 8) * scales], axis=2).reshape(5, -1)
    assert np.array_equal(zynml.compile(UNPACKED, device=target).f(q, s), wanted)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 5), (1, 8, 64)])
def test_pixels_that_are_repeated(shape: tuple[int, ...]) -> None:
    x = whole(*shape)
    assert np.array_equal(zynml.compile(ENLARGED, device="emulator:sm_90a").f(x), x.repeat(2, axis=1).repeat(3, axis=2))


@pytest.mark.parametrize("shape", [(1, 4, 1, 1), (2, 12, 5, 7), (1, 8, 4, 64)])
def test_channels_that_become_pixels(shape: tuple[int, ...]) -> None:
    n, c, h, w = shape
    x = whole(*shape)
    wanted = x.reshape(n, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // 4, 2 * h, 2 * w)
    assert np.array_equal(zynml.compile(SHUFFLED, device="emulator:sm_90a").f(x), wanted)


def field_of(extent: int, *divisors: int) -> HirFunction:
    """A map along an axis that reads a memory at each of its quotients."""
    function = FunctionBuilder("f", Form.FIELD)
    x = function.parameter("x", Mem("f32", tuple(Affine.of(extent) for _ in divisors), readonly=True))
    out = function.parameter("out", Mem("f32", (Affine.of(extent),)))
    k = Affine.of(function.axis("k", Affine.of(extent)))
    function.body.store(out, function.body.load(x, [k.floordiv(divisor) for divisor in divisors]), [k])
    return function.finish()


def indices(field: HirFunction) -> list[str]:
    return [str(form) for op in field.body.body if isinstance(op, Load) for form in op.index]


def test_quotients_become_digits() -> None:
    taken_apart = with_digits_of_axes(field_of(96, 4, 8, 1))
    assert {name: extent.value for name, extent in taken_apart.axes.items()} == {"k_high_high": 12, "k_high_low": 2, "k_low": 4}
    assert indices(taken_apart) == ["2*k_high_high+k_high_low", "k_high_high", "8*k_high_high+4*k_high_low+k_low"]


@pytest.mark.parametrize(("extent", "divisor"), [(97, 4), (4, 4), (3, 8)])
def test_extents_that_a_divisor_does_not_divide_stay(extent: int, divisor: int) -> None:
    field = field_of(extent, divisor)
    assert with_digits_of_axes(field) is field


def test_heavy_terms_leave_threads_few_elements() -> None:
    """A term of some hundred operations isn't written out for many elements of a thread."""
    text = """def f(n: int, x: tensor[M]) {
        compute(n, x) -> tensor[M, i32] { for j in 0..M {
            var count: i32 = 0
            for i in 0..n { if uniform(7, i, j) < 0.5: count += 1 }
            out[j] = count
        } }
    }"""
    (call,) = zynml.compile(text)._session.launches_like(["n=1000, x=4096:f32"], "emulator:sm_90a")
    assert len(str(call.threads.launches.launches[-1].function).splitlines()) < 1500


ROTARY = """def f(x: tensor[T, D, f32], c: tensor[T, E, f32]) {
    compute(x, c) {
        for t in 0..T, d in 0..D:
            let e = if d < E { d } else { d - E }
            let other = if d < E { -x[t, d + E] } else { x[t, d - E] }
            out[t, d] = x[t, d] + other * c[t, e]
    }
}"""


@pytest.mark.parametrize("target", ["emulator:sm_90a", "emulator:sm_80", "cpu"])
@pytest.mark.parametrize("half", [1, 3, 8, 32])
def test_halves_of_a_row_that_a_condition_tells_apart(target: str, half: int) -> None:
    x, c = whole(7, 2 * half), whole(7, half)
    first, second = x[:, :half], x[:, half:]
    assert np.array_equal(zynml.compile(ROTARY, device=target).f(x, c), np.hstack([first - second * c, second + first * c]))


@pytest.mark.parametrize("target", ["emulator:sm_90a", "cpu"])
@pytest.mark.parametrize(("row", "half", "told"), [(7, 3, "index 3 is out of range: axis 1 of `c` has 3 elements"), (8, 5, "index 8 is out of range")])
def test_halves_that_sizes_dont_make_are_outside(target: str, row: int, half: int, told: str) -> None:
    with pytest.raises(zynml.ZynMLError, match=told):
        np.asarray(zynml.compile(ROTARY, device=target).f(whole(2, row), whole(2, half)))


def test_an_axis_of_which_a_condition_takes_thirds() -> None:
    source = """def f(x: tensor[R, D, f32], y: tensor[R, E, f32]) {
        compute(x, y) { for r in 0..R, d in 0..D: out[r, d] = if d >= 2 * E { y[r, d - 2 * E] } else { x[r, d] } }
    }"""
    x, y = whole(5, 24), whole(5, 8)
    assert np.array_equal(zynml.compile(source, device="emulator:sm_90a").f(x, y), np.hstack([x[:, :16], y]))


PAIRS = """def f(x: tensor[T, D, f32], c: tensor[T, D, f32]) {
    compute(x, c) {
        for t in 0..T, d in 0..D:
            let other = if d % 2 == 0 { -x[t, d + 1] } else { x[t, d - 1] }
            out[t, d] = x[t, d] + other * c[t, d]
    }
}"""


@pytest.mark.parametrize("target", ["emulator:sm_90a", "emulator:sm_80", "cpu"])
@pytest.mark.parametrize("pairs", [1, 3, 8, 33])
def test_neighbours_that_a_remainder_tells_apart(target: str, pairs: int) -> None:
    x, c = whole(5, 2 * pairs), whole(5, 2 * pairs)
    swapped = np.stack([-x[:, 1::2], x[:, ::2]], axis=2).reshape(5, -1)
    assert np.array_equal(zynml.compile(PAIRS, device=target).f(x, c), x + swapped * c)


@pytest.mark.parametrize("target", ["emulator:sm_90a", "cpu"])
def test_the_last_of_an_odd_number_has_no_neighbour(target: str) -> None:
    with pytest.raises(zynml.ZynMLError, match="index 7 is out of range: axis 1 of `x` has 7 elements"):
        np.asarray(zynml.compile(PAIRS, device=target).f(whole(2, 7), whole(2, 7)))


@pytest.mark.parametrize("bound", [1, 2, 3, 7])
def test_a_condition_that_no_element_meets_divides_nothing(bound: int) -> None:
    source = f"def f(x, y) {{ compute(x, y) {{ for i in 2..7: out[i] = (i < {bound} ? x[0] : y[i]) }} }}"
    x, y = np.array([9], np.uint8), np.arange(7, dtype=np.uint8)
    index = np.arange(7)
    wanted = np.where(index < 2, 0, np.where(index < bound, x[0], y))
    np.testing.assert_array_equal(zynml.compile(source, device="emulator:sm_90a").f(x, y), wanted)
