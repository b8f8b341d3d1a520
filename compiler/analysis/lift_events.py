"""What a lift records of memory: stores and accumulations as a list of events, in the order of the text, each over the axes of its loops;
and reads of memory that the nest writes, a placeholder each. `C[p] = C[p] (+) e` is an accumulation in any loop order."""

from collections.abc import Callable, Sequence

from compiler.analysis.accesses import COMMUTATIVE, conjuncts, walk
from compiler.analysis.field_values import FieldValues, Refused, guarded_load
from compiler.hir.affine import Affine
from compiler.hir.control import For
from compiler.hir.core import Binary, Combine, Select, Unary, dtype_of, union_axes
from compiler.hir.instruction import Value
from compiler.hir.memory import Alloc, Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile
from compiler.source import Span
from runtime.records import define, field, frozen


@frozen(eq=False)
class LiftedLoop:
    """A loop being lifted, and its axis."""

    op: For
    axis: str
    extent: Affine

    @property
    def variable(self) -> str:
        return self.op.variable.name


@define(eq=False)
class PendingRead:
    """A read of memory that the nest writes, not yet resolved; its placeholder stands for it."""

    mem: Value
    index: tuple[Affine, ...]
    conditions: tuple[Value, ...]
    frames: tuple[LiftedLoop, ...]
    position: int
    placeholder: Value
    span: Span | None


@define(eq=False)
class MemoryEvent:
    """A store, or an accumulation (`monoid` set): then `elements[component]` joins what `reads` read."""

    mem: Value
    index: tuple[Affine, ...]
    elements: tuple[Value, ...]
    conditions: tuple[Value, ...]
    frames: tuple[LiftedLoop, ...]
    position: int
    span: Span | None
    monoid: str | None = None
    flags: tuple[str, ...] = ()
    component: int = 0
    reads: tuple[PendingRead, ...] = ()
    fresh: int = 0
    """In how many outer loops the memory is set anew before this accumulation: these it doesn't sum over."""

    @property
    def value(self) -> Value:
        return self.elements[self.component]

    @property
    def missing(self) -> tuple[str, ...]:
        """Axes over which an accumulation sums: those that its index lacks."""
        have = {name for form in self.index for name in form.names}
        return tuple(frame.axis for frame in self.frames[self.fresh :] if frame.axis not in have) if self.monoid else ()


@define(eq=False)
class _Accumulated:
    monoid: str
    reads: tuple[PendingRead, ...]
    elements: tuple[Value, ...]
    flags: tuple[str, ...]
    component: int = 0


@define(eq=False)
class MemoryEvents:
    """What a lift records of memory, and of the placeholders in its values."""

    made: FieldValues
    written: dict[Value, Span | None] = field(factory=dict)
    scratch: set[Value] = field(factory=set)
    events: list[MemoryEvent] = field(factory=list)
    reads: list[PendingRead] = field(factory=list)
    read_of: dict[Value, PendingRead] = field(factory=dict)
    refusals: dict[Value, Refused] = field(factory=dict)
    placeholder_names: set[Value] = field(factory=set)
    assumed_numbers: set[Value] = field(factory=set)
    _placeholders: dict[Value, frozenset[Value]] = field(factory=dict)
    _order: dict[int, int] = field(factory=dict)

    def find_written(self, function: HirFunction, values: dict[Value, Value]) -> None:
        """Which memories the function stores to."""
        for op in walk(function.body):
            if isinstance(op, Store) and op.mem in values:
                self.written.setdefault(values[op.mem], op.span)
        for mem in self.written:
            if not mem_of(mem).noalias:
                raise Refused(f"`{mem.name}` may share its memory with another input", self.written[mem])

    def allocate(self, old: Value) -> Value:
        assert isinstance(old.source, Alloc)
        memory = self.made.owner.value(old.name, old.type)
        self.scratch.add(memory)
        self.written[memory] = old.source.span
        return memory

    # ---- placeholders ----

    def placeholder(self, name: str, type: Tile) -> Value:
        value = self.made.owner.value(name, type)
        self.made.named[value.name] = value
        self.placeholder_names.add(value)
        self._placeholders[value] = frozenset({value})
        return value

    def poison(self, name: str, like: Value, reason: Refused) -> Value:
        value = self.placeholder(name, Tile(dtype_of(like), union_axes(like)))
        self.refusals[value] = reason
        return value

    def placeholders_in(self, value: Value) -> frozenset[Value]:
        """Placeholders that the value is computed from."""
        stack = [value]
        while stack:
            current = stack[-1]
            if current in self._placeholders:
                stack.pop()
                continue
            below = self._below(current)
            open_ = [v for v in below if v not in self._placeholders]
            if open_:
                stack.extend(open_)
                continue
            placeholders: frozenset[Value] = frozenset()
            for v in below:
                placeholders |= self._placeholders[v]
            self._placeholders[current] = placeholders
            stack.pop()
        return self._placeholders[value]

    def reads_in(self, value: Value) -> list[PendingRead]:
        """Reads of written memory that the value is computed from, as they were recorded: sets of values have no order of their own."""
        reads = [self.read_of[placeholder] for placeholder in self.placeholders_in(value) if placeholder in self.read_of]
        return sorted(reads, key=lambda read: self._order[id(read)])

    def _below(self, value: Value) -> list[Value]:
        if value.source is None:
            return []
        named = [self.made.named[name] for name in value.source.symbols if name in self.made.named]
        return [*value.source.operand_values, *named]

    def _in_forms(self, forms: Sequence[Affine]) -> frozenset[Value]:
        placeholders: frozenset[Value] = frozenset()
        for form in forms:
            for name in form.names:
                if name in self.made.named:
                    placeholders |= self.placeholders_in(self.made.named[name])
        return placeholders

    # ---- recording ----

    def mark(self) -> int:
        return len(self.events) + len(self.reads)

    def _since(self, mark: int) -> list[MemoryEvent | PendingRead]:
        everything: list[MemoryEvent | PendingRead] = sorted([*self.events, *self.reads], key=lambda event: self._order[id(event)])
        return everything[mark:]

    def used_since(self, mark: int) -> set[Value]:
        placeholders: set[Value] = set()
        for event in self._since(mark):
            values = [*event.conditions, *(event.elements if isinstance(event, MemoryEvent) else ())]
            for value in values:
                placeholders |= self.placeholders_in(value)
            placeholders |= self._in_forms(event.index)
        return placeholders

    def replace_since(self, mark: int, known: dict[Value, Value]) -> None:
        """Put running values in the events recorded since the mark."""
        change = self.made.replacement(known, {})
        for event in self._since(mark):
            event.conditions = tuple(change.of(v) for v in event.conditions)
            event.index = tuple(change.form(form) for form in event.index)
            if isinstance(event, MemoryEvent):
                event.elements = tuple(change.of(v) for v in event.elements)

    def load(self, mem: Value, index: tuple[Affine, ...], conditions: Sequence[Value], frames: tuple[LiftedLoop, ...], op: Load) -> Value:
        if mem not in self.written:
            if op.pad is not None or op.where is not None:
                where = self.made.conjunction(conditions)
                return self.made.emit(Load(mem=mem, index=index, where=where, pad=op.pad), op.result.name)[0]
            return guarded_load(self.made, mem, index, conditions, op.result.name)
        if op.pad is not None or op.where is not None:
            raise Refused(f"a padded load of `{mem.name}`, which the nest also writes", op.span)
        names = [name for form in index for name in form.names]
        axes = {name: self.made.axes[name] for name in names if name in self.made.axes}
        for value in [*(self.made.named[n] for n in names if n in self.made.named), *conditions]:
            axes.update(dict(union_axes(value)))
        placeholder = self.placeholder(op.result.name, Tile(mem_of(mem).dtype, tuple(axes.items())))
        read = PendingRead(mem, index, tuple(conditions), frames, len(self.events), placeholder, op.span)
        self._order[id(read)] = len(self._order)
        self.reads.append(read)
        self.read_of[placeholder] = read
        return placeholder

    def store(
        self,
        mem: Value,
        index: tuple[Affine, ...],
        value: Value,
        conditions: Sequence[Value],
        frames: tuple[LiftedLoop, ...],
        span: Span | None,
    ) -> None:
        # apart: of what is summed, some may hold for the element, and stay at its store
        apart = tuple(part for condition in conditions for part in conjuncts(condition))
        event = MemoryEvent(mem, index, (value,), apart, frames, len(self.events), span)
        accumulated = self._accumulated(value, event)
        if accumulated is not None:
            self._sums(event, accumulated)
        self._order[id(event)] = len(self._order)
        self.events.append(event)

    def _sums(self, event: MemoryEvent, accumulated: _Accumulated) -> None:
        """The event as an accumulation, unless it is one over no axis: that is only a value computed from the old one."""
        resets = [other.frames for other in self.events[: event.position] if other.mem is event.mem and other.monoid is None]
        before = event.elements
        event.monoid, event.reads, event.elements = accumulated.monoid, accumulated.reads, accumulated.elements
        event.flags, event.component = accumulated.flags, accumulated.component
        event.fresh = max((common_loops(resetting, event.frames) for resetting in resets), default=0)
        if not event.missing:
            event.monoid, event.reads, event.elements, event.component = None, (), before, 0

    def rescaled_since(self, mark: int, judge: Callable[[MemoryEvent], tuple[PendingRead, Value] | None]) -> None:
        """Stores since the mark that rescale the element which they add to (`judge` says which one they read, and what they add) become
        accumulations."""
        for event in self._since(mark):
            rescaled = judge(event) if isinstance(event, MemoryEvent) and event.monoid is None else None
            if rescaled is not None and isinstance(event, MemoryEvent):
                self._sums(event, _Accumulated("add", (rescaled[0],), (rescaled[1],), ("reassoc", "contract")))

    def own_element(self, read: PendingRead, event: MemoryEvent) -> bool:
        """Whether it reads the event's own element, where nothing was stored since."""
        if read.index != event.index or read.frames != event.frames or read.mem is not event.mem:
            return False
        return all(other.mem is not read.mem for other in self.events[read.position : event.position])

    def _accumulated(self, value: Value, event: MemoryEvent) -> _Accumulated | None:
        """The stored value as `old (+) e`, old the element itself read in the same iteration."""
        op = value.source
        match op:
            case Binary(operator=operator, left=left, right=right, flags=flags) if operator in COMMUTATIVE or operator == "sub":
                first = self._old(left, event)
                if first is not None and first.placeholder not in self.placeholders_in(right):
                    element = self.made.emit(Unary(operator="neg", value=right))[0] if operator == "sub" else right
                    return _Accumulated("add" if operator == "sub" else operator, (first,), (element,), flags)
                second = self._old(right, event) if operator != "sub" else None
                if second is not None and second.placeholder not in self.placeholders_in(left):
                    return _Accumulated(operator, (second,), (left,), flags)
                return None
            case Combine(monoid=monoid, operands_=operands):
                half = len(operands) // 2
                number = op.results.index(value)
                reads = [self._old(v, event, any_mem=True) for v in operands[:half]]
                known = tuple(read for read in reads if read is not None)
                if len(known) != half or known[number].mem is not event.mem:
                    return None
                if any(r.placeholder in self.placeholders_in(e) for r in known for e in operands[half:]):
                    return None
                return _Accumulated(monoid, known, operands[half:], (), number)
            case Select(condition=condition, then=then, otherwise=otherwise):
                for keeps, changes, on_true in ((otherwise, then, True), (then, otherwise, False)):
                    old = self._old(keeps, event)
                    if old is None or old.placeholder in self.placeholders_in(condition):
                        continue
                    inner = self._accumulated(changes, event)
                    if inner is None or len(inner.reads) != 1 or inner.reads[0] is not old:
                        continue
                    (nothing,) = self.made.identity(inner.monoid, [dtype_of(inner.elements[0])])
                    element = inner.elements[0]
                    chosen = self.made.select(condition, element, nothing) if on_true else self.made.select(condition, nothing, element)
                    return _Accumulated(inner.monoid, inner.reads, (chosen,), inner.flags)
                return None
            case _:
                return None

    def _old(self, value: Value, event: MemoryEvent, any_mem: bool = False) -> PendingRead | None:
        """The read behind the value, when it reads the event's own element and nothing was stored there since."""
        read = self.read_of.get(value)
        if read is None or read.index != event.index or read.frames != event.frames:
            return None
        if read.mem is not event.mem and not any_mem:
            return None
        since = [other for other in self.events[read.position :] if other.mem is read.mem]
        if any(not any_mem or read not in other.reads for other in since):
            return None
        return read


def common_loops(first: Sequence[LiftedLoop], other: Sequence[LiftedLoop]) -> int:
    """How many loops both stand in, from the outermost."""
    number = 0
    for a, b in zip(first, other, strict=False):
        if a is not b:
            break
        number += 1
    return number
