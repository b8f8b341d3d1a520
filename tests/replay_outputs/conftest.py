"""The sample run, and its folder of outputs, made once."""

from pathlib import Path

import pytest

from runtime.replay.outputs.folder import OutputOptions
from tests.replay_outputs.samples import Sample, sample, write


@pytest.fixture(scope="session")
def swing() -> Sample:
    return sample()


@pytest.fixture(scope="session")
def folder(swing: Sample, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("swing")
    write(found, swing, options=OutputOptions())
    return found


@pytest.fixture
def empty_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty file stands for each picture."""
    monkeypatch.setattr("runtime.replay.outputs.folder.write_picture", lambda chart, path: path.touch())
