"""Devices as programs see them, and the library's names that are valid but not there yet: those say so with ZYN0109."""

from typing import Any

from compiler.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import STRING, UNIT, ListType, Type
from runtime.device import present_devices
from runtime.tensor import Tensor
from zynml.stdlib.creation import require_device, to_tensor
from zynml.stdlib.family import Family, subject
from zynml.stdlib.shapes import dims_of
from zynml.stdlib.structure import as_tensor_type, with_dims

family = Family()

LATER = {
    "conv2d": "write the loops in `compute(...) @kernel(conv2d)`",
    "max_pool2d": "write the loops in `compute(...)`",
    "avg_pool2d": "write the loops in `compute(...)`",
    "scatter_add": "write the loops in `compute(...) @kernel(custom)` with `atomic_add`",
    "gather": "index with a tensor of ints: `x[indices]`",
    "embedding": "index with a tensor of ints: `table[ids]`",
    "einsum": "`@` multiplies matrices; other sums are loops in `compute(...)`",
    "quantize": "scale, round and convert: `(x / scale).round() as i8`",
    "allocate": "`zeros(shape, dtype=...)` makes a tensor",
    "memory_pool": "memory is given back by itself",
}
LATER_ON_LISTS = {"find": "`.filter(f)` gives all that fit"}


def _same(calls: CallTypes) -> Type:
    kind = as_tensor_type(subject(calls))
    return with_dims(kind, dims_of(kind) if kind is not None else None)


@family.tensor_method("to_device", result=_same, device="String")
def to_device(self: Any, device: Any) -> Tensor:
    """The tensor on a device; itself when it lies there."""
    require_device(device)
    return to_tensor(self)


@family.function("compute_devices", result=ListType(STRING))
def compute_devices() -> list[str]:
    """The names of the devices here."""
    return [str(device) for device in present_devices()]


@family.function("synchronize", result=UNIT)
def synchronize() -> None:
    """Waits until the devices have done what they were given; on the CPU that is so already."""


def _declare_later(name: str, hint: str, receivers: tuple[str, ...]) -> None:
    """A function, or a method of the receivers, that says that it is not there yet, whatever it is given."""
    message = f"`{name}` is valid, but not supported yet"

    def rule(calls: CallTypes) -> Type:
        raise TypeFault("0109", message, hint=hint)

    def run(
        arguments: Any,
        stride: Any = None,
        padding: Any = None,
        dilation: Any = None,
        groups: Any = None,
        pinned: Any = None,
        axis: Any = None,
        dtype: Any = None,
        device: Any = None,
    ) -> Any:
        raise LibraryFault("0109", message, hint)

    def run_method(self: Any, arguments: Any, stride: Any = None, padding: Any = None, axis: Any = None, dtype: Any = None) -> Any:
        raise LibraryFault("0109", message, hint)

    for implementation in (run, run_method):
        implementation.__doc__ = "Not supported yet."
    if not receivers:
        keywords = ("stride", "padding", "dilation", "groups", "pinned", "axis", "dtype", "device")
        family.function(name, result=rule, variadic="arguments", keywords=keywords)(run)
    for receiver in receivers:
        family.method(receiver, name, result=rule, variadic="arguments", keywords=("stride", "padding", "axis", "dtype"))(run_method)


for _name, _hint in LATER.items():
    _declare_later(_name, _hint, ())
    _declare_later(_name, _hint, ("tensor",))
_declare_later("model", "`load(path)` reads arrays from files", ())
for _name, _hint in LATER_ON_LISTS.items():
    _declare_later(_name, _hint, ("List", "range"))
