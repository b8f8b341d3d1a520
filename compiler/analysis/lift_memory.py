"""Memory under the lift: what a nest stores is a list of events, in the order of the text, each over the axes of its loops. A read
of memory that the nest writes is the event that wrote the element, with axes renamed; `C[p] = C[p] (+) e` is an accumulation in
any loop order. Reads that another iteration must have written are refused.

How a read finds its writer. The read stands in loops L, the event in loops E, with common loops in front. With the common axes
held, `event index == read index` is solved for the event's own axes. One solution: the writer ran in the same iteration of the
common loops, earlier in the text. None: it is looked for with all axes free; a writer in a later iteration has not run yet, one
in an earlier iteration means that the loop carries the value, which is refused."""

from collections.abc import Callable, Sequence

from attrs import define, field, frozen

from compiler.analysis.accesses import COMMUTATIVE, affine_value, constraints_of, reorders, walk
from compiler.analysis.affine_sets import Outcome, Solution, injective, solve
from compiler.analysis.field_values import FieldValues, Refused, guarded_load
from compiler.hir.affine import Affine
from compiler.hir.control import For
from compiler.hir.core import Binary, Combine, InBounds, Select, Unary, dtype_of, union_axes
from compiler.hir.instruction import Value
from compiler.hir.memory import Alloc, Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Tile
from compiler.source import Span


@frozen(eq=False)
class Frame:
    """A loop being lifted, and its axis."""

    op: For
    axis: str
    extent: Affine

    @property
    def variable(self) -> str:
        return self.op.variable.name


@define(eq=False)
class Read:
    """A read of memory that the nest writes, not yet resolved; its placeholder stands for it."""

    mem: Value
    index: tuple[Affine, ...]
    conditions: tuple[Value, ...]
    frames: tuple[Frame, ...]
    position: int
    placeholder: Value
    span: Span | None


@define(eq=False)
class Event:
    """A store, or an accumulation (`monoid` set): then `elements[component]` joins what `reads` read."""

    mem: Value
    index: tuple[Affine, ...]
    elements: tuple[Value, ...]
    conditions: tuple[Value, ...]
    frames: tuple[Frame, ...]
    position: int
    span: Span | None
    monoid: str | None = None
    flags: tuple[str, ...] = ()
    component: int = 0
    reads: tuple[Read, ...] = ()
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
    reads: tuple[Read, ...]
    elements: tuple[Value, ...]
    flags: tuple[str, ...]
    component: int = 0


@define(eq=False)
class _Final:
    index: tuple[Affine, ...]
    value: Value
    conditions: tuple[Value, ...]
    event: Event


@define(eq=False)
class Memory:
    """All that a lift knows of memory, and of the placeholders in its values."""

    made: FieldValues
    zeroed: frozenset[str]
    written: dict[Value, Span | None] = field(factory=dict)
    scratch: set[Value] = field(factory=set)
    events: list[Event] = field(factory=list)
    reads: list[Read] = field(factory=list)
    read_of: dict[Value, Read] = field(factory=dict)
    refusals: dict[Value, Refused] = field(factory=dict)
    placeholder_names: set[Value] = field(factory=set)
    assumed_numbers: set[Value] = field(factory=set)
    _placeholders: dict[Value, frozenset[Value]] = field(factory=dict)
    _resolved: dict[Value, Value] = field(factory=dict)
    _busy: set[Value] = field(factory=set)
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
        made = self.made.owner.value(old.name, old.type)
        self.scratch.add(made)
        self.written[made] = old.source.span
        return made

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
            found: frozenset[Value] = frozenset()
            for v in below:
                found |= self._placeholders[v]
            self._placeholders[current] = found
            stack.pop()
        return self._placeholders[value]

    def _below(self, value: Value) -> list[Value]:
        if value.source is None:
            return []
        named = [self.made.named[name] for name in value.source.symbols if name in self.made.named]
        return [*value.source.operand_values, *named]

    def _in_forms(self, forms: Sequence[Affine]) -> frozenset[Value]:
        found: frozenset[Value] = frozenset()
        for form in forms:
            for name in form.names:
                if name in self.made.named:
                    found |= self.placeholders_in(self.made.named[name])
        return found

    # ---- recording ----

    def mark(self) -> int:
        return len(self.events) + len(self.reads)

    def _since(self, mark: int) -> list[Event | Read]:
        everything: list[Event | Read] = sorted([*self.events, *self.reads], key=lambda one: self._order[id(one)])
        return everything[mark:]

    def used_since(self, mark: int) -> set[Value]:
        found: set[Value] = set()
        for one in self._since(mark):
            values = [*one.conditions, *(one.elements if isinstance(one, Event) else ())]
            for value in values:
                found |= self.placeholders_in(value)
            found |= self._in_forms(one.index)
        return found

    def replace_since(self, mark: int, known: dict[Value, Value]) -> None:
        """Put running values in the events recorded since the mark."""
        change = self.made.replacement(known, {})
        for one in self._since(mark):
            one.conditions = tuple(change.of(v) for v in one.conditions)
            one.index = tuple(change.form(form) for form in one.index)
            if isinstance(one, Event):
                one.elements = tuple(change.of(v) for v in one.elements)

    def load(self, mem: Value, index: tuple[Affine, ...], conditions: Sequence[Value], frames: tuple[Frame, ...], op: Load) -> Value:
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
        read = Read(mem, index, tuple(conditions), frames, len(self.events), placeholder, op.span)
        self._order[id(read)] = len(self._order)
        self.reads.append(read)
        self.read_of[placeholder] = read
        return placeholder

    def store(
        self, mem: Value, index: tuple[Affine, ...], value: Value, conditions: Sequence[Value], frames: tuple[Frame, ...], span: Span | None
    ) -> None:
        event = Event(mem, index, (value,), tuple(conditions), frames, len(self.events), span)
        found = self._accumulated(value, event)
        if found is not None:
            self._sums(event, found)
        self._order[id(event)] = len(self._order)
        self.events.append(event)

    def _sums(self, event: Event, found: _Accumulated) -> None:
        """The event as an accumulation, unless it is one over no axis: that is only a value computed from the old one."""
        resets = [one.frames for one in self.events[: event.position] if one.mem is event.mem and one.monoid is None]
        before = event.elements
        event.monoid, event.reads, event.elements = found.monoid, found.reads, found.elements
        event.flags, event.component = found.flags, found.component
        event.fresh = max((_common(resetting, event.frames) for resetting in resets), default=0)
        if not event.missing:
            event.monoid, event.reads, event.elements, event.component = None, (), before, 0

    def rescaled_since(self, mark: int, judge: Callable[[Event], tuple[Read, Value] | None]) -> None:
        """Stores since the mark that rescale the element which they add to (`judge` says which one they read, and what they add) become
        accumulations."""
        for one in self._since(mark):
            found = judge(one) if isinstance(one, Event) and one.monoid is None else None
            if found is not None and isinstance(one, Event):
                self._sums(one, _Accumulated("add", (found[0],), (found[1],), ("reassoc", "contract")))

    def own_element(self, read: Read, event: Event) -> bool:
        """Whether it reads the event's own element, where nothing was stored since."""
        if read.index != event.index or read.frames != event.frames or read.mem is not event.mem:
            return False
        return all(one.mem is not read.mem for one in self.events[read.position : event.position])

    def _accumulated(self, value: Value, event: Event) -> _Accumulated | None:
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

    def _old(self, value: Value, event: Event, any_mem: bool = False) -> Read | None:
        """The read behind the value, when it reads the event's own element and nothing was stored there since."""
        read = self.read_of.get(value)
        if read is None or read.index != event.index or read.frames != event.frames:
            return None
        if read.mem is not event.mem and not any_mem:
            return None
        since = [one for one in self.events[read.position :] if one.mem is read.mem]
        if any(not any_mem or read not in one.reads for one in since):
            return None
        return read

    # ---- resolving reads ----

    def resolved(self, value: Value) -> Value:
        """The value with every read of written memory replaced by what was written."""
        if value in self._resolved:
            return self._resolved[value]
        known = {}
        for placeholder in self.placeholders_in(value):
            read = self.read_of.get(placeholder)
            if read is not None:
                known[placeholder] = self.content_of(read)
        self._resolved[value] = self.made.replace(value, known, {}) if known else value
        return self._resolved[value]

    def content_of(self, read: Read) -> Value:
        if read.placeholder in self._busy:
            raise Refused(f"`{read.mem.name}` is computed from itself", read.span)
        self._busy.add(read.placeholder)
        index = tuple(self._resolved_form(form) for form in read.index)
        context = tuple(self.resolved(c) for c in read.conditions)
        value = self.content(read.mem, index, read.frames, read.position, read.position, context, read.span, None)
        self._busy.discard(read.placeholder)
        return value

    def _resolved_form(self, form: Affine) -> Affine:
        known = {}
        for name in form.names:
            if name in self.made.named:
                old = self.made.named[name]
                new = self.resolved(old)
                if new is not old:
                    known[name] = affine_value(new) or Affine.of(new.name)
        return form.substitute(known)

    def content(
        self,
        mem: Value,
        index: tuple[Affine, ...],
        frames: tuple[Frame, ...],
        before: int,
        position: int,
        context: tuple[Value, ...],
        span: Span | None,
        own: Event | None,
    ) -> Value:
        """What `mem[index]` holds in an iteration of `frames`, as left by the events before number `before`. `own`: the accumulation
        whose start this is."""
        for event in reversed(self.events[:before]):
            if event.mem is not mem:
                continue
            found = self._writer(event, index, frames, context, span, own)
            if found is None:
                continue
            conditions, mapping, common = found
            if event.monoid is None:
                value = self.made.replace(self.resolved(event.value), {}, mapping)
            else:
                older = self._older(event, index, frames, position, context, span, own)
                value = self._joined(event, older, self._total(event, mapping))
            if conditions:
                self._same_every_time(event, common, span)
                rest = self.content(mem, index, frames, event.position, position, context, span, own)
                guard = self.made.conjunction(conditions)
                assert guard is not None
                return self.made.select(guard, value, rest)
            if event.monoid is None:
                self._nothing_between(mem, index, frames, position, common, span, own)
            return value
        self._nothing_between(mem, index, frames, position, -1, span, own)
        return self._initial(mem, index, frames, context, span)

    def _older(
        self,
        event: Event,
        index: tuple[Affine, ...],
        frames: tuple[Frame, ...],
        position: int,
        context: tuple[Value, ...],
        span: Span | None,
        own: Event | None,
    ) -> tuple[Value, ...]:
        """What an accumulation's memories held before it, at the reader's index."""
        return tuple(self.content(read.mem, index, frames, self._first_of(event), position, context, span, own) for read in event.reads)

    def _first_of(self, event: Event) -> int:
        """The number of the first event of the group that one `combine` stores: all of them start from what was before."""
        first = event.position
        for other in self.events[: event.position]:
            if other.reads and other.reads == event.reads:
                first = min(first, other.position)
        return first

    def _joined(self, event: Event, older: tuple[Value, ...], total: tuple[Value, ...]) -> Value:
        assert event.monoid is not None
        if self.made.is_identity(event.monoid, older):
            return total[event.component]
        if len(older) == 1:
            if not reorders(event.monoid, dtype_of(older[0]), event.flags) and event.missing:
                raise Refused(f"the order in which `{event.mem.name}` is summed up is fixed", event.span)
            return self.made.emit(Binary(operator=event.monoid, left=older[0], right=total[0], flags=event.flags))[0]
        return self.made.emit(Combine(monoid=event.monoid, operands_=(*older, *total)))[event.component]

    def _total(self, event: Event, mapping: dict[str, Affine]) -> tuple[Value, ...]:
        """All that an accumulation adds to one element."""
        assert event.monoid is not None
        elements = [self.resolved(e) for e in event.elements]
        missing = event.missing
        if missing:
            inner = [c for c in map(self.resolved, event.conditions) if {n for n, _ in union_axes(c)} & set(missing)]
            guard = self.made.conjunction(inner)
            if guard is not None:
                nothing = self.made.identity(event.monoid, [dtype_of(e) for e in elements])
                elements = [self.made.select(guard, e, n) for e, n in zip(elements, nothing, strict=True)]
            flags = tuple(flag for flag in event.flags if flag in ("reassoc", "contract"))
            elements = self.made.reduce(event.monoid, elements, missing, flags)
        return tuple(self.made.replace(e, {}, mapping) for e in elements)

    def _writer(
        self,
        event: Event,
        index: tuple[Affine, ...],
        frames: tuple[Frame, ...],
        context: tuple[Value, ...],
        span: Span | None,
        own: Event | None,
    ) -> tuple[list[Value], dict[str, Affine], int] | None:
        """Whether and where the event wrote the element in the reader's iteration: conditions, the event's axes, common loops."""
        common = _common(event.frames, frames)
        shared = {frame.axis for frame in event.frames[:common]}
        missing = set(event.missing)
        if missing & shared:
            same = own is not None and own.monoid == event.monoid and missing & shared <= set(own.missing)
            if not same:
                raise Refused(f"`{event.mem.name}` is read while the loop over `{sorted(missing & shared)[0]}` still adds to it", span)
        found = self._solve(event, index, frames, event.frames[common:], missing)
        if found.outcome is Outcome.NEVER:
            self._not_before(event, index, frames, common, span, own)
            return None
        if found.outcome is Outcome.UNKNOWN:
            raise Refused(f"which iteration wrote the element of `{event.mem.name}` that is read can't be told", span)
        if found.free:
            raise Refused(
                f"several iterations of `{found.free[0].rstrip(chr(39))}` write the element of `{event.mem.name}` that is read", span
            )
        mapping = {name[:-1]: form for name, form in found.values.items()}
        facts = self.made.facts(*context)
        conditions: list[Value] = []
        for axis, form in mapping.items():
            extent = self.made.axes[axis]
            if not facts.proves_inside(form, extent):
                conditions.append(self.made.emit(InBounds(of=form, below=extent))[0])
        for condition in map(self.resolved, event.conditions):
            if {n for n, _ in union_axes(condition)} & missing:
                continue
            here = self.made.replace(condition, {}, mapping)
            known = constraints_of(here)
            if here in context or (known is not None and all(facts.proves_nonnegative(form) for form in known)):
                continue
            conditions.append(here)
        return conditions, mapping, common

    def _solve(self, event: Event, index: tuple[Affine, ...], frames: tuple[Frame, ...], own: Sequence[Frame], bound: set[str]) -> Solution:
        """Solve `event index == index` for the axes of the frames `own`, but those that are bound."""
        prime = {frame.axis: Affine.of(frame.axis + "'") for frame in own if frame.axis not in bound}
        unknowns = {frame.axis + "'": frame.extent for frame in own if frame.axis not in bound}
        known = {frame.axis: frame.extent for frame in frames}
        mine = [self._resolved_form(form).substitute(prime) for form in event.index]
        return solve(list(zip(mine, index, strict=True)), unknowns, known)

    def _not_before(
        self, event: Event, index: tuple[Affine, ...], frames: tuple[Frame, ...], common: int, span: Span | None, own: Event | None
    ) -> None:
        """No iteration before the reader's wrote the element by this event, else refuse."""
        if common == 0 or event is own:
            return
        found = self._solve(event, index, frames, event.frames, set(event.missing))
        if found.outcome is Outcome.NEVER:
            return
        for frame in event.frames[:common]:
            solved = found.values.get(frame.axis + "'")
            distance = (solved - frame.axis).value if solved is not None else None
            if distance is None:
                break
            if distance > 0:
                return
            if distance < 0:
                away = f"{-distance} iteration{'s' if distance < -1 else ''} of `{frame.variable}` before"
                raise Refused(f"`{event.mem.name}` is read as it was written {away}", span, frame.variable)
        raise Refused(f"which iteration wrote the element of `{event.mem.name}` that is read can't be told", span)

    def _same_every_time(self, event: Event, common: int, span: Span | None) -> None:
        """A writer that writes at times only may have written in an earlier iteration of common loops that its index lacks."""
        have = {name for form in event.index for name in form.names}
        for frame in event.frames[:common]:
            if frame.axis not in have:
                raise Refused(f"`{event.mem.name}` may hold what an earlier iteration of `{frame.variable}` wrote", span, frame.variable)

    def _nothing_between(
        self,
        mem: Value,
        index: tuple[Affine, ...],
        frames: tuple[Frame, ...],
        position: int,
        depth: int,
        span: Span | None,
        own: Event | None,
    ) -> None:
        """Events further down the text, in earlier iterations of loops common with the reader, didn't write the element."""
        for event in self.events[position:]:
            if event.mem is not mem or event is own:
                continue
            common = _common(event.frames, frames)
            if common <= max(depth, 0):
                continue
            if own is not None and event.monoid == own.monoid and own.monoid is not None:
                continue
            found = self._solve(event, index, frames, event.frames, set(event.missing))
            if found.outcome is Outcome.NEVER:
                continue
            harmless = found.outcome is Outcome.SOLVED and not (set(event.missing) & {f.axis for f in event.frames[:common]})
            for frame in event.frames[:common]:
                solved = found.values.get(frame.axis + "'")
                distance = (solved - frame.axis).value if solved is not None else None
                if distance is not None and distance > 0:
                    break
                if distance != 0:
                    harmless = False
            if not harmless:
                raise Refused(f"`{mem.name}` is read as an earlier iteration of `{event.frames[common - 1].variable}` wrote it", span)

    def _initial(
        self, mem: Value, index: tuple[Affine, ...], frames: tuple[Frame, ...], context: tuple[Value, ...], span: Span | None
    ) -> Value:
        """What the memory held at the start."""
        if mem in self.scratch:
            raise Refused(f"`{mem.name}` is read where nothing was written", span)
        dtype = mem_of(mem).dtype
        if mem.name in self.zeroed:
            return self.made.const(0.0 if dtype.startswith(("f", "b")) else 0, Tile(dtype))
        for event in self.events:
            if event.mem is mem and tuple(map(self._resolved_form, event.index)) != index:
                raise Refused(f"`{mem.name}` is read at other places than where it is written", span)
        return guarded_load(self.made, mem, index, context)

    # ---- the end ----

    def store_all(self) -> None:
        """Store what each memory holds at the end; all reads come first."""
        stores: list[_Final] = []
        for mem in self.written:
            if mem in self.scratch:
                continue
            finals: list[_Final] = []
            events = [event for event in self.events if event.mem is mem]
            for event in events:
                final = self._final(event, events)
                finals = [old for old in finals if not self._covers(final, old)]
                finals.append(final)
            stores += finals
        guards = [self.made.conjunction(final.conditions) for final in stores]
        for final, guard in zip(stores, guards, strict=True):
            self.made.at(final.event.span)
            self.made.owner.body.store(final.event.mem, final.value, final.index, guard)

    def _final(self, event: Event, events: list[Event]) -> _Final:
        index = tuple(self._resolved_form(form) for form in event.index)
        for name in dict.fromkeys(name for form in index for name in form.names):
            if name in self.made.named and name not in self._parameters():
                raise Refused(f"the index at which `{event.mem.name}` is written depends on data", event.span)
        missing = event.missing
        box = {frame.axis: frame.extent for frame in event.frames if frame.axis not in missing}
        if not injective(index, box):
            have = {name for form in index for name in form.names}
            absent = [frame.variable for frame in event.frames if frame.axis in box and frame.axis not in have]
            which = f"of `{absent[0]}` " if absent else ""
            raise Refused(f"iterations {which}write the same element of `{event.mem.name}`", event.span, absent[0] if absent else None)
        conditions = tuple(map(self.resolved, event.conditions))
        kept = tuple(c for c in conditions if not {n for n, _ in union_axes(c)} & set(missing))
        for other in events:
            if other.position < event.position:
                self._in_order(other, event)
        if event.monoid is None:
            return _Final(index, self.resolved(event.value), kept, event)
        for other in events:
            shared = {f.axis for f in other.frames[: _common(other.frames, event.frames)]}
            if other is not event and shared & set(missing) and other.monoid != event.monoid:
                raise Refused(f"`{event.mem.name}` is summed up and set in the same loop", other.span)
        first = self._first_of(event)
        older = tuple(self.content(read.mem, index, event.frames, first, first, kept, event.span, event) for read in event.reads)
        return _Final(index, self._joined(event, older, self._total(event, {})), kept, event)

    def _parameters(self) -> set[str]:
        return {parameter.name for parameter in self.made.owner.function.parameters}

    def _in_order(self, earlier: Event, later: Event) -> None:
        """Where both write one element, the one further down the text does so last."""
        common = _common(earlier.frames, later.frames)
        if common == 0 or (earlier.monoid == later.monoid and earlier.monoid is not None):
            return
        index = tuple(self._resolved_form(form) for form in later.index)
        found = self._solve(earlier, index, later.frames, earlier.frames, set(earlier.missing))
        if found.outcome is Outcome.NEVER:
            return
        for frame in earlier.frames[:common]:
            solved = found.values.get(frame.axis + "'")
            distance = (solved - frame.axis).value if solved is not None else None
            if distance is None or distance > 0:
                raise Refused(
                    f"different iterations of `{frame.variable}` write one element of `{later.mem.name}`", later.span, frame.variable
                )
            if distance < 0:
                return

    def _covers(self, new: _Final, old: _Final) -> bool:
        """Whether the new store writes all that the old one wrote."""
        if new.conditions:
            return False
        axes = dict.fromkeys(name for form in old.index for name in form.names if name in self.made.axes)
        there = dict.fromkeys(name for form in new.index for name in form.names if name in self.made.axes)
        prime = {axis: Affine.of(axis + "'") for axis in axes}
        unknowns = {axis + "'": self.made.axes[axis] for axis in axes}
        known = {axis: self.made.axes[axis] for axis in there}
        found = solve([(a.substitute(prime), b) for a, b in zip(old.index, new.index, strict=True)], unknowns, known)
        if found.outcome is not Outcome.SOLVED or found.free or len(axes) != len(there):
            return False
        partners = [str(form) for form in found.values.values()]
        return sorted(partners) == sorted(there) and all(
            self.made.axes[name[:-1]] == self.made.axes.get(str(form)) for name, form in found.values.items()
        )


def _common(one: Sequence[Frame], other: Sequence[Frame]) -> int:
    """How many loops both stand in, from the outermost."""
    number = 0
    for a, b in zip(one, other, strict=False):
        if a is not b:
            break
        number += 1
    return number
