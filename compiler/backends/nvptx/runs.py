"""Runs of elements that may begin at any address, and of which some lanes may be outside. The aligned runs of words that such a run lies in
are read, each only if it has a byte that is wanted, and shifted together: two accesses and some fifteen instructions, instead of one access
for each element."""

from collections.abc import Iterator
from itertools import pairwise

from compiler.backends.llvm.bundle import Bundle, points, static_axes
from compiler.backends.llvm.types import I32, I64, LlvmType, vector
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.backends.nvptx.frame import NvptxFrame
from compiler.hir.affine import Affine
from compiler.hir.core import Binary, InBounds
from compiler.hir.types import Tile
from compiler.machines.access import WORD

Wanted = tuple[LlvmValue, LlvmValue]
"""The first byte, or lane, of a run that is wanted, and the one behind the last."""


def read_words(w: FunctionWriter, address: LlvmValue, count: int, mask: LlvmValue | None) -> list[LlvmValue]:
    """Words at a multiple of as many bytes; zeros where the mask is false."""
    type: LlvmType = vector("i32", count) if count > 1 else I32

    def parts(whole: LlvmValue) -> list[LlvmValue]:
        return [w.extract(whole, lane) for lane in range(count)] if count > 1 else [whole]

    if mask is None:
        return parts(w.load(type, address, WORD * count))
    inside, after = w.label("inside"), w.label("after")
    w.start(w.label("mask"))
    before = w.block
    w.branch_if(mask, inside, after)
    w.start(inside)
    loaded = w.load(type, address, WORD * count)
    end = w.block
    w.start(after)
    return parts(w.phi(type, [(loaded, end), ("zeroinitializer" if type.lanes else "0", before)]))


def shifted_words(
    w: FunctionWriter, address: LlvmValue, count: int, mask: LlvmValue | None, wanted: Wanted | None = None
) -> list[LlvmValue]:
    """Words from any address on; zeros where the mask is false. `wanted`: which bytes, at least one where the mask is true, if not all."""
    size = WORD * count
    number = w.value(I64, f"ptrtoint {address} to i64")
    behind = w.convert("trunc", w.binary("and", number, constant(I64, size - 1)), "i32")
    back = w.binary("sub", constant(I32, 0), behind)
    begin = w.offset(address, w.convert("sext", back, "i64"), LlvmType("i8"))
    reaches, begins = w.compare("ne", behind, constant(I32, 0)), None
    if wanted is not None:
        low, high = (w.binary("add", behind, byte) for byte in wanted)
        reaches, begins = w.compare("ugt", high, constant(I32, size)), w.compare("ult", low, constant(I32, size))
    second = w.offset(begin, constant(I64, size), LlvmType("i8"))
    first_mask = mask if begins is None else w.both(mask, begins)
    held = [*read_words(w, begin, count, first_mask), *read_words(w, second, count, w.both(mask, reaches))]
    # so many whole words further, then so many bits
    words = w.binary("lshr", behind, constant(I32, 2))
    step_words = count // 2
    while step_words:
        far = w.compare("ne", w.binary("and", words, constant(I32, step_words)), constant(I32, 0))
        held = [w.select(far, later, now) for now, later in zip(held, held[step_words:], strict=False)]
        step_words //= 2
    bits = w.binary("shl", w.binary("and", behind, constant(I32, 3)), constant(I32, 3))
    return [w.call("llvm.fshr.i32", I32, high, low, bits) for low, high in pairwise(held)]


def first_bytes(w: FunctionWriter, bytes: LlvmValue, before: int) -> LlvmValue:
    """Ones where a word has bytes of the first so many; `before`: of the words before it."""
    count = w.call("llvm.smax.i32", I32, w.binary("sub", bytes, constant(I32, before)), constant(I32, 0))
    bits = w.binary("and", w.binary("shl", count, constant(I32, 3)), constant(I32, 31))
    ones = w.binary("sub", w.binary("shl", constant(I32, 1), bits), constant(I32, 1))
    return w.select(w.compare("sge", count, constant(I32, WORD)), constant(I32, -1), ones)


def bytes_between(w: FunctionWriter, words: list[LlvmValue], wanted: Wanted) -> list[LlvmValue]:
    """The words with zeros for bytes that aren't wanted."""
    low, high = wanted
    kept = []
    for number, word in enumerate(words):
        before = first_bytes(w, low, WORD * number)
        ones = w.binary("and", first_bytes(w, high, WORD * number), w.binary("xor", before, constant(I32, -1)))
        kept.append(w.binary("and", word, ones))
    return kept


def in_lanes(w: FunctionWriter, words: list[LlvmValue], type: LlvmType) -> LlvmValue:
    """Words as a vector of elements."""
    whole = LlvmValue(vector("i32", len(words)), "poison")
    for lane, word in enumerate(words):
        whole = w.insert(whole, word, lane)
    return w.value(type, f"bitcast {whole} to {type}")


def lanes_inside(frame: NvptxFrame, op: InBounds) -> Bundle | None:
    """The condition as numbers of lanes that are compared with the first and behind the last lane inside, which are small; None where
    lanes aren't neighbours."""
    w = frame.w
    assert isinstance(op.result.type, Tile)
    axes, simd, lanes = static_axes(op.result.type, "NVPTX")
    if simd is None or not _are_neighbours(frame, op, simd):
        return None
    numbers = LlvmValue(vector("i32", lanes), f"<{', '.join(f'i32 {lane}' for lane in range(lanes))}>")
    items = []
    for point in points(axes):
        low, high = _lanes_within(frame, op, simd, lanes, point)
        items.append(w.binary("and", w.compare("slt", numbers, high), w.compare("sge", numbers, low)))
    return Bundle("i1", axes, simd, lanes, tuple(items))


def lanes_wanted(
    frame: NvptxFrame, where: str, simd: str, lanes: int, point: dict[str, int]
) -> tuple[LlvmValue | None, Wanted | None] | None:
    """Of a condition: what holds in all lanes or in none of them, and in which lanes the rest holds, at a point of the register axes. None
    where these aren't neighbours."""
    w = frame.w
    mask: LlvmValue | None = None
    wanted: Wanted | None = None
    for name, op in _conditions(frame, where):
        if frame.values[name].simd != simd:
            mask = w.both(mask, frame.values[name].at(point))
        elif op is None or not _are_neighbours(frame, op, simd):
            return None
        else:
            low, high = _lanes_within(frame, op, simd, lanes, point)
            wanted = (low, high) if wanted is None else (w.intrinsic("smax", wanted[0], low), w.intrinsic("smin", wanted[1], high))
    return mask, wanted


def _conditions(frame: NvptxFrame, where: str) -> Iterator[tuple[str, InBounds | None]]:
    """What a condition is a conjunction of."""
    op = frame.definitions.get(where)
    if isinstance(op, Binary) and op.operator == "and":
        yield from _conditions(frame, op.left.name)
        yield from _conditions(frame, op.right.name)
    else:
        yield where, op if isinstance(op, InBounds) else None


def _are_neighbours(frame: NvptxFrame, op: InBounds, simd: str) -> bool:
    """Whether lanes step up or down by one, and the end stays, or steps with them."""
    step, end = op.of.coefficient(simd), op.below.coefficient(simd)
    return step in (1, -1) and end in (0, step) and not any(_varies(frame, form.without(simd), simd) for form in (op.of, op.below))


def _varies(frame: NvptxFrame, form: Affine, simd: str) -> bool:
    """Whether a form is another in each lane."""
    return any(name == simd or (name in frame.values and frame.values[name].simd == simd) for name in form.names)


def _lanes_within(frame: NvptxFrame, op: InBounds, simd: str, lanes: int, point: dict[str, int]) -> Wanted:
    """An index of data may be anything: where these differences wrap, no lane is inside."""
    w, up, follows = frame.w, op.of.coefficient(simd) == 1, op.below.coefficient(simd) != 0
    first, below = frame.affine(op.of.without(simd), point), frame.affine(op.below.without(simd), point)

    def clamped(lane: LlvmValue) -> LlvmValue:
        within = w.intrinsic("smin", w.intrinsic("smax", lane, constant(I64, 0)), constant(I64, lanes))
        return w.convert("trunc", within, "i32")

    if up:
        low, high = w.binary("sub", constant(I64, 0), first), constant(I64, lanes) if follows else w.binary("sub", below, first)
    else:
        high = w.binary("add", first, constant(I64, 1))
        low = constant(I64, 0) if follows else w.binary("sub", high, below)
    if follows:
        high = w.select(w.compare("slt", first, below), high, constant(I64, 0))
    # comparisons of lanes with the second number would be of 64 bits again
    return clamped(low), w.assembly("mov.b32 $0, $1;", [I32], "r", [clamped(high)], pure=True, alone=True)[0]
