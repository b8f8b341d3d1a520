"""`zynml.compile`: a program's functions as Python callables on NumPy arrays.

    p = zynml.compile('''
        def scale(x: tensor[N], by: f32): tensor {
            compute(x, by) { for i in 0..N: out[i] = x[i] * by }
        }
    ''')
    p.scale(np.ones(3, np.float32), 2.0)     # array([2., 2., 2.], dtype=float32)"""

from typing import TYPE_CHECKING, Any

from zynml.compiled import CompiledProgram, compile_in
from zynml.language import language as ZYNML

if TYPE_CHECKING:
    from pathlib import Path


def compile(
    source: "str | Path",
    *,
    opt: str | int = "3",
    threads: int = 0,
    device: str | None = None,
    strict: bool = False,
    sanitize: bool = False,
    tune: bool = True,
    tier: str | int = "auto",
    floats: str | None = None,
    **parameters: Any,
) -> CompiledProgram:
    """Compile a program: a `Path`, a text that names a `.zynml` file, or the program's text itself. Further keywords are values of its
    `param`s. With `sanitize` its blocks run on the emulator, and a call raises all that their threads do wrong. Without `tune`
    estimates alone decide on schedules for a GPU. `tier`, 0, 1 or "auto": the code that kernels on the CPU begin with. `floats`, "strict"
    or "contract", is for blocks that don't say it. Raises ZynMLError with every fault of the program."""
    return compile_in(
        ZYNML,
        source,
        opt=opt,
        threads=threads,
        device=device,
        strict=strict,
        sanitize=sanitize,
        tune=tune,
        tier=tier,
        floats=floats,
        **parameters,
    )
