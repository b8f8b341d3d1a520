"""What order each loop of a nest needs: none (parallel), that of a monoid (reduction, scan), or the written one (serial), with
the reason in words. Works on form A, with slots or with carried values, and changes nothing."""

from enum import Enum

from compiler.analysis.accesses import (
    Nest,
    NestAccess,
    NestLoop,
    collect,
    depends,
    reorders,
    slot_accesses,
    updates,
    used_only_to_update,
    walk,
)
from compiler.analysis.affine_sets import SolveOutcome, lower, solve, upper
from compiler.analysis.disjoint_rows import MARK, row_memories
from compiler.hir.affine import Affine
from compiler.hir.control import Break, Call, For, If, Return, While, Yield
from compiler.hir.instruction import Effect, Instruction, InstructionFamily, Region, Value
from compiler.hir.memory import GetSlot, MakeSlot, SetSlot
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Slot, Tile
from runtime.records import Factory, define, field, frozen


class LoopKind(Enum):
    PARALLEL = "parallel"
    REDUCTION = "reduction"
    SCAN = "scan"
    SERIAL = "serial"


@frozen(eq=False)
class Fold:
    """A monoid that joins the iterations of a loop: through a slot or carried value (`cell`), or through memory (`cell` is it).
    `reorders`: its order may change (integers, min, max; floats with permission)."""

    cell: Value
    monoid: str
    reorders: bool
    in_memory: bool = False


@define(eq=False)
class LoopFacts:
    """What is known of one loop. `private`: slots and scratch memories that each iteration may have for itself."""

    op: For
    kind: LoopKind
    reason: str = ""
    folds: tuple[Fold, ...] = ()
    private: tuple[Value, ...] = ()
    workspaces: tuple[Value, ...] = ()
    conflicts: bool = False
    """Whether turns surely depend on one another; else, where the order is kept, that can't be ruled out."""

    @property
    def independent(self) -> bool:
        """Its iterations may run in any order, at once, with nothing to join."""
        return self.kind is LoopKind.PARALLEL


@define(eq=False)
class NestFacts:
    """Facts of every loop, by identity of its instruction, and the accesses they were drawn from."""

    nest: Nest
    loops: dict[For, LoopFacts] = Factory(dict)

    def of(self, op: For) -> LoopFacts:
        return self.loops[op]

    @property
    def outermost(self) -> list[LoopFacts]:
        return [self.loops[loop.op] for loop in self.nest.loops if len(self.nest.around[loop.op]) == 1]


def analyse(function: HirFunction) -> NestFacts:
    """Classify every loop of a function in form A."""
    nest = collect(function)
    facts = NestFacts(nest)
    for loop in nest.loops:
        facts.loops[loop.op] = _LoopJudge(nest, loop).verdict()
    return facts


class Relation(Enum):
    """How the elements that two accesses touch in different iterations of a loop relate."""

    APART = "apart"
    MEET = "meet"


@frozen
class Conflict:
    """Two accesses, one of them a store, that touch one element in different iterations of a loop. `distance`: iterations
    from the first access's to the second's, when it is constant."""

    first: NestAccess
    second: NestAccess
    distance: int | None


def conflict(nest: Nest, loop: NestLoop, first: NestAccess, second: NestAccess) -> Conflict | None:
    """Whether the accesses may meet in different iterations of the loop, all loops around it being at the same iteration. Indices that
    data decide anew in each iteration tell nothing: the others may."""
    around = nest.around[loop.op][:-1]
    outer = {loop_.axis for loop_ in around}
    changing = {name for name in first.data | second.data if loop in nest.home[nest.definitions[name]]}
    known_dims = [pair for pair in zip(second.index, first.index, strict=True) if changing.isdisjoint((*pair[0].names, *pair[1].names))]
    if not known_dims:
        return Conflict(first, second, None)
    inner_first = [loop_ for loop_ in first.loops if loop_.axis not in outer]
    inner_second = [loop_ for loop_ in second.loops if loop_.axis not in outer]
    known = {loop_.axis: loop_.extent for loop_ in (*around, *inner_first)}
    prime = {loop_.axis: Affine.of(loop_.axis + "'") for loop_ in inner_second}
    unknowns = {loop_.axis + "'": loop_.extent.substitute(prime) for loop_ in inner_second}
    pairs = [(form.substitute(prime), other) for form, other in known_dims]
    solution = solve(pairs, unknowns, known)
    if solution.outcome is SolveOutcome.NEVER:
        return None
    solved = solution.values.get(loop.axis + "'")
    distance = None
    if solved is not None:
        distance = (solved - loop.axis).value
        if distance == 0:
            return None
        if distance is not None and loop.extent.value is not None and abs(distance) >= loop.extent.value:
            return None
    box = {**known, **unknowns}
    if any(_kept_apart(left - right, loop, box) for left, right in pairs):
        return None
    return Conflict(first, second, distance)


def _kept_apart(difference: Affine, loop: NestLoop, box: dict[str, Affine]) -> bool:
    """In `c*(a' - a) + rest`, the rest never reaches a multiple of c but 0, nor 0 with it: 64*b + t, t below 64."""
    factor = difference.coefficient(loop.axis + "'")
    if factor == 0 or difference.coefficient(loop.axis) != -factor:
        return False
    rest = difference.without(loop.axis, loop.axis + "'")
    if loop.axis in rest.names or loop.axis + "'" in rest.names:
        return False
    most, least = upper(rest, box).value, lower(rest, box).value
    return most is not None and least is not None and -abs(factor) < least and most < abs(factor)


@define
class _LoopJudge:
    nest: Nest
    loop: NestLoop
    folds: list[Fold] = field(factory=list)
    private: list[Value] = field(factory=list)
    workspaces: list[Value] = field(factory=list)
    scans: bool = False
    reason: str = ""
    conflicts: bool = False

    def verdict(self) -> LoopFacts:
        op = self.loop.op
        self.reason = self.control(op) or self.slots(op) or self.carried(op)
        self.conflicts = bool(self.reason)
        self.reason = self.reason or self.memories()
        if self.reason:
            kind = LoopKind.SERIAL
        elif self.scans:
            kind = LoopKind.SCAN
        else:
            kind = LoopKind.REDUCTION if self.folds else LoopKind.PARALLEL
        if op.mark("serial") and not self.reason:
            kind, self.reason = LoopKind.SERIAL, "`@serial` says so"
        return LoopFacts(op, kind, self.reason, tuple(self.folds), tuple(self.private), tuple(self.workspaces), self.conflicts)

    def control(self, op: For) -> str:
        if breaks(op.body):
            return "`break` ends it early"
        for inner in walk(op.body):
            if isinstance(inner, Return):
                return "`return` leaves it"
            if isinstance(inner, Call):
                return f"it calls @{inner.function}"
            if inner.family is InstructionFamily.LIBRARY or (inner.effects & Effect.SYNC):
                return f"`{inner.name}` orders its iterations"
        return ""

    # ---- slots ----

    def slots(self, op: For) -> str:
        inside: dict[Value, list[Instruction]] = {}
        for access, slot in slot_accesses(op.body):
            inside.setdefault(slot, []).append(access)
        for slot, accesses in inside.items():
            if any(isinstance(a, MakeSlot) for a in accesses):
                continue
            if not any(isinstance(a, SetSlot) for a in accesses):
                continue
            reason = self.slot(op, slot, accesses)
            if reason:
                return reason
        return ""

    def slot(self, op: For, slot: Value, accesses: list[Instruction]) -> str:
        """The slot is set in the loop and was made outside it."""
        sets = [a for a in accesses if isinstance(a, SetSlot)]
        gets = [a for a in accesses if isinstance(a, GetSlot)]
        if written_first(op.body, slot) and not self.read_after(slot, op):
            self.private.append(slot)
            return ""
        monoids = set()
        reorder = True
        used: set[Value] = set()

        def is_old(value: Value) -> bool:
            return isinstance(value.source, GetSlot) and value.source.slot is slot

        for setter in sets:
            update = updates(setter.value, is_old)
            if update is None:
                return f"`{slot.name}` carries a value from one iteration to the next that is no sum, product, min or max"
            monoid, old, flags = update
            used.add(old)
            reorder = reorder and reorders(monoid, slot.type.dtype if isinstance(slot.type, Slot) else "", flags)
            monoids.add(monoid)
            if not used_only_to_update(setter.value, is_old, self.nest, {id(other) for other in sets}):
                self.scans = True
        if len(monoids) > 1:
            return f"`{slot.name}` is updated by {' and '.join(sorted(monoids))}"
        self.folds.append(Fold(slot, monoids.pop(), reorder))
        if any(get.result not in used for get in gets):
            self.scans = True
        return ""

    def read_after(self, slot: Value, op: For) -> bool:
        """Whether the slot is read outside the loop before it is surely set again: any read outside counts."""
        inside = {id(a) for a in walk(op.body)}
        return any(isinstance(use, GetSlot) and id(use) not in inside for use in self.nest.uses.get(slot, ()))

    # ---- carried values ----

    def carried(self, op: For) -> str:
        if not op.carried:
            return ""
        last = op.body.body[-1]
        assert isinstance(last, Yield)
        names = {id(p): n for n, p in enumerate(op.body.parameters[1:])}
        done: set[int] = set()
        for number, (parameter, value) in enumerate(zip(op.body.parameters[1:], last.values, strict=True)):
            if number in done or value is parameter:
                continue
            monoid_flags = carried_update(value, parameter)
            if monoid_flags is None:
                return f"`{parameter.name}` carries a value from one iteration to the next that is no sum, product, min or max"
            monoid, flags, group = monoid_flags
            done.update(names[id(v)] for v in group if id(v) in names)
            dtype = parameter.type.dtype if isinstance(parameter.type, Tile) else ""
            self.folds.append(Fold(parameter, monoid, reorders(monoid, dtype, flags)))
            if self.read_besides(parameter, value):
                self.scans = True
        return ""

    def read_besides(self, parameter: Value, value: Value) -> bool:
        """Whether the running value is used for more than its own update."""
        chain = update_chain(value, parameter)
        for op in chain.values():
            if isinstance(op, For) and parameter in op.carried:
                number = op.carried.index(parameter)
                last = op.body.body[-1]
                if self.read_besides(op.body.parameters[1 + number], last.operand_values[number]):
                    return True
        return any(
            id(use) not in chain
            for cell in [parameter, *(r for step in chain.values() for r in step.results)]
            for use in self.nest.uses.get(cell, ())
            if not isinstance(use, Yield)
        )

    # ---- memories ----

    def memories(self) -> str:
        inside = [a for a in self.nest.accesses if self.loop in a.loops]
        disjoint = row_memories(self.nest, self.loop) if self.loop.op.mark(MARK) else {}
        for mem in dict.fromkeys(a.mem for a in inside if a.is_store):
            if mem in disjoint:
                continue
            made_in = self.nest.allocated.get(mem)
            if made_in is not None and self.loop in made_in:
                continue
            touching = [a for a in inside if a.mem is mem]
            conflicts = [
                dependence
                for n, first in enumerate(touching)
                for second in touching[n:]
                if (first.is_store or second.is_store) and (dependence := conflict(self.nest, self.loop, first, second)) is not None
            ]
            if not conflicts:
                continue
            reason = self.in_memory(mem, touching, conflicts)
            if reason:
                return reason
        written = {a.mem for a in inside if a.is_store}
        for a in inside:
            if isinstance(a.mem.type, Mem) and not a.mem.type.noalias and (written - {a.mem}):
                return f"`{a.mem.name}` may be the same memory as `{next(iter(written - {a.mem})).name}`"
        return ""

    def in_memory(self, mem: Value, touching: list[NestAccess], conflicts: list[Conflict]) -> str:
        folded = [a for a in touching if a.accumulates is not None]
        monoids = {a.accumulates.monoid for a in folded if a.accumulates}
        old = {id(a.accumulates.load) for a in folded if a.accumulates}
        if len(monoids) == 1 and all(
            id(side.op) in old or side.accumulates is not None for dependence in conflicts for side in (dependence.first, dependence.second)
        ):
            reorder = all(a.accumulates.reorders for a in folded if a.accumulates)
            self.folds.append(Fold(mem, monoids.pop(), reorder, in_memory=True))
            return ""
        if mem in self.nest.allocated and self.rewritten(mem, touching):
            self.workspaces.append(mem)
            return ""
        worst = next((c for c in conflicts if not (c.first.is_store and c.second.is_store)), conflicts[0])
        apart = worst.distance is not None
        same = all(self.loop.axis not in form.names for side in (worst.first, worst.second) for form in side.index)
        self.conflicts = worst.first.exact and worst.second.exact and (apart or same)
        if worst.first.is_store and worst.second.is_store:
            return f"two iterations write one element of `{mem.name}`"
        distance = f", {abs(worst.distance)} apart" if worst.distance else ""
        return f"an iteration reads an element of `{mem.name}` that another one writes{distance}"

    def rewritten(self, mem: Value, touching: list[NestAccess]) -> bool:
        """Scratch memory of which each iteration reads only what it has written before, and nobody reads after the loop."""
        if any(a.mem is mem and self.loop not in a.loops for a in self.nest.accesses if not a.is_store):
            return False
        depth = self.nest.around[self.loop.op].index(self.loop) + 1
        for read in touching:
            if read.is_store:
                continue
            if not any(
                store.is_store and not store.conditional and store.position < read.position and covers(self.nest, store, read, depth)
                for store in touching
            ):
                return False
        return True


def covers(nest: Nest, store: NestAccess, read: NestAccess, depth: int) -> bool:
    """The store, in the same iteration of the first `depth` loops, has written the element that is read."""
    if not (store.exact and read.exact):
        return False
    common = 0
    for first, second in zip(store.loops, read.loops, strict=False):
        if first is not second:
            break
        common += 1
    if common < depth:
        return False
    mine = store.loops[common:]
    prime = {first.axis: Affine.of(first.axis + "'") for first in mine}
    unknowns = {first.axis + "'": first.extent.substitute(prime) for first in mine}
    known = nest.box(read.loops)
    solution = solve([(form.substitute(prime), other) for form, other in zip(store.index, read.index, strict=True)], unknowns, known)
    if solution.outcome is not SolveOutcome.SOLVED or solution.free:
        return False
    facts = nest.facts(read.loops)
    return all(facts.proves_inside(solution.values[name], extent) for name, extent in unknowns.items())


def breaks(region: Region) -> bool:
    """Whether a `break` of this region's own loop stands in it."""
    for op in region.body:
        if isinstance(op, Break):
            return True
        if not isinstance(op, For | While) and any(breaks(inner) for inner in op.regions):
            return True
    return False


def written_first(region: Region, slot: Value) -> bool:
    """Whether the region surely sets the slot before it reads it."""
    state = _first(region, slot)
    return state == "set"


def _first(region: Region, slot: Value) -> str:
    for op in region.body:
        match op:
            case SetSlot() if op.slot is slot:
                return "set"
            case GetSlot() if op.slot is slot:
                return "get"
            case If():
                sides = [_first(op.then, slot), _first(op.otherwise, slot) if op.otherwise else ""]
                if "get" in sides:
                    return "get"
                if sides == ["set", "set"]:
                    return "set"
            case _ if op.regions:
                if any(isinstance(a, GetSlot) for inner in op.regions for a, s in slot_accesses(inner) if s is slot) and any(
                    _first(inner, slot) == "get" for inner in op.regions
                ):
                    return "get"
            case _:
                pass
    return ""


def carried_update(value: Value, parameter: Value) -> tuple[str, tuple[str, ...], list[Value]] | None:
    """The monoid by which a loop updates what it carries, through branches and inner loops: monoid, flags, and the parameters
    that change together (the pair of an argmin)."""
    update = updates(value, lambda v: v is parameter)
    if update is not None:
        combine = value.source
        if update[0] in ("argmin", "argmax") and combine is not None:
            operands = combine.operand_values
            return update[0], (), list(operands[: len(operands) // 2])
        return update[0], update[2], [parameter]
    match value.source:
        case If(condition=condition, then=then, otherwise=otherwise) as branch if otherwise is not None:
            if depends(condition, lambda v: v is parameter):
                return None
            number = branch.results.index(value)
            sides = [r.body[-1].operand_values[number] for r in (then, otherwise)]
            changed = [side for side in sides if side is not parameter]
            inner = [side_update for side in changed if (side_update := carried_update(side, parameter)) is not None]
            if not inner or len(inner) != len(changed) or any(side_update[0] != inner[0][0] for side_update in inner):
                return None
            flags = tuple(flag for flag in inner[0][1] if all(flag in side_update[1] for side_update in inner))
            return inner[0][0], flags, inner[0][2]
        case For(carried=carried) as loop if parameter in carried:
            number = loop.results.index(value)
            if carried[number] is not parameter:
                return None
            last = loop.body.body[-1]
            assert isinstance(last, Yield)
            inside = carried_update(last.values[number], loop.body.parameters[1 + number])
            if inside is None:
                return None
            params = loop.body.parameters[1:]
            return inside[0], inside[1], [carried[params.index(p)] for p in inside[2] if p in params]
        case _:
            return None


def update_chain(value: Value, parameter: Value) -> dict[int, Instruction]:
    """The instructions on the way from the carried value to its update, by identity."""
    chain: dict[int, Instruction] = {}

    def follow(current: Value) -> bool:
        op = current.source
        if current is parameter:
            return True
        if op is None:
            return False
        reached = any(
            follow(v) for v in op.operand_values if v is parameter or (v.source is not None and depends(v, lambda x: x is parameter))
        )
        if isinstance(op, If):
            number = op.results.index(current)
            for region in op.regions:
                reached = follow(region.body[-1].operand_values[number]) or reached
        if isinstance(op, For) and parameter in op.carried:
            reached = True
        if reached:
            chain[id(op)] = op
        return reached

    follow(value)
    return chain
