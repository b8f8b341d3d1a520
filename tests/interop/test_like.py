"""What `emit(..., like=...)` shows is what a call with such arrays compiles for a device: the same HIR, and the same PTX."""

import ml_dtypes
import numpy as np
import pytest
from emulated_gpu import compile_kernels
from fake_driver import FakeDriver

import zynml
from compiler.hir.text import print_function
from compiler.launch.cuda import code as cuda_code
from runtime.cuda.gpu import Gpu

PRODUCT = """def f(a: tensor[M, K, bf16], b: tensor[K, N, bf16]): tensor {
    compute(a, b) -> tensor[M, N, f32] { for i in 0..M { for j in 0..N {
        var s: f32 = 0.0
        for k in 0..K: s += a[i, k] * b[k, j]
        out[i, j] = s
    } } }
}
"""
SCALED = "def f(x: tensor[N], by: f32) { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }\n"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], str]]:
    """The functions and the PTX of each module that is compiled for the device."""
    found: list[tuple[list[str], str]] = []
    original = cuda_code.compile_kernels

    def recorded(functions, *given):  # type: ignore[no-untyped-def]
        found.append(([print_function(function) for function in functions], compile_kernels(functions, *given).text))
        return original(functions, *given)

    monkeypatch.setattr(cuda_code, "compile_kernels", recorded)
    return found


def check(text: str, like: str, values: tuple[object, ...], compiled: list[tuple[list[str], str]], target: str) -> None:
    zynml.compile(text, device="cuda:0", tune=False).f(*values)
    ((functions, ptx),) = compiled
    session = zynml.compile(text)._session
    assert session.emit("ptx", target, [like]) == ptx
    shown = str(session.emit("hir", target, [like]))
    flat = "\n".join(line.strip() for line in shown.splitlines())
    assert all("\n".join(line.strip() for line in function.strip().splitlines()) in flat for function in functions)


@pytest.mark.parametrize("size", [64, 100, 7])
def test_arrays_of_the_host(size: int, fake: FakeDriver, gpu: Gpu, compiled: list[tuple[list[str], str]]) -> None:
    check(SCALED, f"x={size} by=2.5", (np.ones(size, np.float32), 2.5), compiled, "sm_90a")


def test_a_product(fake: FakeDriver, gpu: Gpu, compiled: list[tuple[list[str], str]]) -> None:
    values = tuple(np.ones(shape, ml_dtypes.bfloat16) for shape in ((40, 24), (24, 36)))
    check(PRODUCT, "a=40x24 b=24x36", values, compiled, "sm_90a")
