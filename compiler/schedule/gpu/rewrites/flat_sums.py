"""Sums that are written in parts become sums along one axis: a loop over groups around one over the terms of a group, with what these have
in common outside of the inner loop; several terms at once, such as both numbers of a byte. An index of a factor, of which the axes and the
number of the term are digits, becomes the axis."""

from collections.abc import Iterator, Sequence

from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.core import Binary, Cast, Contract, Reduce, dtype_of
from compiler.hir.field_copy import FieldCopy, FreshNames
from compiler.hir.instruction import Value
from compiler.hir.memory import Load
from compiler.hir.module import HirFunction
from compiler.hir.types import is_float
from compiler.schedule.gpu.need import needed
from compiler.schedule.gpu.rewrites.scaled_sums import factors_of, narrow_sum
from runtime.records import frozen

DIGIT = "term "
"""The number of a term among those that are added at once: no name of a program has a space."""


@frozen(eq=False)
class _Parts:
    """A sum: its terms as factors, and its axes, those of inner sums too."""

    target: Reduce
    terms: Sequence[Sequence[Value]]
    axes: Sequence[str]


def with_flat_sum(field: HirFunction) -> HirFunction:
    """The field with its one sum along one axis, if that is a sum that matrix units make then; itself else."""
    parts = _parts(field)
    digits = None if parts is None else _digits(field, parts)
    if parts is None or digits is None:
        return field
    flat = _flat(field, parts, digits)
    return field if narrow_sum(flat) is None else flat


def _parts(field: HirFunction) -> _Parts | None:
    sums = [op for op in field.body.body if isinstance(op, Contract | Reduce)]
    if not 1 <= len(sums) <= 2 or not isinstance(target := sums[-1], Reduce) or len(target.values) != 1 or not _is_free(target):
        return None
    terms = [[*factors_of((term,))] for term in _terms(target.values[0])]
    axes = [*target.over]
    if len(sums) == 2:
        inner = sums[0]
        if len(terms) != 1 or inner.result not in terms[0] or not _is_free(inner):
            return None
        further = factors_of((inner.a, inner.b) if isinstance(inner, Contract) else inner.values)
        terms, axes = [[*(factor for factor in terms[0] if factor is not inner.result), *further]], [*axes, *inner.over]
    if len({len(term) for term in terms}) > 1 or len(terms) * len(axes) == 1:
        return None
    return _Parts(target, terms, axes)


def _is_free(sum: Contract | Reduce) -> bool:
    """Whether the terms of a sum may be added in any order."""
    if isinstance(sum, Contract):
        return is_float(sum.to) and sum.accumulator is None
    return sum.monoid == "add" and is_float(dtype_of(sum.values[0])) and "reassoc" in sum.flags


def _terms(value: Value) -> Iterator[Value]:
    op = value.source
    if isinstance(op, Binary) and op.operator == "add" and "contract" in op.flags and is_float(dtype_of(value)):
        yield from _terms(op.left)
        yield from _terms(op.right)
    else:
        yield value


def _digits(field: HirFunction, parts: _Parts) -> list[tuple[str, int, int]] | None:
    """The axes, and the number of the term, as digits of an index: how far apart neighbours are, and how many there are, 0 of the last."""
    for same in zip(*parts.terms, strict=True):
        for form in _alike(same) or ():
            steps = sorted((coefficient, symbol) for symbol, coefficient in form.terms if isinstance(symbol, str))
            if form.constant or {symbol for _, symbol in steps} != {*parts.axes, *([DIGIT] if len(parts.terms) > 1 else [])}:
                continue
            digits, next_ = list[tuple[str, int, int]](), 1
            for step, symbol in steps:
                extent = len(parts.terms) if symbol == DIGIT else field.axes[symbol].value or 0
                if step != next_:
                    break
                digits.append((symbol, step, extent))
                next_ = step * extent
            if len(digits) == len(form.terms) and digits[-1][0] != DIGIT:
                return [*digits[:-1], (*digits[-1][:2], 0)]
    return None


def _alike(factors: Sequence[Value]) -> tuple[Affine, ...] | None:
    """The index of elements of one memory that lie equally far apart from term to term; None of anything else."""
    loads = [_load(factor) for factor in factors]
    known = [load for load in loads if load is not None and load.where is None and load.pad is None]
    if len(known) < len(factors) or any(load.mem is not known[0].mem for load in known):
        return None
    index = []
    for forms in zip(*(load.index for load in known), strict=True):
        apart = (forms[1] - forms[0]).value if len(forms) > 1 else 0
        if apart is None or any(form != forms[0] + number * apart for number, form in enumerate(forms)):
            return None
        index.append(forms[0] + Affine.of(DIGIT) * apart)
    return tuple(index)


def _load(value: Value) -> Load | None:
    op = value.source
    return _load(op.value) if isinstance(op, Cast) else op if isinstance(op, Load) else None


class _FlatCopy(FieldCopy):
    def form(self, old: Affine) -> Affine:
        """A quotient of a quotient is one."""
        result = Affine()
        form = super().form(old)
        for symbol, factor in form.terms:
            if isinstance(symbol, FloorDiv) and len(symbol.numerator.terms) == 1 and not symbol.numerator.constant:
                ((inner, one),) = symbol.numerator.terms
                if isinstance(inner, FloorDiv) and one == 1:
                    symbol = FloorDiv(inner.numerator, inner.divisor * symbol.divisor)
            result += Affine(((symbol, factor),))
        return result + form.constant


def _flat(field: HirFunction, parts: _Parts, digits: Sequence[tuple[str, int, int]]) -> HirFunction:
    axis = FreshNames(field).fresh(digits[-1][0])
    forms = {}
    for symbol, step, extent in digits:
        place = Affine.of(axis).floordiv(step)
        forms[symbol] = place - place.floordiv(extent) * extent if extent else place
    out = _FlatCopy(field, forms)
    out.parameters()
    for name, length in field.axes.items():
        if name not in forms:
            out.function.axis(name, length)
    out.function.axis(axis, field.axes[digits[-1][0]] * digits[-1][1])
    rest = needed(field, known={parts.target.result})
    below = needed(field, [factor for term in parts.terms for factor in term])
    for op in below:
        out.copy(op)
    b, flags = out.body, ("contract",)
    product: Value | None = None
    for same in zip(*parts.terms, strict=True):
        factor = _joined(out, same)
        product = factor if product is None else b.mul(product, factor, flags=flags)
    assert product is not None
    (total,) = b.reduce("add", product, over=[axis], flags=parts.target.flags)
    out.put(parts.target.result, total)
    for op in rest:
        if op not in below:
            out.copy(op)
    return out.finish()


def _joined(out: FieldCopy, factors: Sequence[Value]) -> Value:
    """A factor of each term as one that varies along the number of the term."""
    b, first = out.body, factors[0]
    if all(factor is first for factor in factors):
        return out.values[first]
    index, load = _alike(factors), _load(first)
    if index is not None and load is not None:
        return b.cast(b.load(out.values[load.mem], [out.form(form) for form in index]), dtype_of(first))
    number = b.index(out.form(Affine.of(DIGIT)))
    chosen = out.values[first]
    for position, factor in enumerate(factors[1:], 1):
        chosen = b.select(b.op("eq", number, b.const(position, "index")), out.values[factor], chosen)
    return chosen
