"""Fixtures: a library of its own for each test, working in an empty folder."""

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from library_calls import Caller

from zynml.stdlib import StdlibSettings


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caller:
    monkeypatch.chdir(tmp_path)
    return Caller(StdlibSettings(output=StringIO(), error_output=StringIO(), render_folder=Path("out")))


@pytest.fixture
def printed(call: Caller) -> Callable[..., str]:
    """What printing the values writes."""

    def run(*values: Any) -> str:
        stream = StringIO()
        call.settings.output = stream
        call("println", *values)
        return stream.getvalue()

    return run
