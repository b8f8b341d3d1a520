"""ZynML: tensor programs around `compute` blocks. `zynml.compile(text_or_path)` gives a program's functions as callables on NumPy
arrays."""

import sys
from typing import TYPE_CHECKING, Any

from zyntax_lang import require_own_packages

if TYPE_CHECKING:
    from runtime.tensor import Tensor
    from runtime.values import make_err as Err
    from runtime.values import make_ok as Ok
    from runtime.values import make_some as Some
    from zynml.compiled import CompiledProgram, ZynMLError
    from zynml.embedding import compile
    from zynml.pending import Future

__all__ = ["CompiledProgram", "Err", "Future", "Ok", "Some", "Tensor", "ZynMLError", "compile"]

require_own_packages("zynml")


def __getattr__(name: str) -> Any:
    # The command imports parts of this package; NumPy and the compiler are only needed by those who call these.
    if name in __all__:
        from runtime import tensor, values
        from zynml import compiled, embedding, pending

        made = {"Some": values.make_some, "Ok": values.make_ok, "Err": values.make_err}
        return made.get(name) or getattr({"Tensor": tensor, "Future": pending, "compile": embedding}.get(name, compiled), name)
    raise AttributeError(f"module `zynml` has no `{name}`", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return [*__all__]
