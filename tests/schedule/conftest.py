"""Schedules are checked where they are; what becomes of them in the assembler, where that is installed."""

import pytest

from compiler.backends.nvptx.assemble import can_assemble
from compiler.schedule.gpu import choose


@pytest.fixture(autouse=True)
def assembler_or_skip(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that comes to the assembler is skipped there when the extra `compute` isn't installed."""
    if not can_assemble() and hasattr(request.module, "assemble"):
        monkeypatch.setattr(request.module, "assemble", lambda module: pytest.skip("the extra `compute` isn't installed"))


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields that may be cut are, whatever that costs: also small ones."""
    monkeypatch.setattr(choose, "FEW", 0)
    monkeypatch.setattr(choose, "SURE", float("inf"))
