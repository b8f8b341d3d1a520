"""The wheel, installed into an empty environment, runs a program from another folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment with the wheel in it; gives its `bin`."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)], check=True)
    (wheel,) = folder.glob("zyntax_lang-*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    subprocess.run([str(programs / "pip"), "install", "--quiet", str(wheel)], check=True)
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


def test_the_wheel_carries_the_parser_tables(environment: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(environment / "python"), "-c", "import grammars, pathlib; print(sorted(p.stem for p in (pathlib.Path(grammars.__file__).parent / 'tables').iterdir()))"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "['quantdsl', 'zynml']\n"


def test_a_quantdsl_program_is_checked_from_another_folder(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "p.qdsl").write_text("fn f(x: f64) -> f64 { emma(x, 3) }\n", encoding="utf-8")
    done = run(environment, tmp_path, "check", "p.qdsl")
    assert (done.returncode, done.stdout) == (2, "")
    assert "undefined name `emma`" in done.stderr and "did you mean `ema`?" in done.stderr


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
    assert done.stdout == "['compiler', 'grammars', 'quantdsl', 'runtime', 'zynml', 'zyntax']\n"
