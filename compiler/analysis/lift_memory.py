"""Memory under the lift: a read of memory that the nest writes is the event that wrote the element (`lift_events.py`), with axes renamed.
Reads that another iteration must have written are refused.

How a read finds its writer. The read stands in loops L, the event in loops E, with common loops in front. With the common axes
held, `event index == read index` is solved for the event's own axes. One solution: the writer ran in the same iteration of the
common loops, earlier in the text. None: it is looked for with all axes free; a writer in a later iteration has not run yet, one
in an earlier iteration means that the loop carries the value, which is refused."""

from collections.abc import Sequence

from compiler.analysis.accesses import affine_value, constraints_of, reorders
from compiler.analysis.affine_sets import Solution, SolveOutcome, injective, solve
from compiler.analysis.field_values import Refused, guarded_load
from compiler.analysis.guards import rules_out
from compiler.analysis.lift_events import LiftedLoop, MemoryEvent, MemoryEvents, PendingRead, common_loops
from compiler.hir.affine import Affine
from compiler.hir.core import Binary, Combine, InBounds, dtype_of, union_axes
from compiler.hir.instruction import Value
from compiler.hir.memory import mem_of
from compiler.hir.types import Tile
from compiler.source import Span
from runtime.records import define, evolve, field


@define(eq=False)
class _Final:
    index: tuple[Affine, ...]
    value: Value
    conditions: tuple[Value, ...]
    event: MemoryEvent


@define(eq=False)
class LiftedMemory(MemoryEvents):
    """All that a lift knows of memory."""

    zeroed: frozenset[str] = frozenset()
    """Memories that are zero at the start."""
    _resolved: dict[Value, Value] = field(factory=dict)
    _busy: set[Value] = field(factory=set)

    # ---- resolving reads ----

    def resolved(self, value: Value) -> Value:
        """The value with every read of written memory replaced by what was written."""
        if value in self._resolved:
            return self._resolved[value]
        known = {read.placeholder: self.content_of(read) for read in self.reads_in(value)}
        self._resolved[value] = self.made.replace(value, known, {}) if known else value
        return self._resolved[value]

    def content_of(self, read: PendingRead) -> Value:
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
        frames: tuple[LiftedLoop, ...],
        before: int,
        position: int,
        context: tuple[Value, ...],
        span: Span | None,
        own: MemoryEvent | None,
    ) -> Value:
        """What `mem[index]` holds in an iteration of `frames`, as left by the events before number `before`. `own`: the accumulation
        whose start this is."""
        for event in reversed(self.events[:before]):
            if event.mem is not mem:
                continue
            writer = self._writer(event, index, frames, context, span, own)
            if writer is None:
                continue
            conditions, mapping, common = writer
            wanted = (*context, *conditions)
            if event.monoid is None:
                value = self.made.replace(self.resolved(event.value), {}, mapping, wanted)
            else:
                older = self._older(event, index, frames, position, context, span, own)
                value = self._joined(event, older, self._total(event, mapping, wanted))
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
        event: MemoryEvent,
        index: tuple[Affine, ...],
        frames: tuple[LiftedLoop, ...],
        position: int,
        context: tuple[Value, ...],
        span: Span | None,
        own: MemoryEvent | None,
    ) -> tuple[Value, ...]:
        """What an accumulation's memories held before it, at the reader's index."""
        return tuple(self.content(read.mem, index, frames, self._first_of(event), position, context, span, own) for read in event.reads)

    def _first_of(self, event: MemoryEvent) -> int:
        """The number of the first event of the group that one `combine` stores: all of them start from what was before."""
        first = event.position
        for other in self.events[: event.position]:
            if other.reads and other.reads == event.reads:
                first = min(first, other.position)
        return first

    def _joined(self, event: MemoryEvent, older: tuple[Value, ...], total: tuple[Value, ...]) -> Value:
        assert event.monoid is not None
        if self.made.is_identity(event.monoid, older):
            return total[event.component]
        if len(older) == 1:
            if not reorders(event.monoid, dtype_of(older[0]), event.flags) and event.missing:
                raise Refused(f"the order in which `{event.mem.name}` is summed up is fixed", event.span)
            return self.made.emit(Binary(operator=event.monoid, left=older[0], right=total[0], flags=event.flags))[0]
        return self.made.emit(Combine(monoid=event.monoid, operands_=(*older, *total)))[event.component]

    def _total(self, event: MemoryEvent, mapping: dict[str, Affine], wanted: Sequence[Value]) -> tuple[Value, ...]:
        """All that an accumulation adds to one element, which is read where the conditions `wanted` hold."""
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
        return tuple(self.made.replace(e, {}, mapping, wanted) for e in elements)

    def _writer(
        self,
        event: MemoryEvent,
        index: tuple[Affine, ...],
        frames: tuple[LiftedLoop, ...],
        context: tuple[Value, ...],
        span: Span | None,
        own: MemoryEvent | None,
    ) -> tuple[list[Value], dict[str, Affine], int] | None:
        """Whether and where the event wrote the element in the reader's iteration: conditions, the event's axes, common loops."""
        common = common_loops(event.frames, frames)
        shared = {frame.axis for frame in event.frames[:common]}
        missing = set(event.missing)
        if missing & shared:
            same = own is not None and own.monoid == event.monoid and missing & shared <= set(own.missing)
            if not same:
                raise Refused(f"`{event.mem.name}` is read while the loop over `{sorted(missing & shared)[0]}` still adds to it", span)
        solution = self._solve(event, index, frames, event.frames[common:], missing)
        if solution.outcome is SolveOutcome.NEVER:
            self._not_before(event, index, frames, common, span, own)
            return None
        if solution.outcome is SolveOutcome.UNKNOWN:
            raise Refused(f"which iteration wrote the element of `{event.mem.name}` that is read can't be told", span)
        if solution.free:
            raise Refused(
                f"several iterations of `{solution.free[0].rstrip(chr(39))}` write the element of `{event.mem.name}` that is read", span
            )
        mapping = {name[:-1]: form for name, form in solution.values.items()}
        facts = self.made.facts(*context)
        conditions: list[Value] = []
        for axis, form in mapping.items():
            extent = self.made.axes[axis]
            if not facts.proves_inside(form, extent):
                conditions.append(self.made.emit(InBounds(of=form, below=extent))[0])
        for condition in map(self.resolved, event.conditions):
            if {n for n, _ in union_axes(condition)} & missing:
                continue
            at_index = self.made.replace(condition, {}, mapping, (*context, *conditions))
            known = constraints_of(at_index)
            if at_index in context or (known is not None and all(facts.proves(form) for form in known)):
                continue
            conditions.append(at_index)
        return conditions, mapping, common

    def _solve(
        self, event: MemoryEvent, index: tuple[Affine, ...], frames: tuple[LiftedLoop, ...], own: Sequence[LiftedLoop], bound: set[str]
    ) -> Solution:
        """Solve `event index == index` for the axes of the frames `own`, but those that are bound."""
        prime = {frame.axis: Affine.of(frame.axis + "'") for frame in own if frame.axis not in bound}
        unknowns = {frame.axis + "'": frame.extent for frame in own if frame.axis not in bound}
        known = {frame.axis: frame.extent for frame in frames}
        mine = [self._resolved_form(form).substitute(prime) for form in event.index]
        solution = solve(list(zip(mine, index, strict=True)), unknowns, known)
        values = solution.values.items() if solution.outcome is SolveOutcome.SOLVED else ()
        if any(self._is_outside(form, unknowns[name]) for name, form in values):
            return Solution(SolveOutcome.NEVER)
        return solution

    def _is_outside(self, form: Affine, extent: Affine) -> bool:
        """Whether no iteration of an axis of this extent is the one that the form says."""
        if form.constant == 0 and len(form.terms) <= 1:
            return False
        facts = self.made.facts()
        return facts.proves(-form - 1) or facts.proves(form - extent)

    def _not_before(
        self,
        event: MemoryEvent,
        index: tuple[Affine, ...],
        frames: tuple[LiftedLoop, ...],
        common: int,
        span: Span | None,
        own: MemoryEvent | None,
    ) -> None:
        """No iteration before the reader's wrote the element by this event, else refuse."""
        if common == 0 or event is own:
            return
        solution = self._solve(event, index, frames, event.frames, set(event.missing))
        if solution.outcome is SolveOutcome.NEVER:
            return
        for frame in event.frames[:common]:
            solved = solution.values.get(frame.axis + "'")
            distance = (solved - frame.axis).value if solved is not None else None
            if distance is None:
                break
            if distance > 0:
                return
            if distance < 0:
                away = f"{-distance} iteration{'s' if distance < -1 else ''} of `{frame.variable}` before"
                raise Refused(f"`{event.mem.name}` is read as it was written {away}", span, frame.variable)
        raise Refused(f"which iteration wrote the element of `{event.mem.name}` that is read can't be told", span)

    def _same_every_time(self, event: MemoryEvent, common: int, span: Span | None) -> None:
        """A writer that writes at times only may have written in an earlier iteration of common loops that its index lacks."""
        have = {name for form in event.index for name in form.names}
        for frame in event.frames[:common]:
            if frame.axis not in have:
                raise Refused(f"`{event.mem.name}` may hold what an earlier iteration of `{frame.variable}` wrote", span, frame.variable)

    def _nothing_between(
        self,
        mem: Value,
        index: tuple[Affine, ...],
        frames: tuple[LiftedLoop, ...],
        position: int,
        depth: int,
        span: Span | None,
        own: MemoryEvent | None,
    ) -> None:
        """Events further down the text, in earlier iterations of loops common with the reader, didn't write the element."""
        for event in self.events[position:]:
            if event.mem is not mem or event is own:
                continue
            common = common_loops(event.frames, frames)
            if common <= max(depth, 0):
                continue
            if own is not None and event.monoid == own.monoid and own.monoid is not None:
                continue
            solution = self._solve(event, index, frames, event.frames, set(event.missing))
            if solution.outcome is SolveOutcome.NEVER:
                continue
            harmless = solution.outcome is SolveOutcome.SOLVED and not (set(event.missing) & {f.axis for f in event.frames[:common]})
            for frame in event.frames[:common]:
                solved = solution.values.get(frame.axis + "'")
                distance = (solved - frame.axis).value if solved is not None else None
                if distance is not None and distance > 0:
                    break
                if distance != 0:
                    harmless = False
            if not harmless:
                raise Refused(f"`{mem.name}` is read as an earlier iteration of `{event.frames[common - 1].variable}` wrote it", span)

    def _initial(
        self, mem: Value, index: tuple[Affine, ...], frames: tuple[LiftedLoop, ...], context: tuple[Value, ...], span: Span | None
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
                finals = [left for old in finals for left in self._beside(final, old)]
                same = next((old for old in finals if old.index == final.index and not old.conditions), None)
                finals = [old for old in finals if old is not same]
                finals.append(final if same is None else self._chosen(final, same))
            stores += finals
        guards = [self.made.conjunction(final.conditions) for final in stores]
        for final, guard in zip(stores, guards, strict=True):
            self.made.at(final.event.span)
            self.made.owner.body.store(final.event.mem, final.value, final.index, guard)

    def _final(self, event: MemoryEvent, events: list[MemoryEvent]) -> _Final:
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
        remaining = tuple(c for c in conditions if not {n for n, _ in union_axes(c)} & set(missing))
        for other in events:
            if other.position < event.position:
                self._in_order(other, event)
        if event.monoid is None:
            return _Final(index, self.resolved(event.value), remaining, event)
        for other in events:
            shared = {f.axis for f in other.frames[: common_loops(other.frames, event.frames)]}
            if other is not event and shared & set(missing) and other.monoid != event.monoid:
                raise Refused(f"`{event.mem.name}` is summed up and set in the same loop", other.span)
        first = self._first_of(event)
        older = tuple(self.content(read.mem, index, event.frames, first, first, remaining, event.span, event) for read in event.reads)
        return _Final(index, self._joined(event, older, self._total(event, {}, ())), remaining, event)

    def _parameters(self) -> set[str]:
        return {parameter.name for parameter in self.made.owner.function.parameters}

    def _in_order(self, earlier: MemoryEvent, later: MemoryEvent) -> None:
        """Where both write one element, the one further down the text does so last."""
        common = common_loops(earlier.frames, later.frames)
        if common == 0 or (earlier.monoid == later.monoid and earlier.monoid is not None):
            return
        index = tuple(self._resolved_form(form) for form in later.index)
        solution = self._solve(earlier, index, later.frames, earlier.frames, set(earlier.missing))
        if solution.outcome is SolveOutcome.NEVER:
            return
        for frame in earlier.frames[:common]:
            solved = solution.values.get(frame.axis + "'")
            distance = (solved - frame.axis).value if solved is not None else None
            if distance is None or distance > 0:
                raise Refused(
                    f"different iterations of `{frame.variable}` write one element of `{later.mem.name}`", later.span, frame.variable
                )
            if distance < 0:
                return

    # ---- stores of one memory write different elements ----

    def _beside(self, new: _Final, old: _Final) -> list[_Final]:
        """What is left of an earlier store beside a later one: no element is stored twice, so that no order of stores matters."""
        if self._covers(new, old):
            return []
        if new.index == old.index and (not old.conditions or self._either(new, old)):
            return [old]
        unknowns = {frame.axis + "'": frame.extent for frame in new.event.frames if frame.axis not in new.event.missing}
        known = {frame.axis: frame.extent for frame in old.event.frames}
        prime = {name[:-1]: Affine.of(name) for name in unknowns}
        solution = solve([(a.substitute(prime), b) for a, b in zip(new.index, old.index, strict=True)], unknowns, known)
        if solution.outcome is SolveOutcome.NEVER:
            return [old]
        if solution.free or (solution.outcome is SolveOutcome.UNKNOWN and not solution.residue):
            raise Refused(f"which elements of `{new.event.mem.name}` are written again can't be told", new.event.span)
        again = self._conditions_of(solution, new, old)
        if again is None:
            return [old]
        anew = self.made.conjunction(again)
        if anew is None:
            return []
        return [evolve(old, conditions=(*old.conditions, self.made.negated(anew)))]

    def _chosen(self, new: _Final, old: _Final) -> _Final:
        """Two stores to the same elements as one: the later where its conditions hold."""
        anew = self.made.conjunction(new.conditions)
        assert anew is not None
        return evolve(old, value=self.made.select(anew, new.value, old.value), event=new.event)

    def _conditions_of(self, solution: Solution, new: _Final, old: _Final) -> list[Value] | None:
        """When the element of an earlier store is one that the later one writes; None where it never is."""
        facts = self.made.facts(*old.conditions)
        again: list[Value] = []
        forms = [(form, self.made.axes[name[:-1]]) for name, form in solution.values.items()]
        for form, extent in [*forms, *((form, Affine.of(1)) for form in solution.residue)]:
            if facts.proves(-form - 1) or facts.proves(form - extent):
                return None
            if not facts.proves_inside(form, extent):
                again.append(self.made.emit(InBounds(of=form, below=extent))[0])
        mapping = {name[:-1]: form for name, form in solution.values.items()}
        for condition in new.conditions:
            there = self.made.replace(condition, {}, mapping, (*old.conditions, *again))
            bounds = constraints_of(there) or ()
            if any(facts.proves(-form - 1) for form in bounds):
                return None
            if not bounds or not all(map(facts.proves, bounds)):
                again.append(there)
        return again

    def _either(self, new: _Final, old: _Final) -> bool:
        """Whether the conditions of one store rule out those of another at the same place."""
        mine, theirs = [
            [condition for condition in event.conditions if not {name for name, _ in union_axes(condition)} & set(event.missing)]
            for event in (new.event, old.event)
        ]
        return any(rules_out(mine, condition) for condition in theirs) or any(rules_out(theirs, condition) for condition in mine)

    def _covers(self, new: _Final, old: _Final) -> bool:
        """Whether the new store writes all that the old one wrote."""
        if new.conditions:
            return False
        axes = dict.fromkeys(name for form in old.index for name in form.names if name in self.made.axes)
        there = dict.fromkeys(name for form in new.index for name in form.names if name in self.made.axes)
        prime = {axis: Affine.of(axis + "'") for axis in axes}
        unknowns = {axis + "'": self.made.axes[axis] for axis in axes}
        known = {axis: self.made.axes[axis] for axis in there}
        solution = solve([(a.substitute(prime), b) for a, b in zip(old.index, new.index, strict=True)], unknowns, known)
        if solution.outcome is not SolveOutcome.SOLVED or solution.free or len(axes) != len(there):
            return False
        partners = [str(form) for form in solution.values.values()]
        return sorted(partners) == sorted(there) and all(
            self.made.axes[name[:-1]] == self.made.axes.get(str(form)) for name, form in solution.values.items()
        )
