"""Blocks that run beside the program: `@async`. Whatever doesn't depend on the data happens where the block stands: its kernel is
compiled, its sizes are solved and checked. The run itself is a task with its inputs as they are then: nobody may change them before it is
done."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from compiler.backends.host.faults import translated
from compiler.diagnostics import ZyntaxError
from compiler.launch.signature import as_tensor
from compiler.source import NOWHERE
from compiler.typed_ast import nodes
from runtime.futures import PendingValue, before_device_write, before_write, completed, started
from runtime.records import evolve
from runtime.tensor import Tensor

Run = Callable[[], Any]


Block = Callable[[Mapping[str, Any]], Any]


@runtime_checkable
class Prepared(Protocol):
    """A block that can do a part of its work where it stands."""

    def beside(self, values: Mapping[str, Any]) -> Run | None:
        """The run with these inputs, to be called by another thread, or None where that gains nothing. Raises ZyntaxError for what
        is wrong with them, as far as it can be known without a run."""


def start(block: Block, values: Mapping[str, Any], compute: nodes.Compute) -> PendingValue:
    """The future of a block's value. A block that updates an input runs at once: what comes after it reads the new values."""
    if any(entry.mutable for entry in compute.inputs):
        return completed(_told(lambda: block(values), compute))
    held = {name: _as_it_is(value) for name, value in values.items()}
    run = block.beside(held) if isinstance(block, Prepared) else lambda: block(held)
    if run is None:
        return completed(_told(lambda: block(held), compute))
    tensors = [value for value in held.values() if isinstance(value, Tensor)]
    arrays = [tensor.host for tensor in tensors if tensor.host is not None]
    return started(_told(run, compute), arrays, elsewhere=any(tensor.remote is not None for tensor in tensors))


def wait_for_readers(compute: nodes.Compute, values: Mapping[str, Any]) -> None:
    """Before a block runs: nobody reads any more what it updates."""
    for entry in compute.inputs:
        value = values.get(entry.name)
        if entry.mutable and isinstance(value, Tensor):
            if value.host is not None:
                before_write(value.host)
            if value.remote is not None:
                before_device_write()


def _as_it_is(value: Any) -> Any:
    """The value, apart from what the program does with its own later: lists are copied, tensors lie where they lie now."""
    value = as_tensor(value)
    return value.as_it_is() if isinstance(value, Tensor) else value


def _told(run: Run, compute: nodes.Compute) -> Run:
    """The run whose faults are those of the block, wherever they are shown."""

    def told() -> Any:
        try:
            with np.errstate(all="ignore"):
                return run()
        except Exception as error:
            diagnostics = translated(error).diagnostics
            raise ZyntaxError(*(evolve(d, span=compute.span) if d.span in (None, NOWHERE) else d for d in diagnostics)) from error

    return told
