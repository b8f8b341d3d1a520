"""Tables whose cells need those above and before them: computed by diagonals on a GPU."""

import numpy as np
import pytest

import zynml
from compiler.hir.parse import parse_function
from compiler.hir.text import print_function
from compiler.passes.diagonals import diagonals

DEVICES = "emulator:sm_90a", "emulator:sm_75", "cpu"
SHAPES = [(1, 1), (3, 3), (7, 9), (40, 3), (3, 40), (0, 4), (4, 0)]

DISTANCES = """def f(a: tensor[P, N, u8], b: tensor[P, M, u8]) {
    compute(a, b) -> (d: tensor[P, N + 1, M + 1, i32], last: tensor[P, N, i32]) {
        for p in 0..P:
            for j in 0..M + 1: d[p, 0, j] = j as i32
            for i in 0..N:
                let mine = a[p, i]
                d[p, i + 1, 0] = (i + 1) as i32
                for j in 0..M:
                    let cost = mine == b[p, j] ? 0i32 : 1i32
                    d[p, i + 1, j + 1] = min(d[p, i, j] + cost, min(d[p, i, j + 1], d[p, i + 1, j]) + 1i32)
                last[p, i] = d[p, i + 1, M]
    }
}"""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", SHAPES)
def test_distances_of_texts(device: str, shape: tuple[int, int]) -> None:
    rng, (n, m) = np.random.default_rng(sum(shape)), shape
    a, b = rng.integers(0, 4, (3, n)).astype("u1"), rng.integers(0, 4, (3, m)).astype("u1")
    want = np.zeros((3, n + 1, m + 1), int)
    want[:, 0], want[:, :, 0] = np.arange(m + 1), np.arange(n + 1)
    for i in range(n):
        for j in range(m):
            beside = np.minimum(want[:, i, j + 1], want[:, i + 1, j]) + 1
            want[:, i + 1, j + 1] = np.minimum(want[:, i, j] + (a[:, i] != b[:, j]), beside)
    d, last = zynml.compile(DISTANCES, device=device).f(a, b)
    assert np.array_equal(np.asarray(d), want) and np.array_equal(np.asarray(last), want[:, 1:, m])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", SHAPES)
def test_errors_that_are_handed_on_to_the_row_below(device: str, shape: tuple[int, int]) -> None:
    text = """def f(x: tensor[H, W, i32]) {
        compute(x) @kernel(fused) -> tensor[H + 1, W + 2, i32] {
            for i in 0..H, j in 0..W: out[i + 1, j + 1] = (x[i, j] + 7 * out[i + 1, j] + out[i, j] + 5 * out[i, j + 1] + 3 * out[i, j + 2]) / 16
        }
    }"""
    x = np.random.default_rng(sum(shape)).integers(-999, 999, shape)
    want = np.zeros((shape[0] + 1, shape[1] + 2), int)
    for i, j in np.ndindex(shape):
        want[i + 1, j + 1] = int((x[i, j] + 7 * want[i + 1, j] + want[i, j] + 5 * want[i, j + 1] + 3 * want[i, j + 2]) / 16)
    assert np.array_equal(np.asarray(zynml.compile(text, device=device).f(x.astype(np.int32))), want)


def test_a_row_begins_where_the_cell_above_and_behind_is_done() -> None:
    made = diagonals(parse_function(_nest("%a = load %x[i, j+2] : f32")))
    assert "load %x[i, " in print_function(made) and "-2*i" in print_function(made)


@pytest.mark.parametrize("load", ["%a = load %x[i, W-1-j] : f32", "%a = load %x[i, 0] : f32   store %x[i+1, 0], %a"])
def test_cells_that_need_their_order_keep_it(load: str) -> None:
    function = parse_function(_nest(load))
    assert diagonals(function) is function


def _nest(load: str) -> str:
    return f"""func @f(%x: mem<HxWxf32>, %H: index, %W: index) form=A {{
        for i in 0..H-1 {{
            for j in 0..W-3 {{
                {load}
                %b = load %x[i+1, j] : f32
                %c = add %a, %b : f32
                store %x[i+1, j+1], %c
            }}
        }}
    }}"""


def test_threads_share_the_cells_of_a_diagonal() -> None:
    (kernel,) = zynml.compile(DISTANCES)._session.launches_like(["a=1x8000:u8", "b=1x8000:u8"], "emulator:sm_90a")
    (launch,) = kernel.threads.launches.launches[:1]
    assert "i_j" in print_function(launch.function)
