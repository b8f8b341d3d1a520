"""The command in this process."""

from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import frozen

from zyntax import report
from zyntax.main import cli

Zyntax = Callable[..., "Done"]


@frozen
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def zyntax(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Zyntax:
    """Runs the command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> Done:
        monkeypatch.setattr(report, "_current", [])
        capsys.readouterr()
        code = report.guarded(lambda: cli.main(args=list(map(str, arguments)), prog_name="zyntax", standalone_mode=False))
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return run
