"""Values of f32 that a bf16 holds exactly because they were chosen among such values: the least or the largest of them, also so far along
an axis or a loop. They need no rounding to become bf16."""

from collections.abc import Iterator, Sequence

from compiler.hir.control import For, If, Yield
from compiler.hir.core import Binary, Cast, Const, Reduce, Scan, Select, Take, dtype_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.module import HirFunction
from compiler.hir.numbers import round_bf16
from compiler.hir.types import Tile

EXTREMES = ("min", "max")


def held_by_bf16(function: HirFunction) -> frozenset[str]:
    """The names of these values. What a loop carries is one if it is at first and stays so: all are taken for such until one is found
    that depends on another value."""
    ops = [op for top in function.body.body for op in top.walk()]
    if not any(isinstance(op, Cast) and op.to == "bf16" for op in ops):
        return frozenset()
    chosen = [choice for op in ops for choice in _choices(op) if isinstance(choice[0].type, Tile)]
    held = {value for value, _ in chosen if dtype_of(value) == "f32"}
    while True:
        wrong = {value for value, among in chosen if value in held and not all(one in held or dtype_of(one) == "bf16" for one in among)}
        if not wrong:
            return frozenset(value.name for value in held)
        held -= wrong


def _choices(op: Instruction) -> Iterator[tuple[Value, Sequence[Value]]]:
    """Values that are each one of others, whichever that is."""
    match op:
        case Const(value=number) if isinstance(number, float) and round_bf16(number) == number:
            yield op.result, ()
        case Cast(value=value) if dtype_of(value) == "bf16":
            yield op.result, (value,)
        case Binary(operator=operator, left=left, right=right) if operator in EXTREMES:
            yield op.result, (left, right)
        case Select(then=then, otherwise=otherwise):
            yield op.result, (then, otherwise)
        case Reduce(monoid=monoid, values=(value,)) | Scan(monoid=monoid, value=value) if monoid in EXTREMES:
            yield op.results[0], (value,)
        case Take(value=value):
            yield op.result, (value,)
        case For(carried=carried) if carried and isinstance(last := op.body.body[-1], Yield):
            for results, before, after in zip(zip(op.results, op.body.parameters[1:], strict=True), carried, last.values, strict=True):
                yield from ((value, (before, after)) for value in results)
        case If(then=then, otherwise=otherwise) if op.results and otherwise is not None:
            ends = [region.body[-1].operand_values for region in (then, otherwise)]
            yield from ((value, among) for value, *among in zip(op.results, *ends, strict=True))
