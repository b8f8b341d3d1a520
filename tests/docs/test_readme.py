"""What the README says can be typed in works, and links lead somewhere."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.examples import PAGES, ROOT
from zyntax import report
from zyntax.main import main

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [line.split("#")[0].strip() for line in re.findall(r"^\$ zyntax (.*)$", README, re.MULTILINE)]


TYPED = [command for command in COMMANDS if not command.startswith("test ")]  # which tests/programs does


@pytest.mark.parametrize("command", TYPED)
def test_a_command_runs(command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first and those that read what is typed in another process, as the README's reader has them."""
    words = [str(ROOT / word) if word.startswith("programs/") else word for word in shlex.split(command)]
    if command in (TYPED[0], "repl"):
        done = subprocess.run([sys.executable, "-m", "zyntax", *words], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return
    monkeypatch.setattr(report, "_current", [])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert (ended.value.code, capfd.readouterr().err) == (0, "")


def test_the_two_commands_for_a_fresh_machine_are_there() -> None:
    lines = re.findall(r"^\$ (python3 -m venv .*)$", README, re.MULTILINE)
    assert len(lines) == 2
    assert lines[0].endswith("run programs/zynml/digits.zynml")
    assert lines[1].endswith(".venv-test/bin/pytest -n auto")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for target, _, heading in (link.partition("#") for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))):
        if target.startswith("http"):
            continue
        file = page.parent / target if target else page
        assert file.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", text).strip().lower().replace(" ", "-") for text in headings}, heading
