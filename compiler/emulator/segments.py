"""Cuts a function of threads into segments: stretches that all lanes at one instruction run together, from where they came to where
they may part or wait. What neither parts lanes nor lets them wait stays as it is written for one: loops and branches too, when they go
the same way for all lanes."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from compiler.emulator.block import END, SegmentedKernel
from compiler.emulator.execute import finish
from compiler.emulator.translate_threads import ENVIRONMENT, ThreadTranslator
from compiler.emulator.varying import inner
from compiler.emulator.warps import CALLS
from compiler.hir.control import Break, Condition, Continue, For, If, Return, While
from compiler.hir.gpu import Atomic, ClusterSync, GridSync, SyncThreads, WarpSync
from compiler.hir.hopper import BarrierWait, SetMaxRegisters, WarpgroupCommit, WarpgroupFence, WarpgroupMma, WarpgroupWait
from compiler.hir.instruction import Instruction, Region, Value
from compiler.hir.memory import Load, Store
from compiler.hir.module import HirFunction, HirModule
from compiler.hir.tensor_core import MmaStore
from compiler.hir.types import INDEX, Mem
from runtime.records import Factory, define

WARP_WAITS = (*CALLS, WarpgroupFence, WarpgroupWait, WarpSync)
"""Instructions at which a warp's lanes wait for each other."""

WAITS = (*WARP_WAITS, SyncThreads, ClusterSync, GridSync, BarrierWait, WarpgroupMma, WarpgroupCommit, SetMaxRegisters)
"""Instructions at which threads wait for others."""

_REGISTER = re.compile(r"\bv\d+(?=_(?:m|w|\d+)\b|\b)")
_DERIVED = re.compile(r"\b(v\d+)_(\d|m\b|w\b)")
_ASSIGNED = re.compile(r"((?:\bv\d+, )*\bv\d+),? = |\bfor (v\d+) in ")
_MADE = re.compile(r"(\s+)(v\d+) = (?:g\.block\.(?:shared|dynamic_\w+)|table_of)\(")


def waits(op: Instruction) -> bool:
    match op:
        case SyncThreads():
            return not op.arrive
        case ClusterSync():
            return op.part != "arrive"
        case _:
            return isinstance(op, WAITS)


@define(eq=False)
class Segment:
    """One segment: its lines, the registers that first get a value in it, and where lanes go from it. `wait`: the instruction at which it
    begins, if that waits for others, with the registers that it waits with."""

    lines: list[str] = Factory(list)
    bound: set[str] = Factory(set)
    next: list["Segment | None"] = Factory(list)
    wait: tuple[Instruction, tuple[str, ...]] | None = None
    number: int = END


class SegmentTranslator(ThreadTranslator):
    """Writes `def run(p0, p1, ..., launch)`, which gives the segments as functions of lanes `g`."""

    def __init__(self, function: HirFunction, module: HirModule | None = None) -> None:
        super().__init__(function, module)
        self.cuts: set[Instruction] = set()
        """Instructions that can't be written as for one thread."""
        self.stored = {op.mem.name for op in inner(function.body) if isinstance(op, Store | Atomic | MmaStore)}
        self.segments: list[Segment] = []
        self.parameters: set[str] = set()
        self.loops: list[tuple[Segment, Segment]] = []
        """The cut loops around: where lanes go that leave, and that continue."""
        self._cut_region(function.body)

    # ---- what is cut ----

    def _cut_region(self, region: Region) -> bool:
        cut = [self._cut(op) for op in region.body]  # all, not up to the first
        return any(cut)

    def _cut(self, op: Instruction) -> bool:
        """Whether lanes may part or wait in an instruction."""
        cut = waits(op)
        for region in op.regions:
            cut |= self._cut_region(region)
        match op:
            case If():
                cut |= op.condition in self.varying
            case For():
                cut |= self.varying.bounds(op)
            case While():
                cut |= self.varying.condition(op) or self.spins(op)
        if cut:
            self.cuts.add(op)
            if isinstance(op, For | While):
                self._cut_leaving(op.body)
        return cut

    def _cut_leaving(self, region: Region) -> bool:
        """Branches through which a loop that is cut is left."""
        leaves = False
        for op in region.body:
            if isinstance(op, Break | Continue):
                leaves = True
            elif isinstance(op, If):
                branches = [self._cut_leaving(branch) for branch in op.regions]
                if any(branches):
                    self.cuts.add(op)
                    leaves = True
        return leaves

    def spins(self, op: While) -> bool:
        """Whether a loop may wait for other threads."""
        loads = (op_ for op_ in inner(op.before) if isinstance(op_, Load))
        return any(isinstance(op_, Atomic) for op_ in op.walk()) or any(load.mem.name in self.stored for load in loads)

    # ---- segments ----

    def bind(self, value: Value) -> str:
        name = super().bind(value)
        if self.segments:
            self.segments[-1].bound.add(name)
        return name

    def begin(self, segment: Segment) -> None:
        segment.number = len(self.segments)
        self.segments.append(segment)
        self.lines = segment.lines

    def go(self, *targets: Segment | None, by: str = "{}") -> None:
        """The end of a segment: where lanes go, None at the function's end; `by` is the expression that chooses."""
        self.segments[-1].next += targets
        self.write(2, "return " + by.format(*(f"<{id(target)}>" if target is not None else str(END) for target in targets)))

    def wait_at(self, op: Instruction) -> None:
        """Begin a segment with an instruction that waits."""
        names: list[str] = []
        asked: tuple[str, ...] = ()
        match op:
            case BarrierWait():
                asked = (self.of(op.barrier), self.each(op.barrier_index[0]), self.of(op.parity))
            case WarpSync() if op.mask is not None:
                asked = (self.of(op.mask),)
        forms = op.barrier_index if isinstance(op, BarrierWait) else ()
        for number, text in enumerate(asked):
            name = text
            if number == 1 or not text.isidentifier():
                name = self.fresh(varies=bool(forms and self.varies(*forms)))
                self.write(2, f"{name} = {text}")
            names.append(name)
        segment = Segment(wait=(op, tuple(names)))
        self.go(segment)
        self.begin(segment)

    def fresh(self, varies: bool) -> str:
        """A register of our own."""
        value = Value(f"!{len(self.names)}", INDEX)
        if varies:
            self.varying.names.add(value.name)
        return self.bind(value)

    # ---- instructions ----

    def instruction(self, op: Instruction, indent: int) -> None:
        match op:
            case Return():
                self.write(indent, f"return {END}")
            case _ if op not in self.cuts:
                if isinstance(op, Break | Continue) and indent == 2:
                    self.go(self.loops[-1][isinstance(op, Continue)])
                else:
                    super().instruction(op, indent)
            case If():
                self.cut_branch(op)
            case For():
                self.cut_loop(op)
            case While():
                self.cut_repeat(op)
            case _:
                if not self.together(op):
                    self.wait_at(op)
                super().instruction(op, indent)

    def together(self, op: Instruction) -> bool:
        """Whether lanes that are here have just waited for all of their warp."""
        wait = self.segments[-1].wait
        return type(op) in CALLS and wait is not None and not self.own_loads and type(wait[0]) in CALLS

    def cut_branch(self, op: If) -> None:
        self.bind_all(op.results)
        then, otherwise, after = Segment(), Segment(), Segment()
        self.part(op.condition, then, otherwise if op.otherwise is not None else after)
        self.begin(then)
        self.region(op.then, 2, op.results)
        self.go_on(op.then, after)
        if op.otherwise is not None:
            self.begin(otherwise)
            self.region(op.otherwise, 2, op.results)
            self.go_on(op.otherwise, after)
        self.begin(after)

    def part(self, condition: Value, then: Segment, otherwise: Segment) -> None:
        if condition in self.varying:
            self.go(then, otherwise, by=f"g.branch({self.of(condition)}, {{}}, {{}})")
        else:
            self.go(then, otherwise, by=f"{{}} if {self.of(condition)} else {{}}")

    def go_on(self, region: Region, after: Segment, by: str = "{}") -> None:
        """The end of a region, unless its last instruction has gone elsewhere."""
        if not self.leaves(region):
            self.go(after, by=by)

    def leaves(self, region: Region) -> bool:
        return bool(region.body) and isinstance(region.body[-1], Break | Continue | Return)

    def cut_loop(self, op: For) -> None:
        variable, *carried = self.bind_all(op.body.parameters)
        varies = variable in self.varying
        high = self.fresh(not self.varying.names.isdisjoint(op.high.names))
        low = self.each(op.low)
        first = f"spread({low}, (n,), 'index')" if varies else low
        self.write(2, f"{self.name(variable)} = {first}")
        self.write(2, f"{high} = {self.each(op.high)}")
        self.assign(carried, op.carried, 2)
        head, body, after = Segment(), Segment(), Segment()
        latch = Segment() if any(isinstance(op_, Continue) for op_ in inner(op.body)) else None
        self.go(head)
        self.begin(head)
        condition = f"{self.name(variable)} {'<' if op.step > 0 else '>'} {high}"
        self.go(body, after, by=f"g.branch({condition}, {{}}, {{}})" if varies else f"{{}} if {condition} else {{}}")
        self.begin(body)
        self.loops.append((after, latch or head))
        self.region(op.body, 2, carried)
        self.loops.pop()
        if latch is not None or self.leaves(op.body):
            latch = latch or Segment()
            self.go_on(op.body, latch)
            self.begin(latch)
        self.write(2, f"{self.name(variable)} = {self.name(variable)} + {op.step}")
        self.go(head)
        self.begin(after)
        self.assign(self.bind_all(op.results), carried, 2)

    def cut_repeat(self, op: While) -> None:
        carried = self.bind_all(op.before.parameters)
        self.assign(carried, op.carried, 2)
        head, body, after = Segment(), Segment(), Segment()
        self.go(head)
        self.begin(head)
        *before, last = op.before.body
        assert isinstance(last, Condition)
        self.region(Region(list(carried), before), 2, ())
        self.part(last.value, body, after)
        self.begin(body)
        self.assign(self.bind_all(op.body.parameters), carried, 2)
        self.loops.append((after, head))
        self.region(op.body, 2, carried)
        self.loops.pop()
        self.go_on(op.body, head, by="g.again({})" if self.spins(op) else "{}")
        self.begin(after)
        self.assign(self.bind_all(op.results), carried, 2)

    # ---- the source ----

    def memory(self, name: str, type_: Mem, indent: int) -> None:
        """What belongs to a memory is worked out where it is used."""

    def translate(self) -> str:
        self.parameters = {self.bind(parameter) for parameter in self.function.parameters}
        self.begin(Segment())
        self.region(self.function.body, 2, ())
        self.go(None)
        live = self.live()
        lines = [f"def run({''.join(f'{self.names[p.name]}, ' for p in self.function.parameters)}launch):"]
        lines += self.derived("\n".join(line for segment in self.segments for line in segment.lines), self.parameters, "launch")
        for segment in self.segments:
            lines += self.written(segment, live)
        lines.append(f" return [{', '.join(f's{segment.number}' for segment in self.segments)}]")
        self.kernel_facts = live
        text = "\n".join(lines) + "\n"
        for segment in self.segments:
            text = text.replace(f"<{id(segment)}>", str(segment.number))
        return text

    def written(self, segment: Segment, live: list[frozenset[str]]) -> list[str]:
        """A segment as a function: its registers come from the lanes, and what is read later goes there."""
        *body, last = segment.lines
        text = "\n".join(segment.lines)
        named = set(_REGISTER.findall(text)) - self.parameters
        assigned = {name for match in _ASSIGNED.finditer(text) for name in (match[1] or match[2]).split(", ")}
        after = frozenset().union(*(live[target.number] for target in segment.next if target is not None))
        lines = [f" def s{segment.number}(g):", "  r, n = g.registers, len(g.numbers)"]
        lines += [f"  {name} = r.get({name!r})" for name in sorted(named - segment.bound)]
        lines += [f" {line}" for line in self.derived(text, named - segment.bound, "g.block.run")]
        own = self.derived(text, named & segment.bound, "g.block.run")
        for line in body:
            lines.append(line)
            if match := _MADE.match(line):
                lines += [f"{match[1]}{more.strip()}" for more in own if re.search(rf"\b{match[2]}\b", more)]
        lines += [f"  r[{name!r}] = {name}" for name in sorted(assigned & after)]
        return [*lines, last]

    def derived(self, text: str, names: Iterable[str], run: str) -> list[str]:
        """What the text uses of memories beside their names: extents, views of single elements, and who watches them."""
        lines = []
        ranks = {self.names[value]: type_ for value, type_ in self.memories.items() if value in self.names}
        used = {(name, "0" if what.isdigit() else what) for name, what in _DERIVED.findall(text)}
        for name in sorted(names):
            if name not in ranks:
                continue
            if (name, "0") in used:
                lines.append(f" {', '.join(f'{name}_{k}' for k in range(ranks[name].rank))}, = {name}.shape")
            if (name, "m") in used:
                lines.append(f" {name}_m = memoryview({name})")
            if (name, "w") in used:
                lines.append(f" {name}_w = {run}.watched({name})")
        return lines

    @cached_property
    def memories(self) -> Mapping[str, Mem]:
        """Memories of the function by name."""
        values = [*self.function.parameters, *(result for op in inner(self.function.body) for result in op.results)]
        return {value.name: value.type for value in values if isinstance(value.type, Mem)}

    def live(self) -> list[frozenset[str]]:
        """For each segment, the registers that it or a later one reads."""
        reads = []
        for segment in self.segments:
            asked = set(segment.wait[1]) if segment.wait is not None else set()
            reads.append(set(_REGISTER.findall("\n".join(segment.lines))) - self.parameters | asked)
        live: list[set[str]] = [set() for _ in self.segments]
        changed = True
        while changed:
            changed = False
            for segment in reversed(self.segments):
                number = segment.number
                later = set().union(*(live[target.number] for target in segment.next if target is not None))
                now = (reads[number] | later) - segment.bound
                if now != live[number]:
                    live[number], changed = now, True
        return [frozenset(names) for names in live]


def kernel_of(
    translator: SegmentTranslator, arguments: list[Any], launch: Any, more: Mapping[str, Callable[..., Any]] = {}
) -> SegmentedKernel:
    """The kernel of a function on arguments."""
    run = finish(translator, {}, {**ENVIRONMENT, **more})
    varying = frozenset(translator.names[name] for name in translator.varying.names if name in translator.names)
    waits_ = {segment.number: segment.wait for segment in translator.segments if segment.wait is not None}
    return SegmentedKernel(translator.function, run(*arguments, launch), waits_, translator.kernel_facts, varying)
