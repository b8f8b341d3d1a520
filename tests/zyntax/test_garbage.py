"""The command searches for garbage while a program runs, and not before."""

import subprocess
import sys
from pathlib import Path

import pytest

START = "import gc, sys; sys.argv = ['zyntax', *sys.argv[1:]]; import atexit; atexit.register(lambda: print(gc.isenabled(), gc.get_freeze_count() > 0)); import zyntax_lang; zyntax_lang.main()"


@pytest.mark.parametrize("verb", ["run", "check", "test"])
def test_programs_run_with_the_search_on_and_without_what_was_there_before(verb: str, tmp_path: Path) -> None:
    program = tmp_path / "one.zynml"
    program.write_text("// prints: 1\nprintln(1)\n", encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", START, verb, str(program)], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines()[-1] == "True True", done.stdout


def test_a_caller_in_python_keeps_the_search_as_it_was() -> None:
    script = "import gc; from zyntax.garbage import collect_from_here; collect_from_here(); print(gc.isenabled(), gc.get_freeze_count())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "True 0\n"
