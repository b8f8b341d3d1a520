"""The library's names that are valid but not there yet: they say so with ZYN0109."""

from typing import Any

from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import Type
from zynml.stdlib.family import FunctionFamily

family = FunctionFamily()

LATER = {
    "conv2d": "write the loops in `compute(...) @kernel(conv2d)`",
    "max_pool2d": "write the loops in `compute(...)`",
    "avg_pool2d": "write the loops in `compute(...)`",
    "scatter_add": "write the loops in `compute(...) @kernel(custom)` with `atomic_add`",
    "gather": "index with a tensor of ints: `x[indices]`",
    "embedding": "index with a tensor of ints: `table[ids]`",
    "einsum": "`@` multiplies matrices; other sums are loops in `compute(...)`",
    "quantize": "scale, round and convert: `(x / scale).round() as i8`",
}


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
        keywords = ("stride", "padding", "dilation", "groups", "axis", "dtype", "device")
        family.function(name, result=rule, variadic="arguments", keywords=keywords)(run)
    for receiver in receivers:
        family.method(receiver, name, result=rule, variadic="arguments", keywords=("stride", "padding", "axis", "dtype"))(run_method)


for _name, _hint in LATER.items():
    _declare_later(_name, _hint, ())
    _declare_later(_name, _hint, ("tensor",))
_declare_later("model", "`load(path)` reads arrays from files", ())
