"""Affine forms of symbols: the language of indices, loop bounds and extents.

A symbol is a name: of an axis, a loop variable, a size, or any other value of type `index` that is in scope. A term may
also be the floor of an affine form divided by a positive constant, which is what ceilings and `0..H/2` need."""

from collections.abc import Callable, Mapping
from math import gcd
from typing import Union

from runtime.records import field, frozen
from runtime.tuples import as_tuple


@frozen
class FloorDiv:
    """floor(numerator / divisor), divisor > 0: an atom of an affine form."""

    numerator: "Affine"
    divisor: int
    _text: str = field(init=False, eq=False, repr=False)
    """Written once: terms are sorted and looked up by it."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_text", f"floor(({self.numerator})/{self.divisor})")

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text


Symbol = Union[str, FloorDiv]
AffineLike = Union["Affine", str, int]


@frozen
class Affine:
    """The sum of `coefficient * symbol` plus `constant`. Terms are sorted and free of zeros, so equal forms are equal objects."""

    terms: tuple[tuple[Symbol, int], ...] = field(default=(), converter=as_tuple)
    constant: int = 0

    @staticmethod
    def of(value: AffineLike) -> "Affine":
        if isinstance(value, Affine):
            return value
        return Affine(((value, 1),)) if isinstance(value, str) else Affine((), int(value))

    @staticmethod
    def _from(total: dict[Symbol, int], constant: int) -> "Affine":
        terms = [term for term in total.items() if term[1]]
        return Affine(sorted(terms, key=_text) if len(terms) > 1 else terms, constant)

    def __add__(self, other: AffineLike) -> "Affine":
        other = Affine.of(other)
        if not (self.terms and other.terms):
            return Affine(self.terms or other.terms, self.constant + other.constant)
        total = dict(self.terms)
        for symbol, coefficient in other.terms:
            total[symbol] = total.get(symbol, 0) + coefficient
        return Affine._from(total, self.constant + other.constant)

    __radd__ = __add__

    def __mul__(self, factor: int) -> "Affine":
        return Affine([(s, c * factor) for s, c in self.terms] if factor else (), self.constant * factor)

    __rmul__ = __mul__

    def __neg__(self) -> "Affine":
        return self * -1

    def __sub__(self, other: AffineLike) -> "Affine":
        return self + -Affine.of(other)

    def __rsub__(self, other: AffineLike) -> "Affine":
        return Affine.of(other) - self

    def floordiv(self, divisor: int) -> "Affine":
        """floor(self / divisor); what the divisor divides exactly leaves the atom."""
        assert divisor > 0
        if divisor == 1:
            return self
        outside = {s: c // divisor for s, c in self.terms if c % divisor == 0}
        inside = {s: c for s, c in self.terms if c % divisor}
        constant, rest = divmod(self.constant, divisor)
        if not inside:
            return Affine._from(outside, constant)
        atom = FloorDiv(Affine._from(inside, rest), divisor)
        return Affine._from(outside, constant) + Affine(((atom, 1),))

    def __mod__(self, divisor: int) -> "Affine":
        """The rest of the division, from 0 on."""
        return self - self.floordiv(divisor) * divisor

    def ceildiv(self, divisor: int) -> "Affine":
        return (self + (divisor - 1)).floordiv(divisor)

    @property
    def value(self) -> int | None:
        """The number, when there is no symbol."""
        return None if self.terms else self.constant

    @property
    def divisor(self) -> int:
        """The largest number that divides the form whatever its symbols are; 0 for the form 0, which everything divides."""
        return gcd(self.constant, *(coefficient for _, coefficient in self.terms))

    @property
    def names(self) -> tuple[str, ...]:
        """All names that occur, inside atoms too, each once, in order."""
        names = tuple([symbol for symbol, _ in self.terms if isinstance(symbol, str)])
        if len(names) == len(self.terms):
            return names
        parts = ((symbol,) if isinstance(symbol, str) else symbol.numerator.names for symbol, _ in self.terms)
        return tuple(dict.fromkeys(name for part in parts for name in part))

    def coefficient(self, symbol: Symbol) -> int:
        return dict(self.terms).get(symbol, 0)

    def without(self, *symbols: Symbol) -> "Affine":
        return Affine(tuple(t for t in self.terms if t[0] not in symbols), self.constant)

    def substitute(self, mapping: Mapping[str, AffineLike]) -> "Affine":
        """Each name that the mapping knows replaced by its form, inside atoms too."""
        if not any(name in mapping for name in self.names):
            return self
        total: dict[Symbol, int] = {}
        constant = self.constant
        for symbol, coefficient in self.terms:
            if isinstance(symbol, str):
                part = Affine.of(mapping.get(symbol, symbol))
            else:
                part = symbol.numerator.substitute(mapping).floordiv(symbol.divisor)
            for inner, factor in part.terms:
                total[inner] = total.get(inner, 0) + factor * coefficient
            constant += part.constant * coefficient
        return Affine._from(total, constant)

    def evaluate(self, value_of: Callable[[str], int]) -> int:
        """The number, given each name's. Works on NumPy integer arrays as well as on ints."""
        total = self.constant
        for symbol, coefficient in self.terms:
            if isinstance(symbol, str):
                number = value_of(symbol)
            else:
                number = symbol.numerator.evaluate(value_of) // symbol.divisor
            total = total + coefficient * number
        return total

    def __str__(self) -> str:
        text = ""
        for symbol, coefficient in self.terms:
            sign = "-" if coefficient < 0 else "+" if text else ""
            factor = "" if abs(coefficient) == 1 else f"{abs(coefficient)}*"
            text += f"{sign}{factor}{symbol}"
        if self.constant or not text:
            text += f"{'+' if text and self.constant >= 0 else ''}{self.constant}"
        return text


def _text(term: tuple[Symbol, int]) -> str:
    return str(term[0])
