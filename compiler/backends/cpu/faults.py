"""Run-time checks. The fast kernel only raises a flag, which the vectoriser can keep in a register, and masks what the check guards.
Where that is a store there are no vectors, and it is cheaper to leave at once, since the results are void. The report kernel writes down
the first fault and leaves."""

from compiler.backends.cpu.frame import CpuFrame, Mode
from compiler.backends.llvm.bundle import Bundle
from compiler.backends.llvm.checks import RECORD_VALUES, all_hold, as_slot, check_site, guarded_forms, pass_check
from compiler.backends.llvm.types import I8, I32, I64
from compiler.backends.llvm.writer import constant
from compiler.hir.memory import Check
from runtime.records import frozen


@frozen
class NativeFault:
    """A kernel stopped. `site` is an index into the function's `sites` (-1: none, as when memory ran out)."""

    code: str
    site: int
    values: tuple[int | float | bool, ...] = ()


def check(frame: CpuFrame, op: Check) -> None:
    condition = frame.values[op.condition.name]
    if frame.kernel.mode is Mode.REPORT:
        _report(frame, op, condition)
        return
    w = frame.w
    held = all_hold(frame, condition)
    if frame.kernel.stored_behind.get(op, frozenset()) & guarded_forms(frame, op):
        with w.when(w.binary("xor", held, w.true())):
            w.store(constant(I32, 1), frame.flag)
            w.branch(frame.finish)
        return
    failed = w.convert("zext", w.binary("xor", held, w.true()), "i32")
    w.store(w.binary("or", w.load(I32, frame.flag), failed), frame.flag)
    pass_check(frame, op)


def _report(frame: CpuFrame, op: Check, condition: Bundle) -> None:
    """Leave with a record at the first point, first lane, where the condition fails."""
    w, kernel = frame.w, frame.kernel
    kernel.checks.append(check_site(frame, op))
    number = len(kernel.checks) - 1
    for position in range(len(condition.items)):
        item = condition.items[position]
        for lane in range(max(1, item.type.lanes)):
            held = w.extract(item, lane) if item.type.lanes else item
            with w.when(w.binary("xor", held, w.true())):
                w.store(constant(I64, number), frame.record)
                for position_, value in enumerate(op.values[:RECORD_VALUES]):
                    w.store(as_slot(frame, value, position, lane), w.offset(frame.record, constant(I64, 8 * (position_ + 1)), I8))
                w.store(constant(I32, 1), frame.flag)
                w.branch(frame.finish)
