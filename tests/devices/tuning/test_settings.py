"""Whether there are tuning runs, and how long they may take."""

import pytest

from compiler.diagnostics import ZyntaxError, render
from compiler.options import LONGEST, USUAL, tuning
from compiler.source import Sources


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZYNTAX_TUNE", raising=False)
    monkeypatch.delenv("ZYNTAX_TUNE_BUDGET", raising=False)


def test_usual() -> None:
    found = tuning(True)
    assert found is not None and found.seconds == USUAL
    assert tuning(False) is None


@pytest.mark.parametrize("value", ["off", "0"])
def test_switched_off(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ZYNTAX_TUNE", value)
    assert tuning(True) is None


@pytest.mark.parametrize("text", ["0.5", "20", "1e-3"])
def test_seconds(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("ZYNTAX_TUNE_BUDGET", text)
    found = tuning(True)
    assert found is not None and found.seconds == float(text) <= LONGEST


@pytest.mark.parametrize("text", ["20.1", "0", "-1", "nan", "inf", "a minute", ""])
def test_seconds_that_can_not_be(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("ZYNTAX_TUNE_BUDGET", text)
    assert tuning(False) is None
    with pytest.raises(ZyntaxError) as told:
        tuning(True)
    assert render(told.value.diagnostics[0], Sources()) == (
        f"error[ZYN0505]: ZYNTAX_TUNE_BUDGET={text} can't be: a tuning run takes more than 0 and at most 20 seconds\n"
        "hint: `--no-tune`, or ZYNTAX_TUNE=off, for none"
    )
