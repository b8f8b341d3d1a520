"""Values of a field under construction: made once each, folded where that is exact, and rebuilt with axes or values replaced.
`lift` decides what to make; here is only how."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import copysign

from compiler.analysis.accesses import affine_value, conjuncts, constraints_of
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.clone import rebuilt
from compiler.hir.core import Binary, Compare, Const, Contract, Reduce, Scan, Select, Unary, dtype_of, union_axes
from compiler.hir.identity import identity_of
from compiler.hir.instruction import Instruction, Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.module import Form
from compiler.hir.prover import Inequalities
from compiler.hir.types import Mem, Tile, is_float
from compiler.source import Span
from runtime.records import define, field

OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


UNKNOWN = 1 << 10
"""Elements of an axis whose extent is known at a launch only."""


def about_unknown(extent: Affine) -> int:
    return extent.evaluate(lambda name: UNKNOWN)


class Refused(Exception):
    """Why a nest has no field: words for the reason, the place in the program, the axis where one is to blame."""

    def __init__(self, reason: str, span: Span | None = None, axis: str | None = None) -> None:
        super().__init__(reason)
        self.reason, self.span, self.axis = reason, span, axis


@define(eq=False)
class FieldValues:
    """The builder of a field: pure values and loads are made once."""

    owner: FunctionBuilder
    sizes: frozenset[str] = frozenset()
    named: dict[str, Value] = field(factory=dict)
    """Values by name, for those that affine forms name."""
    assumed: list[Affine] = field(factory=list)
    """Forms of sizes that are taken to be at least 0."""
    strict: bool = False
    """Whether floats are to be what the loops give, to the bit."""
    about: Callable[[Affine], int] = about_unknown
    """About how large an extent is."""
    _loads: dict[tuple[object, ...], Value] = field(factory=dict)

    @staticmethod
    def begin(name: str, sizes: frozenset[str]) -> "FieldValues":
        return FieldValues(FunctionBuilder(name, Form.FIELD), sizes)

    @property
    def axes(self) -> dict[str, Affine]:
        return self.owner.function.axes

    def facts(self, *conditions: Value) -> Inequalities:
        """What holds in an iteration of all axes, under these conditions."""
        known = [form for condition in conditions for form in constraints_of(condition) or ()]
        return Inequalities.inside(self.axes, self.sizes, (*known, *self.assumed))

    def at(self, span: Span | None) -> None:
        self.owner.body.span = span

    def fresh_axis(self, base: str, extent: Affine) -> str:
        return self.owner.axis(base, extent)

    # ---- making values ----

    def emit(self, op: Instruction, name: str = "") -> list[Value]:
        if isinstance(op, Load):
            key = (id(op.mem), op.index, id(op.where), type(op.pad), repr(op.pad))
            if key in self._loads:
                return [self._loads[key]]
            results = self.owner.body.emit(op, name).results
            self._loads[key] = results[0]
        else:
            results = self.owner.body.emit(op, name).results
        for value in results:
            self.named[value.name] = value
        return results

    def const(self, value: float | int | bool, type: Tile) -> Value:
        return self.emit(Const(value=value, type=type))[0]

    def index(self, form: Affine) -> Value:
        value = self.owner.body.index(form)
        self.named[value.name] = value
        return value

    def identity(self, monoid: str, dtypes: list[str]) -> list[Value]:
        return [self.const(number, Tile(dtype)) for number, dtype in zip(identity_of(monoid, dtypes), dtypes, strict=True)]

    def negated(self, condition: Value) -> Value:
        """Where the condition doesn't hold. Comparisons of ints turn; those of floats don't (NaN)."""
        match condition.source:
            case Unary(operator="not", value=inner):
                return inner
            case Compare(operator=operator, left=left, right=right) if not is_float(dtype_of(left)):
                return self.emit(Compare(operator=OPPOSITE[operator], left=left, right=right))[0]
            case Const(value=number):
                return self.const(not number, Tile("i1"))
            case _:
                return self.emit(Unary(operator="not", value=condition))[0]

    def conjunction(self, conditions: Sequence[Value]) -> Value | None:
        """All of them, None when there is none."""
        result: Value | None = None
        for condition in dict.fromkeys(conditions):
            if isinstance(condition.source, Const) and condition.source.value:
                continue
            result = condition if result is None else self.emit(Binary(operator="and", left=result, right=condition))[0]
        return result

    def select(self, condition: Value, then: Value, otherwise: Value) -> Value:
        if then is otherwise:
            return then
        if isinstance(condition.source, Const) and not condition.type.axes:  # type: ignore[attr-defined]
            return then if condition.source.value else otherwise
        return self.emit(Select(condition=condition, then=then, otherwise=otherwise))[0]

    def stretched(self, value: Value, axes: Iterable[str]) -> Value:
        """The same value, varying (not at all) along more axes: for a reduction over an axis that its operand lacks."""
        have = {name for name, _ in union_axes(value)}
        missing = tuple((axis, self.axes[axis]) for axis in axes if axis not in have)
        if not missing:
            return value
        if isinstance(value.source, Const):
            return self.const(value.source.value, Tile(dtype_of(value), (*union_axes(value), *missing)))
        always = self.const(True, Tile("i1", missing))
        return self.emit(Select(condition=always, then=value, otherwise=value))[0]

    def reduce(self, monoid: str, values: Sequence[Value], over: Sequence[str], flags: Sequence[str]) -> list[Value]:
        first = [self.stretched(values[0], [a for a in over if not any(a in dict(union_axes(v)) for v in values)]), *values[1:]]
        return self.emit(Reduce(monoid=monoid, values=tuple(first), over=tuple(over), flags=tuple(flags)))

    def scan(self, monoid: str, value: Value, over: str, exclusive: bool, flags: Sequence[str]) -> Value:
        return self.emit(Scan(monoid=monoid, value=value, over=(over,), exclusive=exclusive, flags=tuple(flags)))[0]

    def is_identity(self, monoid: str, values: Sequence[Value]) -> bool:
        """Whether the values are the constant identity of the monoid, of its sign: a sum that starts from -0.0 may stay there."""
        expected = identity_of(monoid, [dtype_of(v) for v in values])
        for value, number in zip(values, expected, strict=True):
            if not isinstance(value.source, Const) or value.source.value != number:
                return False
            if is_float(dtype_of(value)) and copysign(1.0, value.source.value) != copysign(1.0, number):
                return False
        return True

    # ---- rebuilding ----

    def replace(
        self, value: Value, values: Mapping[Value, Value], axes: Mapping[str, Affine], conditions: Sequence[Value] = ()
    ) -> Value:
        """The value with some values it is computed from, and some axes, replaced; it is wanted where the conditions hold."""
        return _Replacement(self, dict(values), dict(axes), conditions).of(value)

    def replacement(self, values: Mapping[Value, Value], axes: Mapping[str, Affine]) -> "_Replacement":
        return _Replacement(self, dict(values), dict(axes))


@define(eq=False)
class _Replacement:
    """One substitution, remembered value by value. Axes bound by a reduction are renamed where a replacement would be captured."""

    made: FieldValues
    values: dict[Value, Value]
    axes: dict[str, Affine]
    conditions: Sequence[Value] = ()
    memo: dict[Value, Value] = field(factory=dict)
    multiple: dict[Instruction, list[Value]] = field(factory=dict)

    def of(self, value: Value) -> Value:
        if value in self.values:
            return self.values[value]
        if value.source is None or isinstance(value.type, Mem):
            return value
        if value not in self.memo:
            self.memo[value] = self.build(value)
        return self.memo[value]

    def form(self, form: Affine) -> Affine:
        mapping: dict[str, Affine] = {}
        for name in form.names:
            if name in self.axes:
                mapping[name] = self.axes[name]
            elif name in self.made.named:
                old = self.made.named[name]
                new = self.of(old)
                if new is not old:
                    mapping[name] = affine_value(new) or Affine.of(new.name)
        return form.substitute(mapping)

    def build(self, value: Value) -> Value:
        op = value.source
        assert op is not None
        number = op.results.index(value)
        if op in self.multiple:
            return self.multiple[op][number]
        if isinstance(op, Reduce | Scan | Contract):
            return self.bound(op, number)
        new = rebuilt(op, self.of, self.form)
        if all(a is b for a, b in zip(op.operand_values, new.operand_values, strict=True)) and not self.touches(op):
            return value
        if isinstance(new, Const):
            return value
        if isinstance(new, Load) and isinstance(op, Load) and new.index != op.index and new.pad is None:
            guards = [*self.conditions, *([] if new.where is None else [new.where])]
            return guarded_load(self.made, new.mem, new.index, _needed(self.made, new, guards), value.name)
        results = self.simplified(new)
        self.multiple[op] = results
        return results[number]

    def simplified(self, op: Instruction) -> list[Value]:
        if isinstance(op, Select):
            return [self.made.select(op.condition, op.then, op.otherwise)]
        if isinstance(op, Binary) and dtype_of(op.left) == "index":
            folded = folded_index(self.made, op)
            if folded is not None:
                return [folded]
        return self.made.emit(op)

    def touches(self, op: Instruction) -> bool:
        return any(name in self.axes or self.moved(name) for name in op.symbols)

    def moved(self, name: str) -> bool:
        old = self.made.named.get(name)
        return old is not None and self.of(old) is not old

    def bound(self, op: Reduce | Scan | Contract, number: int) -> Value:
        """Something that binds axes: within, they are its own."""
        inside = self
        renamed = dict(zip(op.over, op.over, strict=True))
        clash = [] if isinstance(op, Scan) else [axis for axis in op.over if self.captures(op, axis)]
        if clash or any(axis in self.axes for axis in op.over):
            axes = {axis: form for axis, form in self.axes.items() if axis not in op.over or isinstance(op, Scan)}
            for axis in clash:
                renamed[axis] = self.made.fresh_axis(axis, self.made.axes[axis])
                axes[axis] = Affine.of(renamed[axis])
            inside = _Replacement(self.made, self.values, axes, self.conditions)
        if isinstance(op, Scan) and any(axis in self.axes for axis in op.over):
            return self.scan(op)
        new = rebuilt(op, inside.of, inside.form, over=tuple(renamed[axis] for axis in op.over))
        if not clash and all(a is b for a, b in zip(op.operand_values, new.operand_values, strict=True)):
            return op.results[number]
        if isinstance(new, Reduce):
            results = self.made.reduce(new.monoid, new.values, new.over, new.flags)
        elif isinstance(new, Scan):
            results = self.made.emit(rebuilt(new, lambda v: self.made.stretched(v, new.over)))
        else:
            results = self.made.emit(new)
        self.multiple[op] = results
        return results[number]

    def captures(self, op: Reduce | Scan | Contract, axis: str) -> bool:
        """Whether a replacement that names the bound axis enters: the axis that it replaces occurs below."""
        have = {name for v in op.operand_values for name, _ in union_axes(v)}
        return any(old in have and old not in op.over and axis in form.names for old, form in self.axes.items())

    def scan(self, op: Scan) -> Value:
        """A scan whose own axis is renamed: only to another whole axis of the same extent."""
        (axis,) = op.over
        form = self.axes[axis]
        if len(form.terms) != 1 or form.constant or form.terms[0][1] != 1 or self.made.axes.get(str(form)) != self.made.axes[axis]:
            raise Refused("running values are read at other places than where they were stored", op.span, axis)
        operand = self.of(op.value)
        results = self.made.emit(rebuilt(op, lambda v: self.made.stretched(operand, (str(form),)), over=(str(form),)))
        return results[0]


def folded_index(field: FieldValues, op: Binary) -> Value | None:
    """Arithmetic of index values that is affine, as one `index`."""
    if op.operator not in ("add", "sub", "mul"):
        return None
    a, b = affine_value(op.left), affine_value(op.right)
    if a is None or b is None:
        return None
    if op.operator == "add":
        return field.index(a + b)
    if op.operator == "sub":
        return field.index(a - b)
    if a.value is not None:
        return field.index(b * a.value)
    return field.index(a * b.value) if b.value is not None else None


def guarded_load(field: FieldValues, mem: Value, index: tuple[Affine, ...], conditions: Sequence[Value], name: str = "") -> Value:
    """A load that must not touch memory where the conditions don't hold, unless its index is inside there too."""
    dims = mem_of(mem).dims
    facts = field.facts()
    where = None
    if conditions and not all(facts.proves_inside(form, dim) for form, dim in zip(index, dims, strict=True)):
        where = field.conjunction(conditions)
    return field.emit(Load(mem=mem, index=index, where=where), name)[0]


def _needed(field: FieldValues, load: Load, guards: Sequence[Value]) -> list[Value]:
    """Those of the guards, part by part, that keep an index inside its memory; all of them where that isn't known. A guard that says more
    varies along axes that the index doesn't: what is read would be computed again for each."""
    kept = [part for guard in guards for part in conjuncts(guard)]

    def inside(held: Sequence[Value]) -> bool:
        facts = field.facts(*held)
        return all(facts.proves_inside(form, dim) for form, dim in zip(load.index, mem_of(load.mem).dims, strict=True))

    if not inside(kept):
        return list(guards)
    for part in tuple(kept):
        fewer = [other for other in kept if other is not part]
        kept = fewer if inside(fewer) else kept
    return kept


def padded(field: FieldValues, condition: Value, load: Value, otherwise: Value, context: Sequence[Value]) -> Value | None:
    """`condition ? load : constant` as one load with `pad`, when the load is guarded by just that condition; without `where`
    when the condition says no more and no less than that the index is inside."""
    op, constant = load.source, otherwise.source
    if not isinstance(op, Load) or not isinstance(constant, Const) or op.pad is not None or op.where is None:
        return None
    if op.where is not field.conjunction([*context, condition]):
        return None
    bounds = [f for form, dim in zip(op.index, mem_of(op.mem).dims, strict=True) for f in (form, dim - 1 - form)]
    facts = field.facts(*context)
    needed = [form for form in bounds if not facts.proves(form)]
    said = constraints_of(condition)
    exactly = said is not None and all(f in bounds or facts.proves(f) for f in said) and all(f in said for f in needed)
    where = None if exactly else op.where  # with `pad` an index outside is harmless
    return field.emit(Load(mem=op.mem, index=op.index, where=where, pad=constant.value, span=op.span), load.name)[0]
