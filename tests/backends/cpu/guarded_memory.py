"""Random nests whose memory lies between pages that nobody may touch: a kernel that reads or writes outside of an array ends the process.

    python -m tests.backends.cpu.guarded_memory [--seeds 0:40] [--families maps,rows] [--most 20000]

Arrays end directly before such a page, or begin directly behind one, in turn; so do results, workspaces and what kernels take from
`malloc`. Nests are those of `bench.nests` at small sizes, compiled as large ones are: on a team of threads, with stores past the caches."""

import argparse
import ctypes
import faulthandler
import mmap
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

import zynml
from bench.nests.arrays import largest_error, operands_of, wanted
from bench.nests.families import FAMILIES, nest_of
from bench.nests.form import BenchNest
from bench.nests.numpy_arrays import NumpyArrays
from bench.nests.printing import scalars
from bench.nests.printing import zynml as text_of
from compiler.backends.cpu import streamed, threads
from compiler.launch import cpu
from runtime import buffers
from runtime.calls import arrays
from runtime.cpu import load

PAGE = mmap.PAGESIZE
LINE = 64
LEAST = 200
"""Bytes that a nest moves at least."""

_C = ctypes.CDLL(None, use_errno=True)
_C.mmap.restype = ctypes.c_void_p
_C.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_C.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


class GuardedPages:
    """Memory between two pages that nobody may touch."""

    def __init__(self, size: int) -> None:
        whole = -(-max(size, 1) // PAGE) * PAGE
        self.length = whole + 2 * PAGE
        self.start = _C.mmap(None, self.length, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        inside = mmap.PROT_READ | mmap.PROT_WRITE
        if self.start in (None, 2**64 - 1) or _C.mprotect(ctypes.c_void_p(self.start + PAGE), ctypes.c_size_t(whole), inside):
            raise MemoryError
        self.low, self.high = self.start + PAGE, self.start + PAGE + whole

    def __del__(self) -> None:
        _C.munmap(self.start, self.length)


class Guarded:
    """Gives out guarded memory: by turns at the end of its pages and at their beginning."""

    def __init__(self) -> None:
        self.at_end = True
        self.blocks: dict[int, GuardedPages] = {}
        self.starts: set[int] = set()
        """Where arrays began."""

    def array(self, shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None) -> Any:
        """An array that is undefined; with strides in bytes its memory ends with its last element."""
        dtype = np.dtype(dtype)
        strides = strides or [prod(shape[axis + 1 :]) * dtype.itemsize for axis in range(len(shape))]
        size = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)) + dtype.itemsize if prod(shape) else 0
        pages = GuardedPages(size)
        start = pages.high - size if self.at_end else pages.low
        self.at_end = not self.at_end
        self.starts.add(start)
        memory = (ctypes.c_char * size).from_address(start)
        memory.pages = pages  # type: ignore[attr-defined]
        return np.ndarray(shape, dtype, memory, 0, strides)

    def copy(self, array: Any) -> Any:
        """The array with its strides."""
        guarded = self.array(array.shape, array.dtype, array.strides)
        guarded[...] = array
        return guarded

    def take(self, size: int) -> int:
        """`malloc` for kernels, which use a block from its first multiple of 64 on: 64 bytes less than they asked for."""
        used = max(0, size - LINE)
        pages = GuardedPages(used + LINE)
        address = (pages.high - used) // LINE * LINE
        self.blocks[address] = pages
        return address

    def give(self, address: int | None) -> None:
        if address is not None:
            del self.blocks[address]


@contextmanager
def guarding() -> Iterator[Guarded]:
    """What is compiled and called here has guarded memory. No call is answered by machine code, which has memory of its own and the
    interpreter's lock, for which `malloc` of a thread would wait."""
    memory = Guarded()
    take = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(memory.take)
    give = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(memory.give)
    symbols = {"malloc": ctypes.cast(take, ctypes.c_void_p).value, "free": ctypes.cast(give, ctypes.c_void_p).value}
    plain = load.CompiledModule.addresses

    def addresses(self: load.CompiledModule, names: Sequence[str], known: Mapping[str, int] | None = None) -> Any:
        for name in symbols:
            self.text = self.text.replace(f"@{name}(", f"@guarded_{name}(")
        used = {f"guarded_{name}": address for name, address in symbols.items() if f"@guarded_{name}(" in self.text}
        return plain(self, names, {**(known or {}), **used})  # type: ignore[dict-item]

    with (
        mock.patch.object(load.CompiledModule, "addresses", addresses),
        mock.patch.object(buffers, "empty", memory.array),
        mock.patch.object(cpu, "np", SimpleNamespace(**{**vars(np), "empty": lambda shape, dtype: memory.array((shape,), dtype)})),
        mock.patch.object(arrays, "is_known", lambda: False),
        mock.patch.object(cpu, "worth_threads", lambda kernel: 0),
        mock.patch.object(threads, "SERIAL_WORK", 0),
        mock.patch.object(streamed, "STREAMED", 0),
        mock.patch.object(streamed, "LEAST_ROW", 0),
    ):
        yield memory


def operands(nest: BenchNest, library: NumpyArrays, memory: Guarded) -> dict[str, Any]:
    return {name: memory.copy(array) for name, array in operands_of(nest, library).items()}


def run(nest: BenchNest, team: int) -> float:
    """The error of the nest's result, both ways round: arrays at the ends of their pages, and at the beginnings."""
    library = NumpyArrays(nest.seed)
    worst = 0.0
    with guarding() as memory:
        program = zynml.compile(text_of(nest), threads=team, tier=1)
        for at_end in (True, False):
            memory.at_end = at_end
            given = operands(nest, library, memory)
            reference = wanted(nest, given, library)
            memory.at_end = at_end
            ours = program.f(*given.values(), *(nest.sizes[name] for name in scalars(nest)))
            assert np.ndim(ours) == 0 or np.asarray(ours).ctypes.data in memory.starts, "the result lies elsewhere"
            worst = max(worst, largest_error(np.asarray(ours), reference, library))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.backends.cpu.guarded_memory")
    parser.add_argument("--seeds", default="0:40")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--most", type=float, default=20_000, help="bytes that a nest moves at most")
    options = parser.parse_args()
    faulthandler.enable()
    os.environ["ZYNTAX_CACHE"] = "off"  # what it holds takes memory from C's `malloc`
    families = options.families.split(",")
    first, last = map(int, options.seeds.split(":"))
    wrong = 0
    for seed in range(first, last):
        nest = nest_of(seed, LEAST, options.most, families[seed % len(families)])
        print(f"{seed} {nest.family} {nest.kind} {nest.dtype} {dict(nest.sizes)}", flush=True)
        for team in (1, 2):
            error = run(nest, team)
            if error > nest.tolerance:
                wrong += 1
                print(f"    {team} threads: off by {error:.1e}", flush=True)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
