"""The golden rule, checked: a body means its loops run in written order, and what can't be parallelised without changing that is
an error, not a race. Only what is certain is reported: each message shows two iterations and the element on which they meet.

The parallel space is the leading nest: loops that hold nothing but the next loop. Inside it order is free to be anything."""

from compiler.analysis.accesses import Nest, NestAccess, NestLoop, collect
from compiler.analysis.affine_sets import Collision, IndexPoints, collision, evaluate, injective, meeting
from compiler.analysis.dependence import LoopKind, NestFacts, conflict
from compiler.diagnostics import Diagnostic, Label
from compiler.hir.control import For, Yield
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.memory import Load
from compiler.hir.types import Mem
from compiler.lowering.kernel import LoweredKernel, WorkspaceArgument
from compiler.typed_ast.kernel import KernelType
from runtime.records import define

SEQUENTIAL_KINDS = frozenset({KernelType.FUSED, KernelType.CUSTOM, KernelType.SCAN, KernelType.REDUCE, KernelType.SORT})
"""Kinds in which nothing is promised to be parallel, or whose order the kind itself says."""


def check_races(lowered: LoweredKernel) -> tuple[Diagnostic, ...]:
    """Codes 0404 and 0405 of a lowered kernel."""
    if lowered.kind in SEQUENTIAL_KINDS:
        return ()
    nest = collect(lowered.function)
    shared = written_memories(lowered, nest)
    diagnostics: list[Diagnostic] = []
    for leading in leading_nests(nest):
        for mem in shared:
            diagnostics += _Check(nest, mem, leading).run()
    return tuple(diagnostics)


def check_parallel(facts: NestFacts) -> tuple[Diagnostic, ...]:
    """Code 0405 for loops of a nest that the program says have independent turns, and that haven't."""
    return tuple(
        Diagnostic(
            "0405",
            f"`@parallel` says that the turns of the loop over `{op.written}` are independent, and they aren't",
            op.span,
            loop_facts.reason,
            hint="leave `@parallel` out: then the turns run in order",
        )
        for op, loop_facts in facts.loops.items()
        if op.mark("parallel") and loop_facts.kind is LoopKind.SERIAL and loop_facts.conflicts
    )


def written_memories(lowered: LoweredKernel, nest: Nest) -> list[Value]:
    """Results and updated inputs that the kernel stores to, in order."""
    stored = {access.mem for access in nest.accesses if access.is_store}
    arguments = zip(lowered.function.parameters, lowered.plan.arguments, strict=True)
    return [p for p, a in arguments if p in stored and isinstance(p.type, Mem) and not isinstance(a, WorkspaceArgument)]


def leading_nests(nest: Nest) -> list[tuple[NestLoop, ...]]:
    """For each loop at the top: it and the loops that it holds alone."""
    nests = []
    for op in nest.function.body.body:
        if isinstance(op, For):
            innermost = op
            while (inner := _only_loop(innermost.body)) is not None:
                innermost = inner
            nests.append(nest.around[innermost])
    return nests


def _only_loop(region: Region) -> For | None:
    """The loop, when the region holds one and otherwise only what computes values."""
    loops = [op for op in region.body if isinstance(op, For)]
    others = [op for op in region.body if not isinstance(op, For | Yield) and op.effects is not Effect.PURE]
    return loops[0] if len(loops) == 1 and not others and not loops[0].carried else None


@define(eq=False)
class _Check:
    nest: Nest
    mem: Value
    leading: tuple[NestLoop, ...]

    def run(self) -> list[Diagnostic]:
        mine = [a for a in self.nest.accesses if a.mem is self.mem and a.exact and a.loops[: len(self.leading)] == self.leading]
        diagnostics: list[Diagnostic] = []
        blamed: set[NestAccess] = set()
        own = {id(a.accumulates.load) for a in mine if a.accumulates}
        for read in mine:
            if read.is_store or id(read.op) in own:
                continue
            for write in mine:
                if write.is_store and write not in blamed:
                    diagnostic = self.carried(read, write)
                    if diagnostic is not None:
                        blamed.add(write)
                        diagnostics.append(diagnostic)
        for write in mine:
            if write.is_store and write not in blamed and write.accumulates is None:
                diagnostic = self.twice(write)
                if diagnostic is not None:
                    diagnostics.append(diagnostic)
        return diagnostics

    def places(self, access: NestAccess) -> IndexPoints:
        return IndexPoints(access.index, self.nest.box(access.loops), access.guards.forms)

    # ---- two writes of one element ----

    def twice(self, write: NestAccess) -> Diagnostic | None:
        if injective(write.index, self.nest.box(write.loops)):
            return None
        axes = [loop.axis for loop in self.leading]
        varies = axes_of_value(write.op.operand_values[1], self.nest)
        differ = axes if varies is None else [axis for axis in axes if axis in varies or self.in_index(write, axis)]
        if not differ:
            return None
        met = collision(self.places(write), differ)
        if met is None:
            return None
        first, second = self.iteration(met.first, write, met.size), self.iteration(met.second, write, met.size)
        element = self.element(met.element)
        missing = [loop for loop in self.leading if not self.in_index(write, loop.axis)]
        hint = f"add them up with `{self.mem.name}[...] += ...` or a `reduce`; in a `custom` kernel `atomic_add` does it"
        if not missing:
            hint = f"let each iteration write an element of its own; sums go through `{self.mem.name}[...] += ...` or a `reduce`"
        return Diagnostic(
            "0404",
            f"two iterations write one element of `{self.mem.name}`",
            write.op.span,
            f"{first} and {second} both write {element}",
            notes=tuple(f"`{loop}` is in no index of the write" for loop in missing if met.first[loop.axis] != met.second[loop.axis]),
            hint=hint,
        )

    def in_index(self, access: NestAccess, axis: str) -> bool:
        return any(axis in form.names for form in access.index)

    # ---- a read of what another iteration writes ----

    def carried(self, read: NestAccess, write: NestAccess) -> Diagnostic | None:
        if not any(conflict(self.nest, loop, read, write) for loop in self.leading):
            return None
        axes = [loop.axis for loop in self.leading]
        met = meeting(self.places(write), self.places(read), axes)
        if met is None:
            return None
        reader, writer = self.iteration(met.second, read, met.size), self.iteration(met.first, write, met.size)
        element = self.element(met.element)
        earlier = [met.first[a] for a in axes] < [met.second[a] for a in axes]
        away = self.distance(met)
        if earlier:
            label = f"{reader} reads {element}, which {writer} wrote{away}"
            hint = "a value handed from one iteration to the next is a `scan`; in a `fused` kernel the loops run in order"
        else:
            label = f"{reader} reads {element}, which {writer} writes later{away}"
            hint = "write the new values to another result; in a `fused` kernel the loops run in order"
        others = (Label(write.op.span, "written here"),) if write.op.span is not None and write.op.span != read.op.span else ()
        return Diagnostic("0405", f"an iteration depends on another one through `{self.mem.name}`", read.op.span, label, others, hint=hint)

    def distance(self, met: Collision) -> str:
        for loop in self.leading:
            apart = abs(met.second[loop.axis] - met.first[loop.axis])
            if apart:
                return f", {apart} iteration{'s' if apart > 1 else ''} of `{loop}` apart"
        return ""

    # ---- words ----

    def iteration(self, point: dict[str, int], access: NestAccess, size: int) -> str:
        inside = [loop for loop in access.loops if loop in self.leading]
        return ", ".join(f"{loop} = {evaluate(loop.variable, point, size)}" for loop in inside)

    def element(self, index: tuple[int, ...]) -> str:
        return f"{self.mem.name}[{', '.join(map(str, index))}]"


def axes_of_value(value: Value, nest: Nest) -> set[str] | None:
    """The loops whose iteration the value depends on; None when that can't be told (slots, carried values)."""
    axes: set[str] = set()
    stack, seen = [value], set()
    variables = {loop.op.variable: loop.axis for loop in nest.loops}
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        if current in variables:
            axes.add(variables[current])
            continue
        op: Instruction | None = current.source
        if op is None:
            if current in nest.function.parameters:
                continue
            return None
        if op.regions or (op.effects and not isinstance(op, Load)):
            return None
        if isinstance(op, Load) and any(a.is_store and a.mem is op.mem for a in nest.accesses):
            return None
        stack.extend(op.operand_values)
        stack.extend(nest.definitions[name] for name in op.symbols if name in nest.definitions)
    return axes
