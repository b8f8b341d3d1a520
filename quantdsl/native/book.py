"""The best levels of an order book: two ladders of prices (whole ticks) with quantities (whole lots), sorted, best first. All zero is an
empty book."""

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, Number, Optional, Record, all_of, maximum, minimum, select
from compiler.hir.native_types import I1, I8, I64, struct
from compiler.hir.types import Array, Pointer, Struct
from runtime.records import frozen

CHANGED, ADDED, REMOVED, UNKNOWN, BEYOND = range(5)
"""What became of an update: UNKNOWN removes a level that isn't there, BEYOND is worse than all of a full ladder."""

BIDS, ASKS = "bids", "asks"


@frozen
class Book:
    """`book<N>`: the best `levels` of either side. A ladder is `lost` once a level fell off its end or was refused: when levels are removed
    later, the ones that should follow aren't known."""

    levels: int

    @property
    def ladder(self) -> Struct:
        return struct("ladder", count=I64, lost=I1, price=Array(I64, self.levels), quantity=Array(I64, self.levels))

    @property
    def type(self) -> Struct:
        return struct("book", bids=self.ladder, asks=self.ladder)

    def level(self, b: FunctionCode, book: Record, side: str, number: Number) -> tuple[Optional, Expr]:
        """Price (if there is that level; 0 is the best) and quantity."""
        number = b.number(number, "i64")
        ladder = book[side]
        there = (number >= 0) & (number < ladder.count)
        safe = select(there, number, 0)
        price, quantity = (ladder[part].unchecked[safe] for part in ("price", "quantity"))
        return Optional(there, select(there, price, 0)), select(there, quantity, 0)

    def update(self, b: FunctionCode, book: Record, side: str, price: Expr, quantity: Expr) -> Expr:
        """The quantity that now stands at a price; 0 removes the level. Gives CHANGED ... BEYOND as i8."""
        (outcome,) = b.call(self._made(b.program, side, "update"), book[side], price, quantity)
        return outcome

    def depth_to(self, b: FunctionCode, book: Record, side: str, price: Expr) -> Expr:
        """The sum of the quantities at `price` and better."""
        (total,) = b.call(self._made(b.program, side, "depth"), book[side], price)
        return total

    def crossed(self, b: FunctionCode, book: Record) -> Expr:
        """Whether the best bid is at or above the best ask."""
        bid, _ = self.level(b, book, BIDS, 0)
        ask, _ = self.level(b, book, ASKS, 0)
        return all_of(bid.present, ask.present, bid.value >= ask.value)

    # ---- the functions, made once a module ----

    def _made(self, program: ModuleBuilder, side: str, which: str) -> str:
        name = f"book{self.levels}.{side}.{which}"
        if not program.has(name):
            getattr(self, f"_{which}")(program, name, "gt" if side == BIDS else "lt")
        return name

    def _depth(self, program: ModuleBuilder, name: str, better: str) -> None:
        with program.function(name, {"ladder": Pointer(self.ladder), "price": I64}, [I64], internal=True) as b:
            ladder, price = b.parameters
            total = b.variable(0)
            with b.loop(0, minimum(ladder.count, self.levels)) as i:
                with b.when(b.compare(better, price, ladder.price.unchecked[i])):
                    b.break_()
                total.value += ladder.quantity.unchecked[i]
            b.ret(total.value)

    def _update(self, program: ModuleBuilder, name: str, better: str) -> None:
        parameters = {"ladder": Pointer(self.ladder), "price": I64, "quantity": I64}
        with program.function(name, parameters, [I8], internal=True) as b:
            ladder, price, quantity = b.parameters
            count = maximum(minimum(ladder.count, self.levels), 0)
            index = b.variable(count)
            with b.loop(0, count) as i, b.when(~b.compare(better, ladder.price.unchecked[i], price)):
                index.value = i
                b.break_()
            at = index.value
            safe = select(at < self.levels, at, 0)
            here = (at < count) & (ladder.price.unchecked[safe] == price)
            with b.when(quantity == 0):
                with b.when(~here):
                    b.ret(UNKNOWN)
                last = count.wrapping_sub(1)
                with b.loop(at, last) as i:
                    self._move(b, ladder, i, i.wrapping_add(1))
                self._set(b, ladder, last, b.const(0, "i64"), b.const(0, "i64"))
                ladder.count = last
                b.ret(REMOVED)
            with b.when(here):
                ladder.quantity.unchecked[at] = quantity
                b.ret(CHANGED)
            with b.when(count == self.levels):
                ladder.lost = True
                with b.when(at == count):
                    b.ret(BEYOND)
            last = minimum(count, self.levels - 1)
            with b.loop(last, at, -1) as i:
                self._move(b, ladder, i, i.wrapping_sub(1))
            self._set(b, ladder, at, price, quantity)
            ladder.count = last.wrapping_add(1)
            b.ret(ADDED)

    def _move(self, b: FunctionCode, ladder: Record, to: Expr, source: Expr) -> None:
        self._set(b, ladder, to, *(ladder[part].unchecked[source] for part in ("price", "quantity")))

    def _set(self, b: FunctionCode, ladder: Record, at: Expr, price: Expr, quantity: Expr) -> None:
        ladder.price.unchecked[at] = price
        ladder.quantity.unchecked[at] = quantity
