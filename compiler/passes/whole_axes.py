"""Roles (form R) as the field of what each element of their results is: digits become axes again. Loops say of which axis they are the
outer digit (`axis=`), and how many elements that has where tiles reach beyond (`extent=`; `extent_x=` of an axis that has one tile). The
inner digit is an axis of tiles, of that name. A loop may count through several axes (`through="b i"`), the last one fastest: quotients and
remainders of its digits are places along them.

What ends a tile where its axis ends is no condition of elements; copies on their way through shared memory are what was read; what a loop
carries to add to it is one sum, or one maximum; by what sums are rescaled as a maximum grows is no matter of elements either. Of the three
loops of a rotated one the first and the last together are its turn."""

from collections.abc import Iterator, Mapping, Sequence
from math import inf

from compiler.hir.affine import Affine
from compiler.hir.control import For, If, Yield
from compiler.hir.core import Binary, Compare, Const, Contract, Convert, InBounds, Index, Reduce, Select, dtype_of, union_axes
from compiler.hir.field_copy import FieldCopy
from compiler.hir.instruction import Instruction, Region, Value
from compiler.hir.memory import Load, Store
from compiler.hir.module import Form, HirFunction
from compiler.hir.ring import RingFree, RingGet, RingMake, RingPut, RunRole
from compiler.hir.types import I1, Ring, Tile
from compiler.passes.dce import dce
from compiler.passes.rotate import MIDDLE
from runtime.records import frozen


@frozen(eq=False)
class Elements:
    """`field`: what each element is; `loops`: of the computing role, by their axes, the outermost first; `counted`: the axes that some of
    them count through; `rings`: their types and, of what waits in them, the values that the field has, by name; `sums`: what loops
    carry."""

    field: HirFunction
    loops: Mapping[str, For]
    counted: Mapping[str, tuple[str, ...]]
    rings: Mapping[str, Ring]
    copied: Mapping[str, Sequence[Value]]
    sums: Sequence[Contract | Reduce]


def elements_of(roles: HirFunction) -> Elements:
    """Of a copying and a computing role that rings join, or of one role that does both."""
    joining = _Joining(roles)
    field = dce(joining.finish())
    return Elements(field, joining.loops, joining.counted, joining.rings, joining.copied, joining.sums)


class _Joining(FieldCopy):
    def __init__(self, roles: HirFunction) -> None:
        super().__init__(roles)
        self.function.function.form = Form.FIELD
        *copying, computing = [op.body for op in roles.body.body if isinstance(op, RunRole)] or [roles.body]
        self.rings = {op.result.name: op.type for op in roles.body.body if isinstance(op, RingMake) and isinstance(op.type, Ring)}
        self.loops = {_axis(loop): loop for loop in _loops(computing)}
        self.copied: dict[str, Sequence[Value]] = {}
        self.copies = bool(copying)
        self.counted = {axis: tuple(str(axes).split()) for axis, loop in self.loops.items() if (axes := loop.mark("through"))}
        self.places: dict[Value, tuple[str, ...]] = {}
        """Numbers of elements along several axes."""
        self.sums: list[Contract | Reduce] = []
        self.carried: set[Value] = set()
        """What loops carry before it is added to, and what it alone is rescaled by."""
        self.time: list[str] = []
        """Axes of the loops in time around."""
        self.always = Value("always", I1)
        marks = {name: mark for loop in self.loops.values() for name, mark in loop.marks}
        for axis, loop in self.loops.items():
            extent = loop.mark("extent")
            for each in self.counted.get(axis, ()):
                self.function.axis(each, _extent(marks, each) or 0)
            if axis not in self.counted:
                self.function.axis(axis, extent if isinstance(extent, Affine) else loop.high * self.tile(axis))
        for axis, tile in roles.axes.items():
            if axis not in self.loops:
                self.function.axis(axis, _extent(marks, axis) or tile)
        self.parameters()
        for role in *copying, computing:
            self.region(role)
            self.copies = False

    def tile(self, axis: str) -> int:
        """Elements of an axis in a turn of its loop."""
        return self.field.axes[axis].constant if axis in self.field.axes else 1

    def region(self, region: Region) -> None:
        for op in region.body:
            self.instruction(op)

    def loop(self, op: For) -> None:
        parameters, axis = op.body.parameters[1:], _axis(op)
        if op.mark("rotated") == MIDDLE:
            for result, begun in zip(op.results, op.carried, strict=True):
                self.passed_on(result, begun)
            return
        self.carried.update(parameters)
        for parameter, begun in zip(parameters, op.carried, strict=True):
            self.passed_on(parameter, begun)
        variable = op.variable.name
        outer = {axis: Affine.of(axis) - Affine.of(variable) * self.tile(axis)}
        self.names |= outer if axis in self.field.axes else {variable: axis}
        self.time += [axis] if op.place == "time" else []
        around, self.copies = self.copies, self.copies or any(isinstance(inner, RingPut) for inner in op.body.body)
        self.region(op.body)
        self.copies = around
        self.time = [other for other in self.time if other != axis]
        last = op.body.body[-1]
        for result, value in zip(op.results, last.values if isinstance(last, Yield) else (), strict=True):
            self.passed_on(result, value)

    def passed_on(self, to: Value, value: Value) -> None:
        if value in self.carried:
            self.carried.add(to)
        if value in self.values:
            self.put(to, self.values[value])

    def instruction(self, op: Instruction) -> None:
        function = self.function.function
        match op:
            case For():
                self.loop(op)
            case Convert():
                self.put(op.result, self.values[op.value])
            case RingPut():
                self.copied[op.ring.name] = [self.values[value] for value in op.values]
            case RingGet():
                for result, value in zip(op.results, self.copied[op.ring.name], strict=True):
                    self.put(result, value)
            case Contract() | Reduce():
                self.sum(op)
            case Binary(operator="add" | "max", left=left, right=right) if left in self.carried and right not in self.carried:
                self.put(op.result, self.values[right])
            case Index(of=form) if (counted := self.counted.keys() & {*form.names}):
                self.places[op.result] = self.counted[counted.pop()]
            case Binary(operator="div" | "rem", left=left) if left in self.places:
                *before, fastest = self.places[left]
                if op.operator == "div" and len(before) > 1:
                    self.places[op.result] = tuple(before)
                else:
                    self.names[op.result.name] = fastest if op.operator == "rem" else before[0]
            case InBounds() if any(self.form(op.of) == Affine.of(axis) and op.below == extent for axis, extent in function.axes.items()):
                self.put(op.result, self.always)
            case Binary(operator="and", left=left, right=right) if self.always in (self.values[left], self.values[right]):
                self.put(op.result, self.values[right if self.values[left] is self.always else left])
            case Select() if self.values[op.condition] is self.always:
                self.put(op.result, self.values[op.then])
            case Select() if self.stands_in(op):
                self.put(op.result, self.values[op.otherwise])
            case Const():
                axes = [each for axis, _ in union_axes(op.result) for each in self.counted.get(axis, (axis,))]
                self.copy(op, type=Tile(dtype_of(op.result), tuple((axis, function.axes[axis]) for axis in axes)))
            case Load() | Store():
                always = op.where is not None and self.values[op.where] is self.always
                self.copy(op, **({"where": None} if always else {}), **({"pad": None} if self.copies else {}))
            case If() | Yield() | RingMake() | RingFree():
                pass  # of one role's copies those before its loop tell all
            case _ if carried := [value for value in op.operand_values if value in self.carried]:
                self.passed_on(op.results[0], carried[0])
            case _:
                self.copy(op)

    def sum(self, op: Contract | Reduce) -> None:
        """A sum over the digits that it names, and over loops that add to it."""
        walked = not self.time or not {*self.time}.isdisjoint(op.over)
        over = tuple(axis for axis in self.loops if axis in self.time) if walked else op.over
        sum = self.copy(op, over=over, **({"accumulator": None} if isinstance(op, Contract) else {}))
        assert isinstance(sum, Contract | Reduce)
        if walked:
            self.sums.append(sum)

    def stands_in(self, op: Select) -> bool:
        """Whether it is a number where nothing was seen: in the place of a maximum while a loop goes on, or of a sum behind it."""
        number, condition, otherwise = op.then.source, op.condition.source, op.otherwise.source
        if not isinstance(number, Const):
            return False
        match condition, otherwise:
            case Compare(), Binary(operator="max", left=before):
                return before in self.carried and number.value == 0 and _is_lowest(condition, otherwise)
            case Binary(operator="and", left=Value(source=Compare() as lowest), right=Value(source=Compare(operator="gt"))), For():
                return number.value != number.value and _is_lowest(lowest, otherwise)
            case _:
                return False


def _is_lowest(condition: Compare, op: Instruction) -> bool:
    """Whether it compares a result with -inf."""
    other = condition.right.source
    return condition.operator == "eq" and condition.left in op.results and isinstance(other, Const) and other.value == -inf


def _extent(marks: Mapping[str, object], axis: str) -> Affine | None:
    extent = marks.get(f"extent_{axis}")
    return extent if isinstance(extent, Affine) else None


def _axis(loop: For) -> str:
    return str(loop.mark("axis"))


def _loops(region: Region) -> Iterator[For]:
    """Loops around each other, the outermost first."""
    return (op for top in region.body for op in top.walk() if isinstance(op, For))
