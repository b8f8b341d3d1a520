"""Programs with a `main`, and functions of the library, from a text."""

from typing import Any

from compiler.diagnostics import ZyntaxError, render
from compiler.driver import CompileOptions, Session
from compiler.source import Source, Sources
from quantdsl.host.session import open_host
from quantdsl.parse import parse_source
from zynml.compiled import CompiledProgram


def opened(text: str, device: str | None = None, threads: int = 0) -> tuple[Session, Sources]:
    sources = Sources()
    source = sources.add(Source("p.qdsl", text))
    options = CompileOptions(device=device, threads=threads)
    return open_host(source, parse_source(source), options, sources, lambda warning: None), sources


def functions(text: str, device: str | None = None, threads: int = 0) -> CompiledProgram:
    """The program's functions, which take and give NumPy arrays."""
    return CompiledProgram.of(opened(text + "\nfn main() { }\n", device, threads)[0])


def printed(text: str, capsys: Any, device: str | None = None) -> str:
    """What the program prints."""
    session, _ = opened(text, device)
    session.run()
    return str(capsys.readouterr().out)


def message(text: str) -> str:
    """All that is wrong with a program, as its user sees it."""
    sources = Sources()
    source = sources.add(Source("p.qdsl", text))
    try:
        open_host(source, parse_source(source), CompileOptions(), sources, lambda warning: None).run()
    except ZyntaxError as error:
        return "\n\n".join(render(diagnostic, sources) for diagnostic in error.diagnostics)
    return ""
