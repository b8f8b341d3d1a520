"""QuantDSL: strategies compiled to native code, and the replay that runs them on market data.
`quantdsl.compile(path).run(data)` gives a run's tables and summary; `quantdsl.functions(path)` what a program computes by itself."""

import sys
from typing import TYPE_CHECKING, Any

from zyntax_lang import require_own_packages

if TYPE_CHECKING:
    from quantdsl.api import Program, QuantError, Result, compile
    from quantdsl.host.functions import functions

__all__ = ["Program", "QuantError", "Result", "compile", "functions"]

require_own_packages("quantdsl")


def __getattr__(name: str) -> Any:
    # The command imports parts of this package, and reading a program needs none of what running it does.
    if name == "functions":
        from quantdsl.host.functions import functions

        return functions
    if name in __all__:
        from quantdsl import api

        return getattr(api, name)
    raise AttributeError(f"module `quantdsl` has no `{name}`", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return [*__all__]
