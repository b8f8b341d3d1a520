"""The heap of a run: blocks of C's `calloc`, each linked to the next older one, with the newest in the record (`record.py`). A failure
frees nothing on its way: whoever began the run frees the blocks that are left."""

from collections.abc import Sequence

from compiler.backends.llvm.bundle import scalar_bundle
from compiler.backends.llvm.types import I1, I8, I64, PTR
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, ModuleWriter, constant
from compiler.backends.native.faults import stop_if
from compiler.backends.native.frame import NativeFrame
from compiler.backends.native.record import BLOCK_HEAD, HEAP
from compiler.hir.host import Address, Allocate, AtAddress, HeapMark, Release, pointee
from compiler.hir.instruction import Instruction
from compiler.hir.layout import size_of
from compiler.hir.module import HirModule
from compiler.hir.types import Array

CALLS = frozenset({"calloc", "free"})
"""Functions of C that a module with a heap calls."""


def has_heap(module: HirModule) -> bool:
    """Whether functions of the module may allocate."""
    functions = module.functions.values()
    return any(isinstance(op, Allocate | Release) for function in functions for top in function.body.body for op in top.walk())


def emit_heap(frame: NativeFrame, op: Instruction) -> None:
    w = frame.w
    match op:
        case Allocate():
            array = pointee(op.result)
            assert isinstance(array, Array) and frame.record is not None
            count = frame.scalar(op.count.name)
            memory = w.call(_allocator(w.module), PTR, frame.record, w.mul(count, constant(I64, size_of(array.element))))
            none = w.compare("eq", memory, LlvmValue(PTR, "null"))
            stop_if(frame, none, op.site, [("i64", count)])
            frame.pointers[op.result.name] = memory
        case HeapMark():
            frame.define(op, scalar_bundle("i64", w.load(I64, _newest(frame), 8)))
        case Release():
            mark, newest = frame.scalar(op.mark.name), w.load(I64, _newest(frame), 8)
            release, done = w.label("release"), w.label("released")
            w.branch_if(w.compare("eq", newest, mark), done, release)
            w.start(release)
            kept = [frame.scalar(value.name) for value in op.kept]
            w.call_void(releaser(w.module, len(kept)), _newest(frame), mark, *kept)
            w.branch(done)
            w.start(done)
        case Address():
            frame.define(op, scalar_bundle("i64", w.value(I64, f"ptrtoint {frame.pointers[op.pointer.name]} to i64")))
        case AtAddress():
            frame.pointers[op.result.name] = w.value(PTR, f"inttoptr {frame.scalar(op.value.name)} to ptr")


def _newest(frame: NativeFrame) -> LlvmValue:
    assert frame.record is not None
    return frame.w.offset(frame.record, constant(I64, HEAP), I8)


def _allocator(module: ModuleWriter) -> str:
    """The function that adds a block; null where there is no room for it."""

    def make(name: str) -> None:
        module.declare("calloc", "ptr (i64, i64) nounwind")
        w = module.function(name, PTR, [(PTR, "record"), (I64, "size")], "internal", "noinline")
        record, size = w.parameters
        newest = w.offset(record, constant(I64, HEAP), I8)
        room = w.offset(record, constant(I64, HEAP + 8), I8)
        left, none, there = w.label("left"), w.label("none"), w.label("there")
        before = w.load(I64, room, 8)
        w.branch_if(w.compare("ugt", size, before), none, left)
        w.start(left)
        block = w.value(PTR, f"call ptr @calloc(i64 1, {w.binary('add', size, constant(I64, BLOCK_HEAD))})")
        w.branch_if(w.compare("eq", block, LlvmValue(PTR, "null")), none, there)
        w.start(there)
        w.store(w.binary("sub", before, size), room, 8)
        w.store(w.load(I64, newest, 8), block, 8)
        w.store(size, w.offset(block, constant(I64, 8), I8), 8)
        w.store(w.value(I64, f"ptrtoint {block} to i64"), newest, 8)
        w.ret(w.offset(block, constant(I64, BLOCK_HEAD), I8))
        w.start(none)
        w.ret(LlvmValue(PTR, "null"))

    return module.helper("zyn.allocate", make)


def releaser(module: ModuleWriter, kept: int) -> str:
    """The function that frees all blocks above a mark but those in which so many addresses lie."""

    def make(name: str) -> None:
        module.declare("free", "void (ptr) nounwind")
        parameters = [(PTR, "newest"), (I64, "mark"), *((I64, f"kept{number}") for number in range(kept))]
        w = module.function(name, None, parameters, "internal", "noinline")
        newest, mark, *addresses = w.parameters
        room = w.offset(newest, constant(I64, 8), I8)
        block_cell, last_cell = w.alloca(I64), w.alloca(I64)
        w.store(w.load(I64, newest, 8), block_cell)
        w.store(mark, last_cell)
        turn, look, keep, drop, done = (w.label(label) for label in ("turn", "look", "keep", "drop", "done"))
        w.branch(turn)
        w.start(turn)
        number = w.load(I64, block_cell)
        w.branch_if(w.compare("eq", number, mark), done, look)
        w.start(look)
        block = w.value(PTR, f"inttoptr {number} to ptr")
        size = w.load(I64, w.offset(block, constant(I64, 8), I8), 8)
        w.store(w.load(I64, block, 8), block_cell)
        w.branch_if(_inside(w, number, size, addresses), keep, drop)
        w.start(keep)
        w.store(w.load(I64, last_cell), block, 8)
        w.store(number, last_cell)
        w.branch(turn)
        w.start(drop)
        w.store(w.binary("add", w.load(I64, room, 8), size), room, 8)
        w.line(f"call void @free({block})")
        w.branch(turn)
        w.start(done)
        w.store(w.load(I64, last_cell), newest, 8)
        w.ret()

    return module.helper(f"zyn.release.{kept}", make)


def _inside(w: FunctionWriter, block: LlvmValue, size: LlvmValue, addresses: Sequence[LlvmValue]) -> LlvmValue:
    """Whether one of the addresses lies in a block, its end included."""
    start, found = w.binary("add", block, constant(I64, BLOCK_HEAD)), constant(I1, 0)
    for address in addresses:
        found = w.binary("or", found, w.compare("ule", w.binary("sub", address, start), size))
    return found
