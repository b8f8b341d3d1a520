"""Taking elements along an axis, putting tiles one behind the other, and two 16-bit elements into one word."""

from compiler.backends.llvm.arithmetic import to_memory
from compiler.backends.llvm.bundle import Bundle, is_simd, points, static_axes, unsupported
from compiler.backends.llvm.frame import FunctionFrame
from compiler.backends.llvm.types import I32, I64
from compiler.backends.llvm.writer import LlvmValue, constant, poison
from compiler.hir.core import Concat, Pack2, Stack, Take
from compiler.hir.types import Tile


def take(frame: FunctionFrame, op: Take) -> None:
    w = frame.w
    source = frame.values[op.value.name]
    at = frame.affine(op.at)
    if op.axis == source.simd:
        if at.number is not None:
            items = tuple(w.extract(item, at.number) for item in source.items)
        else:
            lane = w.convert("trunc", at, "i32")
            assert lane.type == I32
            items = tuple(w.extract(item, lane) for item in source.items)
        frame.define(op, Bundle(source.dtype, source.axes, None, 0, items))
        return
    extent = dict(source.axes)[op.axis]
    rest = tuple(axis for axis in source.axes if axis[0] != op.axis)
    taken = []
    for point in points(rest):
        if at.number is not None:
            taken.append(source.at({**point, op.axis: at.number}))
            continue
        item = source.at({**point, op.axis: 0})
        for number in range(1, extent):
            matches = w.compare("eq", at, constant(I64, number))
            item = w.select(matches, source.at({**point, op.axis: number}), item)
        taken.append(item)
    frame.define(op, Bundle(source.dtype, rest, source.simd, source.lanes, tuple(taken)))


def concat(frame: FunctionFrame, op: Concat) -> None:
    if is_simd(op.axis):
        raise unsupported("concat along a vector axis", "place the axis in registers", frame.w.module.backend)
    type = op.result.type
    assert isinstance(type, Tile)
    axes, simd, lanes = static_axes(type, frame.w.module.backend)
    parts = [frame.values[value.name] for value in op.values]
    starts: list[tuple[int, Bundle]] = []
    total = 0
    for part in parts:
        starts.append((total, part))
        total += dict(part.axes)[op.axis]
    items = []
    for point in points(axes):
        start, part = max((s for s in starts if s[0] <= point[op.axis]), key=lambda s: s[0])
        items.append(part.at({**point, op.axis: point[op.axis] - start}))
    frame.define(op, Bundle(type.dtype, axes, simd, lanes, tuple(items)))


def stack(frame: FunctionFrame, op: Stack) -> None:
    items = [frame.values[value.name].scalar for value in op.values]
    dtype = frame.values[op.values[0].name].dtype
    if not is_simd(op.axis):
        frame.define(op, Bundle(dtype, ((op.axis, len(items)),), None, 0, tuple(items)))
        return
    whole = poison(items[0].type.with_lanes(len(items)))
    for lane, item in enumerate(items):
        whole = frame.w.insert(whole, item, lane)
    frame.define(op, Bundle(dtype, (), op.axis, len(items), (whole,)))


def pack2(frame: FunctionFrame, op: Pack2) -> None:
    """As memory holds them, the first in the low half."""
    w, source = frame.w, frame.values[op.value.name]
    if op.over == source.simd and source.lanes == 2:
        pairs = [w.value(I32, f"bitcast {to_memory(w, item, source.dtype)} to i32") for item in source.items]
        frame.define(op, Bundle("u32", source.axes, None, 0, tuple(pairs)))
        return
    if is_simd(op.over) or source.simd is not None:
        raise unsupported("pairs of vector lanes", "place the axis in registers", w.module.backend)

    def half(point: dict[str, int], number: int) -> LlvmValue:
        held = to_memory(w, source.at({**point, op.over: number}), source.dtype)
        return w.convert("zext", w.convert("bitcast", held, "i16") if held.type.is_float else held, "i32")

    rest = tuple(axis for axis in source.axes if axis[0] != op.over)
    words = [w.binary("or", half(point, 0), w.binary("shl", half(point, 1), constant(I32, 16))) for point in points(rest)]
    frame.define(op, Bundle("u32", rest, None, 0, tuple(words)))
