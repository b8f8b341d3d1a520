"""Products of a warp from registers, as assembly: `mma.sync` of 16 rows and 8 columns for each block of the sums, in the pieces that the
architecture has."""

from itertools import product

from compiler.backends.llvm.bundle import Bundle
from compiler.backends.llvm.types import LlvmType
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, poison
from compiler.backends.nvptx.frame import NvptxFrame
from compiler.hir.lane_maps import MMA_SYNC
from compiler.hir.tensor_core import WarpMma
from compiler.machines.units.unit import Issue, Shape

_SUMS = {"f32": "f32", "i32": "s32", "f64": "f64"}
_REGISTERS = {"i32": "r", "float": "f", "double": "d"}


def warp_mma(frame: NvptxFrame, op: WarpMma) -> None:
    w, kind = frame.w, op.kind
    frame.require(lambda machine: op.unit == MMA_SYNC and machine.multiplies(Issue.REGISTERS, op.dtype), f"tensor cores for {op.dtype}")
    unit = frame.target.machine.unit(Issue.REGISTERS)
    assert unit is not None
    piece = unit.piece(op.dtype, (16, 8, op.shape[2]))
    sums = _SUMS[kind.sums]
    types = f"{sums}.{kind.word}.{kind.word}.{sums}"
    name = f"mma.sync.aligned.m{piece[0]}n{piece[1]}k{piece[2]}.row.col.{types}"
    held = frame.values[op.accumulator.name]
    a, b = ([frame.values[value.name].scalar for value in values] for values in (op.a, op.b))
    registers = _registers(w, held, op)
    each, _ = op.registers
    for row in range(op.shape[0] // 16):
        for column in range(op.shape[1] // 8):
            of_a, of_b = a[row * each : (row + 1) * each], b[column * each // 2 : (column + 1) * each // 2]
            registers[row, column] = _multiplied(w, name, piece, op, registers[row, column], of_a, of_b)
    frame.define(op, _as_bundle(w, held, op, registers))


def _order(op: WarpMma) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """By block of 16 rows and 8 columns: item and lane of the sums' bundle for its four in the hardware's order."""
    rows, columns = op.shape[0] // 16, op.shape[1] // 8
    spots = list(product(range(2), range(2)))
    return {
        (row, column): [((column * 2 + half) * rows + row, pair) for half, pair in spots]
        for row, column in product(range(rows), range(columns))
    }


def _registers(w: FunctionWriter, held: Bundle, op: WarpMma) -> dict[tuple[int, int], list[LlvmValue]]:
    return {block: [w.extract(held.items[item], lane) for item, lane in spots] for block, spots in _order(op).items()}


def _as_bundle(w: FunctionWriter, like: Bundle, op: WarpMma, sums: dict[tuple[int, int], list[LlvmValue]]) -> Bundle:
    items: list[LlvmValue] = [poison(item.type) for item in like.items]
    for block, spots in _order(op).items():
        for (item, lane), value in zip(spots, sums[block], strict=True):
            items[item] = w.insert(items[item], value, lane)
    return Bundle(like.dtype, like.axes, like.simd, like.lanes, tuple(items))


def _multiplied(
    w: FunctionWriter, name: str, piece: Shape, op: WarpMma, sums: list[LlvmValue], a: list[LlvmValue], b: list[LlvmValue]
) -> list[LlvmValue]:
    """The four sums of a block with its products added: rows 8 apart at pairs of columns."""
    if piece[:2] == (16, 8):
        along = piece[2] * len(a) // op.shape[2]
        for start in range(0, len(a), along):
            sums = _mma(w, name, sums, a[start : start + along], b[start // 2 : (start + along) // 2])
        return sums
    halves = [sums[:2], sums[2:]]
    for number, register in enumerate(a):
        halves[number % 2] = _mma(w, name, halves[number % 2], [register], [b[number // 2]])
    return [*halves[0], *halves[1]]


def _mma(w: FunctionWriter, name: str, sums: list[LlvmValue], a: list[LlvmValue], b: list[LlvmValue]) -> list[LlvmValue]:
    number = len(sums)
    results = "{" + ", ".join(f"${n}" for n in range(number)) + "}"
    groups = [results]
    for registers in (a, b):
        groups.append("{" + ", ".join(f"${number + n}" for n in range(len(registers))) + "}")
        number += len(registers)
    kinds = ",".join([*(_REGISTERS[register.type.element] for register in (*a, *b)), *(str(n) for n in range(len(sums)))])
    types: list[LlvmType] = [value.type for value in sums]
    return w.assembly(f"{name} {', '.join(groups)}, {results};", types, kinds, [*a, *b, *sums], pure=True)
