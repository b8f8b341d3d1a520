"""The package that `zyntax language new` writes, built and installed against the wheel, outside of the repository: all that ZynML has works."""

import json
import os
import site
import subprocess
import sys
from pathlib import Path

import pytest

from tests.built_wheel import ROOT, built_wheel

PRINTED = "tensor([[[235, 225, 215], [255, 255, 245]]], shape=[1, 2, 3], dtype=u8)\n"
"""Of the pixels (10, 20, 30) and (40, 50, 60): 255 less each, the other first, 20 more and at most 255."""


def pip(python: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--python", python, *arguments, "--quiet", "--no-index", "--no-deps", "--no-build-isolation"], check=True)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment of its own with the wheel and the package of `language new` in it, and this one's packages behind them."""
    folder = tmp_path_factory.mktemp("outside")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    found = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    python = str(found / "python")
    packages = subprocess.run([python, "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True, text=True, check=True)
    installed = [path for path in [*site.getsitepackages(), *sys.path] if Path(path).name == "site-packages"]
    (Path(packages.stdout.strip()) / "zz_others.pth").write_text("\n".join(dict.fromkeys(installed)) + "\n", encoding="utf-8")
    # Byte code of what commands import is made when they do: that is little of all that is installed.
    pip(python, "install", "--no-compile", "--ignore-installed", str(built_wheel(tmp_path_factory)))
    command(found, folder, "language", "new", "tinypipe", "--ending", ".tip")
    pip(python, "install", str(folder / "tinypipe"))
    return found


def command(programs: Path, folder: Path, *arguments: str, code: int = 0, name: str = "zyntax", typed: str | None = None) -> str:
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run([str(programs / name), *arguments], cwd=folder, env=clean, input=typed, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr + done.stdout
    return done.stdout + done.stderr


@pytest.fixture
def folder(programs: Path) -> Path:
    return programs.parents[1] / "tinypipe" / "programs"


def test_it_is_the_installed_one_that_runs(programs: Path, folder: Path) -> None:
    script = "import zyntax, tinypipe; print(*(module.__file__ for module in (zyntax, tinypipe)))"
    found = command(programs, folder, "-c", script, name="python").split()
    assert all(str(programs.parent) in path for path in found) and str(ROOT) not in " ".join(found)


@pytest.mark.parametrize("options", [(), ("--device", "emulator"), ("--sanitize",), ("--device", "emulator:sm_80"), ("-O", "0")])
def test_run(programs: Path, folder: Path, options: tuple[str, ...]) -> None:
    assert command(programs, folder, "run", "first.tip", *options) == PRINTED


def test_test_and_check(programs: Path, folder: Path) -> None:
    assert command(programs, folder, "check", "first.tip") == ""
    assert command(programs, folder, "test", ".") == "ok    first.tip\n1 passed, 0 failed\n"


def test_fmt(programs: Path, folder: Path) -> None:
    written = "load   \"in.npy\" as photo  \n\n\n\ninvert photo\nprint photo\n\n"
    (folder / "loose.tip").write_text(written, encoding="utf-8")
    try:
        assert command(programs, folder, "fmt", "--check", "loose.tip", code=1) == "loose.tip\n"
        assert command(programs, folder, "fmt", "loose.tip") == command(programs, folder, "fmt", "--check", "loose.tip") == ""
        assert not any(line.endswith(" ") for line in (folder / "loose.tip").read_text(encoding="utf-8").split("\n"))
        assert command(programs, folder, "run", "loose.tip") != ""
    finally:
        (folder / "loose.tip").unlink()


def test_repl(programs: Path, folder: Path) -> None:
    typed = 'load "in.npy" as photo\ninvert photo\nprint photo\ninvrt photo\nprint photo\n'
    shown = "tensor([[[245, 235, 225], [215, 205, 195]]], shape=[1, 2, 3], dtype=u8)\n"
    answers = command(programs, folder, "repl", "--language", "tinypipe", typed=typed)
    assert answers.count(shown) == 2 and "error[TIN0201]: no operation `invrt`" in answers


@pytest.mark.parametrize(
    ("stage", "options", "words"),
    [
        ("ast", (), '"path": "first.tip"'),
        ("typed-ast", (), '"tinypipe.invert"'),
        ("hir", (), "load %x[i, j, c] : u8"),
        ("schedule", (), "kernels.zynml"),
        ("llvm", (), "define "),
        ("asm", (), ".text"),
        ("ptx", ("--backend", "nvptx"), ".visible .entry tinypipe_"),
        ("hir-after=lift", (), "form=F"),
    ],
)
def test_compile(programs: Path, folder: Path, stage: str, options: tuple[str, ...], words: str) -> None:
    assert words in command(programs, folder, "compile", "first.tip", "--emit", stage, *options)


def test_errors_of_its_own_and_their_explanation(programs: Path, folder: Path) -> None:
    (folder / "wrong.tip").write_text('load "in.npy" as photo\ninvrt photo\nbrighten photo by\n', encoding="utf-8")
    try:
        found = command(programs, folder, "check", "wrong.tip", code=2)
    finally:
        (folder / "wrong.tip").unlink()
    assert found == (
        "error[TIN0201]: no operation `invrt`\n"
        " --> wrong.tip:2:1\n"
        "  |\n"
        "2 | invrt photo\n"
        "  | ^^^^^\n"
        "hint: did you mean `invert`?\n\n"
        "error[ZYN0101]: expected a signed number after `by`\n"
        " --> wrong.tip:3:18\n"
        "  |\n"
        "3 | brighten photo by\n"
        "  |                  ^ the line ends here\n"
    ).replace("a signed number", "a number")
    assert command(programs, folder, "explain", "TIN0201").startswith("TIN0201: unknown operation\n")


def test_the_language_and_its_own_test(programs: Path, folder: Path) -> None:
    listed = command(programs, folder, "language", "list")
    assert ["tinypipe", ".tip", "tinypipe"] in [line.split() for line in listed.splitlines()]
    assert command(programs, folder, "language", "check", "tinypipe", ".") == "0 problems\n"
    grammar = json.loads(command(programs, folder, "language", "textmate", "tinypipe"))
    assert (grammar["scopeName"], grammar["fileTypes"]) == ("source.tinypipe", ["tip"])
    command(programs, folder.parent, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", name="python")


def test_pygments_finds_its_lexer(programs: Path, folder: Path) -> None:
    script = "from pygments.lexers import get_lexer_for_filename as g; print([str(kind)[6:] for kind, text in g('a.tip').get_tokens('invert photo by 2 // x') if text.strip()])"
    found = command(programs, folder, "-c", script, name="python")
    assert found == "['Name', 'Name', 'Keyword', 'Literal.Number', 'Comment']\n"


def test_from_python(programs: Path, folder: Path) -> None:
    script = (
        "import pickle, zyntax\n"
        "program = zyntax.compile('first.tip')\nprogram.run()\npickle.loads(pickle.dumps(program)).run()\n"
        "from tinypipe import language\nlanguage.compile('load \"in.npy\" as a\\nprint a\\n').run()\n"
    )
    assert command(programs, folder, "-c", script, name="python") == 2 * PRINTED + PRINTED.replace(
        "[235, 225, 215], [255, 255, 245]", "[10, 20, 30], [40, 50, 60]"
    )
