"""What QuantDSL adds to the lowering of native functions: how its own types are held, and its words."""

from compiler.hir import native_types as native
from compiler.hir.native_build import FunctionCode
from compiler.hir.native_expressions import Expr, Record
from compiler.hir.types import HirType, Tile
from compiler.lowering.native.holding import Holding
from compiler.lowering.native.layouts import Layouts
from compiler.lowering.native.rules import CORE, NativeRules, TypeLowering
from compiler.lowering.native.values import Value
from compiler.typed_ast.exhaustiveness import Parts
from compiler.typed_ast.types import Size, Type
from quantdsl import types as qt
from quantdsl.check import library
from quantdsl.check.checker import MEANING
from quantdsl.check.fits import shown
from quantdsl.check.resolve import resolve
from quantdsl.native.book import Book
from quantdsl.native.ring import NativeRing
from quantdsl.native.table import NativeTable

_NUMBERS: dict[Type, Tile] = {
    qt.RATIO: native.F64,
    qt.TIMESTAMP: native.I64,
    qt.DURATION: native.I64,
    qt.ORDER_ID: native.U64,
    qt.SYMBOL: native.U32,
    qt.REJECT_MASK: native.U32,
}
MARKET_BOOK = qt.Container("book", (), Size())
"""The type of the book that `on book(b)` gives. There is one, so that a value of it holds nothing."""


def _exact(type: qt.Exact) -> Tile:
    return native.I64


def _parts(type: qt.Container) -> Parts | None:
    return () if type == MARKET_BOOK else None


def _in_memory(type: qt.Container) -> bool:
    return type != MARKET_BOOK


def _fit(c: Holding, value: Value, place: Type) -> None:
    if value.type == MARKET_BOOK:
        raise c.not_supported(f"the market's book as a `{shown(place)}`", "take it as `fn f<N>(b: book<N>)`")


def container(layouts: Layouts, type: qt.Container) -> HirType:
    match type.kind:
        case "ring":
            return ring_of(layouts, type).type
        case "table":
            return table_of(layouts, type).type
    return Book(layouts.size(type)).type


def ring_of(layouts: Layouts, type: qt.Container) -> NativeRing:
    return NativeRing(layouts.memory(type.elements[0]), layouts.size(type))


def _element(layouts: Layouts, b: FunctionCode, type: qt.Container, pointer: Record, at: Expr) -> Record:
    """An element of a ring, where 0 is the newest."""
    return ring_of(layouts, type).slot(b, pointer, at)


def _count(layouts: Layouts, b: FunctionCode, type: qt.Container, pointer: Record) -> Expr:
    return ring_of(layouts, type).count(b, pointer)


def table_of(layouts: Layouts, type: qt.Container) -> NativeTable:
    key = layouts.number(type.elements[0])
    if key is None or key.dtype in ("f32", "f64"):
        hint = "use a whole number, an id or an enum without values as the key"
        raise not_supported(f"a table with keys of type `{shown(type.elements[0])}`", None, hint)
    return NativeTable(key, layouts.memory(type.elements[1]), layouts.size(type))


TABLES = CORE.extended()
elaborates, executes, writes = TABLES.elaborates, TABLES.executes, TABLES.writes
emits, calls = TABLES.emits, TABLES.calls
RULES = NativeRules(
    MEANING,
    resolve,
    TABLES,
    {
        **dict.fromkeys((qt.PriceType, qt.TicksType, qt.QtyType, qt.MoneyType), TypeLowering(_exact)),
        qt.PlainType: TypeLowering(_NUMBERS.get),
        qt.Container: TypeLowering(
            parts=_parts, in_memory=_in_memory, memory=container, sized=True, fit=_fit, element=_element, count=_count
        ),
    },
    "use numbers, `[T; N]`, `ring<T, N>` or `table<K, V, N>`",
    hints={"print": "record numbers with `log_ring(x)`, or print in the functions of `main`"},
    in_library=library.holds,
    passed_to_c="ints of 32 or 64 bits, floats, prices, quantities, money and times",
)
not_supported, not_in_place = RULES.not_supported, RULES.not_in_place
