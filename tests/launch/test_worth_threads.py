"""From how much work on a launch is worth threads."""

import pytest

import zynml
from compiler.fusion.program_kernels import kernels
from compiler.launch.cpu import worth_threads

PRODUCT = "for i in 0..M, j in 0..N { var s = 0.0; for k in 0..K: s += x[i, k] * y[k, j]; out[i, j] = s }"
MATRIX_BY_VECTOR = "for i in 0..M { var s = 0.0; for k in 0..K: s += x[i, k] * y[k]; out[i] = s }"
MAP = "for i in 0..M, j in 0..N: out[i, j] = x[i, j] + y[i, j]"
OPEN = "for i in 0..M, j in 0..N { var v = x[i, j]; while v > y[i, j]: v *= 0.5; out[i, j] = v }"


@pytest.mark.parametrize(
    ("types", "nest", "wanted"),
    [
        ("x: tensor[M, K, f32], y: tensor[K, N, f32]", PRODUCT, 1 << 19),
        ("x: tensor[M, K, f32], y: tensor[K, f32]", MATRIX_BY_VECTOR, 1 << 18),
        ("x: tensor[M, N, f32], y: tensor[M, N, f32]", MAP, 1 << 18),
        ("x: tensor[M, N, f32], y: tensor[M, N, f32]", OPEN, 1 << 12),
    ],
)
def test_quick_steps_need_more_of_them_and_open_loops_fewer(types: str, nest: str, wanted: int) -> None:
    program = zynml.compile(f"def block({types}): tensor {{ compute(x, y) {{ {nest} }} }}")
    ((_, kernel),) = kernels(program._session)
    assert worth_threads(kernel) == wanted
