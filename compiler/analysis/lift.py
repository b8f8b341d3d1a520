"""Lift: a nest in form A becomes a field in form F, or is refused with the reason.

The nest is run once with each loop as an axis. A loop's variable becomes `low + step * axis`; what a loop changes (slots, carried
values) is a placeholder while its body runs, and a reduction, a running value or a refusal after it (`lift_cells`); memory that
the nest writes is a list of events, through which later reads see (`lift_memory`). Sums are put in normal form at the end
(`normal_forms`). The proof that a loop may be an axis is this very construction."""

from collections.abc import Iterable, Iterator
from itertools import zip_longest

from compiler.analysis.accesses import affine_value, constraints_of, sizes_of, slots_set
from compiler.analysis.affine_sets import lower, upper
from compiler.analysis.field_values import FieldValues, Refused, folded_index, padded
from compiler.analysis.lift_cells import Cell, close
from compiler.analysis.lift_digits import digits_joined
from compiler.analysis.lift_events import LiftedLoop
from compiler.analysis.lift_memory import LiftedMemory
from compiler.analysis.normal_forms import normal_form, with_sums_of_terms
from compiler.hir.affine import Affine
from compiler.hir.clone import rebuilt
from compiler.hir.control import LOOP_MARKS, Break, Call, Continue, For, If, Return, While, Yield
from compiler.hir.core import Binary, Compare, Const, InBounds, Index, Select, dtype_of, union_axes
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.memory import Alloc, Check, GetSlot, Load, MakeSlot, SetSlot, Store
from compiler.hir.module import HirFunction, LoopWish
from compiler.hir.types import INDEX, Tile
from runtime.records import define, evolve, field

__all__ = ["Refused", "lift", "wish_of"]


def lift(
    function: HirFunction, zeroed: frozenset[str] = frozenset(), assumed: list[Affine] | None = None, apart: bool = False
) -> HirFunction:
    """The field that a function in form A computes. `zeroed`: names of memories that start at 0. `assumed`: checks of indices aren't
    refused; what sizes must be at least 0 for them to hold everywhere is added to it. `apart`: nor are checks of indices that data
    decide; they are in the field, to be made before it, and its loads touch no memory where they fail. Raises `Refused`."""
    return _Lift(function, zeroed, assumed, apart).run()


@define(eq=False)
class _Lift:
    source: HirFunction
    zeroed: frozenset[str]
    assumed: list[Affine] | None = None
    apart: bool = False
    made: FieldValues = field(init=False)
    memory: LiftedMemory = field(init=False)
    values: dict[Value, Value] = field(factory=dict)
    names: dict[str, Affine] = field(factory=dict)
    slots: dict[Value, Value] = field(factory=dict)
    frames: tuple[LiftedLoop, ...] = ()
    context: list[Value] = field(factory=list)
    checked: dict[str, list[Value]] = field(factory=dict)
    """Names of indices that data decide and that checks stand before, and what these say."""
    along: dict[str, set["Dimension"]] = field(factory=dict)
    """The memory dimensions along which each axis runs."""
    wishes: dict[str, LoopWish] = field(factory=dict)
    """What the program says of the loops that became an axis."""
    written: dict[str, list[str]] = field(factory=dict)
    """The axes of loops, by the names that the program gives their variables."""

    def run(self) -> HirFunction:
        source = self.source
        self.made = FieldValues.begin(source.name, sizes_of(source))
        self.made.strict = source.is_strict
        if self.assumed is not None:
            self.made.assumed = self.assumed
        for parameter in source.parameters:
            new = self.made.owner.parameter(parameter.name, parameter.type)
            self.made.named[new.name] = new
            self.values[parameter] = new
        self.memory = LiftedMemory(self.made, zeroed=self.zeroed)
        self.memory.find_written(source, self.values)
        self.region(source.body)
        self.memory.store_all()
        function = normal_form(self.made.owner.finish(), self.memory.refusals)
        joined = digits_joined(function)
        if joined is not function:
            function = normal_form(joined, {})
        function = with_sums_of_terms(function)
        for name in ("results", "kernel_info", "constraints", "linkage", "calling_convention", "attributes", "sites"):
            setattr(function, name, getattr(source, name))
        info = function.kernel_info
        if info is not None and (self.wishes or info.tile):
            sizes = {axis: size for name, size in info.tile for axis in self.written.get(name, [name])}
            function.kernel_info = evolve(info, loops=tuple(self.wishes.values()), tile=tuple(sizes.items()))
        return function

    def bind(self, old: Value, new: Value) -> None:
        self.values[old] = new
        if isinstance(new.type, Tile) and new.type.dtype == "index":
            self.names[old.name] = affine_value(new) or Affine.of(new.name)

    def form(self, form: Affine) -> Affine:
        return form.substitute(self.names)

    def region(self, region: Region) -> None:
        for op in region.body:
            self.made.at(op.span)
            self.instruction(op)

    def instruction(self, op: Instruction) -> None:
        match op:
            case MakeSlot():
                self.slots[op.result] = self.values[op.initial]
            case GetSlot():
                self.bind(op.result, self.slots[op.slot])
            case SetSlot():
                self.slots[op.slot] = self.values[op.value]
            case Index():
                self.bind(op.result, self.made.index(self.form(op.of)))
            case Select():
                self.bind(op.result, self.made.select(*(self.values[v] for v in op.operand_values)))
            case Alloc():
                self.values[op.result] = self.memory.allocate(op.result)
            case Load():
                self.load(op)
            case Store():
                self.store(op)
            case Check():
                self.check(op)
            case For():
                self.loop(op)
            case If():
                self.branch(op)
            case Yield():
                pass
            case While():
                raise Refused("how often a `while` runs isn't known beforehand", op.span)
            case Break() | Continue():
                raise Refused(f"`{op.name}` makes the number of iterations depend on the data", op.span)
            case Return() | Call():
                raise Refused(f"`{op.name}` isn't part of a nest", op.span)
            case _ if op.effects is Effect.PURE and not op.regions and not op.family.is_gpu:
                self.plain(op)
            case _:
                raise Refused(f"`{op.name}` has no field", op.span)

    def plain(self, op: Instruction) -> None:
        new = rebuilt(op, self.values.__getitem__, self.form)
        if isinstance(new, Binary) and dtype_of(new.left) == "index":
            folded = folded_index(self.made, new)
            if folded is not None:
                self.bind(op.result, folded)
                return
        name = op.results[0].name if not isinstance(op, Const) else ""
        for old, value in zip(op.results, self.made.emit(new, name), strict=True):
            self.bind(old, value)

    def check(self, op: Check) -> None:
        known = constraints_of(self.values[op.condition])
        unproved = list(self.unproved(known or (), tuple(self.context)))
        if known is None or (unproved and not self.assumes(unproved)):
            condition = self.values[op.condition]
            position = condition.source.of if isinstance(condition.source, InBounds) else Affine()
            checked = [name for name in position.names if name in self.made.named and self.made.named[name].source is not None]
            if not self.apart or not checked:
                raise Refused("a check that is made as the program runs reports the first fault in the order of the loops", op.span)
            self.put_apart(op, condition)
            for name in checked:
                self.checked.setdefault(name, []).append(condition)

    def put_apart(self, op: Check, condition: Value) -> None:
        """The check as part of the field: it holds where the nest doesn't come to it."""
        held, axes = condition, {name for name, _ in union_axes(condition)}
        never = [self.made.negated(guard) for guard in self.context]
        for frame in self.frames:
            if frame.axis not in axes:
                nothing = Compare(operator="le", left=self.made.index(frame.extent), right=self.made.const(0, INDEX))
                never += self.made.emit(nothing)
        for test in never:
            held = self.made.emit(Binary(operator="or", left=held, right=test))[0]
        values = tuple(self.values[value] for value in op.values)
        self.made.emit(Check(condition=held, values=values, code=op.code, site=op.site))

    def unproved(self, forms: Iterable[Affine], context: tuple[Value, ...]) -> Iterator[tuple[Affine, tuple[Value, ...]]]:
        """Those forms that nothing shows to be at least 0 under these conditions. A form of an index that a condition selects from two
        stands for the forms of both, each where that one is taken."""
        facts = self.made.facts(*context)
        for form in forms:
            chosen = next((name for name in form.names if _sides(self.made.named.get(name)) is not None), None)
            if chosen is None:
                if not facts.proves(form):
                    yield form, context
                continue
            op = self.made.named[chosen].source
            assert isinstance(op, Select)
            tests = (op.condition, self.made.negated(op.condition))
            for side, test in zip(_sides(op.result) or (), tests, strict=True):
                yield from self.unproved([form.substitute({chosen: side})], (*context, test))

    def least(self, form: Affine, context: tuple[Value, ...]) -> Affine:
        """A lower bound of the form over all axes, free of them. Along an axis that a condition ends, that is the end; of one that a
        condition makes a multiple, the last multiple."""
        for limit in (each for test in context for each in constraints_of(test) or ()):
            for name in limit.names:
                ends = name in self.made.axes and limit.coefficient(name) == -1 and form.coefficient(name) < 0
                if ends and not any(other in self.made.axes and other != name for other in limit.names):
                    form = form + limit * form.coefficient(name)
        return lower(form, self.made.axes)

    def assumes(self, forms: list[tuple[Affine, tuple[Value, ...]]]) -> bool:
        """Whether forms are taken to be at least 0 under their conditions, which sizes decide."""
        least = [self.least(form, context) for form, context in forms]
        sizes = {parameter.name for parameter in self.source.parameters}
        if self.assumed is None or any(name not in sizes for form in least for name in form.names):
            return False
        self.assumed += least
        return True

    def guards(self, where: Value | None) -> list[Value]:
        return self.context if where is None else [*self.context, self.values[where]]

    def load(self, op: Load) -> None:
        index = tuple(self.form(form) for form in op.index)
        checked = [condition for form in index for name in form.names for condition in self.checked.get(name, ())]
        value = self.memory.load(self.values[op.mem], index, [*self.guards(op.where), *checked], self.frames, op)
        self.bind(op.result, value)

    def store(self, op: Store) -> None:
        index = tuple(self.form(form) for form in op.index)
        self.memory.store(self.values[op.mem], index, self.values[op.value], self.guards(op.where), self.frames, op.span)

    # ---- control ----

    def branch(self, op: If) -> None:
        condition = self.values[op.condition]
        entry = dict(self.slots)
        then_given = self.side(op.then, condition)
        then_slots, self.slots = self.slots, dict(entry)
        otherwise_given: list[Value] = []
        if op.otherwise is not None:
            otherwise_given = self.side(op.otherwise, self.made.negated(condition))
        otherwise_slots = self.slots
        self.slots = {slot: self.choice(condition, then_slots[slot], otherwise_slots[slot]) for slot in entry}
        for old, a, b in zip(op.results, then_given, otherwise_given, strict=True):
            self.bind(old, self.choice(condition, a, b))

    def choice(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """`condition ? then : otherwise`; a guarded load beside a constant is one load with a pad."""
        pad = padded(self.made, condition, then, otherwise, self.context)
        if pad is None:
            pad = padded(self.made, self.made.negated(condition), otherwise, then, self.context)
        return pad if pad is not None else self.made.select(condition, then, otherwise)

    def side(self, region: Region, condition: Value) -> list[Value]:
        self.context.append(condition)
        self.region(region)
        self.context.pop()
        last = region.body[-1] if region.body else None
        return [self.values[value] for value in last.values] if isinstance(last, Yield) else []

    def loop(self, op: For) -> None:
        frame, within = self.enter(op)
        slots = [slot for slot in slots_set(op) if slot in self.slots]
        cells = [self.cell(p, p.name, self.values[v], frame) for p, v in zip(op.body.parameters[1:], op.carried, strict=True)]
        for cell, parameter in zip(cells, op.body.parameters[1:], strict=True):
            self.bind(parameter, cell.placeholder)
        for slot in slots:
            cells.append(self.cell(slot, slot.name, self.slots[slot], frame))
            self.slots[slot] = cells[-1].placeholder
        outside = dict(self.slots)
        mark = self.memory.mark()
        self.frames = (*self.frames, frame)
        if within is not None:
            self.context.append(within)
        self.region(op.body)
        if within is not None:
            self.context.pop()
        self.frames = self.frames[:-1]
        last = op.body.body[-1] if op.body.body else None
        given = [self.values[value] for value in last.values] if isinstance(last, Yield) else []
        given += [self.slots[slot] for slot in slots]
        for cell, value in zip(cells, given, strict=True):
            cell.inner = value
            cell.final = value if within is None else self.made.select(within, value, cell.placeholder)
        results = close(self.made, self.memory, frame, cells, mark)
        self.slots = {slot: value for slot, value in self.slots.items() if slot in outside}
        for old, value in zip(op.results, results, strict=False):
            self.bind(old, value)
        for slot, value in zip(slots, results[len(op.results) :], strict=True):
            self.slots[slot] = value

    def cell(self, key: Value, name: str, initial: Value, frame: LiftedLoop) -> Cell:
        dtype = dtype_of(initial)
        axes = tuple((f.axis, f.extent) for f in (*self.frames, frame))
        return Cell(self.memory.placeholder(name, Tile(dtype, axes)), initial, name, frame.op.span)

    def enter(self, op: For) -> tuple[LiftedLoop, Value | None]:
        """The loop's axis, and the condition under which its iteration exists where its bounds depend on outer axes."""
        # a turn that is short itself costs less than what tiles compute beyond such bounds
        joined = op.step == 1 and any(isinstance(inner, For) for inner in op.walk() if inner is not op)
        lows, highs = self.bounds(self.form(op.low), "max", joined), self.bounds(self.form(op.high), "min", joined)
        variable = op.variable.name
        for name in dict.fromkeys(name for form in (*lows, *highs) for name in form.names):
            if name not in self.made.axes and self.made.named.get(name) not in self.made.owner.function.parameters:
                raise Refused(f"the bounds of the loop over `{variable}` depend on data", op.span, variable)
        axes = self.made.axes
        low, high = lows[0], highs[0]
        span = high - low if op.step > 0 else low - high
        varies = [name for name in dict.fromkeys((*low.names, *high.names)) if name in axes]
        start = low
        if not varies:
            extent = span.ceildiv(abs(op.step))
        elif op.step == 1:
            start = lower(low, axes)
            extent = upper(high, axes) - start
        else:
            extent = upper(span.ceildiv(abs(op.step)), axes)
        axis = self.axis_for(op, variable, extent)
        self.written.setdefault(op.written, []).append(axis)
        self.wish(op, axis)
        position = Affine.of(axis)
        pairs = [*zip_longest(lows, highs)] if len(lows) + len(highs) > 2 else []
        tests = [(low if below is None else below, high if above is None else above) for below, above in pairs[not varies :]]
        if varies and not pairs:
            tests = [(low, high)]
        within: Value | None = None
        for below, above in tests:
            span = above - below if op.step > 0 else below - above
            (inside,) = self.made.emit(InBounds(of=position - (below - start), below=span.ceildiv(abs(op.step)), span=op.span))
            within = inside if within is None else self.made.conjunction([within, inside])
        self.bind_variable(op.variable, start + position * op.step)
        return LiftedLoop(op, axis, extent), within

    def bounds(self, form: Affine, operator: str, joined: bool) -> list[Affine]:
        """The forms that a bound of a loop is the largest (or the least) of; one without axes first."""
        value = self.made.named.get(form.names[0]) if joined and len(form.terms) == 1 and form == Affine.of(form.names[0]) else None
        op = value.source if value is not None else None
        if not isinstance(op, Binary) or op.operator != operator:
            return [form]
        sides = [affine_value(side) or Affine.of(side.name) for side in (op.left, op.right)]
        forms = dict.fromkeys(each for side in sides for each in self.bounds(side, operator, joined))
        return sorted(forms, key=lambda each: any(name in self.made.axes for name in each.names))

    def bind_variable(self, variable: Value, form: Affine) -> None:
        self.names[variable.name] = form
        self.values[variable] = self.made.index(form)

    def wish(self, op: For, axis: str) -> None:
        """Notes what the program says of the loop; loops that share an axis share that."""
        wish = wish_of(op, self.wishes.get(axis) or LoopWish(axis, op.written))
        if wish is not None:
            self.wishes[axis] = wish

    def axis_for(self, op: For, variable: str, extent: Affine) -> str:
        """The axis of a loop: one of this extent that no loop around has and that runs along the same memory dimensions, so that
        two loops over a row are one axis and what both compute is one value; else a new one. An axis that runs where a loop inside
        of this one does, rather than where this one does, is left to that."""
        around = {frame.axis for frame in self.frames}
        along = dimensions(op)
        inside = [dimensions(inner) for inner in op.walk() if isinstance(inner, For) and inner is not op]
        free: list[str] = []
        for name, have in self.made.axes.items():
            mine = self.along.get(name, set())
            if have == extent and name not in around and not any(len(mine & theirs) > len(mine & along) for theirs in inside):
                free.append(name)
        shared = {axis: len({each[:2] for each in self.along.get(axis, ())} & {each[:2] for each in along}) for axis in free}
        axis = max(free, key=lambda name: (shared[name], _base(name) == _base(variable)), default=None)
        if axis is None or (shared[axis] == 0 and (along or _base(axis) != _base(variable))):
            axis = self.made.fresh_axis(variable, extent)
        self.along.setdefault(axis, set()).update(along)
        return axis


def _sides(value: Value | None) -> tuple[Affine, Affine] | None:
    """The two indices that the value is selected from."""
    match value.source if value is not None else None:
        case Select(then=then, otherwise=otherwise):
            sides = affine_value(then), affine_value(otherwise)
            return None if sides[0] is None or sides[1] is None else (sides[0], sides[1])
        case _:
            return None


Dimension = tuple[Value, int, tuple[int | None, ...]]
"""A dimension of a memory, by its number, with the constants that are indices of others: `x[i, 0]` and `x[i, 1]` are columns apart."""


def dimensions(op: For) -> set[Dimension]:
    """Which dimensions of which memories the loop's variable indexes."""
    name = op.variable.name
    return {
        (inner.mem, number, tuple(each.value for each in inner.index))
        for inner in op.walk()
        if isinstance(inner, Load | Store)
        for number, form in enumerate(inner.index)
        if name in form.names
    }


def _base(name: str) -> str:
    return name.rstrip("0123456789") or name


def wish_of(op: For, before: LoopWish) -> LoopWish | None:
    """What the program says of a loop, added to what it says of another; None where that is nothing."""
    said = {name: said for name, said in op.marks if name in LOOP_MARKS}
    return None if not said else evolve(
        before,
        serial=before.serial or "serial" in said,
        parallel=before.parallel or "parallel" in said,
        unroll=_size(said.get("unroll", before.unroll)),
        vectorize=_size(said.get("vectorize", before.vectorize)),
    )  # fmt: skip


def _size(mark: object) -> int | None:
    """The number of a mark; 0 where none is given."""
    return 0 if mark is True else mark if isinstance(mark, int) else None
