"""Run-time checks. The fast kernel only raises a flag, which the vectoriser can keep in a register, and masks what the check
guards; the report kernel writes down the first fault and leaves."""

from attrs import frozen

from compiler.backends.cpu.frame import Frame, Mode
from compiler.backends.llvm.arithmetic import is_unsigned
from compiler.backends.llvm.bundle import Bundle
from compiler.backends.llvm.frame import Guard
from compiler.backends.llvm.types import I8, I64
from compiler.backends.llvm.writer import Value, constant
from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Cast, InBounds, Index
from compiler.hir.instruction import Value as HirValue
from compiler.hir.memory import Check
from compiler.hir.types import is_float

RECORD_VALUES = 4
"""Values that a fault record has room for, behind the number of the check."""


@frozen
class CheckSite:
    """A `check` of the function: its code, its place in the function's `sites`, and the dtypes of its values."""

    code: str
    site: int
    dtypes: tuple[str, ...]


@frozen
class NativeFault:
    """A kernel stopped. `site` is an index into the function's `sites` (-1: none, as when memory ran out)."""

    code: str
    site: int
    values: tuple[int | float | bool, ...] = ()


def check(frame: Frame, op: Check) -> None:
    condition = frame.values[op.condition.name]
    if frame.kernel.mode is Mode.REPORT:
        _report(frame, op, condition)
        return
    w = frame.w
    held = _all(frame, condition)
    failed = w.convert("zext", w.binary("xor", held, w.true()), "i64")
    w.store(w.binary("or", w.load(I64, frame.flag), failed), frame.flag)
    if op.code == "0801":
        frame.guards.append(Guard(op.condition.name, frozenset(_forms(frame, op))))


def _all(frame: Frame, bundle: Bundle) -> Value:
    w = frame.w
    result = bundle.items[0]
    for item in bundle.items[1:]:
        result = w.binary("and", result, item)
    if result.type.lanes:
        result = w.call(f"llvm.vector.reduce.and.{result.type.suffix}", result.type.with_lanes(0), result)
    return result


def _forms(frame: Frame, op: Check) -> set[Affine]:
    """Index forms that the check speaks of: those of its condition, and its values."""
    found: set[Affine] = set()

    def condition(value: HirValue) -> None:
        match frame.definitions.get(value.name):
            case InBounds(of=of):
                found.add(of)
            case Binary(operator="and", left=left, right=right):
                condition(left)
                condition(right)
            case _:
                pass

    condition(op.condition)
    for value in op.values:
        found.add(Affine.of(value.name))
        source = frame.definitions.get(value.name)
        while isinstance(source, Cast):
            found.add(Affine.of(source.value.name))
            source = frame.definitions.get(source.value.name)
        if isinstance(source, Index):
            found.add(source.of)
    return found


def _report(frame: Frame, op: Check, condition: Bundle) -> None:
    """Leave with a record at the first point, first lane, where the condition fails."""
    w, kernel = frame.w, frame.kernel
    kernel.checks.append(CheckSite(op.code, op.site, tuple(frame.values[v.name].dtype for v in op.values)))
    number = len(kernel.checks) - 1
    for position in range(len(condition.items)):
        item = condition.items[position]
        for lane in range(max(1, item.type.lanes)):
            held = w.extract(item, lane) if item.type.lanes else item
            with w.when(w.binary("xor", held, w.true())):
                w.store(constant(I64, number), frame.record)
                for place, value in enumerate(op.values[:RECORD_VALUES]):
                    w.store(_as_slot(frame, value, position, lane), w.offset(frame.record, constant(I64, 8 * (place + 1)), I8))
                w.store(constant(I64, 1), frame.flag)
                w.branch(frame.finish)


def _as_slot(frame: Frame, value: HirValue, position: int, lane: int) -> Value:
    """A value of a check in the 8 bytes of a record: floats as f64."""
    w = frame.w
    bundle = frame.values[value.name]
    item = bundle.items[min(position, len(bundle.items) - 1)]
    if item.type.lanes:
        item = w.extract(item, lane)
    if is_float(bundle.dtype):
        return w.convert("fpext", item, "double")
    return w.convert("zext" if is_unsigned(bundle.dtype) else "sext", item, "i64")
