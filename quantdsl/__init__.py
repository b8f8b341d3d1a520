"""QuantDSL: strategies compiled to native code, and the replay that runs them on market data.
`quantdsl.compile(path).run(data)` gives a run's tables and summary."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quantdsl.api import Program, QuantError, Result, compile

__all__ = ["Program", "QuantError", "Result", "compile"]


def __getattr__(name: str) -> Any:
    # The command imports parts of this package, and reading a program needs none of what running it does.
    if name in __all__:
        from quantdsl import api

        return getattr(api, name)
    raise AttributeError(f"module `quantdsl` has no `{name}`")
