"""Every feature of ZynML has a program that states its output: it prints that on Python alone, with all that can be native, and with its
blocks on the emulated GPU."""

import contextlib
import io
from pathlib import Path

import pytest

from compiler.diagnostics import ZyntaxError
from compiler.driver import CompileOptions
from compiler.source import Sources
from tests.language.features import feature_of, page, programs
from zynml.api import open_program
from zyntax.expectations import expectations, mismatch

ROOT = Path(__file__).parents[2]
by_name = pytest.mark.parametrize("path", programs(), ids=lambda path: path.stem)


def _requires_stated(path: Path, tmp_path: Path, *, native: str, device: str = "") -> None:
    """Runs the program, and requires the output that it states."""
    stated = expectations(path.read_text(encoding="utf-8"))
    place = device or stated.device
    options = CompileOptions(device=place, parameters=dict(stated.settings), native=native, render_folder=str(tmp_path))
    output = io.StringIO()
    codes: list[str] = []
    try:
        with contextlib.chdir(tmp_path), contextlib.redirect_stdout(output):
            session = open_program(str(path), options, Sources(), lambda warning: None)
            session.run()
            for test in session.host.tests.values():
                test()
    except ZyntaxError as error:
        codes = [diagnostic.full_code for diagnostic in error.diagnostics]
    assert codes == ([stated.fails] if stated.fails else [])
    assert mismatch(stated.lines, output.getvalue()) is None


@by_name
def test_a_program_prints_what_it_states_on_python(path: Path, tmp_path: Path) -> None:
    feature_of(path)
    stated = expectations(path.read_text(encoding="utf-8"))
    assert stated.lines or stated.fails, "a program states its output, or its error"
    _requires_stated(path, tmp_path, native="none")


@by_name
def test_a_program_prints_the_same_natively(path: Path, tmp_path: Path) -> None:
    _requires_stated(path, tmp_path, native="all")


@pytest.mark.parametrize("path", [path for path in programs() if feature_of(path).part >= 5], ids=lambda path: path.stem)
def test_a_program_prints_the_same_with_its_blocks_on_the_emulated_gpu(path: Path, tmp_path: Path) -> None:
    _requires_stated(path, tmp_path, native="paying", device="emulator")


def test_the_table_of_features_is_up_to_date() -> None:
    assert (ROOT / "docs" / "features.md").read_text(encoding="utf-8") == page(), "run `make pages`"
