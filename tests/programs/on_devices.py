"""Programs of the gallery on devices: the command that a program's head gives for the emulator, and every compute block beside the CPU."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from compiler.launch.signature import signature_of
from compiler.typed_ast.kernel import KernelType
from runtime.tensor import Tensor
from tests.kernels.checks import ROUNDING, agree

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((ROOT / "programs" / "zynml").glob("*.zynml"))


def emulator_command(program: Path) -> list[str]:
    """The words behind `zyntax` in the command of the program's head, which names the program from the root of the repository."""
    found = re.search(r"^// on the emulator: zyntax (.+)$", program.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, f"{program.name} doesn't say how to run it on the emulator"
    return shlex.split(found.group(1))


@contextmanager
def beside_the_cpu(kind: type[Any], during: Callable[[], AbstractContextManager[None]] = nullcontext) -> Iterator[list[str]]:
    """While this lasts, a block of this kind (`EmulatedBlock`, `CudaBlock`) also runs on the CPU, within what `during` gives, on copies of
    what it is given; both must agree in its value and in what it updates. Gives the texts of the blocks that ran."""
    original, ran = kind.__call__, []

    def both(self: Any, values: Mapping[str, Any], *stream: Any) -> Any:
        copies = {name: Tensor(np.array(value.array)) if isinstance(value, Tensor) else value for name, value in values.items()}
        block = self.block
        signature = signature_of(block.compute, copies, block.declared, block.functions, block.constants)
        arrays = {name: value.array for name, value in copies.items() if isinstance(value, Tensor)}
        sizes = block.kernel_for(signature).sizes({n: a.shape for n, a in arrays.items()}, {n: v for n, v in copies.items() if n not in arrays})
        terms = sizes.work // max(1, sum(int(np.prod(shape)) for shape in sizes.results)) + 1
        with during():
            on_cpu = block(copies)
        there = original(self, values, *stream)
        types = {array.dtype.name for array in arrays.values()}
        coarsest = next((name for name in ("bfloat16", "float16", "float32") if name in types), "float64")
        metadata = block.compute.kernel
        if ROUNDING[coarsest] and metadata is not None and metadata.kernel_type is KernelType.ATTENTION:
            # a mean of values by weights that are rounded to 16 bits there: off by a unit of the largest value, where values cancel
            unit = ROUNDING[coarsest] * max(float(np.abs(array.astype(np.float64)).max(initial=0.0)) for array in arrays.values())
            np.testing.assert_allclose(_plain(there).astype(np.float64), _plain(on_cpu).astype(np.float64), rtol=0.0, atol=unit)
        else:
            agree(_plain(there), _plain(on_cpu), terms, coarsest)
        for name, array in arrays.items():
            agree(values[name].array, array, terms, coarsest)
        ran.append(str(block.compute.span))
        return there

    kind.__call__ = both
    try:
        yield ran
    finally:
        kind.__call__ = original


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value.array if isinstance(value, Tensor) else value
