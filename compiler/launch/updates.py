"""Inputs that a compute block updates. Kernels are compiled for inputs that lie apart from what they write: a block whose loops would see
their own writes through another input is refused (ZYN0813). Views that interleave without a common element lie apart."""

from collections.abc import Iterable, Mapping
from typing import Any

from compiler.diagnostics import Diagnostic, Label, ZyntaxError
from compiler.typed_ast import nodes
from runtime.overlap import overlaps_itself
from runtime.tensor import Tensor


class SharedMemory(ZyntaxError):
    """ZYN0813. `tensors` and `names`: the input that the block updates, and the one that overlaps it."""

    def __init__(self, diagnostic: Diagnostic, tensors: tuple[Tensor, Tensor], names: tuple[str, str]) -> None:
        super().__init__(diagnostic)
        self.tensors, self.names = tensors, names


def require_updatable(updated: Iterable[str], values: Mapping[str, Any], compute: nodes.Compute) -> None:
    """Raises ZyntaxError for an input that the block updates and can't: 0813 when it shares memory with another one, 0807 when its
    memory is read-only, or its own elements share memory. `values` are the program's own: copies of them share nothing."""
    for name in updated:
        tensor = values[name]
        if not isinstance(tensor, Tensor):
            kind = type(tensor).__name__
            message, hint = f"`{name}` can't be updated: it is a {kind}", f"`tensor({name})` makes a tensor of it"
            raise ZyntaxError(Diagnostic("0203", message, compute.span, hint=hint, running=True))
        if tensor.is_read_only:
            raise _refused(name, "its memory is read-only", compute)
        if not tensor.is_contiguous and overlaps_itself(tensor.shape, tensor.strides):
            raise _refused(name, "several of its elements share memory", compute)
        for other, second in values.items():
            if second.__class__ is Tensor and other != name and tensor.shares_memory(second):
                raise SharedMemory(_shared(name, other, compute), (tensor, second), (name, other))


def _refused(name: str, why: str, compute: nodes.Compute) -> ZyntaxError:
    return ZyntaxError(Diagnostic("0807", f"`{name}` can't be updated: {why}", compute.span, hint="update a copy: `.clone()`"))


def _shared(updated: str, other: str, compute: nodes.Compute) -> Diagnostic:
    inputs = {entry.name: entry for entry in compute.inputs}
    entry = inputs.get(other)
    labels = [Label(inputs[other].span, f"shares memory with `{updated}`")] if other in inputs else []
    span = inputs[updated].span if updated in inputs else compute.span
    value = entry.value if entry is not None else None
    if entry is not None and entry.mutable:
        hint = f"`{other} = {other}.clone()` before the block gives `{other}` memory of its own"
    elif value is None or isinstance(value, nodes.Name):
        copied = value.name if value is not None else other
        hint = f"`{other} = {copied}.clone()` among the inputs reads a copy, with the elements from before the block"
    else:
        hint = f"`.clone()` behind the value of `{other}` makes a copy, with the elements from before the block"
    message = f"`{updated}`, which this block updates, shares memory with `{other}`"
    return Diagnostic("0813", message, span, "updated here", labels, hint=hint)
