"""Large products by threads: 8 rows and 8 columns of a thread lie side by side in shared memory, from where 16 bytes are read at a time."""

from typing import Any

import numpy as np
import pytest

from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.emulator.interpret import interpret
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.choose import launches_for
from compiler.schedule.gpu.facts import facts_of
from tests.schedule.test_gpu_convolutions import built

LAYOUTS = {"": ("M, K", "i, k", "K, N", "k, j"), "A turned": ("K, M", "k, i", "K, N", "k, j"), "B turned": ("M, K", "i, k", "N, K", "j, k")}


def source(layout: str, dtype: str) -> str:
    a, left, b, right = LAYOUTS[layout]
    zero = "0.0" if dtype == "f32" else "0"
    return f"""
def f(A: tensor[{a}, {dtype}], B: tensor[{b}, {dtype}]) {{
    compute(A, B) -> tensor[M, N, {dtype}] {{
        for i in 0..M, j in 0..N:
            var s = {zero}
            for k in 0..K: s += A[{left}] * B[{right}]
            out[i, j] = s
    }}
}}"""


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("m", "n", "k", "dtype"), [(256, 256, 32, "f32"), (131, 137, 19, "f32"), (130, 256, 1, "i32")])
def test_products_of_threads(m: int, n: int, k: int, dtype: str, layout: str) -> None:
    sizes, random = {"M": m, "N": n, "K": k}, np.random.default_rng(6)
    kernel = built(source(layout, dtype))
    names = [one.name for one in kernel.nest.parameters]
    made = launches_for(kernel.nest, kernel.field, facts_of(sizes, names, MACHINES["sm_90a"], 2))
    a, b = (random.integers(-9, 10, shape).astype(dtype.replace("f", "float").replace("i", "int")) for shape in ((m, k), (k, n)))
    out = np.full((m, n), -7, a.dtype)
    given: dict[str, Any] = {"A": a.T.copy() if layout == "A turned" else a, "B": b.T.copy() if layout == "B turned" else b, "out": out}
    arguments, known = made.counted([{**sizes, **given}[name] for name in names], sizes)
    (launch,) = made.launches
    interpret(launch.function, arguments, grid=(launch.blocks(known), 1, 1))
    np.testing.assert_array_equal(out, a.astype(np.float64) @ b.astype(np.float64))
    module = compile_kernels([launch.function], gpu_target("sm_90a"))
    use = assemble(module)
    assert use.registers <= 128 and (use.spills == 0 or (dtype, layout) == ("i32", "B turned"))
    if m % 16 == n % 16 == 0 and k > 1:
        assert module.text.count("ld.shared.v4") >= 4 * max(1, module.text.count("ld.shared.b32"))
