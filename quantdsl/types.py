"""QuantDSL's types beside the shared ones: exact numbers of a market, time, and containers that lie in place. How each is stored:
Price, Ticks, Qty and Money are i64 counts of ticks, lots and money units, Timestamp and Duration i64 nanoseconds, Ratio is an f64."""

from compiler.typed_ast.types import EnumType, Type
from runtime.records import field, frozen
from runtime.tuples import as_tuple


@frozen
class Exact(Type):
    """A whole number of something. `of` names the instrument or currency, None: of any, as in the literal `10lots`."""

    of: str | None = None

    def may_be(self, other: Type) -> bool:
        return self.of is None and type(self) is type(other)

    @property
    def is_ordered(self) -> bool:
        return True

    def __str__(self) -> str:
        name = type(self).__name__.removesuffix("Type")
        return f"{name}<{self.of}>" if self.of else name


@frozen
class PriceType(Exact):
    """A price of an instrument, as a count of its ticks."""


@frozen
class TicksType(Exact):
    """A difference of two prices."""


@frozen
class QtyType(Exact):
    """A signed count of an instrument's lots."""


@frozen
class MoneyType(Exact):
    """A count of a currency's smallest units."""


@frozen
class MarketType(Type):
    """An instrument or currency among the arguments of a struct: the `ES` of `Trade<ES>`. None: any."""

    name: str | None = None

    def may_be(self, other: Type) -> bool:
        return isinstance(other, MarketType) and (self.name is None or other.name is None)

    def __str__(self) -> str:
        return self.name or "_"


@frozen
class PlainType(Type):
    """A type without parts, known by its name."""

    name: str

    @property
    def is_ordered(self) -> bool:
        return self in (DURATION, TIMESTAMP, RATIO)

    def __str__(self) -> str:
        return self.name


@frozen
class Container(Type):
    """`ring<T, N>`, `table<K, V, N>`, `book<N>`: `kind` is "ring", "table" or "book", `size` is Size or a TypeVariable."""

    kind: str
    elements: tuple[Type, ...] = field(converter=as_tuple)
    size: Type

    @property
    def element(self) -> Type:
        """What a ring holds, or the keys of a table."""
        return self.elements[0]

    def __str__(self) -> str:
        return f"{self.kind}<{', '.join(map(str, (*self.elements, self.size)))}>"


RATIO = PlainType("Ratio")
TIMESTAMP = PlainType("Timestamp")
DURATION = PlainType("Duration")
ORDER_ID = PlainType("OrderId")
SYMBOL = PlainType("Symbol")
REJECT_MASK = PlainType("RejectMask")
SIDE = EnumType("Side")
OPAQUE = {found.name: found for found in (RATIO, TIMESTAMP, DURATION, ORDER_ID, SYMBOL, REJECT_MASK)}
REJECT_COUNTS = PlainType("RejectCounts")
OF_INSTRUMENT = {"Price": PriceType, "Qty": QtyType, "Ticks": TicksType}
RULES = (
    "killed",
    "max_order_qty",
    "max_notional",
    "price_collar",
    "max_position",
    "rate",
    "duplicate_id",
    "self_trade",
    "stale_data",
    "max_open_orders",
    "max_loss",
    "bad_input",
)
"""What an order may be refused for: bits of a RejectMask, from the lowest."""
