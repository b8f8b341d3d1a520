"""Roles (form R) as the field of what each element of their results is: digits become axes again. Loops say of which axis they are the
outer digit (`axis=`), and how many elements that has where tiles reach beyond (`extent=`). The inner digit is an axis of tiles, of that
name.

What ends a tile where its axis ends is no condition of elements; copies on their way through shared memory are what was read; and what a
loop carries to add to it is one sum."""

from collections.abc import Iterator, Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.control import For, Yield
from compiler.hir.core import Binary, Const, Contract, Convert, InBounds, Reduce, dtype_of, union_axes
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Instruction, Region, Value
from compiler.hir.memory import Load, Store
from compiler.hir.module import Form, HirFunction
from compiler.hir.ring import RingFree, RingGet, RingPut, RunRole, ring_of
from compiler.hir.types import I1, Tile
from runtime.records import frozen


@frozen(eq=False)
class Elements:
    """`field`: what each element is; `loops`: of the computing role, by their axes, the outermost first; `stages` of the ring, of whose
    entries the field has what is `copied`; `sums`: what loops carry."""

    field: HirFunction
    loops: Mapping[str, For]
    stages: int
    copied: Sequence[Value]
    sums: Sequence[Contract | Reduce]


def elements_of(roles: HirFunction) -> Elements:
    """Of a copying and a computing role that one ring joins."""
    joining = _Joining(roles)
    return Elements(joining.finish(), joining.loops, joining.stages, joining.copied, joining.sums)


class _Joining(FieldCopy):
    def __init__(self, roles: HirFunction) -> None:
        super().__init__(roles)
        self.function.function.form = Form.FIELD
        copying, computing = (op.body for op in roles.body.body if isinstance(op, RunRole))
        self.loops = {_axis(loop): loop for loop in _loops(computing)}
        self.copied: Sequence[Value] = ()
        self.stages = 0
        self.sums: list[Contract | Reduce] = []
        self.carried: set[Value] = set()
        self.always = Value("always", I1)
        for axis, loop in self.loops.items():
            extent = loop.mark("extent")
            self.function.axis(axis, extent if isinstance(extent, Affine) else loop.high * self.tile(axis))
        self.parameters()
        for role in copying, computing:
            for loop in _loops(role):
                axis, variable = _axis(loop), loop.variable.name
                outer = {axis: Affine.of(axis) - Affine.of(variable) * self.tile(axis)}
                self.names |= outer if axis in roles.axes else {variable: axis}
            self.region(role)

    def tile(self, axis: str) -> int:
        """Elements of an axis in a turn of its loop."""
        return self.field.axes[axis].constant if axis in self.field.axes else 1

    def region(self, region: Region) -> None:
        for op in region.body:
            self.instruction(op)

    def instruction(self, op: Instruction) -> None:
        function = self.function.function
        match op:
            case For():
                self.carried.update(op.body.parameters[1:])
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
            case Contract() | Reduce():
                over = tuple(axis for axis, loop in self.loops.items() if loop.place == "time")
                sum = self.copy(op, over=over, **({"accumulator": None} if isinstance(op, Contract) else {}))
                assert isinstance(sum, Contract | Reduce)
                self.sums.append(sum)
            case Binary(left=left, right=right) if left in self.carried:
                self.put(op.result, self.values[right])
            case InBounds() if any(self.form(op.of) == Affine.of(axis) and op.below == function.axes[axis] for axis in self.loops):
                self.put(op.result, self.always)
            case Binary(operator="and", left=left, right=right) if self.always in (self.values[left], self.values[right]):
                self.put(op.result, self.values[right if self.values[left] is self.always else left])
            case Const():
                self.copy(op, type=Tile(dtype_of(op.result), tuple((axis, function.axes[axis]) for axis, _ in union_axes(op.result))))
            case Load() if not self.copied:
                self.copy(op, pad=None)
            case Load() | Store() if op.where is not None and self.values[op.where] is self.always:
                self.copy(op, where=None)
            case Yield() | RingFree():
                pass
            case _:
                self.copy(op)


def _axis(loop: For) -> str:
    return str(loop.mark("axis"))


def _loops(region: Region) -> Iterator[For]:
    """Loops around each other, the outermost first."""
    return (op for top in region.body for op in top.walk() if isinstance(op, For))
