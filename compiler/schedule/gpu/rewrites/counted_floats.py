"""Whole numbers that vary within a tile as floats, as distances between queries and keys: one conversion for a thread, to which each of
its elements adds a constant. That is exact where no such number is larger than those that floats have without gaps."""

from collections.abc import Mapping

from compiler.hir.affine import Affine
from compiler.hir.core import Cast, Index, Unary
from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.schedule.gpu.facts import MAGNITUDES, Facts
from compiler.schedule.place import Placing
from compiler.schedule.region import TileRegion

WITHOUT_GAPS = {"f32": 1 << 24, "f64": 1 << 53}


def counted_floats(field: HirFunction, facts: Facts) -> frozenset[Value]:
    """Casts of such numbers, or of their sizes without a sign."""
    known = {name: most for name, most in facts.magnitudes if most < MAGNITUDES[-1]}
    casts = [op for op in field.body.body if isinstance(op, Cast) and op.to in WITHOUT_GAPS]
    forms = [(op, _counted(op.value)) for op in casts]
    return frozenset(op.result for op, form in forms if form is not None and _within(form, WITHOUT_GAPS[op.to], field, known))


def _counted(value: Value) -> Affine | None:
    match value.source:
        case Index(of=form):
            return form
        case Unary(operator="abs", value=inner) | Cast(to="i32" | "i64", value=inner):
            return _counted(inner)
        case _:
            return None


def _within(form: Affine, most: int, field: HirFunction, known: Mapping[str, int]) -> bool:
    """Whether a form over the field's axes and sizes is never larger, nor smaller than less that."""
    total = abs(form.constant)
    for name, coefficient in form.terms:
        extent = field.axes.get(name, Affine.of(name)) if isinstance(name, str) else None
        if extent is None or any(not isinstance(size, str) or size not in known or number < 0 for size, number in extent.terms):
            return False
        total += abs(coefficient) * max(0, extent.evaluate(known.__getitem__))
    return total <= most


def whole(cast: Cast) -> Affine | None:
    """The form that a cast has as a float; None of its size without a sign."""
    value = cast.value
    while isinstance(value.source, Cast):
        value = value.source.value
    return value.source.of if isinstance(value.source, Index) else None


def parted(placing: Placing, form: Affine, region: TileRegion) -> tuple[Affine, Affine]:
    """A form at the first element of a thread's tile, and how its elements differ."""
    form = placing.form(form, region)
    first = form.without(*(name for name in form.names if name in placing.out.function.axes))
    return first, form - first


def counted(placing: Placing, cast: Cast, region: TileRegion) -> Value:
    """Such a cast in a thread's tile."""
    b = region.builder

    def made(value: Value) -> Value:
        match value.source:
            case Index(of=of):
                first, further = parted(placing, of, region)
                return b.add(b.cast(b.index(first), cast.to), b.cast(b.index(further), cast.to))
            case Unary(operator=operator, value=inner):
                return b.op(operator, made(inner))
            case Cast(value=inner):
                return made(inner)
            case _:
                raise AssertionError(value)

    return made(cast.value)
