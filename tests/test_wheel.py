"""The wheel carries all that it needs; installed into an empty environment, as a core without extras, it runs programs from another folder."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from runtime.cache.contents import WRITTEN, hash_of, source_files
from tests.built_wheel import ROOT, built_wheel
from zyntax_lang import PACKAGES


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory)


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment with the wheel in it; gives its `bin`."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    # Byte code of what commands import is made when they do: that is little of all that is installed.
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python")]
    subprocess.run([*pip, "install", "--quiet", "--no-compile", str(wheel)], check=True)
    return programs


def run(environment: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([str(environment / "zyntax"), *arguments], cwd=folder, env=clean, capture_output=True, text=True, check=False)


def test_a_program_runs_from_another_folder(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "p.zynml").write_text(
        "let x = arange(0, 4)\nlet y = compute(x) { for i in 0..N: out[i] = x[i] * 2.0 }\nprintln(y)\n", encoding="utf-8"
    )
    done = run(environment, tmp_path, "run", "p.zynml")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "tensor([0.0, 2.0, 4.0, 6.0], shape=[4], dtype=f32)\n"


def test_the_wheel_carries_every_file_of_the_packages(wheel: Path) -> None:
    tracked = subprocess.run(["git", "ls-files", "--", *PACKAGES, "zyntax_lang.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = {name for name in tracked.stdout.splitlines() if not name.endswith(".gitignore")}
    made = {f"runtime/cache/{WRITTEN}", *(f"grammars/tables/{name}.json" for name in ("imagepipe", "quantdsl", "zynml"))}
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if ".dist-info/" not in name}
        assert names == files | made
        assert opened.read(f"runtime/cache/{WRITTEN}").decode() == hash_of(source_files(ROOT))


def test_the_installed_compiler_is_named_by_the_hash_of_the_wheel(environment: Path, tmp_path: Path) -> None:
    script = (
        "import pathlib; from runtime.cache import identity as i\n"
        "def refuse(*_): raise SystemExit('files were read')\n"
        "i.hash_of = refuse; i.compiler_identity(); print(i.compiler_contents())"
    )
    done = subprocess.run([str(environment / "python"), "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == hash_of(source_files(ROOT)), "the same as of the checkout that it was built from"


def test_a_core_names_the_extra_that_it_lacks(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "p.zynml").write_text('let t = zeros(4)\nprintln(t.shape())\nrender t { file: "c.png" }\n', encoding="utf-8")
    done = run(environment, tmp_path, "run", "p.zynml")
    assert (done.returncode, done.stdout) == (2, "[4]\n")
    assert done.stderr.splitlines()[0] == (
        "error[ZYN0506]: `out/c.png`: the package `matplotlib` can't be imported (No module named 'matplotlib')"
    )
    assert done.stderr.splitlines()[-1] == "hint: pip install 'zyntax-lang[pictures]'"


def test_the_command_says_its_version(environment: Path, tmp_path: Path) -> None:
    assert run(environment, tmp_path, "--version").stdout == "zyntax, version 0.1.0\n"


def test_the_wheel_carries_the_parser_tables(environment: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(environment / "python"), "-c", "import grammars, pathlib; print(sorted(p.stem for p in (pathlib.Path(grammars.__file__).parent / 'tables').iterdir()))"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "['imagepipe', 'quantdsl', 'zynml']\n"


def test_a_quantdsl_program_is_checked_from_another_folder(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "p.qdsl").write_text("fn f(x: f64) -> f64 { emma(x, 3) }\n", encoding="utf-8")
    done = run(environment, tmp_path, "check", "p.qdsl")
    assert (done.returncode, done.stdout) == (2, "")
    assert "`emma` is not defined" in done.stderr and "did you mean `ema`?" in done.stderr


def test_modules_are_installed_under_the_known_names_only(environment: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            str(environment / "python"),
            "-c",
            "import importlib.metadata as m; print(sorted({f.parts[0] for f in m.files('zyntax-lang') if f.suffix == '.py'}))",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "['compiler', 'grammars', 'imagepipe', 'quantdsl', 'runtime', 'zynml', 'zyntax', 'zyntax_lang.py']\n"
