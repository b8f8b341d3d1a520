"""Fixtures: a library of its own for each test, working in an empty folder."""

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from library_calls import Caller

from compiler.options import CompileOptions
from compiler.source import Source, Sources
from zynml.api import open_source
from zynml.stdlib import StdlibSettings


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caller:
    monkeypatch.chdir(tmp_path)
    empty = open_source(Source("library", ""), CompileOptions(), Sources(), lambda diagnostic: None)
    return Caller(StdlibSettings(output=StringIO(), error_output=StringIO(), render_folder=Path("out"), programs=empty))


@pytest.fixture
def printed(call: Caller) -> Callable[..., str]:
    """What printing the values writes."""

    def run(*values: Any) -> str:
        stream = StringIO()
        call.settings.output = stream
        call("println", *values)
        return stream.getvalue()

    return run
