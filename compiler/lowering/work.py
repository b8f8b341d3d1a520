"""A rough count of a nest's inner steps, as extents to be multiplied at launch. No cost model: steps are steps."""

from compiler.hir.affine import Affine
from compiler.hir.control import For, While
from compiler.hir.instruction import Instruction, Region
from compiler.hir.module import HirFunction
from compiler.lowering.ranges import NumberRange, extreme, loop_range

_UNKNOWN = Affine((), 16)
"""Taken for the count of a loop that only the data decides on."""


def nests_of(function: HirFunction) -> list[tuple[Affine, ...]]:
    """The extents of the loops around each innermost loop, in the function's symbols."""
    known = {parameter.name for parameter in function.parameters}
    nests: list[tuple[Affine, ...]] = []
    _collect(function.body, (), [], known, nests)
    return nests


def _collect(
    region: Region, around: tuple[Affine, ...], ranges: list[NumberRange], known: set[str], nests: list[tuple[Affine, ...]]
) -> None:
    for op in region.body:
        match op:
            case For(low=low, high=high, step=step):
                extent = _extent(low, high, step, ranges, known)
                inner = (*around, extent)
                if not _has_loop(op.body):
                    nests.append(inner)
                    continue
                loop = loop_range(op.variable.name, low, high, step)
                _collect(op.body, inner, [*ranges, loop], known, nests)
            case While():
                inner = (*around, _UNKNOWN)
                if _has_loop(op.body):
                    _collect(op.body, inner, ranges, known, nests)
                else:
                    nests.append(inner)
            case _:
                for nested in op.regions:
                    _collect(nested, around, ranges, known, nests)


def _extent(low: Affine, high: Affine, step: int, ranges: list[NumberRange], known: set[str]) -> Affine:
    span = high - low if step > 0 else low - high
    longest = extreme(span, ranges, upper=True)
    if any(name not in known for name in longest.names):
        return _UNKNOWN
    return longest if abs(step) == 1 else longest.ceildiv(abs(step))


def _has_loop(region: Region) -> bool:
    return any(_is_loop(inner) for op in region.body for inner in op.walk())


def _is_loop(op: Instruction) -> bool:
    return isinstance(op, (For, While))
