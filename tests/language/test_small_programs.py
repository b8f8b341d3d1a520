"""Small programs with traits, generic functions and records, which state their output: the same on Python alone and with all that can be
native."""

import contextlib
import io
from pathlib import Path

import pytest

from compiler.driver import CompileOptions
from compiler.source import Sources
from zynml.api import open_program
from zyntax.expectations import expectations, mismatch

PROGRAMS = sorted((Path(__file__).parent / "small").glob("*.zynml"))


@pytest.mark.parametrize("native", ["none", "all"])
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_small_program_prints_what_it_states(path: Path, native: str) -> None:
    stated = expectations(path.read_text(encoding="utf-8"))
    assert stated.lines
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        open_program(str(path), CompileOptions(device="cpu", native=native), Sources(), lambda warning: None).run()
    assert mismatch(stated.lines, output.getvalue()) is None
