"""How values lie in memory, for those who read it back: shapes of types, as `quantdsl.metadata` keeps them."""

from compiler.hir.layout import field_type, offset_of, size_of
from compiler.hir.types import Struct
from compiler.lowering.native.layouts import Layouts
from compiler.typed_ast.types import ArrayType, EnumType, OptionType, ResultType, Scalar, TupleType, Type
from quantdsl import types as qt
from quantdsl.elaborate.rules import ring_of, table_of
from quantdsl.metadata import StateShape
from runtime.records import frozen

_NUMBERS: dict[type[Type], str] = {qt.PriceType: "price", qt.TicksType: "ticks", qt.QtyType: "qty", qt.MoneyType: "money"}
_NAMED = {
    qt.RATIO: "ratio",
    qt.TIMESTAMP: "timestamp",
    qt.DURATION: "duration",
    qt.ORDER_ID: "id",
    qt.SYMBOL: "id",
    qt.REJECT_MASK: "unsigned",
    qt.SIDE: "side",
}
WORD = 8


@frozen
class Shapes:
    """`words`: every number takes eight bytes, one after the other, as in records of the log; else values lie as C lays them out."""

    layouts: Layouts
    words: bool = False

    def of(self, type: Type, name: str = "", offset: int = 0) -> StateShape:
        number = self.layouts.number(type)
        if number is not None and not (isinstance(type, EnumType) and type != qt.SIDE):
            return StateShape(name, self._number(type), offset, size_of(number))
        if isinstance(type, ArrayType | qt.Container):
            return self._container(type, name, offset)
        parts = self._parts(type)
        if isinstance(type, EnumType):
            return StateShape(name, "enum", offset, self._size(type), self._cases(type, parts))
        what = {OptionType: "optional", ResultType: "result", TupleType: "tuple"}.get(type.__class__, "struct")
        return StateShape(name, what, offset, self._size(type), tuple(parts.values()))

    def _number(self, type: Type) -> str:
        if isinstance(type, Scalar):
            dtype = type.dtype
            return "bool" if dtype.value in ("bool", "i1") else "float" if dtype.is_float else "int" if dtype.is_signed else "unsigned"
        return _NUMBERS.get(type.__class__) or _NAMED[type]

    def _size(self, type: Type) -> int:
        return WORD * sum(1 for _ in self.layouts.leaves(type)) if self.words else size_of(self.layouts.memory(type))

    def _parts(self, type: Type) -> dict[str, StateShape]:
        """The parts of a type, with offsets from where it begins."""
        found: dict[str, StateShape] = {}
        if self.layouts.number(type) is not None:
            return found
        memory, at = self.layouts.memory(type), 0
        for name, part in self.layouts.parts(type):
            found[name] = self.of(part, name, at if self.words or not isinstance(memory, Struct) else offset_of(memory, name))
            at += self._size(part)
        return found

    def _cases(self, type: EnumType, parts: dict[str, StateShape]) -> tuple[StateShape, ...]:
        def fields(case: str) -> tuple[StateShape, ...]:
            return tuple(shape for name, shape in parts.items() if name.startswith(f"{case}."))

        return tuple(StateShape(case, "tuple", 0, 0, fields(case)) for case in self.layouts.tags(type))

    def _container(self, type: ArrayType | qt.Container, name: str, offset: int) -> StateShape:
        """Containers are never in the log, so they lie as C lays them out."""
        size, count = size_of(self.layouts.memory(type)), self.layouts.size(type)
        if isinstance(type, ArrayType):
            return StateShape(name, "array", offset, size, (self.of(type.element),), count)
        if type.kind == "ring":
            memory = ring_of(self.layouts, type).type
            held, following = (
                StateShape(part, "int", offset_of(memory, part), size_of(field_type(memory, part))) for part in ("count", "next")
            )
            return StateShape(
                name, "ring", offset, size, (held, following, self.of(type.element, "", offset_of(memory, "items"))), count
            )
        if type.kind == "table":
            table = table_of(self.layouts, type)
            used = StateShape("used", "bool", offset_of(table.type, "used"), 1)
            key, value = (self.of(of, "", offset_of(table.type, part)) for of, part in zip(type.elements, ("keys", "values"), strict=True))
            return StateShape(name, "table", offset, size, (used, key, value), table.slots)
        return StateShape(name, "bytes", offset, size, (), count)
