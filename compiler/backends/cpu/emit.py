"""From a HIR function to the text of an LLVM module: the dispatch over instructions, and the kernel's entry.

The entry is `i64 name(ptr slots)`: eight bytes a parameter (addresses; integers extended; floats in their own width), then
the number of threads, then the address of the fault record. It returns 0, 1 after a failed check, 2 when memory ran out, 3 when the code
is that of another path."""

from collections.abc import Iterator, Mapping, Sequence

from compiler.backends.cpu import access, faults, paths, sort, threads
from compiler.backends.cpu.extremes import emit_extreme, is_extreme, liberties
from compiler.backends.cpu.frame import CpuFrame, CpuKernel, Mode, alias_notes, close_frame, new_frame
from compiler.backends.cpu.held_exactly import held_by_bf16
from compiler.backends.cpu.liberties import emit_fused, fused_sums, left_to_llvm
from compiler.backends.cpu.side_by_side import goes_in_pairs, in_pairs
from compiler.backends.llvm import arithmetic
from compiler.backends.llvm.bundle import scalar_bundle
from compiler.backends.llvm.checks import CheckSite
from compiler.backends.llvm.frame import AddressedMemory, index_bundle
from compiler.backends.llvm.plain import emit_plain
from compiler.backends.llvm.types import I8, I32, I64, PTR, memory_type
from compiler.backends.llvm.writer import ModuleWriter, constant
from compiler.hir.affine import Affine
from compiler.hir.control import For, If, While
from compiler.hir.core import Binary, Cast, Threads, Unary
from compiler.hir.instruction import Instruction, Region
from compiler.hir.library import Sort
from compiler.hir.memory import Alloc, Check, Load, Store
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Tile
from compiler.machines.units.dots import DotUnit

ORDINARY = 1 << 47
"""Extents of memories are below it: the address space of a program has no more bytes."""


def emit_function(
    function: HirFunction,
    mode: Mode,
    parallel: str,
    attributes: tuple[str, ...],
    native_half: bool,
    fuses: bool,
    ordinary_sizes: bool = True,
    path: Mapping[int, bool] | None = None,
    picks_zero: bool = False,
    huge_pages: bool = False,
    dots: Sequence[DotUnit] = (),
) -> tuple[ModuleWriter, list[CheckSite]]:
    """The module of a kernel, or of one path through it, and in REPORT mode the checks by the numbers that its records use. `fuses`: the
    machine multiplies and adds in one instruction; `picks_zero`: it computes `min` and `max` by comparing and choosing; `huge_pages`: the
    system takes advice about pages; `dots`: its dot products."""
    module = ModuleWriter(function.name, attributes, native_half)
    w = module.function(symbol_name(function), I64, [(PTR, "slots")])
    module.liberties = module.reorders = False
    module.picks_zero = picks_zero and not function.is_strict
    module.huge_pages, module.dots = huge_pages, tuple(dots)
    kernel = CpuKernel(function, module, mode, parallel, emit, path=path or {})
    if fuses:
        kernel.fused, kernel.absorbed = fused_sums(function)
    kernel.stored_behind = dict(_stored_behind(function.body))
    kernel.has_checks = bool(kernel.stored_behind)
    kernel.aliases = _aliases(function, module)
    kernel.held = held_by_bf16(function)
    slots = w.parameters[0]
    count = len(function.parameters)
    threads = w.load(I64, w.offset(slots, constant(I64, 8 * count), I8))
    record = w.load(PTR, w.offset(slots, constant(I64, 8 * count + 8), I8))
    frame = new_frame(kernel, w, threads, record)
    sizes = sizes_of_memories(function) if ordinary_sizes else frozenset()
    ranged = module.metadata(f"!{{i64 0, i64 {ORDINARY}}}")
    for number, parameter in enumerate(function.parameters):
        slot = w.offset(slots, constant(I64, 8 * number), I8)
        if isinstance(parameter.type, Mem):
            align = parameter.type.align
            known = f", !align {module.node([f'i64 {align}'])}" if align else ""
            pointer = w.load(PTR, slot, 8, known)
            frame.memories[parameter.name] = AddressedMemory(pointer, parameter.type, kernel.aliases.get(parameter.name, ""))
        else:
            assert isinstance(parameter.type, Tile)
            dtype = parameter.type.dtype
            notes = f", !range {ranged}" if dtype == "index" and parameter.name in sizes else ""
            held = w.load(memory_type(dtype), slot, 8, notes)
            frame.values[parameter.name] = scalar_bundle(dtype, arithmetic.from_memory(w, held, dtype))
    frame.region(function.body)
    close_frame(frame)
    w.ret(w.convert("zext", w.load(I32, frame.flag), "i64"))
    return module, kernel.checks


def _stored_behind(region: Region, read: bool = False) -> Iterator[tuple[Check, frozenset[Affine]]]:
    """The checks of a region, each with the indices of what is stored behind it, or read by loops there, or where loops are short."""
    stored: set[Affine] = set()
    for op in reversed(region.body):
        if isinstance(op, Store) or (read and isinstance(op, Load)):
            stored.update(op.index)
        elif isinstance(op, Check):
            yield op, frozenset(stored)
        elif isinstance(op, For):
            stored.update(form for inner in op.walk() if isinstance(inner, Load) for form in inner.index)
        for inner in op.regions:
            yield from _stored_behind(inner, isinstance(op, For) and bool(op.mark("short")))


def sizes_of_memories(function: HirFunction) -> frozenset[str]:
    """Names of the parameters that are an extent of a memory."""
    return frozenset(str(d) for p in function.parameters if isinstance(p.type, Mem) for d in p.type.dims)


def symbol_name(function: HirFunction) -> str:
    """The entry's name in the object."""
    return function.link_name or "".join(c if c.isalnum() or c in "_." else "_" for c in function.name)


def _aliases(function: HirFunction, module: ModuleWriter) -> dict[str, str]:
    """Of the parameters that don't alias, and of all local memories."""
    names = [p.name for p in function.parameters if isinstance(p.type, Mem) and p.type.noalias]
    names += [op.result.name for top in function.body.body for op in top.walk() if isinstance(op, Alloc)]
    return alias_notes(names, module)


def emit(frame: CpuFrame, op: Instruction) -> None:
    """One instruction."""
    match op:
        case Load():
            access.load(frame, op)
        case Store():
            access.store(frame, op)
        case For() if left_to_llvm(op):
            with liberties(frame, op):
                threads.loop(frame, op)
        case For():
            threads.loop(frame, op)
        case While() if left_to_llvm(op):
            with liberties(frame, op):
                emit_plain(frame, op)
        case Binary() if is_extreme(op):
            emit_extreme(frame, op)
        case Binary() if id(op) in frame.kernel.fused:
            emit_fused(frame, op, frame.kernel.fused[id(op)])
        case Binary() if id(op) in frame.kernel.absorbed:
            pass
        case Cast() if op.to == "bf16" and op.value.name in frame.kernel.held:
            frame.w.known_bf16.update(item.text for item in frame.values[op.value.name].items)
            emit_plain(frame, op)
        case Unary() if goes_in_pairs(frame, op):
            in_pairs(frame, op)
        case Check():
            faults.check(frame, op)
        case Alloc():
            access.alloc(frame, op)
        case Threads():
            frame.define(op, index_bundle(frame.threads))
        case Sort():
            sort.emit_sort(frame, op)
        case sort.LineSort():
            sort.emit_line_sort(frame, op)
        case sort.LinesSort():
            sort.emit_lines_sort(frame, op)
        case If() if id(op) in frame.kernel.path:
            paths.decided_branch(frame, op, frame.kernel.path[id(op)])
        case _:
            emit_plain(frame, op)
