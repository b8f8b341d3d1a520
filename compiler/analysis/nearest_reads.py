"""Indices that stop at a memory's edges: `x[clamp(y + a - 2, 0, H - 1)]` reads the element that lies nearest to `y + a - 2`. Such a load
has the affine index and is said to read the nearest element; what computed the clamped index is needed no more."""

from collections.abc import Mapping, Sequence

from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Compare, Const, InBounds, Index, Select, dtype_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, Store, mem_of
from compiler.hir.module import HirFunction
from runtime.records import frozen


@frozen(eq=False)
class FieldReads:
    """The instructions that a field's stores need, and the affine indices of the loads, by their results, that read the nearest element."""

    ops: tuple[Instruction, ...]
    nearest: Mapping[Value, tuple[Affine, ...]]

    def index(self, op: Load | Store) -> tuple[Affine, ...]:
        return self.nearest.get(op.result, op.index) if isinstance(op, Load) else op.index


def field_reads(field: HirFunction) -> FieldReads:
    ops = tuple(field.body.body)
    loads = [op for op in ops if isinstance(op, Load)]
    if all(name in field.axes for op in loads for form in op.index for name in form.names):
        return FieldReads(ops, {})
    values = {value.name: value for op in ops for value in op.results}
    nearest = {op.result: index for op in loads if (index := _inside(op, field, values)) is not None}
    return FieldReads(_needed(ops, nearest) if nearest else ops, nearest)


def _inside(load: Load, field: HirFunction, values: Mapping[str, Value]) -> tuple[Affine, ...] | None:
    """The indices without their bounds; None for a load of which none is bounded by the memory's edges."""
    forms = []
    for form, extent in zip(load.index, mem_of(load.mem).dims, strict=True):
        unbounded = _unbounded(form, extent - 1, values)
        if any(name in values for name in unbounded.names):
            return None
        forms.append(unbounded)
    return None if tuple(forms) == load.index else tuple(forms)


def _unbounded(form: Affine, last: Affine, values: Mapping[str, Value]) -> Affine:
    """A form that is the value of bounds by 0 and `last`, without these."""
    bounds = {"max": Affine(), "min": last}
    while (value := _named(form, values)) is not None:
        operator, sides = _bounded(value)
        if isinstance(value.source, Index):
            form = value.source.of
        elif operator is not None and bounds[operator] in sides:
            form = sides[1 - sides.index(bounds[operator])]
        else:
            break
    return form


def _named(form: Affine, values: Mapping[str, Value]) -> Value | None:
    """The value that a form is."""
    (name, *others) = form.names or ("",)
    return values.get(name) if not others and form == Affine.of(name) else None


def _bounded(value: Value) -> tuple[str | None, tuple[Affine, ...]]:
    """Of a value that is the smaller or the larger of two, `min` or `max`, and both."""
    match value.source:
        case Binary(operator="min" | "max" as operator, left=left, right=right):
            return operator, (form_of(left), form_of(right))
        case Select(condition=condition, then=then, otherwise=otherwise):
            return _chosen(condition, then, otherwise), (form_of(then), form_of(otherwise))
        case _:
            return None, ()


def _chosen(condition: Value, then: Value, otherwise: Value) -> str | None:
    """Whether a selection is the smaller or the larger of two."""
    compared = condition.source
    if not isinstance(compared, Compare) or dtype_of(compared.left) != "index":
        return None
    ahead = form_of(compared.right) - form_of(compared.left)
    match compared.operator:
        case "le":
            holds = ahead
        case "lt":
            holds = ahead - 1
        case "ge":
            holds = -ahead
        case "gt":
            holds = -ahead - 1
        case _:
            return None
    difference = form_of(otherwise) - form_of(then)
    if holds in (difference, difference - 1):
        return "min"
    return "max" if holds in (-difference, -difference - 1) else None


def form_of(value: Value) -> Affine:
    """An index as a form: of axes and sizes where it is one, else of its own name."""
    match value.source:
        case Index(of=form):
            return form
        case Const(value=constant):
            return Affine((), int(constant))
        case _:
            return Affine.of(value.name)


def _needed(ops: Sequence[Instruction], nearest: Mapping[Value, tuple[Affine, ...]]) -> tuple[Instruction, ...]:
    """The instructions without those that only clamped indices were computed from."""
    names: set[str] = set()
    needed: list[Instruction] = []
    for op in reversed(ops):
        if not isinstance(op, Store) and op.results and not any(value.name in names for value in op.results):
            continue
        needed.append(op)
        names.update(value.name for value in op.operand_values)
        names.update(name for form in _forms(op, nearest) for name in form.names)
    return tuple(reversed(needed))


def _forms(op: Instruction, nearest: Mapping[Value, tuple[Affine, ...]]) -> tuple[Affine, ...]:
    match op:
        case Load():
            return nearest.get(op.result, op.index)
        case Store():
            return op.index
        case Index():
            return (op.of,)
        case InBounds():
            return op.of, op.below
        case _:
            return ()
