"""Which bits of an element of memory a whole number is: `(W[k / 2, n] >> 4 * (k % 2)) & 15` is, for even `k`, the first four bits of one
element, and for odd `k` its last four. Of a lane's terms that are neighbours, each is evaluated for itself, however the loops choose its
bits. Two such numbers that lie 16 bits apart, in one register or once bytes of two are exchanged, become two floats at once: shifted,
masked, and narrowed together."""

import operator
from collections.abc import Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.alignment import steps_by_one
from compiler.hir.core import Binary, Cast, Compare, Const, Index, Select, dtype_of
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.numbers import limits
from compiler.hir.types import bytes_of, is_float
from compiler.hir.words import FRACTION_BITS, WORD
from runtime.records import evolve, frozen

HALF = 16
"""Bits of half a register."""
LANE = "share of a lane"
"""The number of a lane's share of terms: no name of a program has a space."""
OPERATIONS = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge")},
    "and": operator.and_,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "div": operator.floordiv,
    "rem": operator.mod,
}
"""Of whole numbers that aren't negative."""


@frozen(eq=False)
class Bits:
    """`width` bits of an element from bit `start` on, moved up by `up` bits, and `plus`; `signed`: the last of them is a sign."""

    load: Load
    start: int
    width: int
    up: int = 0
    plus: int = 0
    signed: bool = False

    def cut(self, low: int, high: int) -> "Bits | None":
        """Bits `low` to before `high` of the number; None where there aren't any, or something was added."""
        first, last = max(self.up, low), min(self.up + self.width, high)
        return None if self.plus or first >= last else Bits(self.load, self.start + first - self.up, last - first, first)

    def moved(self, by: int) -> "Bits | None":
        """Shifted to the left; to the right what falls out is cut off."""
        whole = self.cut(max(0, -by), self.up + self.width)
        return None if whole is None or self.signed else evolve(whole, up=whole.up + by)

    def within(self, dtype: str) -> "Bits | None":
        """The number as one of this type, where it is that."""
        if self.signed or is_float(dtype):
            return self if is_float(dtype) or (dtype[0] == "i" and 8 * bytes_of(dtype) >= self.width) else None
        low, high = limits(dtype)
        return self if low <= self.plus and self.plus + (((1 << self.width) - 1) << self.up) <= high else None


def bits_of(value: Value, at: Mapping[str, Affine]) -> Bits | None:
    """The bits that a whole number is, with these forms in place of axes; None where it isn't some bits of one element."""
    match value.source:
        case Load(where=where, pad=None) as load if not is_float(dtype_of(value)) and dtype_of(value) != "i1":
            if where is not None and not number_of(where, at):
                return None
            return Bits(load, 0, 8 * bytes_of(dtype_of(value)), signed=dtype_of(value)[0] == "i")
        case Cast(value=inner):
            known = None if is_float(dtype_of(inner)) and not is_float(dtype_of(value)) else bits_of(inner, at)
            return None if known is None else known.within(dtype_of(value))
        case Select(condition=condition, then=then, otherwise=otherwise):
            chosen = number_of(condition, at)
            return None if chosen is None else bits_of(then if chosen else otherwise, at)
        case Binary(operator=name, left=left, right=right):
            known, number = bits_of(left, at), number_of(right, at)
            if known is None and name == "add":
                known, number = bits_of(right, at), number_of(left, at)
            if known is None or number is None or number != int(number):
                return None
            changed = _changed(known, name, int(number))
            return None if changed is None else changed.within(dtype_of(value))
    return None


def _changed(known: Bits, name: str, number: int) -> Bits | None:
    power = number.bit_length() - 1 if number > 0 and number & (number - 1) == 0 else None
    match name:
        case "add" | "sub":
            return evolve(known, plus=known.plus + (number if name == "add" else -number))
        case "and" if number > 0:
            low = (number & -number).bit_length() - 1
            run = (number >> low) + 1
            fits = not known.signed or number.bit_length() <= known.up + known.width
            return known.cut(low, number.bit_length()) if run & (run - 1) == 0 and fits else None
        case "rem" if power and not known.signed:
            return known.cut(0, power)
        case "shl" | "shr" if number >= 0:
            if known.signed and name == "shr" and number < known.width and not known.up:
                return evolve(known, start=known.start + number, width=known.width - number)
            return known.moved(number if name == "shl" else -number)
        case "div" if power is not None:
            return known.moved(-power)
    return None


def number_of(value: Value, at: Mapping[str, Affine]) -> int | float | None:
    """The number that a value is, with these forms in place of axes."""
    match value.source:
        case Const(value=number):
            return number
        case Index(of=of):
            return of.substitute(at).value
        case Cast(value=inner):
            known = number_of(inner, at)
            low, high = (known, known) if known is None or is_float(dtype_of(value)) else limits(dtype_of(value))
            return known if known is not None and low is not None and high is not None and low <= known <= high else None
        case Binary(operator=name, left=left, right=right) | Compare(operator=name, left=left, right=right) if name in OPERATIONS:
            first, second = number_of(left, at), number_of(right, at)
            if first is None or second is None or is_float(dtype_of(left)) or min(first, second) < 0:
                return None
            if name in ("div", "rem") and not second:
                return None
            result: int = OPERATIONS[name](first, second)
            low, high = (0, 1) if isinstance(value.source, Compare) else limits(dtype_of(value))
            return result if low <= result <= high else None
    return None


@frozen(eq=False)
class Register:
    """Two numbers of a lane: of one register, or of the bytes of two that belong to the same column, from bit `shift` on and 16 bits
    further; and which terms they are."""

    sources: tuple[int, ...]
    shift: int
    terms: tuple[int, int]


@frozen(eq=False)
class PackedFactor:
    """A factor that is `width` bits of elements, and `plus`. `across`: neighbours in memory belong to columns, not to terms. `elements`:
    the first term of each element that a lane's share of terms has, in their order in memory. `registers`: in the order in which they
    are multiplied."""

    load: Load
    width: int
    plus: int
    across: bool
    elements: tuple[int, ...]
    registers: tuple[Register, ...]

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return bytes_of(mem_of(self.load.mem).dtype)


def packed_factor(value: Value, sum_: str, column: str, share: int, dtype: str) -> PackedFactor | None:
    """What a lane reads of a factor along a sum and columns, whose numbers are narrowed to this type, of a share of terms that begins at
    a multiple of it; None where they aren't bits that lie like that."""
    found = [bits_of(value, {sum_: Affine.of(LANE) * share + term}) for term in range(share)]
    first = found[0]
    if first is None or any(bits is None or bits.up or bits.signed for bits in found) or first.width > FRACTION_BITS.get(dtype, 0):
        return None
    load, mem, elements = first.load, mem_of(first.load.mem), dict[int, dict[int, int]]()
    at_first = _index(first, sum_, share, 0)
    dimensions = set[int]()
    for term, bits in enumerate(found):
        if bits is None or bits.load.mem is not load.mem or (bits.width, bits.plus) != (first.width, first.plus):
            return None
        apart = [(form - other).value for form, other in zip(_index(bits, sum_, share, term), at_first, strict=True)]
        moved = [dimension for dimension, distance in enumerate(apart) if distance != 0]
        if len(moved) > 1 or (moved and apart[moved[0]] is None):
            return None
        dimensions |= {*moved}
        elements.setdefault(apart[moved[0]] or 0 if moved else 0, {})[bits.start] = term
    if len(dimensions) > 1 or min(elements) < 0:
        return None
    dimension = next(iter(dimensions), mem.rank - 1)
    size, order = bytes_of(mem.dtype), sorted(elements)
    across = steps_by_one(mem, load.index, column) and dimension != mem.rank - 1
    along = dimension == mem.rank - 1 and column not in load.index[-1].names and (mem.strides is None or mem.strides[-1].value == 1)
    if not across and not (along and order == [*range(len(order))] and len(order) * size % WORD == 0):
        return None
    pairs = _of_two([elements[one] for one in order]) if across and size < WORD else _of_one([elements[one] for one in order], 8 * size)
    if pairs is None or any(register.shift % HALF + first.width > HALF for register in pairs):
        return None
    firsts = tuple(min(elements[one].values()) for one in order)
    return PackedFactor(load, first.width, first.plus, across, firsts, tuple(pairs))


def _index(bits: Bits, sum_: str, share: int, term: int) -> list[Affine]:
    return [form.substitute({sum_: Affine.of(LANE) * share + term}) for form in bits.load.index]


def _of_two(elements: Sequence[Mapping[int, int]]) -> list[Register] | None:
    """Of elements of fewer than four bytes, whose neighbours belong to other columns: halves of a register have bytes of two elements."""
    pairs = [*zip(range(0, len(elements), 2), elements[::2], elements[1::2], strict=False)]
    if len(elements) % 2 or any({*a} != {*b} for _, a, b in pairs):
        return None
    return [Register((at, at + 1), start, (a[start], b[start])) for at, a, b in pairs for start in sorted(a)]


def _of_one(elements: Sequence[Mapping[int, int]], bits: int) -> list[Register] | None:
    """Of elements side by side in registers: what lies 16 bits apart."""
    words: dict[int, dict[int, int]] = {}
    for number, element in enumerate(elements):
        word, within = divmod(number * bits, 8 * WORD)
        words.setdefault(word, {}).update({within + start: term for start, term in element.items()})
    if any({shift + HALF for shift in word if shift < HALF} != {shift for shift in word if shift >= HALF} for word in words.values()):
        return None
    shifts = [(at, word, shift) for at, word in words.items() for shift in sorted(word) if shift < HALF]
    return [Register((at,), shift, (word[shift], word[shift + HALF])) for at, word, shift in shifts]
