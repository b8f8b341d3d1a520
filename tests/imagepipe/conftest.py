"""The command, in this process."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from zyntax.main import main


class Done(NamedTuple):
    code: int
    out: str
    err: str


Zyntax = Callable[..., Done]


@pytest.fixture
def zyntax(capfd: pytest.CaptureFixture[str]) -> Zyntax:
    def run(*arguments: str) -> Done:
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        code = left.value.code
        assert isinstance(code, int)
        return Done(code, *capfd.readouterr())

    return run
