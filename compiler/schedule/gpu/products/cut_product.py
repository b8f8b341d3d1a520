"""A product cut in tiles: what a text of tiles (form B) is made of, and what one of roles (form R) says to whoever makes threads of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.hir.core import Contract, Reduce
from compiler.hir.memory import Load
from compiler.hir.module import HirFunction
from compiler.passes.whole_axes import elements_of
from runtime.records import frozen


@frozen(eq=False)
class CutProduct:
    """`sums`, and the `loads` that are copied for them through a ring of so many `stages`, if any are. `tiles`: of a block, along each axis
    of the results' rows and columns, or along several that are counted through; `walked`: the axes of the sums, of which the last goes by
    so many terms, the `depth`. `marks` of the outermost loop, and of the last axis's: what tiles leave open."""

    sums: Sequence[Contract | Reduce]
    loads: Sequence[Load]
    tiles: Mapping[tuple[str, ...], int]
    walked: Sequence[str]
    depth: int
    stages: int
    marks: Mapping[str, Any]
    marks_of_sum: Mapping[str, Any]


def read_roles(roles: HirFunction) -> tuple[HirFunction, CutProduct]:
    """The field of what each element of the results is, and its tiles."""
    elements = elements_of(roles)
    loops = elements.loops
    walked = [axis for axis, loop in loops.items() if loop.place == "time"]
    own = [axis for axis in loops if axis not in walked and axis in roles.axes]
    tiles = {elements.counted.get(axis, (axis,)): roles.axes[axis].constant for axis in own}
    stages = next((ring.stages for ring in elements.rings.values()), 0)
    loads = [value.source for values in elements.copied.values() for value in values if isinstance(value.source, Load)]
    marks, marks_of_sum = (dict(loop.marks) for loop in (next(iter(loops.values())), loops[walked[-1]]))
    depth = roles.axes[walked[-1]].constant
    return elements.field, CutProduct(elements.sums, loads, tiles, walked, depth, stages, marks, marks_of_sum)
