"""Compiled modules brought into this process together: `link_modules([engine, program])["engine.run"].run(arguments)`.

They find each other's exported functions by name. Of the process they find nothing but the functions of C that each may call: what an
object needs is read from its own table of symbols, so that not even what LLVM added by itself gets past. Importing this loads nothing of
the compiler proper."""

import ctypes
import struct
import threading
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from compiler.backends.native.facts import ModuleFacts, NativeEntry, NativeParameter
from compiler.backends.native.record import RECORD_BYTES, HostFault, mark_of, read_record
from compiler.backends.native.stopping import under_way
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.sites import FaultSite
from runtime.cpu import load
from runtime.records import frozen


class ObjectModule(Protocol):
    """A module as object code, with what is to be known of it."""

    @property
    def facts(self) -> ModuleFacts: ...

    @property
    def object(self) -> bytes: ...


@frozen
class RunOutcome:
    """What a run gave: its results, or what went wrong. `caught`: the last failure that an `attempt` caught in a run that went on."""

    results: tuple[int | float | bool, ...]
    fault: HostFault | None = None
    caught: HostFault | None = None


class Linked:
    """The exported functions of modules in this process, by name."""

    def __init__(self, facts: Sequence[ModuleFacts], addresses: dict[str, int], code: Any) -> None:
        self.facts = tuple(facts)
        self._points = {own.name: own.points for own in facts}
        self._functions = {name: HostFunction(self, entry, addresses[entry.symbol]) for own in facts for name, entry in own.exports.items()}
        self._code = code

    def __getitem__(self, name: str) -> "HostFunction":
        return self._functions[name]

    def __contains__(self, name: str) -> bool:
        return name in self._functions

    def fault(self, record: bytes) -> HostFault | None:
        """What a record tells, of a run that gave 1 or of a failure that was caught; None where nothing failed."""
        return read_record(record, self._points)

    def site(self, fault: HostFault) -> FaultSite | None:
        """What a failure speaks of; None where the place is unknown."""
        sites = next(own.sites for own in self.facts if own.name == fault.module).get(fault.function, ())
        return sites[fault.site] if 0 <= fault.site < len(sites) else None


def link_modules(modules: Sequence[ObjectModule]) -> Linked:
    """Link compiled modules. That one needs what no other has, or that two have the same, is an internal fault."""
    facts = [module.facts for module in modules]
    objects = [module.object for module in modules]
    entries: dict[str, NativeEntry] = {}
    for own in facts:
        for entry in own.exports.values():
            if entry.symbol in entries:
                raise _refused(f"two functions are called @{entry.symbol}")
            entries[entry.symbol] = entry
    if len({mark_of(own.name) for own in facts}) < len(facts):
        raise _refused(f"modules of one name: {', '.join(own.name for own in facts)}")
    for own, code in zip(facts, objects, strict=True):
        for entry in own.imports.values():
            _compare(own.name, entry, entries.get(entry.symbol))
        strange = load.needed(code) - own.calls - {entry.symbol for entry in own.imports.values()}
        if strange:
            raise _refused(f"the code of {own.name} calls {', '.join(sorted(strange))}")
        for name in load.needed(code) & own.declared:
            if not load.is_loaded(name):
                hint = "load its library first: `ctypes.CDLL(path, ctypes.RTLD_GLOBAL)`"
                raise ZyntaxError(Diagnostic("0201", f"no function `{name}` of C is loaded in this process", hint=hint))
    addresses, tracker = load.link_objects(objects, list(entries))
    return Linked(facts, addresses, tracker)


def _refused(message: str) -> ZyntaxError:
    return ZyntaxError(Diagnostic("0901", message))


def _compare(module: str, wanted: NativeEntry, defined: NativeEntry | None) -> None:
    """Both sides of a call say the same, but for what lies behind a pointer."""
    if defined is None:
        raise _refused(f"{module} imports @{wanted.name}, which no module exports")
    have, want = ([p.dtype for p in entry.parameters] for entry in (defined, wanted))
    if have != want or defined.results != wanted.results:
        raise _refused(f"{module} imports @{wanted.name} of ({', '.join(want)}), which is exported of ({', '.join(have)})")


class HostFunction:
    """A compiled function. `address` is that of its entry, `i64 (ptr record, ..., ptr results)`: ints as i64, a result for 0 or failure
    for 1. It keeps the code alive."""

    def __init__(self, linked: Linked, entry: NativeEntry, address: int) -> None:
        self.linked, self.entry, self.address = linked, entry, address
        types = [ctypes.c_void_p, *[_C_TYPES.get(p.dtype, ctypes.c_int64) for p in entry.parameters], ctypes.c_void_p]
        self._call = ctypes.CFUNCTYPE(ctypes.c_int64, *types)(address)
        self._results = ctypes.c_char * max(1, entry.size)

    def run(self, arguments: Sequence[Any]) -> RunOutcome:
        """Run with one argument a parameter: arrays (or addresses) for pointers, numbers for the rest, which must be in range."""
        record, results = (ctypes.c_char * RECORD_BYTES)(), self._results()
        passed = [_address(p, a) if p.dtype == "ptr" else a for p, a in zip(self.entry.parameters, arguments, strict=True)]
        thread = threading.get_ident()
        before = under_way.get(thread)
        under_way[thread] = record
        try:
            failed = self._call(record, *passed, results)
        finally:
            _under_way_again(thread, before)
        fault = self.linked.fault(record.raw)
        if failed:
            return RunOutcome((), fault)
        held = results.raw
        return RunOutcome(tuple(_read(held, dtype, offset) for dtype, offset in self.entry.results), None, fault)


def _under_way_again(thread: int, before: Any) -> None:
    """After a run: the one that it was part of goes on, if there is one."""
    if before is None:
        del under_way[thread]
    else:
        under_way[thread] = before


_C_TYPES: dict[str, Any] = {"ptr": ctypes.c_void_p, "f64": ctypes.c_double} | dict.fromkeys(
    ("f8e4m3", "f8e5m2", "f16", "bf16", "f32"), ctypes.c_float
)
_FORMATS = {"i1": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "index": "q"}
_FORMATS |= {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "f16": "e", "f32": "f", "f64": "d", "bf16": "H", "f8e4m3": "B", "f8e5m2": "B"}


def _read(held: bytes, dtype: str, offset: int) -> int | float | bool:
    if dtype in ("i128", "u128"):
        return int.from_bytes(held[offset : offset + 16], "little", signed=dtype == "i128")
    number: int | float | bool = struct.unpack_from("<" + _FORMATS[dtype], held, offset)[0]
    return number


def _address(parameter: NativeParameter, argument: Any) -> Any:
    """Of an array; of what is an address already, itself."""
    if not isinstance(argument, np.ndarray):
        return argument
    assert argument.flags.c_contiguous, f"{parameter.name}: an array with gaps"
    assert argument.nbytes >= parameter.size, f"{parameter.name}: {argument.nbytes} bytes of {parameter.size}"
    address = argument.ctypes.data
    assert address % parameter.align == 0, f"{parameter.name}: an address that isn't a multiple of {parameter.align}"
    return address
