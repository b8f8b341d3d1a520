"""Tensor core products of a warp: fragments loaded from memory, multiplied, stored; and the matrix moves between shared memory and
registers that `mma.sync` is fed by. Form C."""

from collections.abc import Iterator

from compiler.hir.affine import Affine
from compiler.hir.gpu import one_of
from compiler.hir.instruction import (
    Effect,
    Instruction,
    InstructionFamily,
    Value,
    ValueScope,
    attribute,
    instruction,
    operand,
    operands,
)
from compiler.hir.lane_maps import MMA_SYNC, REGISTER_UNITS, WarpKind, register_of
from compiler.hir.memory import mem_of
from compiler.hir.types import U32, Fragment, FragmentRole, HirType, Space, Tile, bytes_of
from runtime.tuples import as_tuple

LAYOUTS = ("row", "col")
"""Order of a matrix in memory: rows or columns contiguous."""

MATRIX_A_16X16_F16 = Fragment(FragmentRole.A, 16, 16, 16, "f16")
MATRIX_B_16X16_F16 = Fragment(FragmentRole.B, 16, 16, 16, "f16")
ACCUMULATOR_16X16_F32 = Fragment(FragmentRole.ACCUMULATOR, 16, 16, 16, "f32")
MATRIX_A_8X8_F16 = Fragment(FragmentRole.A, 8, 8, 8, "f16")
MATRIX_B_8X8_F16 = Fragment(FragmentRole.B, 8, 8, 8, "f16")
ACCUMULATOR_8X8_F32 = Fragment(FragmentRole.ACCUMULATOR, 8, 8, 8, "f32")
FRAGMENTS = (
    MATRIX_A_16X16_F16,
    MATRIX_B_16X16_F16,
    ACCUMULATOR_16X16_F32,
    MATRIX_A_8X8_F16,
    MATRIX_B_8X8_F16,
    ACCUMULATOR_8X8_F32,
)
"""The fragments that every target has. The 8x8 ones are padded with zeros to the shape that the hardware multiplies."""


def _forms(forms: tuple[Affine, ...]) -> tuple[Affine, ...]:
    return tuple(Affine.of(form) for form in forms)


def fragment_of(value: Value) -> Fragment | None:
    return value.type if isinstance(value.type, Fragment) else None


@instruction("mma_load", InstructionFamily.TENSOR_CORE, Effect.READ | Effect.SYNC)
class MmaLoad(Instruction):
    """`%a = mma_load row %A[i, k] : fragment<a, 16x16x16, f16>`: the matrix whose first element is there, in the given order,
    spread over the warp's lanes. The last two dims of the memory are the matrix's."""

    layout: str = attribute()
    mem: Value = operand()
    index: tuple[Affine, ...] = attribute(converter=_forms)
    type: HirType = attribute()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.type]

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from one_of(self.layout, LAYOUTS, "layout")
        yield from _matrix_fault(self.mem, self.index)
        if not isinstance(self.type, Fragment):
            yield f"{self.type} is no fragment"
        elif self.type.dtype != mem_of(self.mem).dtype:
            yield f"a fragment of {self.type.dtype} from {mem_of(self.mem)}"


@instruction("mma", InstructionFamily.TENSOR_CORE, Effect.SYNC)
class Mma(Instruction):
    """`%d = mma %a, %b, %c layout=row : fragment<accumulator, 16x16x16, f32>`: a * b + c; `layout` is the order in which `a` and
    `b` were loaded, "row", "col", or one for each ("row.col")."""

    a: Value = operand()
    b: Value = operand()
    c: Value = operand()
    layout: str = attribute("row")

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.c.type]

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from one_of(self.layout, (*LAYOUTS, "row.row", "row.col", "col.row", "col.col"), "layout")
        roles = (FragmentRole.A, FragmentRole.B, FragmentRole.ACCUMULATOR)
        shapes = set()
        for value, role in zip((self.a, self.b, self.c), roles, strict=True):
            fragment = fragment_of(value)
            if fragment is None or fragment.role is not role:
                yield f"{value} is {value.type}, where a fragment of role {role.value} is wanted"
            else:
                shapes.add((fragment.rows, fragment.columns, fragment.depth))
        if len(shapes) > 1:
            yield "fragments of different shapes"


@instruction("mma_store", InstructionFamily.TENSOR_CORE, Effect.WRITE | Effect.SYNC)
class MmaStore(Instruction):
    """`mma_store row %C[i, j], %d`: the fragment's matrix written back."""

    layout: str = attribute()
    mem: Value = operand()
    index: tuple[Affine, ...] = attribute(converter=_forms)
    fragment: Value = operand()

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from one_of(self.layout, LAYOUTS, "layout")
        yield from _matrix_fault(self.mem, self.index)
        fragment = fragment_of(self.fragment)
        if fragment is None:
            yield f"{self.fragment} is no fragment"
        elif fragment.dtype != mem_of(self.mem).dtype:
            yield f"a fragment of {fragment.dtype} to {mem_of(self.mem)}"


@instruction("ldmatrix", InstructionFamily.TENSOR_CORE, Effect.READ | Effect.SYNC)
class LoadMatrix(Instruction):
    """`%r0, %r1 = ldmatrix %s[row, col] count=2 transpose=true : u32, u32`: `count` matrices of 8 rows of 16 bytes; lane 8*n + r
    gives the place of row r of matrix n, and gets four neighbouring bytes of row lane/4 of each: two elements of 16 bits, which
    `transpose` takes from a column instead."""

    mem: Value = operand()
    index: tuple[Affine, ...] = attribute(converter=_forms)
    count: int = attribute(4)
    transpose: bool = attribute(False)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [U32] * self.count

    def check(self, scope: ValueScope) -> Iterator[str]:
        sizes = (2,) if self.transpose else (1, 2, 4)
        yield from _shared_matrices(self.mem, self.index, self.count, sizes)


@instruction("stmatrix", InstructionFamily.TENSOR_CORE, Effect.WRITE | Effect.SYNC)
class StoreMatrix(Instruction):
    """`stmatrix %s[row, col], %r0, %r1`: the reverse of `ldmatrix`."""

    mem: Value = operand()
    index: tuple[Affine, ...] = attribute(converter=_forms)
    values: tuple[Value, ...] = operands()
    transpose: bool = attribute(False)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return []

    def check(self, scope: ValueScope) -> Iterator[str]:
        yield from _shared_matrices(self.mem, self.index, len(self.values), (2,))
        yield from (f"{value} is {value.type}, not u32" for value in self.values if value.type != U32)


def _matrix_fault(mem: Value, index: tuple[Affine, ...]) -> Iterator[str]:
    if mem_of(mem).rank < 2 or len(index) != mem_of(mem).rank:
        yield f"{len(index)} indices for {mem} of rank {mem_of(mem).rank}; a matrix has two"


def _shared_matrices(mem: Value, index: tuple[Affine, ...], count: int, sizes: tuple[int, ...]) -> Iterator[str]:
    type_ = mem_of(mem)
    if type_.space is not Space.SHARED or bytes_of(type_.dtype) not in sizes:
        yield f"{type_} is not shared memory of {' or '.join(str(8 * size) for size in sizes)}-bit elements"
    if len(index) != type_.rank:
        yield f"{len(index)} indices for {mem} of rank {type_.rank}"
    if count not in (1, 2, 4):
        yield f"{count} matrices: 1, 2 or 4"


# ---- products on registers ------------------------------------------------------------------------------------------


@instruction("warp_mma", InstructionFamily.TENSOR_CORE, Effect.SYNC)
class WarpMma(Instruction):
    """`%d = warp_mma %c, %a0, %a1, %a2, %a3, %b0, %b1 shape=[16, 8, 16] dtype=bf16 : tile<c:1, h:2, r:1, simd:2, f32>`: c + a * b by a
    warp, all in registers. Lane l has rows l/4 + 8*h + 16*r and columns 2*(l%4) + simd + 8*c of the sums, whose axes are told apart by
    their order. A register of an operand has neighbours along the depth, packed in a u32, or one f64; four lanes have registers side by
    side. Of `a` a lane has, for each 16 rows and then for each four such registers along the depth, row l/4 and row l/4 + 8; of `b`, for
    each 8 columns, column l/4. Other units than `mma.sync` have tables of their own."""

    accumulator: Value = operand()
    values: tuple[Value, ...] = operands()
    shape: tuple[int, ...] = attribute(converter=as_tuple)
    dtype: str = attribute()
    unit: str = attribute(MMA_SYNC)

    def result_types(self, scope: ValueScope) -> list[HirType]:
        return [self.accumulator.type]

    @property
    def kind(self) -> WarpKind:
        return REGISTER_UNITS[self.unit][self.dtype]

    @property
    def registers(self) -> tuple[int, int]:
        """Registers of `a` for the rows of a block, and of `b` for the columns of one."""
        _, _, deep = self.kind.blocks(self.shape)
        return deep * self.kind.a.count, deep * self.kind.b.count

    @property
    def a(self) -> tuple[Value, ...]:
        return self.values[: self.kind.blocks(self.shape)[0] * self.registers[0]]

    @property
    def b(self) -> tuple[Value, ...]:
        return self.values[len(self.a) :]

    def check(self, scope: ValueScope) -> Iterator[str]:
        kinds = REGISTER_UNITS.get(self.unit, {})
        kind = kinds.get(self.dtype)
        if kind is None:
            yield f"a product of {self.dtype}: {', '.join(kinds)}"
            return
        if len(self.shape) != 3 or not kind.is_whole(self.shape):
            (rows, _), (columns, _), depths = kind.a.shape, kind.b.shape, " or ".join(map(str, kind.depths))
            yield f"a product of shape {self.shape}: rows by {rows}, columns by {columns}, depth {depths}"
            return
        sums, wanted = self.accumulator.type, kind.sums_of(self.shape)
        axes = sums.axes if isinstance(sums, Tile) and sums.dtype == kind.sums else ()
        if [extent for _, extent in axes] != [extent for _, extent in wanted.axes] or not axes[-1][0].startswith("simd"):
            yield f"sums {sums} of a product of shape {self.shape}: `{wanted}`"
        rows, columns, _ = kind.blocks(self.shape)
        if len(self.values) != rows * self.registers[0] + columns * self.registers[1]:
            yield f"{len(self.values)} registers for a product of shape {self.shape}"
        register = register_of(self.dtype)
        yield from (f"{value} is {value.type}, not {register}" for value in self.values if value.type != register)
