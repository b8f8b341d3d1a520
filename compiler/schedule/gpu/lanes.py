"""How many elements a thread takes at once: as many as 16 bytes hold, or a half or a quarter of that, where all addresses are known to be
multiples of it. Elements shorter than a word may be read from any address: the words that they lie in are shifted together."""

from collections.abc import Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.alignment import alignment, steps_by_one
from compiler.hir.core import union_axes
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Space, bytes_of
from compiler.schedule.gpu.facts import ALIGNMENT

ANYWHERE = {1: 16, 2: 8}
"""Elements of so many bytes that are read at once from any address."""
SUMMED_ANYWHERE = {1: 4, 2: 8}
"""The same where each is added up by itself: of more bytes each would have a register, and down columns a sum of its own."""


def lanes_along(
    field: HirFunction, axes: Sequence[str], kinds: tuple[type, ...] = (Load, Store), anywhere: Mapping[int, int] = SUMMED_ANYWHERE
) -> int:
    """Elements side by side along these axes that every access of these kinds takes whole, by their widest type in what varies along
    most axes, in 16 bytes or fewer; 1 where some address isn't known to be a multiple of a word. `anywhere`: how many elements of so many
    bytes may be read from any address."""
    accesses = [op for op in field.body.body if isinstance(op, Load | Store) and isinstance(op, kinds)]
    wide = [(op, axis) for op in accesses for axis in axes if steps_by_one(mem_of(op.mem), op.index, axis)]
    if not wide:
        return 1
    most = max(_varying(field, op) for op, _ in wide)
    lanes = max(1, ALIGNMENT // max(bytes_of(mem_of(op.mem).dtype) for op, _ in wide if _varying(field, op) == most))
    halves = [lanes, lanes // 2, lanes // 4]
    return next((each for each in halves if each > 1 and all(_may_take(op, axis, each, anywhere) for op, axis in wide)), 1)


def _may_take(op: Load | Store, axis: str, lanes: int, anywhere: Mapping[int, int]) -> bool:
    """Whether an access may be of so many elements at once."""
    mem = mem_of(op.mem)
    size = bytes_of(mem.dtype)
    if isinstance(op, Load) and mem.space is Space.GLOBAL and lanes <= anywhere.get(size, 1):
        return True
    names: dict[str, Affine | str] = {axis: Affine.of(axis) * lanes}
    return alignment(mem, [form.substitute(names) for form in op.index]) % min(ALIGNMENT, lanes * size) == 0


def contiguous_where_most_is(field: HirFunction) -> set[str]:
    """Axes along which those loads are contiguous that vary along most axes: elements, not the indices that they are found by."""
    loads = [op for op in field.body.body if isinstance(op, Load)]
    most = max((len(union_axes(op.result)) for op in loads), default=0)
    wide = [op for op in loads if len(union_axes(op.result)) == most]
    return {axis for axis in field.axes for op in wide if steps_by_one(mem_of(op.mem), op.index, axis)}


def _varying(field: HirFunction, op: Load | Store) -> int:
    """Along how many axes an access varies."""
    return sum(any(form.coefficient(axis) for form in op.index) for axis in field.axes)


def power_of_two(number: int) -> int:
    """The least power of two that is no smaller."""
    return 1 << max(0, number - 1).bit_length()
