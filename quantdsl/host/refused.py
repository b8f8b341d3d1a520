"""What stands in QuantDSL's programs and isn't run on the host: 0109, with what works instead."""

from collections.abc import Container, Iterator
from fractions import Fraction
from functools import cache

from compiler.diagnostics import Diagnostic
from compiler.typed_ast import nodes
from compiler.typed_ast.walk import walk
from quantdsl import nodes as quant
from quantdsl import types as qt
from quantdsl.check import library
from quantdsl.check.prelude import prelude

RATIOS = {"bps": Fraction(1, 10_000), "pct": Fraction(1, 100)}
"""Suffixes of numbers that are plain numbers on the host."""
RENAMED = {"is_nan": "isnan"}
"""Functions that have another name there."""

_INSTEAD: dict[type[nodes.Node], tuple[str, str]] = {
    **dict.fromkeys(
        (quant.Currency, quant.Instrument, quant.Risk), ("a market's declaration", "strategies have markets: count in f64 here")
    ),
    quant.Signal: ("a signal", "signals belong to strategies: loop over the values here"),
    quant.State: ("`state`", "use a `var`"),
    nodes.ConstantTypeSyntax: ("a `const` parameter", "declare it without `const`"),
}
_TYPES = {*qt.OF_INSTRUMENT, *qt.OPAQUE, "Money", "Side", "Tif", "ring", "table", "book"}
_OPERATORS = ("+|", "-|", "*|", "+%", "-%", "*%")
_BELONGS: dict[type[nodes.Node], tuple[str, str]] = {
    quant.Emit: ("emit", "in a signal"),
    quant.Warmup: ("warmup", "in a signal"),
    quant.Handler: ("on", "directly in a strategy"),
    quant.RiskNamed: ("risk", "directly in a strategy"),
    quant.Accounting: ("accounting", "directly in a strategy"),
}


def refused(program: nodes.Program, known: Container[str]) -> Iterator[Diagnostic]:
    """All of it in a program. `known`: the functions of the host's library."""
    own = {statement.name for statement in program.statements if isinstance(statement, nodes.Function)}
    for statement in program.statements:
        match statement:
            case quant.Strategy():
                yield _later("a strategy", statement, "put it into a file of its own, which runs with `--data`")
            case _ if type(statement) in _INSTEAD:
                what, hint = _INSTEAD[type(statement)]
                yield _later(what, statement, hint)
            case nodes.Import() if (fault := library.refused(statement)) is not None:
                yield fault
            case _:
                yield from _inside(statement)
                yield from _of_strategies(statement, own, known)


def _later(what: str, node: nodes.Node, hint: str) -> Diagnostic:
    message = f"{what} is valid, but not supported yet in a program that is run by its `main`"
    return Diagnostic("0109", message, node.span, hint=hint)


def _inside(statement: nodes.Statement) -> Iterator[Diagnostic]:
    for node in walk(statement):
        if type(node) in _INSTEAD:
            what, hint = _INSTEAD[type(node)]
            yield _later(what, node, hint)
            continue
        if type(node) in _BELONGS:
            word, where = _BELONGS[type(node)]
            yield Diagnostic("0101", f"`{word}` stands {where} only", node.span)
            continue
        match node:
            case nodes.UnitNumber(unit=unit) if unit not in RATIOS:
                yield _later(f"a number of `{unit}`", node, "write the plain number")
            case nodes.Binary(operator=operator) if operator in _OPERATORS:
                yield _later(f"`{operator}`", node, f"use `{operator[0]}`, which is checked; in compute blocks ints wrap")
            case nodes.NamedTypeSyntax(name=name) if name in _TYPES:
                hint = "strategies have exact numbers and containers in place: use `f64`, `list` and `tensor` here"
                yield _later(f"`{name}`", node, hint)
            case nodes.Function(is_extern=True):
                yield _later("an `extern` function", node, "declare it with a body")
            case nodes.Function(annotations=(annotation, *_)):
                hint = "the host promises nothing of the kind: leave it out, or call the function from a handler"
                yield _later(f"`@{annotation.name}`", annotation, hint)
            case nodes.Compute(body=body):
                for inner in walk(body):
                    if isinstance(inner, nodes.While) and inner.bound is not None:
                        yield _later("`while` with a bound in a compute block", inner, "write `for k in 0..n:` and `break`")


def _of_strategies(statement: nodes.Statement, own: Container[str], known: Container[str]) -> Iterator[Diagnostic]:
    """Calls of what only strategies have: orders, the market, signals."""
    signals = {name for name, found in library.used_by((statement,)).items() if isinstance(found, quant.Signal)}
    for node in walk(statement):
        match node:
            case nodes.Call(function=nodes.Name(name=name) as function):
                elsewhere = name in own or name in known or name in RENAMED or name == "some"
                if not elsewhere and (name in signals or name in _prelude()):
                    yield _later(f"`{name}`", function, "strategies call it: write one, which runs with `--data`")


@cache
def _prelude() -> frozenset[str]:
    return frozenset(declared.name for declared in prelude().statements if isinstance(declared, nodes.Function))
