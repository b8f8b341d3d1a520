"""Normal forms of reductions in a field: nested ones merge, factors that lack the axes leave a sum, a sum of products of two
values with an axis of their own each is a contraction. Also drops what no store needs.

What a rule does to rounding is said beside it: the interpretation of the result equals that of the nest up to the reassociation
that the reduction's flags permit."""

from collections.abc import Callable, Mapping, Sequence

from compiler.analysis.accesses import reorders
from compiler.analysis.field_values import FieldValues, Refused
from compiler.analysis.sums_of_terms import FREE_ORDER, Sum, is_of_terms, sum_by_factors, sum_by_terms, sum_in_better_order
from compiler.hir.affine import Affine
from compiler.hir.clone import rebuilt
from compiler.hir.core import Binary, Cast, Const, Contract, Reduce, Select, dtype_of, union_axes
from compiler.hir.instruction import Effect, Instruction, Value
from compiler.hir.memory import Store
from compiler.hir.module import HirFunction
from compiler.hir.types import DTYPES, FLOATS, SIGNED, Mem, is_float
from runtime.records import define, field


def normal_form(function: HirFunction, refusals: Mapping[Value, Refused]) -> HirFunction:
    """The field in normal form. A value without a source that a store needs is refused, with its own reason where it has one."""
    live = _live(function, refusals)
    return _Rebuild(function, live).run()


def with_sums_of_terms(function: HirFunction) -> HirFunction:
    """The field whose sums of several terms, and of products of several factors, are sums of what these terms read; in normal form, too."""
    ops = function.body.body
    several = any(is_of_factors(op) if isinstance(op, Contract) else isinstance(op, Reduce) and is_of_terms(op.values[0]) for op in ops)
    rebuild = _Rebuild(function, ops, by_terms=True)
    return made if several and (made := rebuild.run()) and rebuild.changed else function


def with_better_orders(function: HirFunction, about: Callable[[Affine], int]) -> HirFunction:
    """The field whose products of several factors are multiplied in the order that takes the fewest operations where extents are about as
    large as this."""
    if not any(isinstance(op, Contract | Reduce) and FREE_ORDER in op.flags for op in function.body.body):
        return function
    rebuild = _Rebuild(function, function.body.body, about=about)
    made = rebuild.run()
    made.stands_for(function)
    return made if rebuild.changed else function


def is_of_factors(op: Contract) -> bool:
    """Whether an operand of a contraction is a product itself."""
    return op.accumulator is None and any(dtype_of(side) == op.to and is_of_terms(side) for side in (op.a, op.b))


def _live(function: HirFunction, refusals: Mapping[Value, Refused]) -> list[Instruction]:
    """Instructions that some store needs, in order."""
    named = {r.name: r for op in function.body.body for r in op.results}
    loose = {value.name: value for value in refusals}
    parameters = set(function.parameters)
    needed: set[Value] = set()
    live: list[Instruction] = []
    for op in reversed(function.body.body):
        if not (op.effects & (Effect.WRITE | Effect.FAULT)) and not any(result in needed for result in op.results):
            continue
        live.append(op)
        for name in op.symbols:
            if name in named:
                needed.add(named[name])
            elif name in loose:
                raise refusals[loose[name]]
        for value in op.operand_values:
            if value in refusals:
                raise refusals[value]
            if value.source is None and value not in parameters and not isinstance(value.type, Mem):
                raise Refused(f"`{value.name}` depends on the order of the loops", op.span)
            needed.add(value)
    return live[::-1]


@define(eq=False)
class _Rebuild:
    source: HirFunction
    live: list[Instruction]
    made: FieldValues = field(init=False)
    values: dict[Value, Value] = field(factory=dict)
    names: dict[str, Affine] = field(factory=dict)
    by_terms: bool = False
    about: Callable[[Affine], int] | None = None
    """About how large extents are, where orders of factors that were chosen before are chosen anew."""
    changed: bool = False
    continued: frozenset[Instruction] = field(init=False)
    """Sums that nobody reads but a sum of them: both are one, and what leaves it is known there."""

    def run(self) -> HirFunction:
        self.continued = _continued(self.live)
        self.made = FieldValues.begin(self.source.name, frozenset())
        self.made.about = self.about or self.made.about
        for parameter in self.source.parameters:
            new = self.made.owner.parameter(parameter.name, parameter.type)
            self.values[parameter] = new
        for axis in self.axes():
            self.made.owner.axis(axis, self.source.axes[axis])
        for op in self.live:
            self.made.at(op.span)
            self.instruction(op)
        return _without_dead(self.made.owner.finish())

    def axes(self) -> list[str]:
        """Axes that live values have: first those of the stores, in the order of their indices."""
        stored = [name for op in self.live if isinstance(op, Store) for form in op.index for name in form.names]
        others = [name for op in self.live for value in [*op.results, *op.operand_values] for name, _ in union_axes(value)]
        over = [name for op in self.live for name in getattr(op, "over", ()) if isinstance(name, str)]
        return [name for name in dict.fromkeys([*stored, *others, *over]) if name in self.source.axes]

    def form(self, form: Affine) -> Affine:
        return form.substitute(self.names)

    def instruction(self, op: Instruction) -> None:
        if isinstance(op, Store):
            where = None if op.where is None else self.values[op.where]
            self.made.owner.body.store(self.values[op.mem], self.values[op.value], [self.form(f) for f in op.index], where)
            return
        new = rebuilt(op, self.values.__getitem__, self.form)
        if not op.results:
            self.made.owner.body.emit(new)
            return
        if self.about is not None:
            results = self.in_better_order(new) or self.made.emit(new, op.results[0].name)
        elif op in self.continued and isinstance(new, Reduce):
            results = self.made.reduce(new.monoid, new.values, new.over, new.flags)
        elif isinstance(new, Contract) and self.by_terms and is_of_factors(new):
            a, b = (_widened(self.made, side, new.to) for side in (new.a, new.b))
            value = self.made.emit(Binary(operator="mul", left=a, right=b, flags=("contract",)))[0]
            results = self.by_terms_of(Reduce(monoid="add", values=(value,), over=new.over, flags=new.flags))
        elif isinstance(new, Reduce):
            results = self.by_terms_of(new) or reduction(self.made, new.monoid, new.values, new.over, new.flags)
        else:
            results = self.made.emit(new, op.results[0].name)
        for old, value in zip(op.results, results, strict=True):
            self.values[old] = value
            if old.name != value.name:
                self.names[old.name] = Affine.of(value.name)


    def by_terms_of(self, op: Reduce) -> list[Value]:
        """The sum of several terms or factors; nothing for others."""
        if not (self.by_terms and op.monoid == "add" and reorders("add", dtype_of(op.values[0]), op.flags)):
            return []

        def sum(value: Value, over: Sequence[str], is_part: bool) -> Value:
            result = sum_by_terms(self.made, value, over, sum) or sum_by_factors(self.made, value, over, sum, pair)
            self.changed |= result is not None
            return result or pair(value, over, is_part)

        pair = self.pair(op.flags)
        return [sum(op.values[0], op.over, False)]

    def in_better_order(self, op: Instruction) -> list[Value]:
        """Nothing where it is in the best one, or only part of a product."""
        if not isinstance(op, Contract | Reduce) or FREE_ORDER in op.flags or (isinstance(op, Reduce) and op.monoid != "add"):
            return []
        result = sum_in_better_order(self.made, op, self.pair(op.flags))
        self.changed |= result is not None
        return [] if result is None else [result]

    def pair(self, flags: Sequence[str]) -> Sum:
        """Makes sums in normal form; the order of what is part of a product stays free."""

        def made(value: Value, over: Sequence[str], is_part: bool) -> Value:
            return reduction(self.made, "add", [value], over, (*flags, FREE_ORDER) if is_part else flags)[0]

        return made


def _continued(ops: Sequence[Instruction]) -> frozenset[Instruction]:
    readers: dict[Value, list[Instruction]] = {}
    for op in ops:
        for value in op.operand_values:
            readers.setdefault(value, []).append(op)
    sums = [op for op in ops if isinstance(op, Reduce) and op.monoid == "add"]
    known = ((op, readers.get(op.results[0], [])) for op in sums)
    return frozenset(op for op, by in known if len(by) == 1 and isinstance(by[0], Reduce) and by[0].monoid == "add")


def _without_dead(function: HirFunction) -> HirFunction:
    """The rules leave instructions that nobody needs any more."""
    function.body.body = _live(function, {})
    used = {name for op in function.body.body for value in [*op.results, *op.operand_values] for name, _ in union_axes(value)}
    used |= {name for op in function.body.body for name in op.symbols} | {n for op in function.body.body for n in getattr(op, "over", ())}
    for axis in [axis for axis in function.axes if axis not in used]:
        del function.axes[axis]
    return function


def reduction(field: FieldValues, monoid: str, values: Sequence[Value], over: Sequence[str], flags: Sequence[str]) -> list[Value]:
    """A reduction in normal form."""
    if len(values) > 1:
        return _pairs(field, monoid, values, over, flags)
    (value,) = values
    op = value.source
    free = reorders(monoid, dtype_of(value), tuple(flags))
    # (+)_i (+)_j e = (+)_ij e
    if isinstance(op, Reduce) and op.monoid == monoid and free and reorders(monoid, dtype_of(value), op.flags):
        common = tuple(flag for flag in flags if flag in op.flags)
        return reduction(field, monoid, op.values, (*over, *op.over), common)
    if isinstance(op, Contract) and monoid == "add" and free and op.accumulator is None:
        a, b = (_widened(field, side, op.to) for side in (op.a, op.b))
        product = field.emit(Binary(operator="mul", left=a, right=b, flags=("contract",)))[0]
        return reduction(field, monoid, [product], (*over, *op.over), flags)
    if monoid == "add" and free and isinstance(op, Select):
        guarded = _guarded_sum(field, op)
        if guarded is not None:
            return reduction(field, monoid, [guarded[0]], (*over, *guarded[1]), flags)
    if monoid == "add" and free and isinstance(op, Binary):

        rewritten = _outside(field, op, over, flags) or _contraction(field, op, over, flags)
        if rewritten is not None:
            return [rewritten]
    return field.reduce(monoid, values, over, flags)


def _guarded_sum(field: FieldValues, op: Select) -> tuple[Value, tuple[str, ...]] | None:
    """p ? sum x : 0 as what is summed, and over which axes: a guard around a sum, or around a guarded one, is one of each of its terms."""
    inner = op.then.source
    if not isinstance(op.otherwise.source, Const) or op.otherwise.source.value != 0:
        return None
    if isinstance(inner, Select):
        inner_sum = _guarded_sum(field, inner)
        if inner_sum is None:
            return None
        return field.emit(Select(condition=op.condition, then=inner_sum[0], otherwise=op.otherwise))[0], inner_sum[1]
    if isinstance(inner, Reduce) and inner.monoid == "add" and len(inner.values) == 1 and reorders("add", dtype_of(op.then), inner.flags):
        term = inner.values[0]
    elif isinstance(inner, Contract) and inner.accumulator is None:
        a, b = (_widened(field, side, inner.to) for side in (inner.a, inner.b))
        term = field.emit(Binary(operator="mul", left=a, right=b, flags=("contract",)))[0]
    else:
        return None
    return field.emit(Select(condition=op.condition, then=term, otherwise=op.otherwise))[0], inner.over


def _pairs(field: FieldValues, monoid: str, values: Sequence[Value], over: Sequence[str], flags: Sequence[str]) -> list[Value]:
    """argmin over argmin: ties give the lowest index either way."""
    op = values[0].source
    if isinstance(op, Reduce) and op.monoid == monoid and all(v is r for v, r in zip(values, op.results, strict=True)):
        return field.reduce(monoid, op.values, (*over, *op.over), flags)
    return field.reduce(monoid, values, over, flags)


def _has(value: Value, over: Sequence[str]) -> bool:
    return any(name in over for name, _ in union_axes(value))


def _outside(field: FieldValues, op: Binary, over: Sequence[str], flags: Sequence[str]) -> Value | None:
    """sum c*x = c * sum x, sum x/c = (sum x)/c, c free of the axes: reassociation for floats, exact for ints (but not `/`)."""
    if op.operator == "mul":
        for factor, rest in ((op.left, op.right), (op.right, op.left)):
            if not _has(factor, over) and _has(rest, over):
                inner = reduction(field, "add", [rest], over, flags)[0]
                return field.emit(Binary(operator="mul", left=factor, right=inner, flags=op.flags))[0]
    if op.operator == "div" and is_float(dtype_of(op.left)) and not _has(op.right, over) and _has(op.left, over):
        inner = reduction(field, "add", [op.left], over, flags)[0]
        return field.emit(Binary(operator="div", left=inner, right=op.right, flags=op.flags))[0]
    if op.operator == "mul":
        # (x/c) * y: the quotient leaves too, which is how a softmax meets its values
        for quotient, rest in ((op.left, op.right), (op.right, op.left)):
            inside = quotient.source
            if isinstance(inside, Binary) and inside.operator == "div" and is_float(dtype_of(quotient)) and not _has(inside.right, over):
                product = field.emit(Binary(operator="mul", left=inside.left, right=rest, flags=op.flags))[0]
                inner = reduction(field, "add", [product], over, flags)[0]
                return field.emit(Binary(operator="div", left=inner, right=inside.right, flags=inside.flags))[0]
    return None


def _contraction(field: FieldValues, op: Binary, over: Sequence[str], flags: Sequence[str]) -> Value | None:
    """sum x*y over axes of both, each with an axis of its own besides. Exact: casts that lose nothing go into the contraction."""
    if op.operator != "mul":
        return None
    x, y = op.left, op.right
    of_x, of_y = ({name for name, _ in union_axes(v)} for v in (x, y))
    if not set(over) <= of_x & of_y or not of_x - of_y or not of_y - of_x:
        return None
    to = dtype_of(x)
    a, b = _narrowed(x), _narrowed(y)
    if dtype_of(a) != dtype_of(b):
        a, b = x, y
    kept_flags = tuple(flag for flag in ("reassoc", "contract", FREE_ORDER) if flag in flags or flag == "contract")
    return field.emit(Contract(a=a, b=b, over=tuple(over), to=to, flags=kept_flags))[0]


def _narrowed(value: Value) -> Value:
    """The value before a cast that loses nothing."""
    op = value.source
    if isinstance(op, Cast) and widens(dtype_of(op.value), op.to):
        return op.value
    return value


def _widened(field: FieldValues, value: Value, to: str) -> Value:
    return value if dtype_of(value) == to else field.emit(Cast(value=value, to=to))[0]


def widens(source: str, to: str) -> bool:
    """Every number of `source` is one of `to`: the cast changes nothing."""
    if source in FLOATS and to in FLOATS:
        return FLOATS[source] < FLOATS[to]
    if source in DTYPES and to in SIGNED and source not in FLOATS:
        return DTYPES[source] < SIGNED[to]
    return False
