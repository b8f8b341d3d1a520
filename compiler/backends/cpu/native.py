"""A compiled kernel: its texts, its object code, and how it is called."""

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from compiler.backends.cpu.faults import NativeFault
from compiler.backends.llvm.checks import RECORD_VALUES, CheckSite
from compiler.hir.module import HirFunction
from compiler.hir.types import DTYPES, Mem, Tile, is_float
from runtime import forks
from runtime.cpu import load

OUT_OF_MEMORY, OTHER_PATH = 2, 3
"""Statuses of a kernel that no check failed in; the second one is of code that hasn't the path of this launch."""


class NativeKernel:
    """Made by `compile_function`. Texts and code are made when first asked for."""

    def __init__(
        self,
        function: HirFunction,
        symbol: str,
        compiled: load.CompiledModule,
        checks: Sequence[CheckSite] = (),
        report: "Callable[[], NativeKernel] | None" = None,
        whole: "Callable[[], NativeKernel] | None" = None,
        quick: load.CompiledModule | None = None,
    ) -> None:
        self.function, self.symbol = function, symbol
        self._compiled, self._checks, self._make_report, self._whole = compiled, checks, report, whole
        self._quick = quick
        self._replaced: list[Any] = []
        self._failed: Exception | None = None
        self._report: NativeKernel | None = None
        self._call: Any = None
        self._lock = forks.lock()
        self._pack = [_packer(p.type) for p in function.parameters]
        self._slots = ctypes.c_int64 * (len(self._pack) + 2)

    @property
    def has_one_path(self) -> bool:
        """Whether the code is that of one path through the kernel."""
        return self._whole is not None

    @property
    def is_quick(self) -> bool:
        """Whether the code is that of tier 0, or will be."""
        return self._quick is not None

    @property
    def quick_seconds(self) -> float:
        """How long the code of tier 0 took to make."""
        return sum(self._quick.timings.values()) if self._quick is not None else 0.0

    @property
    def checks(self) -> Sequence[CheckSite]:
        """By the numbers that records of faults use."""
        return self._checks

    @property
    def llvm_unoptimised(self) -> str:
        """The IR as emitted."""
        return self._compiled.text

    @property
    def llvm(self) -> str:
        """The IR after optimisation."""
        return self._compiled.optimised

    @property
    def asm(self) -> str:
        return self._compiled.assembly

    @property
    def object(self) -> bytes:
        return self._compiled.object

    @property
    def timings(self) -> dict[str, float]:
        """Seconds of each stage so far: emit, parse, optimise, generate, link."""
        return self._compiled.timings

    @property
    def pass_times(self) -> str:
        """LLVM's own table of the time of each pass; the module is optimised once more for it."""
        return self._compiled.pass_times()

    def prepare(self) -> None:
        """Compile and link now rather than at the first run."""
        with self._lock:
            if self._call is None:
                self._call = (self._quick or self._compiled).function(self.symbol)

    def improve(self) -> None:
        """Code with all passes in the place of tier 0's: launches that begin from now on run it. Those under way end as they began."""
        if self._quick is not None:
            call = self._compiled.function(self.symbol)
            with self._lock:
                self._replaced.append(self._call)  # machine code of calls may have its address
                self._call, self._quick = call, None

    def fail(self, error: Exception) -> None:
        """Has the next launch raise what went wrong when its code was made beside the program."""
        self._failed = error

    def entry(self) -> int:
        """The address of the machine code, which lives as long as this object."""
        self.prepare()
        address = ctypes.cast(self._call, ctypes.c_void_p).value
        assert address is not None
        return address

    def run(self, arguments: Sequence[int | float | bool], threads: int = 1) -> NativeFault | None:
        """Run with one argument a parameter: addresses of memories, numbers for the rest. A fault is the first in the order of
        the kernel as written; memories it stores to are then partly written, twice over."""
        status, record = self._start(arguments, threads)
        if status == 0:
            return None
        if status == OTHER_PATH:
            assert self._whole is not None
            return self._whole().run(arguments, threads)
        if status == OUT_OF_MEMORY:
            return NativeFault("0804", -1)
        if self._make_report is None:
            return self._fault(record)
        if self._report is None:
            self._report = self._make_report()
        names = [p.name for p in self.function.parameters]
        known = dict(zip(names, arguments, strict=True))
        fault = self._report.run([known[p.name] for p in self._report.function.parameters])
        # an earlier, partial run may have changed what the check read; the flag itself stands
        return fault or NativeFault("0801", -1)

    def _start(self, arguments: Sequence[int | float | bool], threads: int) -> tuple[int, Any]:
        if self._call is None:
            self.prepare()
        if self._failed is not None:
            raise self._failed
        record = (ctypes.c_int64 * (1 + RECORD_VALUES))()
        slots = self._slots(*[pack(value) for pack, value in zip(self._pack, arguments, strict=True)], threads, ctypes.addressof(record))
        address = ctypes.addressof(slots)
        return self._call(address), record

    def _fault(self, record: Any) -> NativeFault:
        check = self._checks[record[0]]
        values: list[int | float | bool] = []
        for dtype, bits in zip(check.dtypes[:RECORD_VALUES], record[1:], strict=False):
            if is_float(dtype):
                values.append(struct.unpack("<d", struct.pack("<q", bits))[0])
            elif dtype == "i1":
                values.append(bool(bits))
            else:
                values.append(bits & (1 << 64) - 1 if dtype == "u64" else bits)
        return NativeFault(check.code, check.site, tuple(values))


def _packer(type: object) -> Callable[[Any], int]:
    """From an argument to the eight bytes of its slot."""
    if isinstance(type, Mem):
        return int
    assert isinstance(type, Tile)
    match type.dtype:
        case "f64":
            return lambda value: struct.unpack("<q", struct.pack("<d", value))[0]
        case "f32":
            return _float_bits
        case "f16":
            return _half_bits
        case "bf16":
            return _bfloat_bits
        case dtype if is_float(dtype):
            return int
        case dtype:
            bits = DTYPES[dtype]
            return lambda value: _signed64(int(value) & ((1 << bits) - 1))


def _signed64(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _float_bits(value: float) -> int:
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return int.from_bytes(struct.pack("<f", math.copysign(math.inf, value)), "little")


def _half_bits(value: float) -> int:
    try:
        return int.from_bytes(struct.pack("<e", value), "little")
    except OverflowError:
        return int.from_bytes(struct.pack("<e", math.copysign(math.inf, value)), "little")


def _bfloat_bits(value: float) -> int:
    bits = _float_bits(value)
    if value != value:
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
