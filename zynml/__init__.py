"""ZynML: tensor programs around `compute` blocks. `zynml.compile(text_or_path)` gives a program's functions as callables on NumPy
arrays."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime.tensor import Tensor
    from zynml.compiled import CompiledProgram, ZynMLError, compile
    from zynml.pending import Future

__all__ = ["CompiledProgram", "Future", "Tensor", "ZynMLError", "compile"]


def __getattr__(name: str) -> Any:
    # The command imports parts of this package; NumPy and the compiler are only needed by those who call these.
    if name in __all__:
        from runtime import tensor
        from zynml import compiled, pending

        return getattr({"Tensor": tensor, "Future": pending}.get(name, compiled), name)
    raise AttributeError(f"module `zynml` has no `{name}`")
