"""How the updates of a memory are added up by threads that come in any order. Ints, least and greatest elements, and bits: by atomics on
the memory, or on a wider one where its elements are too narrow for them. Sums of floats: as whole numbers, whose order makes no difference
(fixed point).

Fixed point: one launch finds the largest magnitude that is added to each element; the next adds each term as a multiple of a power of two
so small that the terms of the block, all of that magnitude, would just fit 64 bits. With T terms in the block, T < 2^B, and a largest
magnitude below 2^(E+1), that is 2^(E+B-62): at most half of it is lost of a term. Terms of f64, and terms of which nobody knows how many
there are, are added in two such numbers, the second with what the first has lost. Infinities and NaN are noted apart, and decide alone."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.core import Bitcast, dtype_of
from compiler.hir.identity import highest, lowest
from compiler.hir.instruction import Value
from compiler.hir.memory import mem_of
from compiler.hir.types import DTYPES, bytes_of, is_float, is_signed
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.library.number_bits import bits_of, from_bits
from compiler.schedule.gpu.scattered.scatter_targets import ScatterLaunch, ScatterTarget, apart_from, staged
from runtime.records import evolve, frozen

Read = Callable[[ScatterTarget], Value]
"""What a target holds in the element in question."""

WHOLE = 62
"""Bits of a sum of whole numbers, without sign and one to spare."""
POSITIVE, NEGATIVE, NAN = 1, 2, 4
"""What isn't finite of the terms of an element."""


@frozen(eq=False)
class ScatterSum:
    """The updates of one memory."""

    targets: tuple[ScatterTarget, ...]
    """What the launch changes that adds up."""
    before: tuple[ScatterTarget, ...] = ()
    """What a first launch over all iterations changes; nothing where none is needed."""

    @property
    def mem(self) -> Value:
        return self.targets[0].mem

    @property
    def target(self) -> ScatterTarget:
        """The first."""
        return self.targets[0]

    def ahead(self, b: Builder, launch: ScatterLaunch, index: Sequence[Affine], where: Value | None, before: bool) -> Value | None:
        """What the launch (`before`: the first) reads of an element before it changes it, if it does."""
        return _seen(b, launch, self.target, index, where)

    def put_before(self, b: Builder, launch: ScatterLaunch, index: Sequence[Affine], added: Value, ahead: Value | None) -> None:
        """What the first launch does with a value."""

    def put(self, b: Builder, launch: ScatterLaunch, index: Sequence[Affine], added: Value, ahead: Value | None, terms: Value) -> None:
        """Adds a value; `terms`: how many there are in the block at most."""
        raise NotImplementedError

    def joined(self, b: Builder, old: Value, read: Read, terms: Value) -> Value:
        """The element, of what it was and what the targets hold."""
        raise NotImplementedError


@frozen(eq=False)
class ExactSum(ScatterSum):
    """By one monoid whose order makes no difference, or none that matters."""

    def put(self, b: Builder, launch: ScatterLaunch, index: Sequence[Affine], added: Value, ahead: Value | None, terms: Value) -> None:
        _change(b, launch, self.target, index, b.cast(added, self.target.dtype), ahead)

    def joined(self, b: Builder, old: Value, read: Read, terms: Value) -> Value:
        total, dtype = read(self.target), dtype_of(old)
        if dtype == "i1":
            return b.op(self.target.monoid, old, from_bits(b, total, dtype))
        if is_float(dtype):
            return b.cast(b.op(self.target.monoid, b.cast(old, self.target.dtype), total), dtype)
        return b.op(self.target.monoid, old, b.cast(total, dtype))


@frozen(eq=False)
class ExtremeFloat(ScatterSum):
    """The least or greatest of floats, as ints in the same order, for which there are atomics. A NaN is the last of all."""

    def put(self, b: Builder, launch: ScatterLaunch, index: Sequence[Affine], added: Value, ahead: Value | None, terms: Value) -> None:
        number = b.cast(added, self.float_dtype)
        last = (highest if self.target.monoid == "max" else lowest)(self.target.dtype)
        bits = b.emit(Bitcast(value=number, to=self.target.dtype)).result
        ordered = b.select(b.isnan(number), b.const(last, self.target.dtype), self.turned(b, bits))
        _change(b, launch, self.target, index, ordered, ahead)

    def joined(self, b: Builder, old: Value, read: Read, terms: Value) -> Value:
        most = read(self.target)
        number = b.emit(Bitcast(value=self.turned(b, most), to=self.float_dtype)).result
        new = b.op(self.target.monoid, old, b.cast(number, dtype_of(old)))
        return b.select(b.op("eq", most, b.const(self.target.nothing, self.target.dtype)), old, new)

    @property
    def float_dtype(self) -> str:
        return "f64" if self.target.dtype == "i64" else "f32"

    def turned(self, b: Builder, bits: Value) -> Value:
        """The bits of a float as an int in the floats' order, and back: below 0 greater magnitudes are less."""
        dtype = self.target.dtype
        sign = b.op("shr", bits, b.const(DTYPES[dtype] - 1, dtype))
        return b.op("xor", bits, b.op("and", sign, b.const(highest(dtype), dtype)))


@frozen(eq=False)
class FixedPointSum(ScatterSum):
    """Of floats, as whole numbers. `before`: the biased exponent of what is largest, 0 where nothing was added, and what wasn't finite;
    `targets`: the sums, in units of which the second is what the first can't hold."""

    @property
    def largest(self) -> ScatterTarget:
        return self.before[0]

    @property
    def double(self) -> bool:
        return mem_of(self.mem).dtype == "f64"

    def ahead(self, b: Builder, launch: ScatterLaunch, index: Sequence[Affine], where: Value | None, before: bool) -> Value | None:
        return _seen(b, launch, self.largest, index, where) if before else launch.before(b, self.largest, index, where)

    def put_before(self, b: Builder, launch: ScatterLaunch, index: Sequence[Affine], added: Value, ahead: Value | None) -> None:
        number = b.cast(added, "f64" if self.double else "f32")
        exponent, highest = self.exponent(b, number), b.const(2047 if self.double else 255, "u32")
        finite = b.op("lt", exponent, highest)
        with b.branch(finite) as (yes, no, _):
            least = yes.op("max", exponent, yes.const(1, "u32"))
            _change(yes, launch, self.largest, index, least, ahead)
            nothing = no.const(0, dtype_of(number))
            infinite = no.select(no.op("gt", number, nothing), no.const(POSITIVE, "u32"), no.const(NEGATIVE, "u32"))
            launch.change(no, self.before[1], index, no.select(no.isnan(number), no.const(NAN, "u32"), infinite))

    def exponent(self, b: Builder, number: Value) -> Value:
        """The biased exponent of a number."""
        bits = bits_of(b, number)
        word, place = dtype_of(bits), 52 if self.double else 23
        shifted = b.op("shr", bits, b.const(place, word))
        return b.cast(b.op("and", shifted, b.const(2047 if self.double else 255, word)), "u32")

    def put(self, b: Builder, launch: ScatterLaunch, index: Sequence[Affine], added: Value, ahead: Value | None, terms: Value) -> None:
        assert ahead is not None
        scaled = self.scaled(b, b.cast(added, "f64"), self.units(b, ahead, terms))
        finite = b.op("lt", b.op("abs", scaled), b.const(2.0**63, "f64"))  # false of NaN, and of what is infinite
        with b.when(finite) as inner:
            whole = inner.op("round", scaled)
            launch.change(inner, self.targets[0], index, inner.cast(whole, "i64"))
            if len(self.targets) > 1:
                lost = inner.mul(inner.sub(scaled, whole), self.power(inner, self.spare(inner, terms)))
                launch.change(inner, self.targets[1], index, inner.cast(inner.op("round", lost), "i64"))

    def joined(self, b: Builder, old: Value, read: Read, terms: Value) -> Value:
        largest, odd = map(read, self.before)
        total = b.cast(read(self.targets[0]), "f64")
        if len(self.targets) > 1:
            rest = self.scaled(b, b.cast(read(self.targets[1]), "f64"), b.sub(b.const(0, "i64"), self.spare(b, terms)))
            total = b.add(total, rest)
        total = self.scaled(b, total, b.sub(b.const(0, "i64"), self.units(b, largest, terms)))
        before = b.cast(old, "f64")
        new = b.select(b.op("eq", largest, b.const(0, "u32")), before, b.add(before, total))
        for flag, value in ((POSITIVE, float("inf")), (NEGATIVE, float("-inf")), (NAN, float("nan"))):
            noted = b.op("ne", b.op("and", odd, b.const(flag, "u32")), b.const(0, "u32"))
            new = b.select(noted, b.add(new, b.const(value, "f64")), new)
        return b.cast(new, dtype_of(old))

    # ---- powers of two ----

    def units(self, b: Builder, largest: Value, terms: Value) -> Value:
        """How far terms are shifted to the left to be whole numbers: 62 - B - E."""
        bias = 1023 if self.double else 127
        return b.sub(b.add(self.spare(b, terms), b.const(bias, "i64")), b.cast(largest, "i64"))

    def spare(self, b: Builder, terms: Value) -> Value:
        """Bits that each term may have: 62 - B, of fewer than 2^B terms."""
        exponent = b.op("shr", bits_of(b, b.cast(terms, "f64")), b.const(52, "u64"))
        return b.sub(b.const(WHOLE + 1022, "i64"), b.cast(exponent, "i64"))

    def scaled(self, b: Builder, number: Value, shift: Value) -> Value:
        """A number times a power of two, which itself may be outside of f64."""
        if not self.double:
            return b.mul(number, self.power(b, shift))
        half = b.op("shr", shift, b.const(1, "i64"))
        return b.mul(b.mul(number, self.power(b, half)), self.power(b, b.sub(shift, half)))

    def power(self, b: Builder, shift: Value) -> Value:
        biased = b.cast(b.add(shift, b.const(1023, "i64")), "u64")
        return from_bits(b, b.op("shl", biased, b.const(52, "u64")), "f64")


def _seen(b: Builder, launch: ScatterLaunch, target: ScatterTarget, index: Sequence[Affine], where: Value | None) -> Value | None:
    """What a least or greatest element was a moment ago, where it may be looked at."""
    return launch.seen(b, target, index) if target.monoid in ("min", "max") and where is None else None


def _change(b: Builder, launch: ScatterLaunch, target: ScatterTarget, index: Sequence[Affine], value: Value, ahead: Value | None) -> None:
    """A change; of a least or greatest element only where it changes: few do, and a read is cheaper."""
    seen = ahead if ahead is not None else _seen(b, launch, target, index, None)
    with b.when(b.op("gt" if target.monoid == "max" else "lt", value, seen)) if seen is not None else nullcontext(b) as inner:
        launch.change(inner, target, index, value)


def sum_of(mem: Value, monoid: str, relaxed: bool, bounded: bool) -> ScatterSum:
    """`bounded`: whether it is known how many terms there are."""
    dtype = mem_of(mem).dtype
    if is_float(dtype) and monoid == "add" and not relaxed:
        totals = [apart_from(mem, "total", monoid, "i64")]
        if dtype == "f64" or not bounded:
            totals.append(apart_from(mem, "rest", monoid, "i64"))
        largest = apart_from(mem, "largest", "max", "u32", kept="u16" if dtype == "f64" else "u8")
        return FixedPointSum(tuple(totals), (largest, apart_from(mem, "odd", "or", "u32")))
    if is_float(dtype) and monoid in ("min", "max"):
        return ExtremeFloat((apart_from(mem, "ordered", monoid, "i64" if dtype == "f64" else "i32"),))
    wide = dtype if DTYPES[dtype] >= 32 else "f32" if is_float(dtype) else "i32" if is_signed(dtype) else "u32"
    if wide != dtype:
        return ExactSum((apart_from(mem, "wide", monoid, wide, dtype),))
    return ExactSum((ScatterTarget(mem, monoid, dtype, dtype, None),))


def with_copies(sums: Sequence[ScatterSum], iterations: int | None, divisible: bool, facts: Facts) -> tuple[ScatterSum, ...]:
    """The sums of one nest, with copies of small memories in shared memory; `divisible`: or of ranges of larger ones."""
    before = iter(staged([target for sum_ in sums for target in sum_.before], iterations, divisible, facts))
    kept = sum(bytes_of(target.kept) for sum_ in sums for target in sum_.before if target.kept)
    after = iter(staged([target for sum_ in sums for target in sum_.targets], iterations, divisible, facts, kept))
    return tuple(
        evolve(sum_, targets=tuple(next(after) for _ in sum_.targets), before=tuple(next(before) for _ in sum_.before)) for sum_ in sums
    )
