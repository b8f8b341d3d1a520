"""What is shown while something takes long: only on terminals, never inside a line, gone before any output."""

import io
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.zyntax.conftest import ROOT
from zyntax import progress
from zyntax.progress import Announced, Progress

NEVER = 3600.0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def test_nothing_is_shown_before_there_is_something_to_say(terminal: Terminal) -> None:
    shown = Progress(terminal, NEVER)
    shown.appear()
    assert not shown.visible
    shown.close()
    assert terminal.getvalue() == ""


def test_the_spinner_says_what_goes_on(terminal: Terminal) -> None:
    shown = Progress(terminal, NEVER)
    shown.now("checking")
    shown.appear()
    shown.now("compiling the kernel at line 12")
    shown.close()
    assert "checking" in terminal.getvalue()
    assert "compiling the kernel at line 12" in terminal.getvalue()


def test_the_spinner_is_gone_before_output_and_waits_for_the_end_of_a_line(terminal: Terminal) -> None:
    shown = Progress(terminal, NEVER)
    output = Announced(terminal, shown)
    shown.now("running")
    shown.appear()
    assert shown.visible
    output.write("half a line")
    assert not shown.visible
    shown.appear()
    assert not shown.visible
    output.write(", the other half\n")
    shown.appear()
    assert shown.visible
    shown.close()
    assert not shown.visible
    assert "half a line, the other half\n" in terminal.getvalue()


def test_no_colour_is_honoured(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    shown = Progress(terminal, NEVER)
    shown.now("checking")
    shown.appear()
    shown.close()
    assert "\033[3" not in terminal.getvalue()


def test_it_appears_by_itself_after_silence(terminal: Terminal) -> None:
    appeared = threading.Event()

    class Watched(Progress):
        def appear(self) -> None:
            super().appear()
            if self.visible:
                appeared.set()

    shown = Watched(terminal, 0.0)
    shown.now("running")
    assert appeared.wait(60)
    shown.close()


def test_where_there_is_no_terminal_nothing_is_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = io.StringIO()
    monkeypatch.setattr(sys, "stderr", plain)
    with progress.showing() as doing:
        doing("checking")
        assert sys.stderr is plain
    assert plain.getvalue() == ""


def test_a_dumb_terminal_gets_no_spinner(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert not progress.wanted(terminal)


@pytest.mark.parametrize(("no_colour", "coloured"), [("", True), ("1", False)])
def test_messages_are_coloured_on_a_terminal_unless_no_color_is_set(tmp_path: Path, no_colour: str, coloured: bool) -> None:
    (tmp_path / "p.zynml").write_text("println(x)\n", encoding="utf-8")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "NO_COLOR": no_colour}
    done = subprocess.run([sys.executable, "-m", "zyntax", "run", "p.zynml"], cwd=tmp_path, env=environment, stderr=theirs, check=False)
    os.close(theirs)
    said = os.read(ours, 4096).decode()
    os.close(ours)
    assert done.returncode == 2
    assert "`x` is not defined" in said
    assert ("\033[" in said) is coloured
