"""Barriers and shared memory of `custom` kernels: a barrier that some threads don't reach (0411), shared memory that is read before
anything was written, or that two warps touch without a barrier between (0412).

Only what is certain is reported; the rest shows when the kernel runs. A condition differs between threads when trying all threads
of the block shows it. A race needs two threads of different warps that are seen to meet on one element."""

from collections.abc import Iterator, Mapping
from itertools import product

from compiler.analysis.accesses import Guards, NestAccess, collect, walk
from compiler.analysis.affine_sets import IndexPoints
from compiler.diagnostics import Diagnostic, Label
from compiler.hir import numbers
from compiler.hir.affine import Affine
from compiler.hir.control import Break, Continue, For, If, Return, While
from compiler.hir.core import Binary, Cast, Compare, Const, InBounds, Index, Unary
from compiler.hir.gpu import Atomic, GridIndex, SharedAlloc, SyncThreads, WarpIndex
from compiler.hir.instruction import Instruction, Region, Value
from compiler.hir.memory import Load
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import Mem, Space, is_float
from compiler.lowering.kernel import LoweredKernel
from runtime.records import define, field, frozen

WARP = 32


def check_barriers(lowered: LoweredKernel) -> tuple[Diagnostic, ...]:
    """Codes 0411 and 0412 of a kernel in form C."""
    function = lowered.function
    if function.form is not Form.THREAD:
        return ()
    return (*_Divergence(function).run(), *_Shared(function).run())


def workgroup(function: HirFunction) -> tuple[int, int, int] | None:
    return function.kernel_info.workgroup if function.kernel_info is not None else None


def thread_names(function: HirFunction) -> dict[str, int]:
    """Names of the values that are a thread's index, with its dimension."""
    return {
        op.results[0].name: "xyz".index(op.dim) for op in walk(function.body) if isinstance(op, GridIndex) and op.operator == "thread_idx"
    }


def number_in(function: HirFunction, named: Mapping[str, Value], thread: tuple[int, int, int], value: Value) -> int | None:
    """The number that the value is in a thread of the block, when it depends on nothing else; `named`: values by name."""
    size = workgroup(function) or (1, 1, 1)
    linear = thread[0] + size[0] * (thread[1] + size[1] * thread[2])

    def at(form: Affine) -> int | None:
        numbers_of = {name: of(named[name]) if name in named else None for name in form.names}
        return None if None in numbers_of.values() else form.evaluate(lambda name: numbers_of[name] or 0)

    def of(value: Value) -> int | None:
        match value.source:
            case GridIndex(operator="thread_idx", dim=dim):
                return thread["xyz".index(dim)]
            case GridIndex(operator="block_dim", dim=dim):
                return size["xyz".index(dim)]
            case WarpIndex(operator="lane"):
                return linear % WARP
            case WarpIndex(operator="warp"):
                return linear // WARP
            case Const(value=int() | bool() as number):
                return int(number)
            case Index(of=form):
                return at(form)
            case Cast(value=inner, to=to) if not is_float(to):
                return of(inner)
            case Unary(operator="not", value=inner):
                truth = of(inner)
                return None if truth is None else 1 - truth
            case Binary(operator=operator, left=left, right=right) | Compare(operator=operator, left=left, right=right):
                a, b = of(left), of(right)
                return None if a is None or b is None else _combined(operator, a, b)
            case InBounds(of=form, below=below):
                position, end = at(form), at(below)
                return None if position is None or end is None else int(0 <= position < end)
            case _:
                return None

    return of(value)


def _combined(operator: str, a: int, b: int) -> int | None:
    plain = {
        "add": a + b, "sub": a - b, "mul": a * b, "min": min(a, b), "max": max(a, b), "and": a & b, "or": a | b, "xor": a ^ b,
        "eq": int(a == b), "ne": int(a != b), "lt": int(a < b), "le": int(a <= b), "gt": int(a > b), "ge": int(a >= b),
    }  # fmt: skip
    if operator in plain:
        return plain[operator]
    if operator in ("div", "rem") and b:
        return numbers.int_divide(a, b) if operator == "div" else numbers.int_remainder(a, b)
    return None


# ---- divergence ----


@define(eq=False)
class _Divergence:
    function: HirFunction
    named: dict[str, Value] = field(factory=dict)
    found: list[Diagnostic] = field(factory=list)

    def run(self) -> list[Diagnostic]:
        for op in walk(self.function.body):
            for value in (*op.results, *(p for region in op.regions for p in region.parameters)):
                self.named[value.name] = value
        self.look(self.function.body, None)
        return self.found

    def splits(self, op: Instruction) -> str | None:
        """How the instruction parts the threads of a block for certain, in words; None when it doesn't, or that isn't known."""
        match op:
            case If() if self.truths(op) == {0, 1}:
                return "this condition differs between the threads of a block"
            case For() if len(self.counts(op)) > 1:
                return "how often this loop runs differs between the threads of a block"
            case _:
                return None

    def threads(self) -> Iterator[tuple[int, int, int]]:
        x, y, z = workgroup(self.function) or (1, 1, 1)
        for k, j, i in product(range(z), range(y), range(x)):
            yield i, j, k

    def truths(self, op: If) -> set[int]:
        """The values of the condition in all threads; none when they depend on more than the thread."""
        if workgroup(self.function) is None:
            return set()
        truths = {number_in(self.function, self.named, thread, op.condition) for thread in self.threads()}
        return set() if None in truths else {int(truth or 0) for truth in truths}

    def counts(self, op: For) -> set[int]:
        """How often the loop runs in each of the threads; none when that depends on more than the thread."""
        span = op.high - op.low if op.step > 0 else op.low - op.high
        form = span.ceildiv(abs(op.step))
        counts: set[int] = set()
        if workgroup(self.function) is None or not form.names:
            return counts
        for thread in self.threads():
            values = {name: number_in(self.function, self.named, thread, self.named[name]) for name in form.names if name in self.named}
            if any(values.get(name) is None for name in form.names):
                return set()
            counts.add(max(0, form.evaluate(lambda name, values=values: values[name] or 0)))  # type: ignore[misc]
        return counts

    def look(self, region: Region, parting: tuple[Instruction, str] | None) -> None:
        for op in region.body:
            if isinstance(op, SyncThreads) and parting is not None:
                where, words = parting
                others = (Label(where.span, words),) if where.span is not None else ()
                self.found.append(
                    Diagnostic(
                        "0411",
                        "`barrier()` is reached by some threads of a block only",
                        op.span,
                        "the others wait for ever" if others else words,
                        others,
                        hint="move the barrier out, and leave only the work under the condition",
                    )
                )
            why = self.splits(op)
            for inner in op.regions:
                self.look(inner, (op, why) if why is not None else parting)


# ---- shared memory ----


@frozen(eq=False)
class _Touch:
    """An access to shared memory as the epoch sees it: over threads and loop variables."""

    access: NestAccess
    places: IndexPoints
    atomic: bool
    epoch: int


@define(eq=False)
class _Shared:
    function: HirFunction

    def run(self) -> list[Diagnostic]:
        diagnostics: list[Diagnostic] = []
        nest = collect(self.function)
        leaves = any(isinstance(op, Break | Continue | Return) for op in walk(self.function.body))  # then who arrives isn't known
        epochs = self.epochs()
        for mem in [op.results[0] for op in walk(self.function.body) if isinstance(op, SharedAlloc)]:
            if not isinstance(mem.type, Mem) or mem.type.space is not Space.SHARED:
                continue
            unwritten = self.never_written(mem)
            if unwritten is not None:
                diagnostics.append(unwritten)
                continue
            touches = [t for a in nest.accesses if a.mem is mem and (t := self.touch(a, epochs)) is not None]
            pairs = [] if leaves else [(a, b) for n, a in enumerate(touches) for b in touches[n:]]
            race = next((d for a, b in pairs if (d := self.race(mem, a, b)) is not None), None)
            if race is not None:
                diagnostics.append(race)
        return diagnostics

    def never_written(self, mem: Value) -> Diagnostic | None:
        """The first read, when no write stands anywhere before it, nor in a loop around it."""
        for op in walk(self.function.body):
            if mem not in op.operand_values:
                continue
            if isinstance(op, Load) and not self.written_in_loop_around(op, mem):
                return Diagnostic(
                    "0412",
                    f"shared memory `{mem.name}` is read before anything is written to it",
                    op.span,
                    "read here",
                    tuple(Label(w.span, "written only here") for w in self.writes(mem)[:1] if w.span is not None),
                    hint=f"fill `{mem.name}` first, then `barrier()`",
                )
            return None
        return None

    def writes(self, mem: Value) -> list[Instruction]:
        return [op for op in walk(self.function.body) if mem in op.operand_values and not isinstance(op, Load)]

    def written_in_loop_around(self, read: Load, mem: Value) -> bool:
        return any(
            isinstance(loop, For | While) and read in list(loop.walk()) and any(write in list(loop.walk()) for write in self.writes(mem))
            for loop in walk(self.function.body)
        )

    def epochs(self) -> dict[int, int]:
        """For each instruction that is only ever between two barriers of the top level, which two; others are left out."""
        epochs: dict[int, int] = {}
        number = 0
        for op in self.function.body.body:
            inside = list(op.walk())
            if any(isinstance(inner, SyncThreads) for inner in inside):
                number += 1
                continue
            for inner in inside:
                epochs[id(inner)] = number
        return epochs

    def touch(self, access: NestAccess, epochs: dict[int, int]) -> _Touch | None:
        """The access, when all about it is known: where it is, for which threads, between which barriers."""
        size = workgroup(self.function)
        if size is None or id(access.op) not in epochs:
            return None
        dims = thread_names(self.function)
        box: dict[str, Affine] = {name: Affine.of(size[dim]) for name, dim in dims.items()}
        for loop in access.loops:
            box[loop.axis] = loop.extent
        guards: Guards = access.guards
        forms = (*access.index, *guards.forms, *box.values())
        if any(name not in box for form in forms for name in form.names) or not guards.complete:
            return None
        return _Touch(
            access, IndexPoints(access.index, box, guards.forms, reach=1024), isinstance(access.op, Atomic), epochs[id(access.op)]
        )

    def race(self, mem: Value, first: _Touch, second: _Touch) -> Diagnostic | None:
        if first.epoch != second.epoch or not (first.access.is_store or second.access.is_store):
            return None
        if first is second and isinstance(first.access.op.operand_values[1].source, Const):
            return None  # all write one number
        seen: dict[tuple[int, ...], int] = {}
        for point in first.places.points(1):
            seen.setdefault(first.places.at(point, 1), self.thread(point))
        for point in second.places.points(1):
            element, thread = second.places.at(point, 1), self.thread(point)
            if element in seen and seen[element] // WARP != thread // WARP:
                return self.message(mem, first.access, second.access, element, (seen[element], thread))
        return None

    def thread(self, point: dict[str, int]) -> int:
        """The number of a thread in its block."""
        x, y, _ = workgroup(self.function) or (1, 1, 1)
        weights = (1, x, x * y)
        return sum(point[name] * weights[dim] for name, dim in thread_names(self.function).items())

    def message(self, mem: Value, first: NestAccess, second: NestAccess, element: tuple[int, ...], threads: tuple[int, int]) -> Diagnostic:
        first_thread, second_thread = threads
        element_name = f"{mem.name}[{', '.join(map(str, element))}]"
        verbs = ["writes" if access.is_store else "reads" for access in (first, second)]
        others: tuple[Label, ...] = ()
        if first.op.span is not None and first is not second:
            others = (Label(first.op.span, f"thread {first_thread} {verbs[0]} {element_name} here"),)
        return Diagnostic(
            "0412",
            f"threads meet on shared memory `{mem.name}` without a barrier",
            second.op.span,
            f"thread {second_thread} {verbs[1]} {element_name}, which thread {first_thread} {verbs[0]} in another warp",
            others,
            hint="put `barrier()` between the two",
        )
