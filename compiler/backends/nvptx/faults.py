"""Run-time checks on a GPU. A thread whose check fails writes a record, unless a thread of a lower number has, and goes on with its
accesses masked, so that barriers are still reached.

The record is the kernel's last parameter: eight 64-bit words, all 0 before the launch. Word 0 is a lock in its lower half, and in the
upper half the counter of blocks that wait for the whole grid; word 1 the number of the
thread in the grid plus one (0: nothing failed), word 2 the number of the check, then its values as 64 bits (floats as f64)."""

from compiler.backends.llvm.checks import RECORD_VALUES, all_hold, as_slot, check_site, pass_check
from compiler.backends.llvm.types import I32, I64, pointer
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.backends.nvptx.frame import NvptxFrame
from compiler.hir.memory import Check

RECORD_WORDS = 8
GLOBAL = pointer(1)


def check(frame: NvptxFrame, op: Check) -> None:
    w, kernel = frame.w, frame.kernel
    condition = frame.values[op.condition.name]
    kernel.checks.append(check_site(frame, op))
    number = len(kernel.checks) - 1
    held = all_hold(frame, condition)
    with w.when(w.binary("xor", held, w.true())):
        values = [as_slot(frame, value, 0, 0) for value in op.values[:RECORD_VALUES]]
        bits = [w.convert("bitcast", value, "i64") for value in values] + [constant(I64, 0)] * (RECORD_VALUES - len(values))
        w.call_void(w.module.helper("zyn_fault", lambda name: _make(w, name)), frame.record, constant(I64, number), *bits)
        w.store(constant(I64, 1), frame.flag)
    pass_check(frame, op)


def _make(outer: FunctionWriter, name: str) -> None:
    """`zyn_fault(record, check, values)`. The lock is tried once a round, so that lanes of one warp can't wait for each other."""
    parameters = [(GLOBAL, "record"), (I64, "check"), *[(I64, f"value{n}") for n in range(RECORD_VALUES)]]
    w = outer.module.function(name, None, parameters, "internal", "noinline cold")
    record, number, *values = w.parameters
    thread = w.add(thread_in_grid(w), constant(I64, 1))
    attempt, locked, write, release, done = (w.label(word) for word in ("attempt", "locked", "write", "release", "done"))
    w.start(attempt)
    zero, unit = constant(I32, 0), constant(I32, 1)
    text = "atom.acquire.gpu.global.cas.b32 $0, [$1], $2, $3;"
    (old,) = w.assembly(text, [I32], "l,r,r", [record, zero, unit])
    w.branch_if(w.compare("eq", old, zero), locked, attempt)
    w.start(locked)
    holder_address = w.offset(record, constant(I64, 1), I64)
    (holder,) = w.assembly("ld.relaxed.gpu.global.u64 $0, [$1];", [I64], "l", [holder_address])
    first = w.binary("or", w.compare("eq", holder, constant(I64, 0)), w.compare("ult", thread, holder))
    w.branch_if(first, write, release)
    w.start(write)
    for position, value in enumerate((thread, number, *values)):
        w.assembly("st.relaxed.gpu.global.u64 [$0], $1;", [], "l,l", [w.offset(record, constant(I64, position + 1), I64), value])
    w.start(release)
    w.assembly("atom.release.gpu.global.exch.b32 $0, [$1], $2;", [I32], "l,r", [record, zero])
    w.start(done)
    w.ret()


def special(w: FunctionWriter, name: str) -> LlvmValue:
    """A special register of the thread, as a 64-bit number."""
    return w.convert("zext nneg", w.call(f"llvm.nvvm.read.ptx.sreg.{name}", I32), "i64")


def thread_in_block(w: FunctionWriter) -> LlvmValue:
    """The thread's number in its block, x fastest."""
    total = w.mul(special(w, "tid.z"), special(w, "ntid.y"))
    total = w.mul(w.add(total, special(w, "tid.y")), special(w, "ntid.x"))
    return w.add(total, special(w, "tid.x"))


def thread_in_grid(w: FunctionWriter) -> LlvmValue:
    """Blocks one after the other, x fastest, and threads in each."""
    block = w.mul(special(w, "ctaid.z"), special(w, "nctaid.y"))
    block = w.mul(w.add(block, special(w, "ctaid.y")), special(w, "nctaid.x"))
    block = w.add(block, special(w, "ctaid.x"))
    threads = w.mul(w.mul(special(w, "ntid.x"), special(w, "ntid.y")), special(w, "ntid.z"))
    return w.add(w.mul(block, threads), thread_in_block(w))
