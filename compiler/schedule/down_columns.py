"""Sums down columns. Their lines march in step where that reads memory in longer runs than tiles do, else the tiles of the table go down
them: both are in the function, and sizes decide as it runs."""

from collections.abc import Mapping, Sequence
from functools import reduce

from compiler.analysis.dependence import NestFacts
from compiler.analysis.recognise import product_sum
from compiler.hir.build import Builder
from compiler.hir.control import For
from compiler.hir.core import FLOAT_FUNCTIONS, Const, Contract, Reduce, Scan, Unary
from compiler.hir.instruction import Value
from compiler.hir.memory import Load, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.types import bytes_of
from compiler.schedule.lines import Lines, carried_bytes, lines_of, marched
from compiler.schedule.place import Placing
from compiler.schedule.region import Target, TileRegion
from compiler.schedule.table import Table

ROWS, TILE_BYTES = 64, 128
"""Rows, where what a line carries is as wide as what it reads, from which sums march: fewer rows lie in near caches and tables of pages.
And bytes that all lines carry beyond which they march: a tile of two vectors reads shorter rows whole."""

FAR_ROWS, FAR = 32, 8 << 20
"""Rows from which they march whatever they carry, where so many bytes are read: the next row of a column of tiles is always far away."""


WALKS, FAR_WALKS = 2, 4096
"""Loops over rows that lines march through at most, and rows from which they march through more than one: the second cache doesn't hold a
column of tiles for the next loop."""


def columns_of(nest: HirFunction, field: HirFunction, facts: NestFacts) -> tuple[Lines, ...]:
    """The lines that are all of a kernel of sums but those of products, and walk through few loops with no window that the lines move, nor
    functions that would be computed again: what is shared by neighbours stays in registers and near caches if the lines take turns."""
    sums = [op for op in field.body.body if isinstance(op, Scan | Reduce | Contract)]
    if not sums or not all(isinstance(op, Reduce) and ((p := product_sum(op)) is None or not p.m or not p.n) for op in sums):
        return ()
    loops = [op for op in nest.body.body if not isinstance(op, Const)]
    lines = [found for op in loops if isinstance(op, For) and (found := lines_of(op, facts)) is not None and _walks(found)]
    return tuple(lines) if len(lines) == len(loops) else ()


def _walks(lines: Lines) -> bool:
    steps = [op for op in lines.loops[-1].body.body if isinstance(op, For)]
    variables = {loop.variable.name for loop in lines.loops}
    inner = {op.variable.name for top in steps for op in top.walk() if isinstance(op, For)}
    forms = [form for top in steps for op in top.walk() if isinstance(op, Load) for form in op.index]
    moves = any(variables & set(form.names) and inner & set(form.names) for form in forms)
    again = len(steps) > 1 and any(isinstance(op, Unary) and op.operator in FLOAT_FUNCTIONS for top in steps for op in top.walk())
    least = FAR_ROWS if len(steps) == 1 else FAR_WALKS
    fits = _may_be(steps[0], least) and _may_be(lines.across, _columns(lines))
    return len(steps) <= WALKS and not moves and not again and fits


def _columns(lines: Lines) -> int:
    """The fewest lines that march."""
    return TILE_BYTES // max(1, carried_bytes(lines.loops[-1].body)) + 1


def _may_be(loop: For, least: int) -> bool:
    extent = (loop.high - loop.low).value
    return extent is None or extent >= least


class PlacingColumns(Placing):
    """Places a field by its table, and its nest's lines beside it."""

    def __init__(self, field: HirFunction, table: Table, nest: HirFunction, lines: Sequence[Lines]) -> None:
        super().__init__(field, table)
        self.nest, self.lines = nest, lines

    def begin(self, stores: Sequence[Target], root: TileRegion) -> None:
        made = {value.name: value for value in root.made.values()}
        outside: Mapping[Value, Value] = {parameter: made[parameter.name] for parameter in self.nest.parameters}
        b = root.builder
        march = reduce(b.both, [self.pays(lines, b) for lines in self.lines])
        with b.branch(march) as (then, otherwise, _):
            for lines in self.lines:
                marched(lines, then, outside)
            self.produce(stores, TileRegion(otherwise, made=dict(root.made)), {})

    def pays(self, lines: Lines, b: Builder) -> Value:
        """Whether lines that march are done before tiles would be."""
        count = b.index(lines.across.high - lines.across.low)
        body = lines.loops[-1].body
        step, *again = (op for op in body.body if isinstance(op, For))
        read = min((bytes_of(mem_of(op.mem).dtype) for op in step.walk() if isinstance(op, Load)), default=1)
        # what lines carry goes through memory for each element that they read
        rows = b.index(step.high - step.low)
        many = b.op("ge", rows, b.const(ROWS * max(1, carried_bytes(body) // read), "index"))
        far = b.op("ge", b.mul(b.mul(rows, count), b.const(read, "index")), b.const(FAR, "index"))
        far = b.both(far, b.op("ge", rows, b.const(FAR_WALKS if again else FAR_ROWS, "index")))
        return b.both(b.op("ge", count, b.const(_columns(lines), "index")), far if again else b.op("or", many, far))
