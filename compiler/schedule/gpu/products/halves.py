"""Sums of some factors of a product that others multiply, `(A B) C`, as two numbers of bf16 each: the first 8 bits and the next. The second
sum is of two products then, which tensor cores add up in one accumulator, instead of three of f32 with half their rate. What is missing,
2^-16 of a number, can't be seen in results of 16 bits; results of f32 are made so where the program permits products of tf32."""

from math import prod

from compiler.analysis.recognise import PARTS
from compiler.analysis.sums_of_terms import FREE_ORDER
from compiler.hir.build import Builder
from compiler.hir.core import Bitcast, Cast, Contract, Reduce, dtype_of
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile, bytes_of
from compiler.machines.units.unit import Issue
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.products.product_sums import rounds
from runtime.records import frozen

TERMS = 256
"""Of both sums together, from which on 2^-16 is within 10^-6 times their square root."""
FIRST = 0xFFFF0000
"""The bits of f32 that bf16 has."""


@frozen(eq=False)
class Halves:
    """A field with such sums, and the two numbers that each of these sums is kept as."""

    field: HirFunction
    kept: dict[Value, tuple[Value, ...]]


def in_halves(field: HirFunction, facts: Facts) -> Halves | None:
    """None where a field has none, or warpgroups don't multiply bf16."""
    readers: dict[Value, list[Instruction]] = {}
    for op in field.body.body:
        for value in op.operand_values:
            readers.setdefault(value, []).append(op)
    found = {op: inner for op in field.body.body if (inner := _cut_in_halves(op, field, facts)) is not None}
    found = {op: inner for op, inner in found.items() if readers[inner] == [op]}
    if not found or facts.machine.unit(Issue.WARPGROUP) is None or not (rounds(field) or _are_narrow(field)):
        return None
    copy, kept, whole = FieldCopy.whole(field), dict[Value, tuple[Value, ...]](), dict[Value, Value]()
    for op in field.body.body:
        if op in found and isinstance(op, Contract):
            left, right = (whole[side] if side is found[op] else copy.values[side] for side in (op.a, op.b))
            product = copy.body.mul(left, right, flags=("contract",))
            copy.emit(op, Reduce(monoid="add", values=(product,), over=op.over, flags=(*op.flags, PARTS), span=op.span))
        else:
            copy.copy(op)
        if op.results and op.results[0] in found.values():
            value = copy.values[op.results[0]]
            kept[value] = _halves(copy.body, value)
            first, second = (copy.body.cast(half, "f32") for half in kept[value])
            whole[op.results[0]] = copy.body.add(first, second, flags=("contract",))
    return Halves(copy.finish(), kept)


def _are_narrow(field: HirFunction) -> bool:
    """Whether results have no more than 16 bits."""
    return all(bytes_of(mem_of(op.mem).dtype) <= 2 for op in field.body.body if isinstance(op, Store))


def _cut_in_halves(op: Instruction, field: HirFunction, facts: Facts) -> Value | None:
    """The factor of a sum of products that may be two numbers: the other one is an element of bf16."""
    if not isinstance(op, Contract) or op.to != "f32" or op.accumulator is not None:
        return None
    for side, other in ((op.a, op.b), (op.b, op.a)):
        inner, narrow = side.source, other.source
        if not isinstance(inner, Contract) or FREE_ORDER not in inner.flags or not isinstance(narrow, Cast):
            continue
        terms = prod(facts.about(field.axes[axis]) for axis in (*op.over, *inner.over))
        if isinstance(narrow.value.source, Load) and dtype_of(narrow.value) == "bf16" and terms >= TERMS:
            return side
    return None


def _halves(b: Builder, value: Value) -> tuple[Value, Value]:
    """The first bits, as they are, and the next. Of infinities the second number is 0."""
    bits = b.emit(Bitcast(value=value, to="u32")).result
    first = b.emit(Bitcast(value=b.op("and", bits, b.const(FIRST, "u32")), to="f32")).result
    infinite = b.op("eq", b.op("abs", value), b.const(float("inf"), Tile("f32")))
    second = b.select(infinite, b.const(0.0, Tile("f32")), b.sub(value, first))
    return b.cast(first, "bf16"), b.cast(second, "bf16")
