"""How much a nest has to do for given sizes: operations and bytes, counted over its loops. What only the data decides is guessed."""

from collections.abc import Mapping
from math import log2, prod

from compiler.hir.affine import Affine
from compiler.hir.control import For, If, While
from compiler.hir.core import BINARY, COMPARE, FLOAT_FUNCTIONS, UNARY, Combine, Fma, Index
from compiler.hir.instruction import Instruction, Region
from compiler.hir.library import Sort
from compiler.hir.memory import mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, bytes_of
from runtime.records import frozen

UNKNOWN_TURNS = 16.0
"""Taken for the turns of a loop that only the data decides on."""

FUNCTION = 16.0
"""Operations that a function such as `exp` counts as: some terms of a polynomial around a reduction of its argument."""

DIVISION = 8.0

COST: Mapping[str, float] = {
    **dict.fromkeys((*BINARY, *COMPARE, *UNARY), 1.0),
    **dict.fromkeys(FLOAT_FUNCTIONS, FUNCTION),
    **dict.fromkeys(("div", "rem", "sqrt", "rsqrt"), DIVISION),
    **dict.fromkeys(("pow", "atan2"), 2 * FUNCTION),
}


@frozen
class Work:
    """`operations` of arithmetic, and `bytes` of memory that is read or written at least once."""

    operations: float
    bytes: float


def work_of(function: HirFunction, known: Mapping[str, int]) -> Work:
    """The work of one run. `known` has the values of the function's parameters of type `index`."""
    numbers = {name: float(value) for name, value in known.items()}
    memories = [p.type for p in function.parameters if isinstance(p.type, Mem)]
    touched = sum(bytes_of(mem.dtype) * _elements(mem, numbers) for mem in memories)
    return Work(_operations(function.body, numbers), touched)


def _operations(region: Region, known: dict[str, float]) -> float:
    """Loop variables count as the middle of their range, which is exact for what grows or shrinks evenly along a loop."""
    return sum(_one(op, known) for op in region.body)


def _one(op: Instruction, known: dict[str, float]) -> float:
    match op:
        case For(low=low, high=high, step=step, body=body):
            first, last = _value(low, known), _value(high, known)
            if first is None or last is None:
                return UNKNOWN_TURNS * _operations(body, known)
            turns = max(0.0, (last - first) / step)
            return turns * _operations(body, {**known, op.variable.name: (first + last - step) / 2}) if turns else 0.0
        case While(before=before, body=body):
            return UNKNOWN_TURNS * (_operations(before, known) + _operations(body, known))
        case If(then=then, otherwise=otherwise):
            return max(_operations(then, known), _operations(otherwise, known) if otherwise is not None else 0.0)
        case Index(of=form):
            value = _value(form, known)
            if value is not None:
                known[op.result.name] = value
            return 0.0
        case Sort(keys=keys, payload=payload):
            elements = _elements(mem_of(keys), known)
            return elements * log2(max(2.0, elements)) * (1 + len(payload))
        case Fma():
            return 2.0
        case Combine():
            return 1.0
    return COST.get(op.operator, 0.0) if hasattr(op, "operator") else sum(_operations(region, known) for region in op.regions)


def _elements(mem: Mem, known: Mapping[str, float]) -> float:
    return prod(max(0.0, _value(dim, known) or 0.0) for dim in mem.dims)


def _value(form: Affine, known: Mapping[str, float]) -> float | None:
    if any(name not in known for name in form.names):
        return None
    return float(form.evaluate(known.__getitem__))  # type: ignore[arg-type]
