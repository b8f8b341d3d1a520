"""The functions that `bench.hot` times, and C++ written by hand: the same results call by call, and the same in their desks."""

import shutil
from pathlib import Path

import pytest

from bench.hot import FUNCTIONS, Bench, compare


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_both_give_the_same(name: str, tmp_path: Path) -> None:
    compare(Bench(tmp_path).pairs(name)(), name, 30_000)
