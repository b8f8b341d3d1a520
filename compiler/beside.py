"""Blocks that run beside the program: `@async`. Whatever doesn't depend on the data happens where the block stands: its kernel is
compiled, its sizes are solved and checked. The run itself is a task; what it reads, nobody may change before it is done."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from attrs import evolve

from compiler.backends.host.faults import translated
from compiler.diagnostics import ZyntaxError
from compiler.kernels import ComputeBlock
from compiler.launching import launch, tensor_arrays
from compiler.signatures import as_tensor
from compiler.source import NOWHERE
from compiler.typed_ast import nodes
from runtime.futures import Future, before_write, completed, started
from runtime.tensor import Tensor

Run = Callable[[], Any]


def start(block: Callable[[Mapping[str, Any]], Any], values: Mapping[str, Any], compute: nodes.Compute) -> Future:
    """The future of a block's value. A block that updates an input runs at once: what comes after it reads the new values."""
    if isinstance(block, ComputeBlock) and not any(entry.mutable for entry in compute.inputs):
        run, reads = _prepared(block, values)
        return started(_told(run, compute), reads)
    return completed(_told(lambda: block(values), compute))


def wait_for_readers(compute: nodes.Compute, values: Mapping[str, Any]) -> None:
    """Before a block runs: nobody reads any more what it updates."""
    for entry in compute.inputs:
        value = values.get(entry.name)
        if entry.mutable and isinstance(value, Tensor) and value.host is not None:
            before_write(value.host)


def _prepared(block: ComputeBlock, values: Mapping[str, Any]) -> tuple[Run, list[Any]]:
    """A block's run with inputs as they are now, and the arrays that it reads. Raises what can be known without running."""
    arrays, scalars = tensor_arrays({name: as_tensor(value) for name, value in values.items()})
    held = {name: Tensor(arrays[name]) if name in arrays else scalars[name] for name in values}
    kernel = block.kernel_of(held)
    kernel.native_for(kernel.sizes({name: array.shape for name, array in arrays.items()}, scalars)).prepare()
    return lambda: launch(kernel, held, block.options.threads, block.compute), list(arrays.values())


def _told(run: Run, compute: nodes.Compute) -> Run:
    """The run whose faults are those of the block, wherever they are shown."""

    def told() -> Any:
        try:
            with np.errstate(all="ignore"):
                return run()
        except Exception as error:
            found = translated(error).diagnostics
            raise ZyntaxError(*(evolve(d, span=compute.span) if d.span in (None, NOWHERE) else d for d in found)) from error

    return told
