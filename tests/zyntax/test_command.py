"""Help, wrong usage, devices, and what the command loads."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.zyntax.conftest import ROOT, Zyntax
from zyntax.main import COMMANDS


@pytest.fixture
def zyntax(process: Zyntax) -> Zyntax:
    return process


def test_help_lists_every_verb(zyntax: Zyntax) -> None:
    done = zyntax("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for verb in COMMANDS:
        assert f"  {verb} " in done.stdout


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_has_help(zyntax: Zyntax, verb: str) -> None:
    done = zyntax(verb, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: zyntax {verb} ")


def test_a_misspelt_verb_is_guessed(zyntax: Zyntax) -> None:
    done = zyntax("rnu", "hello.zynml")
    assert done.returncode == 2
    assert "Did you mean `run`?" in done.stderr


def test_a_missing_argument_is_wrong_usage(zyntax: Zyntax) -> None:
    done = zyntax("run")
    assert done.returncode == 2
    assert "Missing argument 'PROGRAM'" in done.stderr


def loaded(folder: Path, *arguments: str) -> list[str]:
    """Modules that a command has loaded at its end."""
    script = f"import sys\nfrom zyntax.main import main\ntry:\n    main({list(arguments)!r})\nexcept SystemExit:\n    pass\nprint(*sys.modules)\n"
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()


def test_help_loads_nothing_but_the_command(folder: Path) -> None:
    modules = loaded(folder, "--help")
    heavy = {"attrs", "lark", "numpy", "llvmlite", "rich", "compiler", "zynml"}
    assert heavy.isdisjoint(modules)


def test_a_program_without_kernels_loads_no_compiler_of_kernels(folder: Path) -> None:
    modules = loaded(folder, "run", "hello.zynml")
    assert {"llvmlite", "rich", "matplotlib", "PIL", "compiler.hir.core", "compiler.launch.kernels"}.isdisjoint(modules)


PLAIN = """\
def square(x: i64): i64 { x * x }
fn main() {
    let mut total = 0
    for i in 0..5 { total += square(i) }
    if total > 29 && !(total == 31) { println(f"{total} {total as f64 / 4.0:.2f} {-total}") }
    println([1, 2], "a", 2.5, true, (1, "b"))
}
"""


@pytest.mark.parametrize(("text", "needs_numpy"), [('print("hello")\n', False), (PLAIN, False), ("println(zeros(2))\n", True)])
def test_only_a_program_with_tensors_loads_numpy(folder: Path, text: str, needs_numpy: bool) -> None:
    """None of them has a dtype of `ml_dtypes`."""
    (folder / "plain.zynml").write_text(text, encoding="utf-8")
    modules = loaded(folder, "run", "plain.zynml")
    assert ("numpy" in modules, "ml_dtypes" in modules) == (needs_numpy, False)
