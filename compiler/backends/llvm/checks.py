"""Run-time checks, as far as back ends share them: what is known of a check, when it holds, and which accesses it guards."""

from compiler.backends.llvm.arithmetic import is_unsigned
from compiler.backends.llvm.bundle import Bundle
from compiler.backends.llvm.frame import FunctionFrame, Guard
from compiler.backends.llvm.writer import LlvmValue
from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Cast, InBounds, Index
from compiler.hir.instruction import Value
from compiler.hir.memory import Check
from compiler.hir.types import is_float
from runtime.records import frozen

RECORD_VALUES = 4
"""Values that a fault record has room for, behind the number of the check."""


@frozen
class CheckSite:
    """A `check` of the function: its code, its place in the function's `sites`, and the dtypes of its values."""

    code: str
    site: int
    dtypes: tuple[str, ...]


def check_site(frame: FunctionFrame, op: Check) -> CheckSite:
    return CheckSite(op.code, op.site, tuple(frame.values[v.name].dtype for v in op.values))


def all_hold(frame: FunctionFrame, bundle: Bundle) -> LlvmValue:
    """Whether a condition holds at all its points."""
    w = frame.w
    result = bundle.items[0]
    for item in bundle.items[1:]:
        result = w.binary("and", result, item)
    if result.type.lanes:
        result = w.call(f"llvm.vector.reduce.and.{result.type.suffix}", result.type.with_lanes(0), result)
    return result


def pass_check(frame: FunctionFrame, op: Check) -> None:
    """From here on, accesses that the check speaks of are masked by it."""
    if op.code == "0801":
        frame.guards.append(Guard(op.condition.name, frozenset(guarded_forms(frame, op))))


def guarded_forms(frame: FunctionFrame, op: Check) -> set[Affine]:
    """Index forms that the check speaks of: those of its condition, and its values."""
    forms: set[Affine] = set()

    def condition(value: Value) -> None:
        match frame.definitions.get(value.name):
            case InBounds(of=of):
                forms.add(of)
            case Binary(operator="and", left=left, right=right):
                condition(left)
                condition(right)
            case _:
                pass

    condition(op.condition)
    for value in op.values:
        forms.add(Affine.of(value.name))
        source = frame.definitions.get(value.name)
        while isinstance(source, Cast):
            forms.add(Affine.of(source.value.name))
            source = frame.definitions.get(source.value.name)
        if isinstance(source, Index):
            forms.add(source.of)
    return forms


def as_slot(frame: FunctionFrame, value: Value, position: int, lane: int) -> LlvmValue:
    """A value of a check in the 8 bytes of a record: floats as f64."""
    w = frame.w
    bundle = frame.values[value.name]
    item = bundle.items[min(position, len(bundle.items) - 1)]
    if item.type.lanes:
        item = w.extract(item, lane)
    if is_float(bundle.dtype):
        return w.convert("fpext", item, "double")
    return w.convert("zext" if is_unsigned(bundle.dtype) else "sext", item, "i64")
