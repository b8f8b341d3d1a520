"""Lines of a nest that take steps one after the other, as running values down columns do, and lie side by side in memory: they march in
step. The loop across them goes inside, so that memory is read row by row in vectors; what a line carries from one of its inner loops to
the next lies in a buffer with an element for each line. Each line computes what it did, in the same order. What all lines share, such as
the bounds of a sparse row and the indices in it, is computed once."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from compiler.analysis.dependence import LoopKind, NestFacts
from compiler.hir.affine import Affine
from compiler.hir.build import Builder, declared
from compiler.hir.clone import rebuilt
from compiler.hir.control import For, Yield
from compiler.hir.core import Binary, Const, Threads, dtype_of
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.memory import Check, Load, Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem, Tile, bytes_of, is_float
from runtime.records import evolve, frozen

CARRIED_BYTES = 8192
"""Of all buffers of lines that march together: they stay in the first cache beside what streams through it."""

FEWEST = 64
"""Lines that march together at least, where there are so many: whole lines of the cache."""

LEAST = 4
"""Lines that march together with profit: fewer are faster with what they carry in registers."""

TURNS = 4
"""Steps that a loop across lines takes at once: what lines carry goes through memory once for all of them."""

NEAR_ROWS, PAGE = 256, 4096
"""Bytes of rows that are one stream together, and of those that lie in pages of their own: processors fetch ahead along one a page."""

EVEN = 4
"""Units of work for each thread from which rows aren't cut for threads."""


@frozen(eq=False)
class Lines:
    """Loops, one directly in the other, whose iterations have nothing to do with each other, and the one across the lines."""

    loops: tuple[For, ...]
    across: For
    shared: frozenset[Instruction] = frozenset()
    """What is the same for all lines, checks and indices among it."""

    def __str__(self) -> str:
        others = [loop.written for loop in self.loops if loop is not self.across]
        return f"{', '.join([*others, self.across.written])}: thread, lines along {self.across.written} march in step"


def in_step(nest: HirFunction, facts: NestFacts) -> tuple[HirFunction, tuple[str, ...]]:
    """The nest with lines that march in step where it has enough of such, and what was done in words."""
    body: list[Instruction] = []
    words: list[str] = []
    owner = declared(nest)
    for op in nest.body.body:
        lines = (lines_of(op, facts) or lines_of(op, facts, sharing=True)) if isinstance(op, For) else None
        if lines is None:
            body.append(op)
            continue
        region = Region()
        b = Builder(owner, region)
        with b.branch(b.op("ge", b.index(lines.across.high - lines.across.low), b.const(LEAST, "index"))) as (then, otherwise, _):
            marched(lines, then)
            otherwise.region.body.append(op)
        body += region.body
        words.append(str(lines))
    return (evolve(nest, body=Region([], body)) if words else nest), tuple(words)


def carried_bytes(body: Region, shared: Collection[Instruction] = ()) -> int:
    """What a line has in buffers."""
    return sum(bytes_of(dtype_of(value)) for value in _crossing(body, shared) or ())


def marched(lines: Lines, b: Builder, outside: Mapping[Value, Value] | None = None) -> None:
    """Appends loops in which the lines march in step; `outside` gives what their nest's parameters are there."""
    _Marching(lines, outside or {}).append_to(b)


def lines_of(op: For, facts: NestFacts, sharing: bool = False) -> Lines | None:
    """The lines of a nest of loops that march in step with profit. `sharing`: what is the same for all may be what no vector does."""
    loops: list[For] = []
    variables: set[str] = set()
    while are_apart(op, facts) and variables.isdisjoint((*op.low.names, *op.high.names)):
        loops.append(op)
        variables.add(op.variable.name)
        body = op.body.body
        if len(body) != 1 or not isinstance(body[0], For):
            break
        op = body[0]
    if not loops or not any(isinstance(inner, For) for inner in loops[-1].body.body):
        return None
    line, own = loops[-1].body, {loop.variable.name: loop for loop in loops}
    across = max(loops, key=lambda loop: _side_by_side(line, loop.variable.name))
    shared = same_in_all(line, across.variable.name) if sharing else frozenset()
    steps = [inner for inner in loops[-1].walk() if isinstance(inner, For) and inner not in loops]
    inside = {value.name for inner in line.body for value in _made_in(inner)} | variables
    if sharing:
        inside -= {value.name for inner in shared for value in inner.results} | own.keys() - {across.variable.name}
    if any(inside & {*inner.low.names, *inner.high.names} - {step.variable.name for step in steps} for inner in steps):
        return None
    if not all(marches(inner, shared) for inner in line.body) or _crossing(line, shared) is None:
        return None
    along = max(_side_by_side(line, step.variable.name, shared) for step in steps)
    return Lines(tuple(loops), across, shared) if _side_by_side(line, across.variable.name) > max(along, 0) else None


def same_in_all(body: Region, across: str) -> frozenset[Instruction]:
    """Instructions of a line that do the same in every line: they store nothing, and read what nothing stores."""
    every = [inner for op in body.body for inner in op.walk()]
    stored, own, shared = {op.mem for op in every if isinstance(op, Store)}, {across}, set[Instruction]()
    for op in every:
        if isinstance(op, For):
            own.update(value.name for value in (*op.body.parameters[1:], *op.results))
            continue
        reads = {value.name for value in op.operand_values} | {*op.symbols}
        plain = op.effects in (Effect.PURE, Effect.READ) or isinstance(op, Check)
        if op.regions or not plain or reads & own or (isinstance(op, Load) and op.mem in stored):
            own.update(value.name for value in op.results)
        elif not isinstance(op, Const | Yield):
            shared.add(op)
    return frozenset(shared)


def are_apart(op: For, facts: NestFacts) -> bool:
    known = facts.loops.get(op)
    if known is None or known.kind is not LoopKind.PARALLEL or known.private or known.workspaces:
        return False
    return op.step == 1 and not op.carried and not is_marked(op)


def is_marked(op: For) -> bool:
    """Whether the program says how the loop is to run."""
    return any(name != "written" for name, _ in op.marks)


def marches(op: Instruction, shared: Collection[Instruction] = ()) -> bool:
    """Whether an instruction of a line can stand in a loop across lines: loops of such, and straight lines of what vectors do; or is
    `shared` by all."""
    if isinstance(op, For):
        return not is_marked(op) and all(marches(inner, shared) for inner in op.body.body)
    if op in shared:
        return True
    if isinstance(op, Binary) and op.operator == "rem" and is_float(dtype_of(op.left)):
        return False
    plain = not op.regions and op.effects in (Effect.PURE, Effect.READ, Effect.WRITE)
    return (plain and all(isinstance(result.type, Tile) for result in op.results)) or isinstance(op, Yield)


def _side_by_side(body: Region, name: str, shared: Collection[Instruction] = ()) -> int:
    """Accesses in inner loops that go to the next element with the next turn, less those that go further; those that are shared don't
    count."""
    votes = 0
    for op in (inner for top in body.body for inner in top.walk()):
        if isinstance(op, Load | Store) and op not in shared:
            steps = [form.coefficient(name) for form in op.index]
            strides = mem_of(op.mem).strides
            dense = not any(steps[:-1]) and (strides is None or strides[-1].value == 1)
            votes += 0 if not any(steps) else 1 if dense and steps[-1] == 1 else -1
    return votes


def _crossing(body: Region, shared: Collection[Instruction] = ()) -> list[Value] | None:
    """Values that loops carry, or that are used in another run of instructions than their own; None where one of them is an index. What is
    shared isn't looked at."""
    home: dict[Value, int] = {}
    named: dict[str, int] = {}
    crossing: dict[Value, None] = {}
    number = 0
    indices = False

    def look(region: Region) -> None:
        nonlocal number, indices
        number += 1
        for op in (inner for inner in region.body if inner not in shared):
            crossing.update(dict.fromkeys(value for value in op.operand_values if home.get(value, number) != number))
            indices = indices or any(named.get(name, number) != number for name in op.symbols)
            if isinstance(op, For):
                crossing.update(dict.fromkeys(op.body.parameters[1:]))
                look(op.body)
                number += 1
            elif not isinstance(op, Const):
                home.update(dict.fromkeys(op.results, number))
                named.update({value.name: number for value in op.results})

    look(body)
    return None if indices or any(dtype_of(value) in ("i1", "index") for value in crossing) else list(crossing)


def _made_in(op: Instruction) -> Iterator[Value]:
    for inner in op.walk():
        yield from inner.results
        for region in inner.regions:
            yield from region.parameters[1:]


_Turn = tuple[dict[Value, Value], dict[str, Affine]]
"""What values and names are in a turn."""


class _Marching:
    """The loops of some lines made anew."""

    def __init__(self, lines: Lines, outside: Mapping[Value, Value]) -> None:
        self.lines = lines
        self.buffers: dict[Value, Value] = {}
        """Of values that a line has in several loops across lines."""
        self.outside: dict[Value, Value] = dict(outside)
        """Variables of loops around, and parameters."""
        self.forms: dict[str, Affine] = {}

    def append_to(self, b: Builder) -> None:
        body = self.lines.loops[-1].body
        kept = _crossing(body, self.lines.shared) or []
        most = max(FEWEST, CARRIED_BYTES // max(1, carried_bytes(body, self.lines.shared)) // FEWEST * FEWEST)
        across = self.lines.across
        others = [loop for loop in self.lines.loops if loop is not across]
        counts = [b.op("max", b.index(loop.high - loop.low), b.index(0)) for loop in others]
        count = b.op("max", b.index(across.high - across.low), b.index(0), name="lines")
        units = b.product([*counts, b.index(1)])
        threads = b.emit(Threads(), "threads").result
        parts = b.select(b.op("lt", units, b.mul(threads, b.index(EVEN))), threads, b.index(1))
        share = b.op("div", b.sub(b.add(count, parts), b.index(1)), parts)
        width = b.index(Affine.of(share.name).ceildiv(FEWEST) * FEWEST)
        width = b.op("max", b.op("min", width, b.index(most)), b.index(FEWEST), name="width")
        panels = b.op("div", b.add(count, b.sub(width, b.index(1))), width)
        with b.loop("panel", 0, b.mul(units, panels).name, place="thread") as (inner, loop):
            digits = inner.digits(loop.variable, [*counts[1:], panels] if others else [])
            for other, digit in zip(others, digits, strict=False):
                self.outside[other.variable] = inner.index(other.low + digit.name, other.variable.name)
                self.forms[other.variable.name] = Affine.of(self.outside[other.variable].name)
            first = inner.mul(digits[-1], width)
            self.first = across.low + Affine.of(first.name)
            self.count = inner.op("min", width, inner.sub(count, first), name="count")
            for value in kept:
                if value not in self.buffers:
                    self.buffers[value] = inner.alloc(Mem(dtype_of(value), (most,), align=64), value.name)
            self.run(body.body, inner, ())

    def run(self, ops: Sequence[Instruction], b: Builder, yielded: Sequence[Value]) -> None:
        """The instructions of all lines; what they give is put in the buffers `yielded`."""
        straight: list[Instruction] = []
        for op in ops:
            if op in self.lines.shared:
                self.once(op, b)
                continue
            if not isinstance(op, For):
                straight.append(op)
                continue
            carried = [self.buffers[value] for value in op.body.parameters[1:]]
            self.buffers.update(zip(op.results, carried, strict=True))
            self.each(straight, b, op.carried, carried)
            straight = []
            low, high = self.form(op.low), self.form(op.high)
            if op.step == 1 and carried and not any(isinstance(inner, For) for inner in op.body.body):
                count = b.op("max", b.index(high - low), b.index(0))
                wide = max(bytes_of(dtype_of(value)) for value in op.body.parameters[1:])
                moved = {inner: bytes_of(mem_of(inner.mem).dtype) for inner in op.body.body if isinstance(inner, Load | Store)}
                # reading less than lines carry is no stream that would wait
                sizes = [size for inner, size in moved.items() if isinstance(inner, Store) or size >= wide]
                if sizes:
                    count = b.select(self.streams(max(sizes), b), count, b.index(0))
                behind = low + Affine.of(count.name).floordiv(TURNS) * TURNS
                with b.loop(op.variable.name, low, behind, TURNS) as (inner, loop):
                    *body, last = op.body.body
                    own = [inner for inner in body if inner not in self.lines.shared]
                    turns = [self.turn(op, Affine.of(loop.variable.name) + number, inner) for number in range(TURNS)]
                    self.each(own, inner, last.operand_values, carried, op, turns)
                low = behind
            with b.loop(op.variable.name, low, high, op.step) as (inner, loop):
                self.outside[op.variable], self.forms[op.variable.name] = loop.variable, Affine.of(loop.variable.name)
                self.run(op.body.body, inner, carried)
        given = straight[-1].operand_values if straight and isinstance(straight[-1], Yield) else ()
        self.each([op for op in straight if not isinstance(op, Yield)], b, given, yielded)

    def once(self, op: Instruction, b: Builder) -> None:
        """An instruction for all lines."""

        def value(old: Value) -> Value:
            return b.const(old.source.value, old.type) if isinstance(old.source, Const) else self.outside.get(old, old)

        copy = b.emit(rebuilt(op, value, self.form), op.results[0].name if op.results else "")
        for old, new in zip(op.results, copy.results, strict=True):
            self.outside[old], self.forms[old.name] = new, Affine.of(new.name)

    def turn(self, step: For, at: Affine, b: Builder) -> _Turn:
        """What lines share in one turn of a loop, and the turn itself."""
        self.outside[step.variable], self.forms[step.variable.name] = b.index(at), at
        for op in step.body.body:
            if op in self.lines.shared:
                self.once(op, b)
        return dict(self.outside), dict(self.forms)

    def each(
        self,
        ops: Sequence[Instruction],
        b: Builder,
        given: Sequence[Value],
        buffers: Sequence[Value],
        step: For | None = None,
        turns: Sequence[_Turn] = (),
    ) -> None:
        """A loop across the lines of instructions without loops, and of what goes into buffers behind them. Where they are the body of
        `step`, it takes these turns of it, and what one gives is the next one's."""
        if not given and not any(isinstance(op, Store) or any(result in self.buffers for result in op.results) for op in ops):
            return
        with b.loop("line", 0, self.count.name, place="simd") as (inner, loop):
            line = Affine.of(loop.variable.name)
            own: dict[Value, Value] = {}
            outside, forms = self.outside, {**self.forms, self.lines.across.variable.name: self.first + line}

            def value(old: Value) -> Value:
                if old in own or old in outside:
                    return own.get(old) or outside[old]
                if old is self.lines.across.variable:
                    own[old] = inner.index(self.first + line)
                elif old in self.buffers:
                    own[old] = inner.load(self.buffers[old], [line])
                elif isinstance(old.source, Const):
                    own[old] = inner.const(old.source.value, old.type)
                return own.get(old, old)

            for values, named in turns or [(outside, forms)]:
                outside = values
                forms.update(named)
                for op in ops:
                    for name in op.symbols:
                        forms.setdefault(name, Affine.of(name))
                    copy = inner.emit(rebuilt(op, value, lambda form: form.substitute(forms)), op.results[0].name if op.results else "")
                    for old, new in zip(op.results, copy.results, strict=True):
                        own[old], forms[old.name] = new, Affine.of(new.name)
                after = [value(v) for v in given]
                if step is not None:
                    own.update(zip(step.body.parameters[1:], after, strict=True))
            kept = [(old, new) for old, new in own.items() if old in self.buffers and any(old in op.results for op in ops)]
            for buffer, new in [*((self.buffers[old], new) for old, new in kept), *zip(buffers, after, strict=True)]:
                inner.store(buffer, new, [line])

    def streams(self, size: int, b: Builder) -> Value:
        """Whether several rows of so many bytes an element at once are fetched ahead as one is."""
        row = b.mul(self.count, b.index(size))
        return b.op("or", b.op("lt", row, b.index(NEAR_ROWS)), b.op("ge", row, b.index(PAGE)))

    def form(self, form: Affine) -> Affine:
        return form.substitute({name: self.forms[name] for name in form.names if name in self.forms})
