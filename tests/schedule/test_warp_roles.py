"""Products on warps in tiles (form B) and as one role (form R), whose threads copy ahead of what they multiply: what the interpreter makes of
their text, and that threads are made of it."""

from typing import Any

import numpy as np
import pytest

from compiler.hir.gpu import SharedAlloc
from compiler.hir.module import Form, HirFunction
from compiler.hir.parse import parse_function
from compiler.hir.text import print_function
from compiler.hir.verify import verify
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.block_launches import launches_of_blocks
from compiler.schedule.gpu.choose import launches_for
from compiler.schedule.gpu.facts import facts_of
from compiler.schedule.gpu.products.warp_launch import WarpProductLaunch
from compiler.schedule.gpu.products.warp_product import product_of_role
from compiler.schedule.launches import Launch
from tests.schedule.test_gpu_convolutions import built
from tests.schedule.test_product_roles import CASES, PACKED, SIZES, heart, run
from tests.windows import CHANNELS_LAST, convolved, small


def forms_of(launch: Launch) -> list[HirFunction]:
    """Its tiles and its role, where a ring joins it."""
    return [form for _, form in launch.forms]


def launch(text: str, sizes: dict[str, int], machine: str = "sm_80") -> Launch:
    """The one launch of a program, with the tiles and the role that it is made from."""
    kernel = built(text)
    assert kernel.field is not None
    known = facts_of(sizes, [one.name for one in kernel.nest.parameters], MACHINES[machine], 2)
    (made,) = launches_for(kernel.nest, kernel.field, known).launches
    assert [form.form for form in forms_of(made)] in ([Form.TILE, Form.ROLES], [Form.TILE])
    return made


def meant(text: str, sizes: dict[str, int], arrays: dict[str, Any], wanted: Any, machine: str = "sm_80") -> list[HirFunction]:
    """All forms mean this, tiles and the role also read from their text."""
    made = launch(text, sizes, machine)
    for form in forms_of(made):
        read = parse_function(print_function(form))
        assert print_function(read) == print_function(form)
        verify(read)
        np.testing.assert_array_equal(run(read, arrays, sizes), wanted)
    counted = {**sizes, **{f"{size}_{unit}": number // unit for size, number in sizes.items() for unit in (2, 4, 8, 16, 32, 64, 128, 256)}}
    np.testing.assert_array_equal(run(made.function, arrays, sizes, grid=(made.blocks(counted), 1, 1)), wanted)
    return forms_of(made)


@pytest.mark.parametrize("name", ["plain", "transposed", "a bias and an activation", "batched"])
def test_forms_mean_the_product(name: str) -> None:
    """Tiles reach beyond the ends of rows, columns and terms, and copies of a turn beyond the last are left out."""
    meant(CASES[name].source, SIZES, CASES[name].arrays(), CASES[name].wanted())


def test_copies_run_ahead_of_what_is_multiplied() -> None:
    role = launch(CASES["plain"].source, SIZES).forms[1][1]
    assert heart(role) == [
        "%t1 = index of=3",
        "%t2 = index of=floor((8*K_8+63)/64)",
        "%t3 = min %t1, %t2",
        "%t4 = load %A[i+128*i0, k+64*k0] pad=0.0",
        "%t6 = load %P[k+64*k0, j+128*j0] pad=0.0",
        "ring.put %ring, %t5, %t7",
        "%t10 = index of=k1+3",
        "%t11 = lt %t10, %t2",
        "%t12 = load %A[i+128*i0, k+64*k1+192] pad=0.0",
        "%t14 = load %P[k+64*k1+192, j+128*j0] pad=0.0",
        "ring.put %ring, %t13, %t15",
        "%t16, %t17 = ring.get %ring",
        "%t18 = contract %t16, %t17, %t9 over=[k]",
        "yield %t18",
        "store %out[i+128*i0, j+128*j0], %t19 where=%t21",
    ]
    assert "ring<4 x (tile<i:128, k:64, bf16, in shared>, tile<j:128, k:64, bf16, in shared>)>" in print_function(role)


def test_threads_are_made_of_the_text_of_the_role() -> None:
    """Of a text with fewer stages that stores twice the sums, they have and do that."""
    text = print_function(launch(CASES["plain"].source, SIZES).forms[1][1]).replace("ring<4 x", "ring<2 x")
    text = text.replace("store %out", "%more = add %t19, %t19 : tile<i:128, j:128, f32>\nstore %out").replace("], %t19", "], %more")
    role = parse_function(text)
    verify(role)
    made = launches_of_blocks(WarpProductLaunch(*product_of_role(role, MACHINES["sm_80"])).run()).launches[0]
    counted = SIZES | {f"{size}_8": number // 8 for size, number in SIZES.items()}
    found = run(made.function, CASES["plain"].arrays(), SIZES, grid=(made.blocks(counted), 1, 1))
    np.testing.assert_array_equal(found, 2 * CASES["plain"].wanted())
    staged = [op.type.dims[0].value for top in made.function.body.body for op in top.walk() if isinstance(op, SharedAlloc)]
    assert staged == [2, 2]


ROWS = """def f(A: tensor[B, M, K, f16], P: tensor[K, N, f16], R: tensor[M, f32]) { compute(A, P, R) -> tensor[B, M, N, f32] {
    for b in 0..B, i in 0..M, j in 0..N:
        var s: f32 = 0.0
        for k in 0..K: s += A[b, i, k] * P[k, j]
        out[b, i, j] = s + R[i]
} }"""


@pytest.mark.parametrize("machine", ["sm_75", "sm_80"])
def test_rows_of_several_axes_are_counted_through(machine: str) -> None:
    random, sizes = np.random.default_rng(3), {"B": 3, "M": 31, "N": 33, "K": 40}
    a, p, r = (random.integers(-2, 3, shape).astype(dtype) for shape, dtype in (((3, 31, 40), "f2"), ((40, 33), "f2"), (31, "f4")))
    tiles, _ = meant(ROWS, sizes, {"A": a, "P": p, "R": r}, a.astype(np.float64) @ p.astype(np.float64) + r[:, None], machine)
    assert {"b_i", "j", "k"} == {*tiles.axes} and 'extent_b=affine(B) extent_i=affine(M) through="b i"' in print_function(tiles)


OF_SEVERAL = """def f(A: tensor[L, M, K, f64], P: tensor[L, K, N, f64]) { compute(A, P) -> tensor[M, N, f64] {
    for i in 0..M, j in 0..N:
        var s: f64 = 0.0
        for l in 0..L, k in 0..K: s += A[l, i, k] * P[l, k, j]
        out[i, j] = s
} }"""


def test_a_sum_along_two_axes() -> None:
    random, sizes = np.random.default_rng(4), {"L": 3, "M": 17, "N": 33, "K": 31}
    a, p = (random.integers(-3, 4, shape).astype(np.float64) for shape in ((3, 17, 31), (3, 31, 33)))
    meant(OF_SEVERAL, sizes, {"A": a, "P": p}, np.einsum("lik,lkj->ij", a, p))


PART = """def f(A: tensor[M, D, bf16], P: tensor[K, N, bf16]) { compute(A, P) -> tensor[M, N, f32] {
    for i in 0..M, j in 0..N:
        var s: f32 = 0.0
        for k in 0..K: s += A[i, k] * P[k, j]
        out[i, j] = s
} }"""


def test_the_sum_ends_before_memory_does() -> None:
    """What lies behind its end, were it infinite, counts nothing."""
    sizes = {"M": 20, "N": 24, "K": 40, "D": 104}
    a, p = small(1, 20, 104), small(2, 40, 24)
    a[:, 40:] = np.inf
    wanted = a[:, :40].astype(np.float64) @ p.astype(np.float64)
    tiles, _ = meant(PART, sizes, {"A": a, "P": p}, wanted)
    assert "load %A[i+64*i0, k+64*k0] where=" in print_function(tiles)


@pytest.mark.parametrize(("m", "machine"), [(3, "sm_80"), (17, "sm_90a")])
def test_few_rows_are_tiles_whose_columns_are_computed_on_their_way(m: int, machine: str) -> None:
    """Weights of 4 bits with a scale for each 128: nothing lies in shared memory, so that tiles are all that there is."""
    n, k = 72, 400
    random = np.random.default_rng(9)
    a, w = small(7, m, k), random.integers(0, 256, (k // 2, n)).astype(np.uint8)
    s = (2.0 ** random.integers(-2, 3, (4, n))).astype(np.float32)
    weights = np.stack([w & 15, w >> 4], axis=1).reshape(k, n).astype(np.float64) - 8
    wanted = a.astype(np.float64) @ (weights * np.repeat(s, 128, axis=0)[:k])
    sizes = {"M": m, "N": n, "K": k, "K2": k // 2, "G": 4}
    tiles = meant(PACKED, sizes, {"A": a, "W": w, "S": s}, wanted, machine)[0]
    assert "convert" not in print_function(tiles) and "pipeline" not in print_function(tiles)


@pytest.mark.parametrize("weight", [1.0, np.inf], ids=str)
def test_products_at_the_border_of_a_window_count_nothing(weight: float) -> None:
    """Whatever the weight there is: threads whose sums have a NaN add them up once more."""
    x, f = small(3, 2, 4, 5, 16), small(4, 24, 3, 3, 16)
    f[1, 0, 0, 5] = weight
    sizes = dict(zip("NHWCKRSYZ", (2, 4, 5, 16, 24, 3, 3, 4, 5), strict=True))
    wanted = convolved(x, f, 1, 1, 1).astype(np.float32)
    tiles, _ = meant(CHANNELS_LAST % ("f32", 1, 1, 1), sizes, {"X": x, "F": f}, wanted)
    assert 'through="n y x"' in print_function(tiles) and "reduce add" in print_function(tiles)
