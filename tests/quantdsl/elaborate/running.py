"""Runs QuantDSL functions: compiled at O0 and at the level of handlers, and in the interpreter; all must agree."""

from collections.abc import Callable
from typing import Any

from compiler.hir.layout import new_memory
from compiler.hir.module import FaultSite, OptimizationLevel
from compiler.source import Source
from quantdsl.check.program import check_program
from quantdsl.elaborate import Elaborated, elaborate
from quantdsl.parse import parse_source
from tests.quantdsl.native.both import Both

LEVELS = (OptimizationLevel.O0, OptimizationLevel.OLATENCY)
MARKETS = """currency USD { scale 8 }
currency EUR { scale 6 }
instrument ES : USD { tick 0.25  lot 1  multiplier 50 }
instrument DAX : EUR { tick 0.5  lot 0.1  multiplier 25 }
"""
ES_POINT, DAX_POINT = 1_250_000_000, 1_250_000
"""Money units of a tick and a lot: 0.25 * 1 * 50 in 1e-8, 0.5 * 0.1 * 25 in 1e-6."""


def elaborated(text: str) -> Elaborated:
    checked = check_program(parse_source(Source("p.qdsl", text)))
    checked.diagnostics.raise_errors()
    return elaborate(checked)


class Functions:
    """The functions of a program. Calling one gives its result, or all numbers of it; a failure is a `Failed`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.program = elaborated(text)
        self.both = Both(self.program.module, LEVELS)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *arguments: self.run(self.program.functions[name], *arguments)

    def run(self, function: str, *arguments: Any) -> Any:
        found = self.both(function, *arguments)
        if found and isinstance(found[0], str):
            code, where, number, values = found
            return Failed(self.program.site(where, number), code, values, self.text)
        return found[0] if len(found) == 1 else found

    def tests(self) -> dict[str, Any]:
        return {test.name: self.run(test.function, new_memory(test.memory)) for test in self.program.tests}


class Failed:
    """A failure: its code, its words with the operands, and the text of the program that it points to."""

    def __init__(self, site: FaultSite, code: str, values: tuple[Any, ...], text: str) -> None:
        self.code, self.message = code, site.message.format(*values)
        self.at = text[site.span.start : site.span.end] if site.span else ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and (self.code, self.message, self.at)[: len(other)] == other

    def __repr__(self) -> str:
        return repr((self.code, self.message, self.at))
