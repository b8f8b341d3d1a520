"""What the roles of a product (form R) say to whoever makes threads of them: which tiles blocks take, which ring joins the roles, what is
copied, which sums are multiplied of that, and what is computed for an element of the results when its sums are there."""

from collections.abc import Iterator, Sequence
from typing import Any

from compiler.hir.affine import Affine
from compiler.hir.control import For, Yield
from compiler.hir.core import Binary, Cast, Const, Contract, Convert, InBounds, dtype_of, union_axes
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Instruction, Region, Value
from compiler.hir.memory import Load, Store
from compiler.hir.module import Form, HirFunction
from compiler.hir.ring import RingFree, RingGet, RingPut, RunRole, ring_of
from compiler.hir.types import I1, Tile
from compiler.schedule.gpu.products.boxed_operands import BoxedOperand
from compiler.schedule.gpu.products.boxed_product import BoxedProduct, MultipliedSum
from compiler.schedule.gpu.products.tiling import Tiling

MARKED = ("groups", "blocks", "cluster", "pieces", "turns", "residents", "cut")
"""What of a tiling is neither a loop nor a ring: marks of the outermost loop."""


def read_roles(roles: HirFunction, processors: int) -> tuple[HirFunction, BoxedProduct]:
    """The field of what each element of the results is, along whole axes; and the product of blocks, on so many processors."""
    reading = _Reading(roles)
    return reading.finish(), reading.product(processors)


class _Reading(FieldCopy):
    """Digits become axes again: a loop says of which axis it is the outer digit, and the axis of a tile is the inner one."""

    def __init__(self, roles: HirFunction) -> None:
        super().__init__(roles)
        self.function.function.form = Form.FIELD
        copying, computing = (op.body for op in roles.body.body if isinstance(op, RunRole))
        self.loops = {str(loop.mark("axis")): loop for loop in _loops(computing)}
        self.copied: Sequence[Value] = ()
        """What an entry of the ring is."""
        self.stages = 0
        self.sums: list[Contract] = []
        self.inside = self.ends(computing)
        """The conditions under which elements of tiles exist, and the axes that these are of."""
        self.always = Value("always", I1)
        for axis, loop in self.loops.items():
            self.function.axis(axis, self.extent(axis, loop))
        self.parameters()
        for role in copying, computing:
            for loop in _loops(role):
                axis, variable = str(loop.mark("axis")), Affine.of(loop.variable.name)
                tiled = axis in roles.axes
                self.names |= {axis: Affine.of(axis) - variable * self.tile(axis)} if tiled else {loop.variable.name: axis}
            self.region(role)

    def tile(self, axis: str) -> int:
        """Elements of an axis that a turn of its loop has."""
        return self.field.axes[axis].constant if axis in self.field.axes else 1

    def ends(self, computing: Region) -> dict[tuple[Affine, Affine], str]:
        """What masks all stores: there is nothing beyond."""
        stores = [op for top in computing.body for op in top.walk() if isinstance(op, Store)]
        masks = set.intersection(*({(mask.of, mask.below) for mask in _masks(store.where)} for store in stores))
        whole = {Affine.of(loop.variable.name) * self.tile(axis) + axis: axis for axis, loop in self.loops.items()}
        return {(of, below): whole[of] for of, below in masks if of in whole}

    def extent(self, axis: str, loop: For) -> Affine:
        return next((below for (_, below), masked in self.inside.items() if masked == axis), loop.high * self.tile(axis))

    def region(self, region: Region) -> None:
        for op in region.body:
            self.instruction(op)

    def instruction(self, op: Instruction) -> None:
        match op:
            case For():
                self.values.update({begun: self.values[value] for begun, value in zip(op.body.parameters[1:], op.carried, strict=True)})
                self.region(op.body)
                last = op.body.body[-1]
                for result, value in zip(op.results, last.values if isinstance(last, Yield) else (), strict=True):
                    self.put(result, self.values[value])
            case Convert():
                self.put(op.result, self.values[op.value])
            case RingPut():
                self.copied, self.stages = [self.values[value] for value in op.values], ring_of(op.ring).stages
            case RingGet():
                for result, value in zip(op.results, self.copied, strict=True):
                    self.put(result, value)
            case Contract():
                summed = tuple(axis for axis, loop in self.loops.items() if loop.place == "time")
                sum = self.copy(op, accumulator=None, over=summed)
                assert isinstance(sum, Contract)
                self.sums.append(sum)
            case InBounds() if (op.of, op.below) in self.inside:
                self.put(op.result, self.always)
            case Binary(operator="and", left=left, right=right) if self.always in (self.values[left], self.values[right]):
                self.put(op.result, self.values[right if self.values[left] is self.always else left])
            case Const():
                axes = tuple((axis, self.function.function.axes[axis]) for axis, _ in union_axes(op.result))
                self.copy(op, type=Tile(dtype_of(op.result), axes))
            case Load() if not self.copied:
                self.copy(op, pad=None)
            case Load() | Store() if op.where is not None and self.values[op.where] is self.always:
                self.copy(op, where=None)
            case Yield() | RingFree():
                pass
            case _:
                self.copy(op)

    def product(self, processors: int) -> BoxedProduct:
        walked = [loop for loop in self.loops.values() if loop.place == "time"]
        *outer, last = (str(loop.mark("axis")) for loop in walked)
        columns = [axis for axis, loop in self.loops.items() if loop.place != "time"][-1]
        sides = {value: self.operand(value, last) for value in self.copied}
        summed = []
        for sum in self.sums:
            a, b = (sides[operand.source.value if isinstance(operand.source, Cast) else operand] for operand in (sum.a, sum.b))
            summed.append(MultipliedSum(sum, *((a, b) if b.axes == (columns,) else (b, a))))
        rows, marks = summed[0].a, dict[str, Any](next(iter(self.loops.values())).marks)
        own = {name: marks[name] for name in MARKED if name in marks}
        stretch = dict[str, Any](walked[-1].marks).get("stretch", 0)
        tiling = Tiling(rows.axes, rows.tile, self.tile(columns), stages=self.stages, sums=len(summed), **own)
        return BoxedProduct(tuple(summed), self.sums[0].to, last, tuple(outer), (), tiling, processors, stretch=stretch)

    def operand(self, value: Value, sum: str) -> BoxedOperand:
        """What is copied, as boxes have it: the dims along which it has axes of its own, and the sum's."""
        load = value.source
        assert isinstance(load, Load)
        dims = {axis: dim for dim, form in enumerate(load.index) for axis in form.names if axis in self.field.axes}
        own = [axis for axis in dims if axis != sum]
        return BoxedOperand(load, tuple(own), tuple(dims[axis] for axis in own), dims[sum], tuple(map(self.tile, own)))


def _loops(region: Region) -> Iterator[For]:
    """Loops around each other, the outermost first."""
    return (op for top in region.body for op in top.walk() if isinstance(op, For))


def _masks(where: Value | None) -> Iterator[InBounds]:
    """What holds where a condition does."""
    match where.source if where is not None else None:
        case InBounds() as mask:
            yield mask
        case Binary(operator="and", left=left, right=right):
            yield from _masks(left)
            yield from _masks(right)
        case _:
            pass
