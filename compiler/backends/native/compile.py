"""Host functions compiled for this machine: `compile_module(module)["f"].run(arguments)`.

What the final code calls is known: `calls` lists the names of all outside functions, and `compile_module` refuses those not allowed."""

import ctypes
import re
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen

from compiler.backends.native.emit import emit_module, entry_name, results_struct
from compiler.backends.native.faults import RECORD_BYTES, FaultPoint, HostFault, read_record
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.layout import align_of, in_memory, numpy_dtype, size_of
from compiler.hir.module import HirFunction, HirModule, Linkage, OptimizationLevel
from compiler.hir.types import FLOATS, Pointer, Tile
from runtime.cpu import detect, load

MEMORY_CALLS = frozenset({"memcpy", "memmove", "memset", "bzero"})
"""What LLVM may make of copies, loops that copy, and clearing; they neither allocate nor enter the kernel."""

MATHS = frozenset(
    f"{name}{suffix}"
    for name in (
        *("exp", "exp2", "log", "log2", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "pow", "fmod"),
        *("atan2", "cbrt", "floor", "ceil", "rint", "trunc", "roundeven", "sqrt", "fma"),
    )
    for suffix in ("", "f")
)
"""Functions of C's <math.h> that only compute."""

ALLOWED = MEMORY_CALLS | MATHS


class HostModule:
    """The compiled functions of a module by name. Texts and code are made when first asked for."""

    def __init__(self, module: HirModule, compiled: load.CompiledModule, points: Sequence[FaultPoint]) -> None:
        self.module, self.points = module, tuple(points)
        self._compiled = compiled
        self._functions: dict[str, HostFunction] = {}

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
    def calls(self) -> frozenset[str]:
        """Outside functions that the final IR calls; intrinsics that stay instructions aren't among them."""
        return outside_calls(self.llvm)

    def __getitem__(self, name: str) -> "HostFunction":
        if not self._functions:
            exported = [f for f in self.module.functions.values() if f.linkage is Linkage.EXPORTED]
            addresses, code = self._compiled.addresses([entry_name(f) for f in exported])
            self._functions = {f.name: HostFunction(f, addresses[entry_name(f)], self.points, code) for f in exported}
        return self._functions[name]


def compile_module(
    module: HirModule, level: OptimizationLevel = OptimizationLevel.OLATENCY, allowed: frozenset[str] | None = None
) -> HostModule:
    """Compile for this machine. `allowed`: the outside functions that the code may call; None: no check. A call of another is an
    internal fault, for what the program may call was proved before (`analysis/effects.py`)."""
    started = time.perf_counter()
    target = load.target(None, None, None, 0 if level is OptimizationLevel.O0 else 3)
    inline = level not in (OptimizationLevel.O0, OptimizationLevel.OS)
    writer, points = emit_module(module, _attributes(target, level), inline)
    compiled = load.CompiledModule(writer.text(), target, level.value, {"emit": time.perf_counter() - started})
    made = HostModule(module, compiled, points)
    if allowed is not None and (strange := made.calls - allowed):
        raise ZyntaxError(Diagnostic("0901", f"the code of {module.name} calls {', '.join(sorted(strange))}"))
    return made


def _attributes(target: load.Target, level: OptimizationLevel) -> tuple[str, ...]:
    found = [f"target-cpu={target.cpu}", f"target-features={target.features}"]
    width = detect.vector_bits(target.features)
    if width:
        found.append(f"prefer-vector-width={min(width, 256) if level is OptimizationLevel.OLATENCY else width}")
    if level is OptimizationLevel.OS:
        found.append("optsize")
    return tuple(found)


_CALL = re.compile(r"\bcall\b[^@\n]*@([\w.$]+)\(")
_DEFINED = re.compile(r"^define [^@\n]*@([\w.$]+)\(", re.MULTILINE)
_INTRINSIC = {"llvm.memcpy": "memcpy", "llvm.memmove": "memmove", "llvm.memset": "memset"}


def outside_calls(ir: str) -> frozenset[str]:
    """Names that IR calls and doesn't define. Intrinsics that may become calls of the C library are given by its names."""
    defined = set(_DEFINED.findall(ir))
    found: set[str] = set()
    for name in _CALL.findall(ir):
        if not name.startswith("llvm."):
            found.add(name)
        elif ".".join(name.split(".")[:2]) in _INTRINSIC:
            found.add(_INTRINSIC[".".join(name.split(".")[:2])])
    return frozenset(found - defined)


@frozen
class Outcome:
    """What a run gave: its results, or what went wrong."""

    results: tuple[int | float | bool, ...]
    fault: HostFault | None = None


class HostFunction:
    """A compiled function. `address` is that of its entry, `i64 (ptr record, ..., ptr results)`."""

    def __init__(self, function: HirFunction, address: int, points: Sequence[FaultPoint], code: Any) -> None:
        self.function, self.address = function, address
        self._points, self._code = points, code
        self._results = results_struct(function)
        self._call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, *[_c_type(p.type) for p in function.parameters], ctypes.c_void_p)(
            address
        )

    def run(self, arguments: Sequence[Any]) -> Outcome:
        """Run with one argument a parameter: arrays (or addresses) for pointers, numbers for the rest, which must be in range."""
        record = np.zeros(RECORD_BYTES, np.uint8)
        results = np.zeros(max(1, size_of(self._results)), np.uint8)
        passed = [_passed(p.type, p.name, argument) for p, argument in zip(self.function.parameters, arguments, strict=True)]
        if self._call(record.ctypes.data, *passed, results.ctypes.data):
            return Outcome((), self.fault(record.tobytes()))
        return Outcome(self._read(results))

    def fault(self, record: bytes) -> HostFault:
        """What the record of a run that gave 1 tells."""
        return read_record(record, self._points)

    def _read(self, held: np.ndarray) -> tuple[int | float | bool, ...]:
        if not self._results.fields:
            return ()
        row = held.view(numpy_dtype(self._results))[0]
        found: list[int | float | bool] = []
        for name, type in self._results.fields:
            assert isinstance(type, Tile)
            value = row[name]
            if type.dtype in ("i128", "u128"):
                found.append(int(value["high"]) << 64 | int(value["low"]))
            else:
                found.append(value.item())
        return tuple(found)


def _c_type(type: object) -> Any:
    if isinstance(type, Tile) and type.dtype in FLOATS:
        return ctypes.c_double if type.dtype == "f64" else ctypes.c_float
    return ctypes.c_void_p if isinstance(type, Pointer) else ctypes.c_int64


def _passed(type: object, name: str, argument: Any) -> Any:
    if not isinstance(type, Pointer):
        if isinstance(argument, int) and argument >> 63 == 1:
            return argument - (1 << 64)
        return argument
    if not isinstance(argument, np.ndarray):
        return argument
    assert argument.flags.c_contiguous, f"{name}: an array with gaps"
    address = argument.ctypes.data
    if in_memory(type.pointee):
        assert argument.nbytes >= size_of(type.pointee), f"{name}: {argument.nbytes} bytes of {size_of(type.pointee)}"
    assert address % align_of(type.pointee) == 0, f"{name}: an address that isn't a multiple of {align_of(type.pointee)}"
    return address
