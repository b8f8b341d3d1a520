"""What docs/replay.md shows is what happens."""

import re
import shutil
from pathlib import Path

import pytest

from tests.docs.examples import ROOT
from zyntax import report
from zyntax.main import cli

PAGE = (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")
FENCED = {language: re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) for language in ("console", "quantdsl", "python")}
MEASURED = ("latency", "events", "hash")
"""Lines that differ from run to run, or with what is hashed."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of these tests, so that the engine is compiled once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def folder(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the programs and the data."""
    for name in ("quantdsl", "data"):
        (tmp_path / "programs").mkdir(exist_ok=True)
        (tmp_path / "programs" / name).symlink_to(ROOT / "programs" / name)
    shutil.copy(ROOT / "programs" / "data" / "btcusdt_spot_20240808_trades.csv", tmp_path / "trades.csv")
    (tmp_path / "watch.qdsl").write_text(FENCED["quantdsl"][0])
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(cache))
    monkeypatch.setattr(report, "_current", [])
    monkeypatch.chdir(tmp_path)


def typed(text: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str, str]:
    """What is shown under the command, and its output and errors."""
    command, _, shown = text.partition("\n")
    words = command.removeprefix("$ zyntax ").split(" 2>")[0].split()
    capsys.readouterr()
    report.guarded(lambda: cli.main(args=words, prog_name="zyntax", standalone_mode=False))
    found = capsys.readouterr()
    return shown, found.out, found.err


def test_the_first_run(capsys: pytest.CaptureFixture[str]) -> None:
    shown, out, err = typed(FENCED["console"][0], capsys)
    settled = [[line for line in text.splitlines() if not line.startswith(MEASURED)] for text in (shown, out)]
    assert settled[0] == settled[1] and err == ""


def test_the_failure(capsys: pytest.CaptureFixture[str]) -> None:
    shown, _, err = typed(FENCED["console"][1], capsys)
    assert err == shown


def test_the_python() -> None:
    exec(compile(FENCED["python"][0], "docs/replay.md", "exec"), {})
