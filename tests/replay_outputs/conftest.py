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
    write(found, swing, options=OutputOptions(png=True))
    return found
