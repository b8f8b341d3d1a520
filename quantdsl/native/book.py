"""The best levels of an order book: two ladders of prices (whole ticks) with quantities (whole lots), sorted, best first. All zero is an
empty book."""

from compiler.hir.instruction import Value
from compiler.hir.types import Array, Pointer, Struct
from quantdsl.native.build import FunctionCode, ModuleBuilder, Number
from quantdsl.native.types import I1, I8, I64, struct
from quantdsl.native.values import Optional
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

    def level(self, b: FunctionCode, book: Value, side: str, number: Number) -> tuple[Optional, Value]:
        """Price (if there is that level; 0 is the best) and quantity."""
        number = b.number(number, "i64")
        ladder = b.at(book, side)
        there = b.both(b.ge(number, 0), b.lt(number, b.get(ladder, "count")))
        safe = b.select(there, number, 0)
        price, quantity = (b.get(ladder, part, safe, proved=True) for part in ("price", "quantity"))
        return Optional(there, b.select(there, price, 0)), b.select(there, quantity, 0)

    def update(self, b: FunctionCode, book: Value, side: str, price: Value, quantity: Value) -> Value:
        """The quantity that now stands at a price; 0 removes the level. Gives CHANGED ... BEYOND as i8."""
        (outcome,) = b.call(self._made(b.program, side, "update"), b.at(book, side), price, quantity)
        return outcome

    def depth_to(self, b: FunctionCode, book: Value, side: str, price: Value) -> Value:
        """The sum of the quantities at `price` and better."""
        (total,) = b.call(self._made(b.program, side, "depth"), b.at(book, side), price)
        return total

    def crossed(self, b: FunctionCode, book: Value) -> Value:
        """Whether the best bid is at or above the best ask."""
        bid, _ = self.level(b, book, BIDS, 0)
        ask, _ = self.level(b, book, ASKS, 0)
        return b.both(bid.present, ask.present, b.ge(bid.value, ask.value))

    # ---- the functions, made once a module ----

    def _made(self, program: ModuleBuilder, side: str, which: str) -> str:
        name = f"book{self.levels}.{side}.{which}"
        if not program.has(name):
            getattr(self, f"_{which}")(program, name, "gt" if side == BIDS else "lt")
        return name

    def _depth(self, program: ModuleBuilder, name: str, better: str) -> None:
        with program.function(name, {"ladder": Pointer(self.ladder), "price": I64}, [I64], internal=True) as b:
            ladder, price = b.parameters
            total = b.variable(b.const(0, "i64"))
            with b.loop(0, b.smaller(b.get(ladder, "count"), self.levels)) as i:
                with b.when(b.compare(better, price, b.get(ladder, "price", i, proved=True))):
                    b.leave()
                b.set(total, b.add(b.now(total), b.get(ladder, "quantity", i, proved=True)))
            b.give(b.now(total))

    def _update(self, program: ModuleBuilder, name: str, better: str) -> None:
        parameters = {"ladder": Pointer(self.ladder), "price": I64, "quantity": I64}
        with program.function(name, parameters, [I8], internal=True) as b:
            ladder, price, quantity = b.parameters
            count = b.larger(b.smaller(b.get(ladder, "count"), self.levels), 0)
            found = b.variable(count)
            with b.loop(0, count) as i, b.when(b.negate(b.compare(better, b.get(ladder, "price", i, proved=True), price))):
                b.set(found, i)
                b.leave()
            at = b.now(found)
            safe = b.select(b.lt(at, self.levels), at, 0)
            here = b.both(b.lt(at, count), b.eq(b.get(ladder, "price", safe, proved=True), price))
            with b.when(b.eq(quantity, 0)):
                with b.when(b.negate(here)):
                    b.give(UNKNOWN)
                last = b.wrapping("sub", count, 1)
                with b.loop(at, last) as i:
                    self._move(b, ladder, i, b.wrapping("add", i, 1))
                self._set(b, ladder, last, b.const(0, "i64"), b.const(0, "i64"))
                b.put(ladder, "count", last)
                b.give(REMOVED)
            with b.when(here):
                b.put(ladder, "quantity", at, quantity, proved=True)
                b.give(CHANGED)
            with b.when(b.eq(count, self.levels)):
                b.put(ladder, "lost", True)
                with b.when(b.eq(at, count)):
                    b.give(BEYOND)
            last = b.smaller(count, self.levels - 1)
            with b.loop(last, at, -1) as i:
                self._move(b, ladder, i, b.wrapping("sub", i, 1))
            self._set(b, ladder, at, price, quantity)
            b.put(ladder, "count", b.wrapping("add", last, 1))
            b.give(ADDED)

    def _move(self, b: FunctionCode, ladder: Value, to: Value, source: Value) -> None:
        self._set(b, ladder, to, *(b.get(ladder, part, source, proved=True) for part in ("price", "quantity")))

    def _set(self, b: FunctionCode, ladder: Value, at: Value, price: Value, quantity: Value) -> None:
        b.put(ladder, "price", at, price, proved=True)
        b.put(ladder, "quantity", at, quantity, proved=True)
