"""A field written again with something changed: what rewrites of whole fields are built on."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.core import Contract, Reduce
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, Store
from compiler.hir.module import HirFunction
from compiler.hir.types import HirType, Tile
from runtime.records import evolve

Places = Callable[[tuple[Affine, ...]], Sequence[Affine]]
"""What an index of a memory is in the new field."""


class FieldCopy:
    """A field (form F) while it is written again. What is copied has the values and the names that stand for those of the old field, in
    its operands and in its affine forms.

    `values` has what stands for each old value, `names` what stands for an old name in affine forms."""

    def __init__(self, field: HirFunction, names: Mapping[str, Affine | str] | None = None) -> None:
        self.field = field
        self.function = FunctionBuilder(field.name, field.form)
        self.body = self.function.body
        self.values: dict[Value, Value] = {}
        self.names: dict[str, Affine | str] = dict(names or {})

    @staticmethod
    def whole(field: HirFunction, types: Mapping[Value, HirType] | None = None) -> "FieldCopy":
        """With all axes and parameters of the field, of some with another type."""
        copy = FieldCopy(field)
        copy.axes()
        copy.parameters(types)
        return copy

    def axes(self) -> None:
        """The axes of the old field."""
        for name, extent in self.field.axes.items():
            self.function.axis(name, self.form(extent))

    def parameters(self, types: Mapping[Value, HirType] | None = None) -> None:
        """The parameters of the old field, of some with another type."""
        for parameter in self.field.parameters:
            self.parameter(parameter, (types or {}).get(parameter, parameter.type))

    def parameter(self, old: Value, type: HirType, name: str | None = None) -> None:
        self.put(old, self.function.parameter(old.name if name is None else name, type))

    def put(self, old: Value, new: Value) -> None:
        """From here on the new value stands for the old one."""
        self.values[old] = new
        if new.name != old.name:
            self.names.setdefault(old.name, new.name)

    def form(self, old: Affine) -> Affine:
        return old.substitute(self.names)

    def rebuilt(self, op: Instruction, **changes: Any) -> Instruction:
        """An instruction with what stands for its operands and names, not yet in the new field."""
        return rebuilt(op, self.values.__getitem__, self.form, **changes)

    def copy(self, op: Instruction, **changes: Any) -> Instruction:
        """The same instruction in the new field, where `changes` replace its attributes."""
        return self.emit(op, self.rebuilt(op, **changes))

    def emit(self, op: Instruction, instead: Instruction) -> Instruction:
        """Another instruction in the place of an old one, whose results its own stand for."""
        new = self.body.emit(instead, op.results[0].name if op.results else "")
        for before, after in zip(op.results, new.results, strict=True):
            self.put(before, after)
        return new

    def viewed(self, places: Mapping[Value, Places], without: Collection[str] = ()) -> HirFunction:
        """The new field, with all old instructions: some memories are accessed at other places, as they have other dims, and `without` some
        axes nothing varies along them. Its axes and parameters are there already."""
        axes = self.function.function.axes
        for op in self.field.body.body:
            changes: dict[str, Any] = {}
            if isinstance(op, Load | Store) and op.mem in places:
                changes["index"] = tuple(places[op.mem](op.index))
            elif without and isinstance(op, Reduce | Contract):
                changes["over"] = tuple(axis for axis in op.over if axis not in without)
            elif without and isinstance(type_ := getattr(op, "type", None), Tile):
                changes["type"] = evolve(type_, axes=tuple((axis, axes[axis]) for axis, _ in type_.axes if axis not in without))
            self.copy(op, **changes)
        return self.finish()

    def finish(self) -> HirFunction:
        """The new field, which is launched and called as the old one."""
        new = self.function.finish()
        new.stands_for(self.field)
        return new


class FreshNames:
    """Names that a function doesn't have."""

    def __init__(self, function: HirFunction) -> None:
        self.taken = {*function.axes, *(parameter.name for parameter in function.parameters)}
        self.taken |= {result.name for op in function.body.body for result in op.results}

    def fresh(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name
