"""Stable sorting of a line of keys that carry payloads, as HIR: radix passes of 8 bits from the lowest digit, insertion for short lines.

Elements move as their bits; digits come from an image of the bits whose unsigned order is the wanted order, in which -0.0
and 0.0 are equal and every NaN is the largest. Payloads move along as bits."""

from collections.abc import Callable, Sequence

from compiler.hir.affine import Affine
from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.instruction import Value
from compiler.hir.types import SIGNED, Mem, Space, bytes_of, is_float

SHORT = 40
"""Lines up to this long are sorted by insertion."""
_MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52, "f8e4m3": 3, "f8e5m2": 2}


def bits_of(dtype: str) -> tuple[int, int]:
    """Of a float type: all bits but the sign, and those of the largest number that is no NaN."""
    size = (1 << (8 * bytes_of(dtype) - 1)) - 1
    return size, 0x7E if dtype == "f8e4m3" else size >> _MANTISSA[dtype] << _MANTISSA[dtype]


class DigitSort:
    """One line of keys of `dtype` with what they carry, seen as bits in `views`; `place` is where element `i` is in them."""

    def __init__(
        self,
        owner: FunctionBuilder,
        views: Sequence[Value],
        dtype: str,
        descending: bool,
        length: Affine,
        place: Callable[[Value], list[Affine]],
    ) -> None:
        self.owner, self.views, self.dtype, self.descending = owner, views, dtype, descending
        self.length, self.place = length, place
        self.unsigned = _dtype(views[0])
        self.width = 8 * bytes_of(dtype)
        self.passes = self.width // 8

    def line(self, b: Builder) -> None:
        """One line: into a buffer, sorted there, and back."""
        self.buffers = [b.alloc(Mem(_dtype(view), (2, self.length), space=Space.LOCAL)) for view in self.views]
        current = b.slot(b.const(0, "index"))
        short = b.op("le", b.index(self.length), b.index(SHORT))
        with b.branch(short) as (then, otherwise, _):
            with then.loop(self.owner.fresh("i"), 0, self.length) as (c, i):
                for view, buffer in zip(self.views, self.buffers, strict=True):
                    c.store(buffer, c.load(view, self.place(i.variable)), [0, i.variable.name])
            self.insertion(then)
            self.radix(otherwise, current)
        last = b.get(current)
        with b.loop(self.owner.fresh("i"), 0, self.length) as (c, i):
            for view, buffer in zip(self.views, self.buffers, strict=True):
                c.store(view, c.load(buffer, [last.name, i.variable.name]), self.place(i.variable))

    def image(self, b: Builder, bits: Value) -> Value:
        """The bits as an unsigned number in the wanted order."""
        unsigned, width = self.unsigned, self.width
        sign = b.const(1 << (width - 1), unsigned)
        ones = b.const((1 << width) - 1, unsigned)
        if is_float(self.dtype):
            mask, infinite = bits_of(self.dtype)
            size = b.op("and", bits, b.const(mask, unsigned))
            nan = b.op("gt", size, b.const(infinite, unsigned))
            negative = b.op("gt", bits, sign)
            plain = b.op("or", size, sign)
            image = b.select(negative, b.op("xor", bits, ones), plain)
            if self.descending:
                image = b.op("xor", image, ones)
            return b.select(nan, ones, image)
        image = b.op("xor", bits, sign) if self.dtype in SIGNED else bits
        return b.op("xor", image, ones) if self.descending else image

    def insertion(self, b: Builder) -> None:
        with b.loop(self.owner.fresh("i"), 1, self.length) as (c, i):
            held = [c.load(buffer, [0, i.variable.name]) for buffer in self.buffers]
            image = self.image(c, held[0])
            slot = c.slot(c.index(i.variable.name))
            with c.repeat() as (before, body):
                position = before.get(slot)
                previous = before.op("max", before.op("sub", position, before.const(1, "index")), before.const(0, "index"))
                other = self.image(before, before.load(self.buffers[0], [0, previous.name]))
                moves = before.op("and", before.op("gt", position, before.const(0, "index")), before.op("gt", other, image))
                before.condition(moves)
                position = body.get(slot)
                previous = body.op("sub", position, body.const(1, "index"))
                for buffer in self.buffers:
                    body.store(buffer, body.load(buffer, [0, previous.name]), [0, position.name])
                body.set(slot, previous)
            position = c.get(slot)
            for buffer, value in zip(self.buffers, held, strict=True):
                c.store(buffer, value, [0, position.name])

    def radix(self, b: Builder, current: Value) -> None:
        """One sweep counts the digits of all passes and fills the buffer; a pass whose digits are all alike is left out."""
        counts = b.alloc(Mem("i64", (self.passes, 256), space=Space.LOCAL))
        zero = b.const(0, "i64")
        for number in range(self.passes):
            with b.loop(self.owner.fresh("d"), 0, 256) as (c, d):
                c.store(counts, zero, [number, d.variable.name])
        with b.loop(self.owner.fresh("i"), 0, self.length) as (c, i):
            for position, (view, buffer) in enumerate(zip(self.views, self.buffers, strict=True)):
                bits = c.load(view, self.place(i.variable))
                c.store(buffer, bits, [0, i.variable.name])
                if position == 0:
                    image = self.image(c, bits)
                    for number in range(self.passes):
                        digit = self.digit(c, image, number)
                        count = c.load(counts, [number, digit.name])
                        c.store(counts, c.op("add", count, c.const(1, "i64")), [number, digit.name])
        for number in range(self.passes):
            first = self.digit(b, self.image(b, b.load(self.buffers[0], [b.get(current).name, 0])), number)
            alike = b.op("eq", b.load(counts, [number, first.name]), b.cast(b.index(self.length), "i64"))
            with b.branch(alike) as (_, c, _op):
                self.one_pass(c, counts, number, current)

    def one_pass(self, b: Builder, counts: Value, number: int, current: Value) -> None:
        """Counts become places, then every element goes to its place in the other buffer."""
        total = b.slot(b.const(0, "i64"))
        with b.loop(self.owner.fresh("d"), 0, 256) as (c, d):
            count = c.load(counts, [number, d.variable.name])
            start = c.get(total)
            c.store(counts, start, [number, d.variable.name])
            c.set(total, c.op("add", start, count))
        source = b.get(current)
        target = b.op("sub", b.const(1, "index"), source)
        with b.loop(self.owner.fresh("i"), 0, self.length) as (c, i):
            values = [c.load(buffer, [source.name, i.variable.name]) for buffer in self.buffers]
            digit = self.digit(c, self.image(c, values[0]), number)
            offset = c.load(counts, [number, digit.name])
            where = c.cast(offset, "index")
            c.store(counts, c.op("add", offset, c.const(1, "i64")), [number, digit.name])
            for buffer, value in zip(self.buffers, values, strict=True):
                c.store(buffer, value, [target.name, where.name])
        b.set(current, target)

    def digit(self, b: Builder, image: Value, number: int) -> Value:
        moved = b.op("shr", image, b.const(8 * number, self.unsigned)) if number else image
        masked = b.op("and", moved, b.const(255, self.unsigned)) if self.width > 8 else moved
        return b.cast(masked, "index")


def _dtype(view: Value) -> str:
    assert isinstance(view.type, Mem)
    return view.type.dtype
