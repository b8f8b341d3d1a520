"""ZynML: tensor programs around `compute` blocks. `zynml.compile(text_or_path)` gives a program's functions as callables on NumPy
arrays."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from zyntax_lang import require_own_packages

if TYPE_CHECKING:
    from runtime.tensor import Tensor
    from runtime.transfers import synchronize
    from runtime.values import make_err as Err
    from runtime.values import make_ok as Ok
    from runtime.values import make_some as Some
    from zynml.compiled import CompiledProgram, ZynMLError
    from zynml.embedding import compile
    from zynml.pending import Future

_HOMES = {
    "Err": ("runtime.values", "make_err"),
    "Future": ("zynml.pending", "Future"),
    "Ok": ("runtime.values", "make_ok"),
    "Some": ("runtime.values", "make_some"),
    "Tensor": ("runtime.tensor", "Tensor"),
    "compile": ("zynml.embedding", "compile"),
    "synchronize": ("runtime.transfers", "synchronize"),
}
"""The module that has each public name, and its name there; all others are of `compiled`."""

__all__ = ["CompiledProgram", "Err", "Future", "Ok", "Some", "Tensor", "ZynMLError", "compile", "synchronize"]

require_own_packages("zynml")


def __getattr__(name: str) -> Any:
    # The command imports parts of this package; NumPy and the compiler are only needed by those who call these.
    if name in __all__:
        home, own = _HOMES.get(name, ("zynml.compiled", name))
        from runtime.uncollected import uncollected

        with uncollected():  # imports make objects by the hundred thousand, and no garbage
            return getattr(import_module(home), own)
    raise AttributeError(f"module `zynml` has no `{name}`", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return [*__all__]
