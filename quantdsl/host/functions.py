"""`quantdsl.functions`: what a program computes, as Python callables on NumPy arrays.

p = quantdsl.functions('''
    use std.pricing
    fn vols(prices: tensor[N, f64], strikes: tensor[N, f64], s: f64) -> tensor {
        compute(prices, strikes, s) { for i in 0..N: out[i] = implied_vol(true, prices[i], s, strikes[i], 0.03, 0.5) }
    }
''')
p.vols(prices, strikes, 100.0)"""

from pathlib import Path
from typing import Any

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.driver import CompileOptions
from compiler.source import Source, Sources
from compiler.syntax.read import read_source
from quantdsl.host.session import open_host
from quantdsl.parse import parse_source
from zynml.compiled import CompiledProgram, ZynMLError


def functions(source: str | Path, *, threads: int = 0, device: str | None = None, **parameters: Any) -> CompiledProgram:
    """The functions of a program: a path, or a text (anything with a line break). They run where those of programs with a `main` do.
    Further keywords are values of its `param`s. Raises ZynMLError, as calls do."""
    if threads < 0:
        raise ValueError(f"threads={threads}: a number of threads, or 0 for all cores")
    options = CompileOptions(device=device, threads=threads, parameters={name: _text(value) for name, value in parameters.items()})
    sources = Sources()
    try:
        is_text = isinstance(source, str) and "\n" in source
        held = sources.add(Source("<program>", str(source)) if is_text else read_source(str(source)))
        session = open_host(held, parse_source(held), options, sources, _listed)
    except ZyntaxError as error:
        raise ZynMLError(error, sources) from None
    return CompiledProgram.of(session)


def _listed(warning: Diagnostic) -> None:
    """Warnings are listed in `warnings`, not printed."""


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
