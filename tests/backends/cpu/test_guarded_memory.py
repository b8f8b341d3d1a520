"""Kernels touch no memory outside of their arrays: random nests between pages that nobody may touch."""

import signal
import subprocess
import sys

import numpy as np
import pytest

from bench.nests.families import FAMILIES
from tests.backends.cpu.guarded_memory import Guarded

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="guards memory as Linux does")

OUTSIDE = """
import ctypes
import numpy as np
from tests.backends.cpu.guarded_memory import Guarded
memory = Guarded()
memory.at_end = {at_end}
array = memory.array((5, 7), np.float32)
ctypes.c_char.from_address(array.ctypes.data + {offset}).value
"""


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True)


@pytest.mark.parametrize(("at_end", "offset", "dies"), [(True, 139, False), (True, 140, True), (False, 0, False), (False, -1, True)])
def test_who_reads_outside_is_ended(at_end: bool, offset: int, dies: bool) -> None:
    ended = run("-c", OUTSIDE.format(at_end=at_end, offset=offset))
    assert ended.returncode == (-signal.SIGSEGV if dies else 0), ended.stderr


def test_a_copy_has_the_strides_of_the_array() -> None:
    array = np.arange(60, dtype=np.int16).reshape(6, 10)[:, :7].T
    copy = Guarded().copy(array)
    assert copy.strides == array.strides
    np.testing.assert_array_equal(copy, array)


def test_random_nests_stay_inside() -> None:
    ended = run("-m", "tests.backends.cpu.guarded_memory", "--seeds", f"0:{2 * len(FAMILIES)}")
    assert ended.returncode == 0, ended.stdout + ended.stderr
