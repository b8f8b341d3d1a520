"""Failures: the way to each is a cold block that writes the record (`record.py` says how it is laid out) and leaves."""

from collections.abc import Sequence

from compiler.backends.llvm.arithmetic import is_unsigned
from compiler.backends.llvm.types import I8, I64, PTR, LlvmType, vector
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.backends.native.frame import NativeFrame
from compiler.backends.native.record import CALLERS, RECORD_BYTES, RECORD_VALUES, FaultPoint
from compiler.hir.types import is_float, is_wide
from compiler.source import Span

I128 = vector("i128")


def stop_if(
    frame: NativeFrame,
    bad: LlvmValue,
    site: int,
    values: Sequence[tuple[str, LlvmValue]],
    code: str | None = None,
    undo: str = "",
    span: Span | None = None,
) -> None:
    """Leave the function with a failure where `bad` holds; values come with their dtypes. `span`: the place of a failure without a site."""
    if bad.number == 0:
        return
    w = frame.w
    assert frame.record is not None
    values = values[:RECORD_VALUES]
    points = frame.module.points
    known = code or frame.function.sites[site].code
    points.append(FaultPoint(frame.function.name, site, tuple(dtype for dtype, _ in values), known, undo, span))
    fault, good = w.label("fault"), w.label("good")
    w.branch_if(bad, fault, good, frame.module.unlikely)
    w.start(fault)
    slots = [_as_slot(frame, dtype, value) for dtype, value in values]
    w.call_void(_recorder(frame, [slot.type for slot in slots]), frame.record, constant(I64, len(points) - 1), *slots)
    w.branch(frame.failed)
    w.start(good)


def note_caller(frame: NativeFrame, span: Span | None) -> None:
    """Add the place of a call to the record, and leave the function: what it called has failed."""
    w, callers = frame.w, frame.module.callers
    assert callers is not None and frame.record is not None
    w.call_void(_caller_recorder(frame), frame.record, constant(I64, len(callers)))
    callers.append(span)
    w.branch(frame.failed)


def mark_stack(w: FunctionWriter, record: LlvmValue, stack: int) -> None:
    """From here on, recursive functions may take so many bytes."""
    lowest = w.binary("sub", _frame_address(w), constant(I64, stack))
    w.store(lowest, w.offset(record, constant(I64, 8), I8), 8)


def check_stack(frame: NativeFrame, span: Span | None) -> None:
    """Stop at a call, with code 0808 and no site, when the calls are too deep already."""
    w = frame.w
    stop_if(frame, w.compare("ult", _frame_address(w), _lowest(frame)), -1, [], "0808", span=span)


def check_stop(frame: NativeFrame) -> None:
    """Stop, with code 0809 and no site, when the run is to stop."""
    stop_if(frame, frame.w.compare("eq", _lowest(frame), constant(I64, -1)), -1, [], "0809")


def _lowest(frame: NativeFrame) -> LlvmValue:
    """The lowest address that the stack may reach. It is read each time: another thread stops the run by filling it with ones."""
    assert frame.record is not None
    at = frame.w.offset(frame.record, constant(I64, 8), I8)
    return frame.w.value(I64, f"load volatile i64, {at}, align 8")


def _frame_address(w: FunctionWriter) -> LlvmValue:
    return w.value(I64, f"ptrtoint ptr {w.value(PTR, 'call ptr @llvm.frameaddress.p0(i32 0)').text} to i64")


def _as_slot(frame: NativeFrame, dtype: str, value: LlvmValue) -> LlvmValue:
    w = frame.w
    if is_float(dtype):
        return w.convert("bitcast", w.convert("fpext", value, "double"), "i64")
    return value if is_wide(dtype) else w.convert("zext" if is_unsigned(dtype) else "sext", value, "i64")


def _recorder(frame: NativeFrame, types: Sequence[LlvmType]) -> str:
    """The function that writes a record of values of these types: cold, never inlined."""

    def make(name: str) -> None:
        parameters = [(PTR, "record"), (I64, "point"), *[(type, f"value{n}") for n, type in enumerate(types)]]
        f = frame.module.writer.function(name, None, parameters, "internal", "cold noinline")
        record, point, *values = f.parameters
        f.store(f.binary("or", point, constant(I64, frame.module.mark << 32)), record, 8)
        for number, value in enumerate(values):
            f.store(value, f.offset(record, constant(I64, 16 * (number + 1)), I8), 8)
        if frame.module.callers is not None:
            f.store(constant(I64, 0), f.offset(record, constant(I64, RECORD_BYTES), I8), 8)
        f.ret()

    return frame.module.writer.helper("zyn.fault" + "".join(f".{type}" for type in types), make)


def _caller_recorder(frame: NativeFrame) -> str:
    """The function that adds the number of a call's place to a record, if there is room: cold, never inlined."""

    def make(name: str) -> None:
        f = frame.module.writer.function(name, None, [(PTR, "record"), (I64, "place")], "internal", "cold noinline")
        record, place = f.parameters
        at = f.offset(record, constant(I64, RECORD_BYTES), I8)
        count = f.load(I64, at, 8)
        store, done = f.label("store"), f.label("done")
        f.branch_if(f.compare("ult", count, constant(I64, CALLERS)), store, done)
        f.start(store)
        behind = f.binary("add", f.binary("mul", count, constant(I64, 8)), constant(I64, RECORD_BYTES + 8))
        f.store(place, f.offset(record, behind, I8), 8)
        f.store(f.binary("add", count, constant(I64, 1)), at, 8)
        f.branch(done)
        f.start(done)
        f.ret()

    return frame.module.writer.helper("zyn.caller", make)
