"""Long programs need the recursion limit that the driver sets."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def deep_recursion() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    yield
    sys.setrecursionlimit(before)
