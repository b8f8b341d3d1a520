"""The page that builds a language: its files, put where it says, do what it shows, and the finished ones are those of `zyntax language new`."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from zyntax.language.new import TEMPLATE

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "write_a_language.md").read_text(encoding="utf-8")
FENCE = re.compile(r"(?:^`([\w./]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(line: str, folder: Path) -> str:
    """What a command of the page prints. The package is found as an installer would leave it."""
    words = shlex.split(line)
    if words[:2] == ["pip", "install"]:
        points = re.search(r'^\[project\.entry-points\."zyntax\.languages"\]\n(.*?)\n*\Z', (folder / words[-1] / "pyproject.toml").read_text(), re.M | re.S)
        assert points is not None
        metadata = folder / words[-1] / "tinypipe-0.1.0.dist-info"
        metadata.mkdir()
        (metadata / "entry_points.txt").write_text("[zyntax.languages]\n" + points[1].replace('"', "") + "\n", encoding="utf-8")
        return ""
    programs = {"zyntax": [sys.executable, "-m", "zyntax"], "python": [sys.executable]}
    paths = os.pathsep.join([str(folder / "tinypipe"), str(ROOT)])
    done = subprocess.run(
        [*programs.get(words[0], [words[0]]), *words[1:]], cwd=folder, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[str, str, str]]]:
    """The folder with all that the page writes, and its commands with what it shows under them and what they print."""
    folder = tmp_path_factory.mktemp("page")
    told = []
    for name, language, text in FENCE.findall(PAGE):
        if name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        elif language == "console":
            for command in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                line, _, shown = command.partition("\n")
                told.append((line, shown, run(line, folder)))
    return folder, told


def test_every_command_prints_what_the_page_shows(written: tuple[Path, list[tuple[str, str, str]]]) -> None:
    _, told = written
    assert len(told) > 8
    assert [(line, printed) for line, _, printed in told] == [(line, shown) for line, shown, _ in told]


@pytest.mark.parametrize("name", ["__init__.py", "tinypipe.lark", "kernels.zynml", "codes.toml"])
def test_the_finished_files_are_those_that_the_command_writes(written: tuple[Path, list[tuple[str, str, str]]], name: str) -> None:
    folder, _ = written
    assert (folder / "tinypipe" / "tinypipe" / name).read_text() == (TEMPLATE / "tinypipe" / name).read_text(encoding="utf-8")


def test_it_is_as_small_as_it_is_said_to_be() -> None:
    lines = {name: len((TEMPLATE / "tinypipe" / name).read_text(encoding="utf-8").splitlines()) for name in ("__init__.py", "tinypipe.lark")}
    assert lines["__init__.py"] <= 30 and lines["tinypipe.lark"] <= 10
