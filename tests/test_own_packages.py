"""Files of the user that have the names of our packages: the import says which is in the way, and runs none of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import zyntax_lang
from zyntax_lang import PACKAGES

ROOT = Path(zyntax_lang.__file__).parent


def python(folder: Path, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """Python in that folder, without this checkout's own place on the path that tests have."""
    settings = {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **more}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=settings, capture_output=True, text=True, check=False)


def message(importing: str, package: str, path: Path) -> str:
    kind = "folder" if path.is_dir() else "file"
    return (
        f"`{importing}` needs its package `{package}`, but Python finds {path} under that name: "
        f"rename this {kind}, or move it to where Python doesn't look"
    )


@pytest.mark.parametrize(
    ("importing", "package"),
    [(importing, package) for importing in ("zyntax", "quantdsl", "zynml") for package in PACKAGES[PACKAGES.index(importing) + 1 :]],
)
def test_a_file_beside_the_script_is_named(tmp_path: Path, importing: str, package: str) -> None:
    culprit = tmp_path / f"{package}.py"
    culprit.write_text("print('this was run')\n", encoding="utf-8")
    (tmp_path / "script.py").write_text(f"import {importing}\n", encoding="utf-8")
    done = python(tmp_path, "script.py")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == f"ImportError: {message(importing, package, culprit)}"


def test_a_package_beside_the_script_is_named(tmp_path: Path) -> None:
    culprit = tmp_path / "runtime"
    culprit.mkdir()
    (tmp_path / "script.py").write_text("import zynml\nprint(zynml.compile)\n", encoding="utf-8")
    (culprit / "notes.py").write_text("", encoding="utf-8")
    assert python(tmp_path, "script.py").returncode == 0, "a folder that is no package hides nothing"
    (culprit / "__init__.py").write_text("", encoding="utf-8")
    assert python(tmp_path, "script.py").stderr.splitlines()[-1] == f"ImportError: {message('zynml', 'runtime', culprit)}"


def test_the_script_itself_is_named(tmp_path: Path) -> None:
    culprit = tmp_path / "compiler.py"
    culprit.write_text("import zynml\n", encoding="utf-8")
    assert python(tmp_path, "compiler.py").stderr.splitlines()[-1] == f"ImportError: {message('zynml', 'compiler', culprit)}"


def test_what_the_script_imported_before_is_named(tmp_path: Path) -> None:
    culprit = tmp_path / "elsewhere" / "grammars.py"
    culprit.parent.mkdir()
    culprit.write_text("", encoding="utf-8")
    script = "import sys\nsys.path.insert(0, 'elsewhere')\nimport grammars\nsys.path.pop(0)\n"
    caught = "try:\n    import zynml\nexcept ImportError as error:\n    print(error.name, error.path, error, sep='\\n')\n"
    (tmp_path / "script.py").write_text(script + caught, encoding="utf-8")
    relative = Path("elsewhere") / "grammars.py"
    done = python(tmp_path, "script.py")
    name, path, text = done.stdout.splitlines()
    assert (name, Path(path).name) == ("zynml", relative.name) and text == message("zynml", "grammars", Path(path))


def test_names_that_it_does_not_need_are_the_users(tmp_path: Path) -> None:
    for name in ("zyntax.py", "quantdsl.py"):
        (tmp_path / name).write_text("", encoding="utf-8")
    (tmp_path / "script.py").write_text("import zynml\nprint(zynml.compile.__module__)\n", encoding="utf-8")
    assert python(tmp_path, "script.py").stdout == "zynml.embedding\n"


def test_our_own_folder_by_another_way_is_ours(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(ROOT, target_is_directory=True)
    done = python(tmp_path, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import compiler, zynml; print(zynml.compile.__module__)", str(link))
    assert (done.stdout, done.stderr) == ("zynml.embedding\n", "")


@pytest.mark.parametrize("started", [("-m", "zyntax"), ("-c", "from zyntax_lang import main; main()")])
def test_the_command_says_it_without_a_traceback(tmp_path: Path, started: tuple[str, str]) -> None:
    culprit = tmp_path / "compiler.py"
    culprit.write_text("", encoding="utf-8")
    done = python(tmp_path, *started, "--help")
    assert done.returncode != 0 and done.stdout == ""
    assert "Traceback" not in done.stderr and message("zyntax", "compiler", culprit) in done.stderr
