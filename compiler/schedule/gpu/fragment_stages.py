"""The stages of an operand in shared memory: how the threads of a block fill them, and how warps read fragments from them.

Fragments of 8, 16 and 32 bits come by `ldmatrix`, eight rows of 16 bytes at a time: lines of shared memory are as long as what is contiguous,
at most 128 bytes, and their chunks of 16 bytes are XORed with the number of the line, so that neither copies nor fragments meet in a bank.
Fragments of 64 bits come element by element, from lines with a gap of 32 bytes behind them."""

from typing import TYPE_CHECKING

from compiler.hir.affine import Affine
from compiler.hir.async_copy import AsyncCopy
from compiler.hir.build import Builder
from compiler.hir.gpu import SharedAlloc
from compiler.hir.instruction import Value
from compiler.hir.memory import Load
from compiler.hir.tensor_core import LoadMatrix
from compiler.hir.types import Mem, Space
from compiler.schedule.gpu.fragment_operands import LINE, FragmentProduct, Operand
from compiler.schedule.gpu.warpgroup_operands import divides
from compiler.schedule.place import Region

if TYPE_CHECKING:
    from compiler.schedule.gpu.fragment_pipeline import FragmentDistributing

CHUNK = 16
"""Bytes of a row of a matrix."""
GAP = 32
"""Bytes behind a line that is read element by element."""


class Stages:
    """One operand's. `first`: the warp's first row, or column, of the tile."""

    def __init__(
        self,
        placing: "FragmentDistributing",
        operand: Operand,
        product: FragmentProduct,
        is_a: bool,
        first: Affine,
        thread: Affine,
        lane: Affine,
        region: Region,
    ) -> None:
        b, shape = region.builder, product.shape
        self.placing, self.operand, self.product, self.is_a = placing, operand, product, is_a
        self.extent = shape.rows if is_a else shape.columns
        self.part = shape.part[0 if is_a else 1]
        size = operand.size
        self.by_matrix = size < 8
        self.wide, self.lines = (self.extent, shape.depth) if operand.across else (shape.depth, self.extent)
        self.line = min(self.wide, LINE // size) if self.by_matrix else self.wide + GAP // size
        count = self.lines * self.line * (self.wide // self.line if self.by_matrix else 1)
        type = Mem(operand.mem.dtype, (shape.stages, count), space=Space.SHARED, align=128)
        self.memory = b.emit(SharedAlloc(type=type), "stage").result
        self.pieces = self.shared_out(thread, b)
        self.places = self.matrices(first, lane, b) if self.by_matrix else [self.element(first, lane, b)]
        self.coming: list[tuple[Affine, Value]] = []

    # ---- filling ----

    def shared_out(self, thread: Affine, b: Builder) -> list[tuple[Affine, Affine, Value]]:
        """This thread's pieces of a tile: where each begins, across lines and along them, and its place in a stage."""
        threads, each = self.product.shape.threads, self.operand.unit // self.operand.size
        across = self.wide // each
        found = []
        for number in range(-(-self.lines * across // threads)):
            if across <= threads:
                line = thread.floordiv(across) + number * (threads // across)
                along = thread - thread.floordiv(across) * across
            else:
                turns = across // threads
                line, along = Affine.of(number // turns), thread + number % turns * threads
            line, along = (Affine.of(b.index(form).name) for form in (line, along))
            found.append((line, along * each, self.place(line, along * each, b)))
        return found

    def place(self, line: Affine, along: Affine, b: Builder) -> Value:
        """Where an element lies in a stage, its chunk swizzled."""
        if not self.by_matrix:
            return b.index(line * self.line + along)
        chunk = CHUNK // self.operand.size
        box = along.floordiv(self.line)
        number = b.index(along.floordiv(chunk) - box * (self.line // chunk))
        swizzled = b.op("xor", number, self.swizzle(line, b))
        within = along - along.floordiv(chunk) * chunk
        return b.index(box * (self.lines * self.line) + line * self.line + Affine.of(swizzled.name) * chunk + within)

    def swizzle(self, line: Affine, b: Builder) -> Value:
        """What chunks of a line are XORed with: the line's number, of shorter ones that of as many as fill all banks."""
        chunks = self.line * self.operand.size // CHUNK
        row = line.floordiv(8 // chunks)
        return b.index(row - row.floordiv(chunks) * chunks)

    def begin(self, b: Builder, region: Region, stage: Affine, enabled: Value) -> None:
        """The copies into a stage begin; `region` says of which part of the sum, `enabled` whether there is one."""
        operand, placing = self.operand, self.placing
        self.coming = []
        for line, along, place in self.pieces:
            inner = region.inside(b, (*placing.own, *placing.walked))
            own, term = (along, line) if operand.across else (line, along)
            inner.forms[operand.own] = region.starts[operand.own] + own
            inner.forms[operand.sum] = region.forms[operand.sum] + term
            for axis, tile in ((operand.own, self.extent), (operand.sum, self.product.shape.depth)):
                if not divides(tile, placing.field.axes[axis]):
                    inner.masks[axis] = placing.field.axes[axis]
            where = placing.mask(inner, (operand.own, operand.sum), None)
            where = enabled if where is None else b.op("and", enabled, where)
            for guard in operand.guards:
                where = b.op("and", where, placing.value(guard, inner))
            mem = region.find(operand.load.mem)
            assert mem is not None
            index = tuple(placing.form(form, inner) for form in operand.load.index)
            at = Affine.of(place.name)
            if operand.beside:
                hint = "l2" if operand.unit == CHUNK else "default"
                b.emit(
                    AsyncCopy(
                        destination=self.memory,
                        destination_index=(stage, at),
                        source=mem,
                        source_index=index,
                        bytes=operand.unit,
                        hint=hint,
                        where=where,
                    )
                )
                continue
            self.coming.append((at, self.loaded(b, mem, index, where)))
        self.stage = stage

    def loaded(self, b: Builder, mem: Value, index: tuple[Affine, ...], where: Value) -> Value:
        """A piece in registers; 0 outside."""
        count = self.operand.unit // self.operand.size
        if count > 1:
            lanes = self.lanes(count)
            index = (*index[:-1], index[-1] + Affine.of(lanes))
        read = b.emit(Load(mem=mem, index=index, where=where)).result
        return b.select(where, read, b.const(0 if self.operand.mem.dtype in ("i8", "u8") else 0.0, read.type))

    def lanes(self, count: int) -> str:
        """The axis of the elements of a piece."""
        name = f"simd{count}"
        if name not in self.placing.out.function.axes:
            self.placing.out.axis(name, count)
        return name

    def arrive(self, b: Builder) -> None:
        """What comes through registers is stored."""
        count = self.operand.unit // self.operand.size
        for place, value in self.coming:
            b.store(self.memory, value, [self.stage, place + (Affine.of(self.lanes(count)) if count > 1 else 0)])
        self.coming = []

    # ---- reading ----

    def matrices(self, first: Affine, lane: Affine, b: Builder) -> list[Affine]:
        """Where the lane's row of four matrices begins in a stage: by part of the depth, or, across, by 16 rows (or columns)."""
        size, shape = self.operand.size, self.product.shape
        row, number = lane - lane.floordiv(8) * 8, lane.floordiv(8)
        low, high = number - number.floordiv(2) * 2, number.floordiv(2)
        # of `a` the first two matrices lie along the rows, of `b` along the depth
        own, deep = (low, high) if self.is_a else (high, low)
        chunk = CHUNK // size
        found = []
        if self.operand.across:
            for block in range(self.part // 16):
                line, along = row + deep * 8, first + own * 8 + block * 16
                found.append(self.place(Affine.of(b.index(line).name), Affine.of(b.index(along).name), b))
        else:
            line = Affine.of(b.index(first + row + own * 8).name)
            for part in range(shape.depth // shape.step):
                found.append(self.place(line, Affine.of(b.index(deep * chunk + part * shape.step).name), b))
        return [Affine.of(value.name) for value in found]

    def element(self, first: Affine, lane: Affine, b: Builder) -> Affine:
        """Where the lane's first element lies in a stage."""
        own, term = first + lane.floordiv(4), lane - lane.floordiv(4) * 4
        line, along = (term, own) if self.operand.across else (own, term)
        return Affine.of(b.index(line * self.line + along).name)

    def fragments(self, b: Builder, stage: Affine, part: int) -> list[Value]:
        """The warp's registers of a part of the depth."""
        shape = self.product.shape
        if not self.by_matrix:
            return [b.load(self.memory, [stage, self.places[0] + offset]) for offset in self.offsets(part)]
        found: list[Value] = []
        for block in range(self.part // 16):
            if self.operand.across:
                place = self.places[block] + part * shape.step * self.line
            else:
                place = self.places[part] + block * 16 * self.line
            op = LoadMatrix(mem=self.memory, index=(stage, place), count=4, transpose=self.operand.across)
            found += b.emit(op).results
        return found

    def offsets(self, part: int) -> list[int]:
        """From the lane's first element to those of its registers, in the order of `warp_mma`."""
        shape = self.product.shape
        rows = 16 if self.is_a else 8
        found = []
        for block in range(self.part // rows):
            for deep in range(0, shape.step, 4):
                for half in range(rows // 8):
                    own, term = block * rows + half * 8, part * shape.step + deep
                    found.append(term * self.line + own if self.operand.across else own * self.line + term)
        return found
