"""The functions that `bench.hot` times, and C++ written by hand: the same results call by call, and the same in their desks."""

import shutil

import pytest

from bench.hot import FUNCTIONS, Bench, compare
from compiler.hir.module import OptimizationLevel


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Both sides of what several functions share are compiled once, ours without passes: results are compared, not times."""
    return Bench(tmp_path_factory.mktemp("hot"), OptimizationLevel.O0)


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_both_give_the_same(name: str, bench: Bench) -> None:
    compare(bench.pairs(name)(), name, 30_000)
