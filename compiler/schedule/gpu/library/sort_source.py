"""Where a sort gets its elements from at first: from the memory that it sorts, or from the nest that would have filled it. What such a
nest computes for an element is computed where the element is wanted, once to count its digits and once in the first pass, and nothing
is stored before."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.clone import rebuilt
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.library import Sort
from compiler.hir.memory import Load, Store, mem_of
from compiler.schedule.gpu.nests.spread import Spread
from runtime.records import frozen

MOST = 8
"""Instructions of an element that are worth computing twice."""


class SortSource(Protocol):
    """The element of one of the sorted memories (keys first) at a place, where `where` holds."""

    def __call__(self, b: Builder, position: int, index: Sequence[Affine], where: Value | None) -> Value: ...


@frozen
class Stored:
    """Elements that are in memory."""

    memories: Sequence[Value]

    def __call__(self, b: Builder, position: int, index: Sequence[Affine], where: Value | None) -> Value:
        return b.load(self.memories[position], index, where)


@frozen
class SortNest:
    """A nest that computes the elements of all memories of a sort: for each the instructions, and the value that they end with;
    `variables` are its loops', by the axes of these memories."""

    variables: tuple[Value, ...]
    elements: tuple[tuple[tuple[Instruction, ...], Value], ...]

    def from_values(self, known: Mapping[Value, Value], form: Callable[[Affine], Affine]) -> SortSource:
        """Elements from what a launch knows the nest's operands as."""

        def source(b: Builder, position: int, index: Sequence[Affine], where: Value | None) -> Value:
            body, value = self.elements[position]
            values = dict(known)
            places = {variable.name: at for variable, at in zip(self.variables, index, strict=True)}
            values.update((variable, b.index(at)) for variable, at in zip(self.variables, index, strict=True))
            for op in body:
                changes: dict[str, Any] = {"where": where} if isinstance(op, Load) else {}
                copy = b.emit(rebuilt(op, values.__getitem__, lambda index_form: form(index_form).substitute(places), **changes))
                values[op.results[0]] = copy.results[0]
            return values[value]

        return source


def nest_of(sort: Sort, nest: Spread, known: set[Value]) -> SortNest | None:
    """The nest as where the sort's elements come from; None where it must store them. `known`: what a launch knows before it begins."""
    memories = (sort.keys, *sort.payload)
    variables = _variables(nest, mem_of(sort.keys).dims)
    body = [*nest.between, *nest.inner.body.body]
    stores = [op for op in body if isinstance(op, Store)]
    if variables is None or {op.mem for op in stores} != set(memories) or len(stores) != len(memories):
        return None
    if any(op.where is not None or op.index != tuple(Affine.of(variable.name) for variable in variables) for op in stores):
        return None
    others = [op for op in body if not isinstance(op, Store)]
    if not all(_is_simple(op, memories) for op in others):
        return None
    makers = {result: op for op in others for result in op.results}
    names = {value.name for value in makers}
    if any(names.intersection(op.symbols) for op in others):
        return None
    inside = {*makers, *variables}
    if any(value not in inside and value not in known for op in body for value in op.operand_values if value not in memories):
        return None
    along = variables[sort.axis]
    elements = []
    for memory in memories:
        (value,) = (op.value for op in stores if op.mem is memory)
        slice_ = _slice(value, others, makers)
        if not any(along.name in op.symbols or along in op.operand_values for op in slice_) or len(slice_) > MOST:
            return None
        elements.append((slice_, value))
    return SortNest(variables, tuple(elements))


def _variables(nest: Spread, dims: Sequence[Affine]) -> tuple[Value, ...] | None:
    """The variables of loops over all of a memory with these dims, in the order of the dims."""
    stores = [op for op in nest.inner.body.body if isinstance(op, Store)]
    if not stores or len(nest.loops) != len(dims) or any(loop.carried for loop in nest.loops):
        return None
    by_name = {loop.variable.name: loop for loop in nest.loops}
    loops = [by_name.get(next(iter(form.names), "")) if form.names else None for form in stores[0].index]
    for loop, dim in zip(loops, dims, strict=True):
        if loop is None or loop.low != Affine() or loop.high != dim or loop.step != 1:
            return None
    variables = tuple(loop.variable for loop in loops if loop is not None)
    return variables if len(set(variables)) == len(dims) else None


def _is_simple(op: Instruction, sorted_: Sequence[Value]) -> bool:
    if op.regions or len(op.results) != 1:
        return False
    if isinstance(op, Load):
        return op.where is None and op.pad is None and op.mem not in sorted_
    return op.effects is Effect.PURE


def _slice(value: Value, body: Sequence[Instruction], makers: Mapping[Value, Instruction]) -> tuple[Instruction, ...]:
    """What a value is computed by, in order."""
    wanted = {value}
    slice_: list[Instruction] = []
    for op in reversed(body):
        if op.results[0] in wanted:
            slice_.insert(0, op)
            wanted.update(operand for operand in op.operand_values if operand in makers)
    return tuple(slice_)
