"""Random nests on a GPU: the device, the CPU and Python must agree. Compiling takes nearly all the time, so processes share the programs."""

import os

import pytest

from tests.random_nests.__main__ import batches, outcomes

PROGRAMS = 600
PROCESSES = min(12, max(1, (os.cpu_count() or 1) - 2))


@pytest.mark.timeout(600)
def test_device_cpu_and_python_agree() -> None:
    wrong = [words for done in outcomes(batches(PROGRAMS, 0, "cuda:0", assemble=False), PROCESSES) for words in done.wrong]
    assert not wrong, f"{len(wrong)} of {PROGRAMS} programs differ:\n" + "\n".join(wrong[:5])
