"""ZynML: tensor programs around `compute` blocks. `zynml.compile(text_or_path)` gives a program's functions as callables on NumPy
arrays."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zynml.compiled import CompiledProgram, ZynMLError, compile

__all__ = ["CompiledProgram", "ZynMLError", "compile"]


def __getattr__(name: str) -> Any:
    # The command imports parts of this package; NumPy and the compiler are only needed by those who call these.
    if name in __all__:
        from zynml import compiled

        return getattr(compiled, name)
    raise AttributeError(f"module `zynml` has no `{name}`")
