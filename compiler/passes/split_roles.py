"""`split_roles`: tiles (form B) become roles (form R). The program is sliced twice: a copying role has what tiles in shared memory are made
of, a computing role all else. A ring joins them for each loop that is marked `pipeline=N`, of so many stages. In each turn of such a loop
one role puts all tiles that the other gets, and frees when the turn ends.

Each role has the loops that stand around what it does. Nothing that a loop carries may go from the computing to the copying role, which
would wait for it: then the copies could not run ahead."""

from collections.abc import Iterable

from compiler.hir.build import Builder, FunctionBuilder
from compiler.hir.control import For, Yield
from compiler.hir.core import Convert
from compiler.hir.instruction import Effect, Instruction, Region, Value
from compiler.hir.module import Form, HirFunction
from compiler.hir.ring import RingFree, RingGet, RingMake, RingPut, RunRole
from compiler.hir.types import Ring, Tile
from compiler.passes.rewrite import Rebuild, with_facts_of
from runtime.records import define, field

COPY, COMPUTE = "copy", "compute"


class Inseparable(Exception):
    """A function that can't be split in roles; the message says why."""


def split_roles(function: HirFunction) -> HirFunction:
    """The function in form R. Raises `Inseparable`."""
    return _Splitting(function).run()


@define(eq=False)
class _Splitting(Rebuild):
    around: dict[Instruction | Value, For] = field(factory=dict, init=False)
    """The loop that an instruction, or a parameter of a region, stands in."""
    named: dict[str, Value] = field(factory=dict, init=False)
    staged: dict[For, list[Convert]] = field(factory=dict, init=False)
    """What each turn of a loop has in shared memory."""
    rings: dict[For, Value] = field(factory=dict, init=False)
    copies: bool = field(default=True, init=False)
    kept: set[Instruction] = field(factory=set, init=False)
    """What the role does that is being written."""

    def run(self) -> HirFunction:
        source = self.source
        self.look(source.body, None)
        self.owner = FunctionBuilder(source.name, Form.ROLES, dict(source.axes))
        for parameter in source.parameters:
            self.bind(parameter, self.owner.parameter(parameter.name, parameter.type))
        b = self.owner.body
        for loop, tiles in self.staged.items():
            stages, types = loop.mark("pipeline"), [tile.result.type for tile in tiles]
            assert isinstance(stages, int)
            type = Ring(stages, tuple(each for each in types if isinstance(each, Tile)))
            self.rings[loop] = b.emit(RingMake(type=type), "ring").result
        shared = [tile for tiles in self.staged.values() for tile in tiles]
        written = [op for top in source.body.body for op in top.walk() if Effect.WRITE in op.effects]
        values, names = dict(self.values), dict(self.names)
        for name, kept in (COPY, self.needed(shared, True)), (COMPUTE, self.needed(written, False)):
            self.copies, self.kept, self.values, self.names = name == COPY, kept, dict(values), dict(names)
            role = RunRole(role=name)
            self.region(source.body, b.child(role.body))
            b.emit(role)
        return with_facts_of(source, self.owner.finish())

    def look(self, region: Region, loop: For | None) -> None:
        for op in region.body:
            if op.regions and not isinstance(op, For):
                raise Inseparable(f"`{op.name}` is neither copied nor computed alone")
            if loop is not None:
                self.around[op] = loop
            if isinstance(op, For):
                self.around.update(dict.fromkeys(op.body.parameters, op))
                self.named.update({parameter.name: parameter for parameter in op.body.parameters})
                self.look(op.body, op)
            elif isinstance(op, Convert) and op.place == "shared":
                if loop is None or loop.mark("pipeline") is None:
                    raise Inseparable(f"{op.result} lies in shared memory, outside of a loop with `pipeline`")
                self.staged.setdefault(loop, []).append(op)
            self.named.update({result.name: result for result in op.results})

    def needed(self, roots: Iterable[Instruction], copies: bool) -> set[Instruction]:
        """What these instructions need. What lies in shared memory comes to the computing role from the other; what is carried mustn't be
        needed there."""
        kept, waiting = set[Instruction](), [*roots]
        while waiting:
            op = waiting.pop()
            if op in kept or (isinstance(op, Convert) and op.place == "shared" and not copies):
                continue
            kept.add(op)
            waiting += [self.around[op]] if op in self.around else []
            values = [self.named[name] for name in op.symbols if name in self.named]
            values += [] if isinstance(op, For) and copies else op.operand_values
            if isinstance(op, For) and not copies:
                waiting += [last for last in op.body.body[-1:] if isinstance(last, Yield)]
            for value in values:
                source = value.source or self.around.get(value)
                if copies and isinstance(source, For) and value is not source.variable:
                    raise Inseparable(f"{value}, which the loop over {source.written} carries, is needed to copy")
                waiting += [source] if source is not None else []
        return kept

    def region(self, region: Region, into: Builder) -> None:
        for op in region.body:
            if op in self.kept and not isinstance(op, Yield):
                into.span = op.span
                for old, new in zip(op.results, self.loop(op, into) if isinstance(op, For) else self.copy(op, into), strict=False):
                    self.bind(old, new)

    def loop(self, op: For, into: Builder) -> list[Value]:
        body, tiles, ring = Region(), self.staged.get(op, []), self.rings.get(op)
        for parameter in op.body.parameters[: 1 if self.copies else None]:
            body.parameters.append(self.owner.value(parameter.name, parameter.type))
            self.bind(parameter, body.parameters[-1])
        inner = into.child(body)
        if ring is not None and not self.copies:
            for tile, got in zip(tiles, inner.emit(RingGet(ring=ring)).results, strict=True):
                self.bind(tile.result, got)
        self.region(op.body, inner)
        if ring is not None:
            inner.emit(RingPut(ring=ring, values=tuple(self.values[tile.result] for tile in tiles)) if self.copies else RingFree(ring=ring))
        carried = () if self.copies else tuple(self.values[value] for value in op.carried)
        if carried:
            last = op.body.body[-1]
            assert isinstance(last, Yield)
            inner.emit(Yield(values=tuple(self.values[value] for value in last.values)))
        marks = tuple((name, value) for name, value in op.marks if name != "pipeline")
        low, high = self.form(op.low), self.form(op.high)
        return into.emit(For(carried=carried, body=body, low=low, high=high, step=op.step, place=op.place, marks=marks)).results
