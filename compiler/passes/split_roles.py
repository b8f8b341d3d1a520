"""`split_roles`: tiles (form B) become roles (form R). The program is sliced twice: a copying role has what tiles in shared memory are made
of, a computing role all else. A ring joins them for each loop that is marked `pipeline=N`, of so many stages. In each turn of such a loop
one role puts all tiles when the last is there. The other gets them where the first was made, and frees them behind their last reader. Tiles
with a `ring=` of their own wait apart from the turn's others; loops one behind the other may share it.

Each role has the loops that stand around what it does. Nothing that a loop carries may go from the computing to the copying role, which
would wait for it: then the copies could not run ahead.

`puts_ahead`: the same slices as one role, for machines whose threads copy and compute by turns. N - 1 turns' entries are put before such a
loop, and in each turn those of N - 1 turns later before the turn's own are got."""

from collections.abc import Iterable, Mapping, Sequence

from compiler.hir.affine import Affine
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
    """The function in form R, of two roles. Raises `Inseparable`."""
    return _Splitting(function).run()


def puts_ahead(function: HirFunction) -> HirFunction:
    """The function in form R, of one role. Raises `Inseparable`."""
    return _PuttingAhead(function).run()


@define(eq=False)
class _Slicing(Rebuild):
    """What both have: the rings, and what is needed to copy and to compute."""

    around: dict[Instruction | Value, For] = field(factory=dict, init=False)
    """The loop that an instruction, or a parameter of a region, stands in."""
    named: dict[str, Value] = field(factory=dict, init=False)
    staged: dict[For, dict[For | str, list[Convert]]] = field(factory=dict, init=False)
    """What each turn of a loop has in shared memory, by rings."""
    rings: dict[For | str, Value] = field(factory=dict, init=False)
    copying: set[Instruction] = field(factory=set, init=False)
    computing: set[Instruction] = field(factory=set, init=False)
    kept: set[Instruction] = field(factory=set, init=False)
    """What is being written."""

    @property
    def copies(self) -> bool:
        return self.kept is self.copying

    def run(self) -> HirFunction:
        source = self.source
        self.look(source.body, None)
        self.owner = FunctionBuilder(source.name, Form.ROLES, dict(source.axes))
        for parameter in source.parameters:
            self.bind(parameter, self.owner.parameter(parameter.name, parameter.type))
        for ring, type in self.ring_types().items():
            self.rings[ring] = self.owner.body.emit(RingMake(type=type), ring if isinstance(ring, str) else "ring").result
        shared = [tile for rings in self.staged.values() for tiles in rings.values() for tile in tiles]
        written = [op for top in source.body.body for op in top.walk() if Effect.WRITE in op.effects]
        self.copying, self.computing = self.needed(shared, True), self.needed(written, False)
        self.sliced(self.owner.body)
        return with_facts_of(source, self.owner.finish())

    def sliced(self, b: Builder) -> None:
        """All that the function does."""
        raise NotImplementedError

    def enter(self, op: For, into: Builder) -> None:
        """What a turn of a loop with tiles in shared memory begins with where these are computed with."""

    def ring_types(self) -> dict[For | str, Ring]:
        """Of each ring: what waits in it, and how many of that."""
        types = dict[For | str, Ring]()
        for loop, rings in self.staged.items():
            for ring, tiles in rings.items():
                stages, elements = loop.mark("pipeline"), [tile.result.type for tile in tiles]
                assert isinstance(stages, int)
                type = Ring(stages, tuple(each for each in elements if isinstance(each, Tile)))
                if types.setdefault(ring, type) != type:
                    raise Inseparable(f"the ring `{ring}` is a {types[ring]} and a {type}")
        return types

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
                self.staged.setdefault(loop, {}).setdefault(op.ring or loop, []).append(op)
            elif isinstance(op, Yield):
                for value in op.values:
                    if isinstance(value.type, Tile) and value.type.place == "shared":
                        raise Inseparable(f"{value}, which lies in shared memory, is carried")
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

    def region(self, region: Region, into: Builder, rings: Mapping[For | str, Sequence[Convert]] | None = None) -> None:
        """`rings`: the tiles that each turn of the loop has, of which this is the body."""
        put, got, freed = (dict[Instruction, list[For | str]]() for _ in range(3))
        for ring, tiles in (rings or {}).items():
            read = {tile.result for tile in tiles}
            readers = [op for op in region.body if op in self.kept and any(read & {*inner.operand_values} for inner in op.walk())]
            put.setdefault(tiles[-1], []).append(ring)
            got.setdefault(tiles[0], []).append(ring)
            freed.setdefault([*tiles, *readers][-1], []).append(ring)
        for op in region.body:
            for ring in () if self.copies else got.get(op, ()):
                for tile, value in zip((rings or {})[ring], into.emit(RingGet(ring=self.rings[ring])).results, strict=True):
                    self.bind(tile.result, value)
            if op in self.kept and not isinstance(op, Yield):
                into.span = op.span
                for old, new in zip(op.results, self.loop(op, into) if isinstance(op, For) else self.copy(op, into), strict=False):
                    self.bind(old, new)
            for ring in put.get(op, ()) if self.copies else ():
                into.emit(RingPut(ring=self.rings[ring], values=tuple(self.values[tile.result] for tile in (rings or {})[ring])))
            for ring in () if self.copies else freed.get(op, ()):
                into.emit(RingFree(ring=self.rings[ring]))

    def loop(self, op: For, into: Builder) -> list[Value]:
        body = Region()
        for parameter in op.body.parameters[: 1 if self.copies else None]:
            body.parameters.append(self.owner.value(parameter.name, parameter.type))
            self.bind(parameter, body.parameters[-1])
        inner = into.child(body)
        if op in self.staged and not self.copies:
            self.enter(op, inner)
        self.region(op.body, inner, self.staged.get(op))
        carried = () if self.copies else tuple(self.values[value] for value in op.carried)
        if carried:
            last = op.body.body[-1]
            assert isinstance(last, Yield)
            inner.emit(Yield(values=tuple(self.values[value] for value in last.values)))
        low, high = self.form(op.low), self.form(op.high)
        return into.emit(For(carried=carried, body=body, low=low, high=high, step=op.step, place=op.place, marks=_kept_marks(op))).results


class _Splitting(_Slicing):
    def sliced(self, b: Builder) -> None:
        values, names = dict(self.values), dict(self.names)
        for name, kept in (COPY, self.copying), (COMPUTE, self.computing):
            self.kept, self.values, self.names = kept, dict(values), dict(names)
            role = RunRole(role=name)
            self.region(self.source.body, b.child(role.body))
            b.emit(role)


class _PuttingAhead(_Slicing):
    def sliced(self, b: Builder) -> None:
        self.kept = self.copying | self.computing
        self.region(self.source.body, b)

    def loop(self, op: For, into: Builder) -> list[Value]:
        if op not in self.staged or self.copies:
            return super().loop(op, into)
        around, low, high = self.kept, self.form(op.low), self.form(op.high)
        first = into.op("min", into.index(low + _ahead(op)), into.index(high))
        with into.loop(op.variable.name, low, first.name, op.step, (), op.place, **dict(_kept_marks(op))) as (before, loop):
            self.copy_turn(op, loop.variable, before)
        self.kept = self.computing
        results = super().loop(op, into)
        self.kept = around
        return results

    def enter(self, op: For, into: Builder) -> None:
        variable = self.values[op.variable]
        later = into.index(Affine.of(variable.name) + _ahead(op))
        with into.when(into.op("lt", later, into.index(self.form(op.high)))) as more:
            self.copy_turn(op, later, more)
        self.bind(op.variable, variable)

    def copy_turn(self, op: For, turn: Value, into: Builder) -> None:
        around, self.kept = self.kept, self.copying
        self.bind(op.variable, turn)
        self.region(op.body, into, self.staged[op])
        self.kept = around


def _ahead(op: For) -> int:
    """How far the turn is away whose tiles are put."""
    stages = op.mark("pipeline")
    assert isinstance(stages, int)
    return (stages - 1) * op.step


def _kept_marks(op: For) -> tuple[tuple[str, object], ...]:
    return tuple((name, value) for name, value in op.marks if name != "pipeline")
