"""Results of attention on warpgroups: through the shared memory that the queries were in, and from there by bulk copies."""

from compiler.hir.affine import Affine
from compiler.hir.core import Pack2
from compiler.hir.gpu import FenceAsync
from compiler.hir.hopper import BulkCommit, BulkStore, BulkWait
from compiler.hir.instruction import Value
from compiler.hir.memory import Store, mem_of
from compiler.hir.module import HirFunction
from compiler.hir.tensor_core import StoreMatrix
from compiler.hir.types import bytes_of
from compiler.schedule.gpu.attention_group import AttentionGroup
from compiler.schedule.gpu.attention_weights import AttentionWeights
from compiler.schedule.gpu.boxed_operands import divides, wide_of
from compiler.schedule.gpu.warpgroup_attention import WarpgroupAttention
from compiler.schedule.gpu.warpgroup_results import taken
from compiler.schedule.gpu.warpgroup_tiles import ROWS
from compiler.schedule.region import TileRegion


def is_boxed(field: HirFunction, attention: WarpgroupAttention, store: Store) -> bool:
    """Whether bulk copies write the result's tile, from where the queries were: numbers of their type, that end in memory where the
    axes do."""
    mem = mem_of(store.mem)
    if mem.dtype != attention.dtype or mem.align < 16 or not 2 <= mem.rank <= 5:
        return False
    if store.where is not None or store.mem.source is not None:
        return False
    unit = 16 // bytes_of(mem.dtype)
    strides = mem.dims[-1:] if mem.strides is None else mem.strides[:-1]
    if (mem.strides is not None and mem.strides[-1].value != 1) or any(not divides(unit, form) for form in strides):
        return False
    places = []
    for axis, tile in ((attention.query.axis, attention.rows), (attention.value.axis, wide_of(mem))):
        positions = [position for position, form in enumerate(store.index) if axis in form.names]
        if len(positions) != 1:
            return False
        form, extent = store.index[positions[0]], field.axes[axis]
        if form.coefficient(axis) != 1 or axis in form.without(axis).names:
            return False
        if not divides(tile, extent) and (form != Affine.of(axis) or mem.dims[positions[0]] != extent):
            return False
        places.append(positions[0])
    return places[1] == mem.rank - 1 and attention.width <= attention.depth


def stored(
    placing: AttentionWeights, attention: WarpgroupAttention, group: AttentionGroup, memory: Value, store: Store, region: TileRegion
) -> None:
    """The tile through the shared memory of the warpgroup's queries."""
    b = region.builder
    wide = wide_of(attention.query.mem)
    feature, features = placing.features
    packed = b.emit(Pack2(value=placing.value(store.value, region), over=feature)).result
    row = group.row + group.warp * 16 + group.lane % 16
    group.meet(b)
    for column in range(0, attention.width, 16):
        words = [taken(b, packed, {features: column // 8 + n // 2, placing.half: n % 2}) for n in range(4)]
        index = (Affine(), Affine.of(column // wide), row, group.lane.floordiv(16) * 8 + column % wide)
        b.emit(StoreMatrix(mem=memory, index=index, values=tuple(words)))
    b.emit(FenceAsync())
    group.meet(b)
    target = region.find(store.mem)
    assert target is not None
    rows, columns = attention.query.axis, attention.value.axis
    box = tuple(ROWS if rows in form.names else wide if columns in form.names else 1 for form in store.index)
    with b.when(group.leader) as leading:
        inside = region.inside(leading, ())
        inside.forms[rows] = region.starts[rows] + group.row
        for part in range(-(-attention.width // wide)):
            inside.forms[columns] = Affine.of(part * wide)
            at = (Affine(), Affine.of(part), group.row, Affine())
            there = tuple(placing.form(form, inside) for form in store.index)
            leading.emit(BulkStore(shared=memory, shared_index=at, tensor=target, tensor_index=there, box=box))
        leading.emit(BulkCommit())
        leading.emit(BulkWait(count=0, read=True))
