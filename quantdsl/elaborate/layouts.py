"""How types of the language are held: what parts a value has, which HIR type lies in memory, which numbers travel."""

from collections.abc import Iterator

from attrs import field

from compiler.hir.types import Array, HirType, Pointer, Struct, Tile
from compiler.typed_ast.types import (
    BOOL,
    ERROR,
    STRING,
    UNIT,
    DType,
    OptionType,
    ResultType,
    Scalar,
    TupleType,
    Type,
)
from quantdsl import types as qt
from quantdsl.check.checker import QuantChecker
from quantdsl.check.fits import shown
from quantdsl.check.patterns import cases_of, fields_of
from quantdsl.elaborate.refused import not_in_place, not_supported
from quantdsl.native import types as native
from quantdsl.native.book import Book
from quantdsl.native.ring import NativeRing
from quantdsl.native.table import NativeTable
from runtime.records import define

Parts = tuple[tuple[str, Type], ...]
Market = tuple[str | None, str | None]
_I64 = native.I64
_NUMBERS: dict[Type, Tile] = {
    qt.RATIO: native.F64,
    qt.TIMESTAMP: _I64,
    qt.DURATION: _I64,
    qt.ORDER_ID: native.U64,
    qt.SYMBOL: native.U32,
    qt.REJECT_MASK: native.U32,
}
MARKET_BOOK = qt.Container("book", (), qt.Size())
"""The type of the book that `on book(b)` gives. There is one, so that a value of it holds nothing."""


@define(eq=False)
class Layouts:
    """Answers for one program; `checker` knows its declarations and resolves the types of fields."""

    checker: QuantChecker
    _parts: dict[tuple[Type, Market], Parts | None] = field(factory=dict)
    _memory: dict[tuple[Type, Market], HirType] = field(factory=dict)
    _in_memory: dict[tuple[Type, Market], bool] = field(factory=dict)

    def number(self, type: Type) -> Tile | None:
        """The number that a value of this type is, or None where it is more or less than one."""
        match type:
            case Scalar(dtype=dtype):
                return native.I1 if dtype is DType.BOOL else Tile(dtype.value)
            case qt.Exact():
                return _I64
            case qt.EnumType() if not self._has_values(type):
                return native.U8
        return _NUMBERS.get(type)

    def parts(self, type: Type) -> Parts:
        """Names and types of what a value is made of, in the order of memory. Neither a number nor a container has any."""
        key = (type, self.checker.body.market)
        if key not in self._parts:
            self._parts[key] = self._found(type)
        found = self._parts[key]
        if found is None:
            raise not_in_place(type, None)
        return found

    def _found(self, type: Type) -> Parts | None:
        match type:
            case OptionType(value=value):
                return ("present", BOOL), ("value", value)
            case ResultType(value=value, error=error):
                return ("ok", BOOL), ("value", value), ("error", error)
            case TupleType(elements=elements):
                return tuple((str(number), element) for number, element in enumerate(elements))
            case qt.StructType():
                return fields_of(self.checker, type)
            case qt.EnumType() if self._has_values(type):
                cases = cases_of(self.checker, type) or {}
                own = [(f"{case}.{name}", part) for case, parts in cases.items() for name, part in parts]
                return ("tag", Scalar(DType.U8)), *own
        return () if type in (UNIT, ERROR, qt.NONE, MARKET_BOOK) else None

    def _has_values(self, type: qt.EnumType) -> bool:
        return any(variant.elements or variant.fields for variant in self.checker.world.enums[type.name].variants)

    def tags(self, type: Type) -> dict[str, int]:
        """The cases of an enum by name, numbered as they are declared."""
        assert isinstance(type, qt.EnumType)
        return {variant.name: number for number, variant in enumerate(self.checker.world.enums[type.name].variants)}

    def in_memory(self, type: Type) -> bool:
        """Whether values of this type are always kept in memory: those with containers in them."""
        if isinstance(type, qt.Container):
            return type != MARKET_BOOK
        key = (type, self.checker.body.market)
        if key not in self._in_memory:
            self._in_memory[key] = self._holds_containers(type)
        return self._in_memory[key]

    def _holds_containers(self, type: Type) -> bool:
        if self.number(type) is not None or type == STRING:
            return False
        return any(self.in_memory(part) for _, part in self.parts(type))

    def memory(self, type: Type) -> HirType:
        """The type in memory."""
        key = (type, self.checker.body.market)
        if key not in self._memory:
            self._memory[key] = self._made(type)
        return self._memory[key]

    def _made(self, type: Type) -> HirType:
        number = self.number(type)
        if number is not None:
            return number
        match type:
            case qt.Container():
                return self.container(type)
            case OptionType(value=value):
                return native.optional(self.memory(value))
            case ResultType(value=value, error=error):
                return native.result(self.memory(value), self.memory(error))
        fields = tuple((name, self.memory(part)) for name, part in self.parts(type))
        return Struct(type.name if isinstance(type, qt.StructType | qt.EnumType) else "tuple", fields)

    def container(self, type: qt.Container) -> HirType:
        match type.kind:
            case "array":
                return Array(self.memory(type.elements[0]), self.size(type))
            case "ring":
                return self.ring(type).type
            case "table":
                return self.table(type).type
        return Book(self.size(type)).type

    def ring(self, type: qt.Container) -> NativeRing:
        return NativeRing(self.memory(type.elements[0]), self.size(type))

    def table(self, type: qt.Container) -> NativeTable:
        key = self.number(type.elements[0])
        if key is None or key.dtype in ("f32", "f64"):
            hint = "use a whole number, an id or an enum without values as the key"
            raise not_supported(f"a table with keys of type `{shown(type.elements[0])}`", None, hint)
        return NativeTable(key, self.memory(type.elements[1]), self.size(type))

    def size(self, type: qt.Container) -> int:
        assert isinstance(type.size, qt.Size) and type.size.value is not None, f"`{type}` without a size"
        return type.size.value

    def leaves(self, type: Type, name: str = "") -> Iterator[tuple[str, HirType]]:
        """The numbers of a value in order, with names that begin with `name`; what is kept in memory travels as its address."""
        if self.in_memory(type):
            yield name, Pointer(self.memory(type))
            return
        number = self.number(type)
        if number is not None:
            yield name, number
            return
        for part, found in self.parts(type):
            yield from self.leaves(found, f"{name}.{part}" if name else part)
