"""Results of attention on warpgroups: through the shared memory that the queries were in, and from there by bulk copies."""

from compiler.hir.affine import Affine
from compiler.hir.core import Pack2
from compiler.hir.gpu import FenceAsync
from compiler.hir.hopper import BulkCommit, BulkStore, BulkWait
from compiler.hir.instruction import Value
from compiler.hir.memory import Store, mem_of
from compiler.hir.module import HirFunction
from compiler.schedule.gpu.attention_group import AttentionGroup
from compiler.schedule.gpu.attention_weights import AttendingBlock
from compiler.schedule.gpu.boxed_operands import stored_dims, wide_of
from compiler.schedule.gpu.warpgroup_attention import WarpgroupAttention
from compiler.schedule.gpu.warpgroup_results import put_matrices
from compiler.schedule.gpu.warpgroup_tiles import ROWS
from compiler.schedule.region import TileRegion


def is_boxed(field: HirFunction, attention: WarpgroupAttention, store: Store) -> bool:
    """Whether bulk copies write the result's tile, from where the queries were: numbers of their type, that end in memory where the
    axes do."""
    mem = mem_of(store.mem)
    tile = {attention.query.axis: attention.rows, attention.value.axis: wide_of(mem)}
    dims = stored_dims(field, store, tile) if mem.dtype == attention.dtype and attention.width <= attention.depth else None
    return dims is not None and dims[1] == mem.rank - 1


def stored(
    block: AttendingBlock, attention: WarpgroupAttention, group: AttentionGroup, memory: Value, store: Store, region: TileRegion
) -> None:
    """The tile through the shared memory of the warpgroup's queries."""
    b = region.builder
    wide = wide_of(attention.query.mem)
    feature, features = block.features
    packed = b.emit(Pack2(value=block.placing.value(store.value, region), over=feature)).result
    row = group.row + group.warp * 16 + group.lane % 16
    group.meet(b)
    places = [(Affine(), Affine.of(n // wide), row, group.lane.floordiv(16) * 8 + n % wide) for n in range(0, attention.width, 16)]
    put_matrices(b, packed, (features, block.half), 0, memory, places)
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
            there = tuple(block.placing.form(form, inside) for form in store.index)
            leading.emit(BulkStore(shared=memory, shared_index=at, tensor=target, tensor_index=there, box=box))
        leading.emit(BulkCommit())
        leading.emit(BulkWait(count=0, read=True))
