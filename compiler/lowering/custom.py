"""`custom` kernels: SPMD bodies in which every thread runs the block, with its place in the grid, shared memory, barriers,
atomics and the exchange of values in a warp. Form C. Also `shared var` and `barrier` of `fused` bodies, which are sequential."""

from collections.abc import Callable
from math import prod

from compiler.hir.affine import Affine
from compiler.hir.build import Builder
from compiler.hir.gpu import WARP, Atomic, Fence, GridIndex, MatchLanes, SharedAlloc, Shuffle, SyncThreads, Vote, WarpIndex
from compiler.hir.instruction import Value
from compiler.hir.types import Mem, Space
from compiler.lowering.arithmetic import form_of
from compiler.lowering.body import Body, Memory, fault
from compiler.lowering.conditions import truth
from compiler.lowering.dtypes import hir_name, scalar_named
from compiler.lowering.elements import indices_of
from compiler.lowering.indices import guard, index_forms, note
from compiler.lowering.numbers import Number, Operand, TensorOperand, Tuple, affine, literal, typed, value_of
from compiler.lowering.walk import number
from compiler.lowering.words import words
from compiler.lowering.writes import target_memory
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.types import DType

DEFAULT_WORKGROUP = (256, 1, 1)
_GRID = ("thread_idx", "block_idx", "block_dim", "grid_dim", "global_idx")
_SHUFFLES = {"warp_shuffle": "idx", "warp_shuffle_up": "up", "warp_shuffle_down": "down", "warp_shuffle_xor": "xor"}
_ATOMICS = ("add", "sub", "min", "max", "and", "or", "xor", "exchange", "cas", "inc", "dec")


def workgroup(body: Body) -> tuple[int, int, int]:
    return body.kernel.workgroup_size or DEFAULT_WORKGROUP


def grid(body: Body) -> tuple[Affine, Affine, Affine] | None:
    """Blocks along x, y and z when the program says how many."""
    if body.kernel.grid_size is None:
        return None
    x, y, z = body.kernel.grid_size
    return Affine((), x), Affine((), y), Affine((), z)


def _name(node: nodes.Call) -> str:
    assert isinstance(node.function, nodes.Name)
    return node.function.name


def _require_arguments(node: nodes.Call, low: int, high: int | None = None) -> None:
    count = len([argument for argument in node.arguments if argument.name is None])
    if not low <= count <= (low if high is None else high):
        wanted = str(low) if high is None or high == low else f"{low} to {high}"
        raise fault("0204", f"`{_name(node)}` takes {wanted} arguments, but {count} are given", node.span)


# ---- places ------------------------------------------------------------------------------------------------------------


def _place(body: Body, node: nodes.Call, into: DType | None) -> Operand:
    """`thread_idx()` and its kind: three ints, and as an int the first."""
    _require_arguments(node, 0)
    name = _name(node)
    return Tuple(tuple(_coordinate(body, name, axis) for axis in range(3)), counts=True)


def _coordinate(body: Body, name: str, axis: int) -> Number:
    threads = workgroup(body)[axis]
    if name == "block_dim":
        return affine(Affine((), threads))
    if name == "global_idx":
        block, thread = _coordinate(body, "block_idx", axis).form, _coordinate(body, "thread_idx", axis).form
        assert block is not None and thread is not None
        return affine(block * threads + thread)
    if name == "grid_dim" and body.kernel.grid_size is not None:
        return affine(Affine((), body.kernel.grid_size[axis]))
    if name == "thread_idx" and threads == 1:
        return affine(Affine())
    value = body.build.emit(GridIndex(operator=name, dim="xyz"[axis]), f"{name}_{'xyz'[axis]}").result
    form = Affine.of(value.name)
    body.here.opaque.add(value.name)
    body.here.facts.at_least_zero(form - (1 if name == "grid_dim" else 0))
    if name == "thread_idx":
        body.here.facts.at_least_zero(Affine((), threads - 1) - form)
    return affine(form)


def _lane(body: Body, node: nodes.Call, into: DType | None) -> Operand:
    _require_arguments(node, 0)
    value = body.build.emit(WarpIndex(operator="lane"), "lane").result
    body.here.opaque.add(value.name)
    body.here.facts.at_least_zero(Affine.of(value.name))
    body.here.facts.at_least_zero(Affine((), 31) - value.name)
    return affine(Affine.of(value.name))


# ---- shared memory and barriers ----------------------------------------------------------------------------------------


def _shared_dims(body: Body, node: nodes.SharedVariable) -> tuple[Affine, ...]:
    dims = []
    for dim in node.dims:
        extent = number(body, dim)
        if not extent.dtype.is_int:
            raise fault("0203", f"an extent is an int: `{words(dim)}` is {extent.shown}", dim.span, hint="write a number or a size")
        form = form_of(body, extent)
        if not all(body.here.is_size(name) for name in form.names):
            raise fault(
                "0303", f"the extent `{words(dim)}` of `{node.name}` must be known at launch", dim.span, hint="write a number or a size"
            )
        dims.append(form)
    return tuple(dims)


def _element(node: nodes.SharedVariable) -> DType:
    dtype = DType.F32 if node.dtype is None else scalar_named(node.dtype)
    if dtype is None:
        raise fault("0203", f"`{node.name}` must hold numbers", node.dtype.span if node.dtype is not None else node.span)
    return dtype


def shared(body: Body, node: nodes.SharedVariable) -> None:
    """`shared var`: of a block's threads; a fused block, which runs in order, has it to itself."""
    dims = _shared_dims(body, node) or (Affine((), 1),)
    in_threads = body.kind is KernelType.CUSTOM
    for dim, written in zip(dims, node.dims, strict=False):
        if in_threads and dim.value is None and body.final:
            raise fault(
                "0109",
                f"the extent `{words(written)}` of `{node.name}` must be constant: other shared memory isn't supported yet",
                written.span,
                hint="write a number",
            )
    dtype = _element(node)
    mem = Mem(hir_name(dtype), dims, space=Space.SHARED if in_threads else Space.LOCAL)
    value = body.build.emit(SharedAlloc(type=mem), node.name).result if in_threads else body.build.alloc(mem, node.name)
    if node.name in body.cleared and not in_threads:
        _clear(body.build, value, dims, mem.dtype)
    body.memories[value.name] = Memory(node.name, value, dtype, dims, "shared", True, shape=dims, span=node.span)
    body.names.bind(node.name, TensorOperand(value.name), node.span, "a `shared var`")


def _clear(build: Builder, memory: Value, dims: tuple[Affine, ...], dtype: str, index: tuple[str, ...] = ()) -> None:
    if not dims:
        build.store(memory, build.const(0, dtype), list(index))
        return
    with build.loop("element", 0, dims[0]) as (inner, loop):
        _clear(inner, memory, dims[1:], dtype, (*index, loop.variable.name))


def tile(body: Body, node: nodes.TileVariable) -> None:
    """The memory of a tile: that of one iteration, or scratch memory where it stands in none."""
    dims = _shared_dims(body, node)
    dtype = body.flows.before(("tile", node.name), DType.F32).dtype
    mem = Mem(hir_name(dtype), dims, space=Space.LOCAL)
    value = body.build.alloc(mem, node.name) if body.here.depth else body.owner.value(node.name, Mem(hir_name(dtype), dims))
    if not body.here.depth:
        body.workspaces.append((value, dtype, dims))
    body.memories[node.name] = Memory(node.name, value, dtype, dims, "tile", True, shape=dims, span=node.span, flow=("tile", node.name))
    body.names.bind(node.name, TensorOperand(node.name), node.span, "a tile")


def barrier(body: Body, node: nodes.Call) -> None:
    _require_arguments(node, 0)
    body.build.emit(SyncThreads())


def _barrier_call(body: Body, node: nodes.Call, into: DType | None) -> Operand:
    raise fault("0203", "`barrier()` has no value", node.span, hint="write it as a statement of its own")


def _fence(body: Body, node: nodes.Call, into: DType | None) -> Operand:
    _require_arguments(node, 1)
    value = node.arguments[0].value
    scope = value.name if isinstance(value, nodes.Name) else value.value if isinstance(value, nodes.StringLiteral) else ""
    if scope not in ("block", "device", "system"):
        raise fault("0203", f"`{words(value)}` is no scope of a fence", value.span, hint="one of block, device, system")
    body.build.emit(Fence(scope=scope))
    return Tuple(())


# ---- atomics -------------------------------------------------------------------------------------------------------------


def _atomic(body: Body, node: nodes.Call, into: DType | None) -> Operand:
    """`atomic_add(out[i], v, scope=)`: the element's old value."""
    operation = _name(node).removeprefix("atomic_")
    wanted = 3 if operation == "cas" else 2
    _require_arguments(node, wanted)
    positional = [argument.value for argument in node.arguments if argument.name is None]
    scope = "device"
    for argument in node.arguments:
        if argument.name == "scope" and isinstance(argument.value, (nodes.StringLiteral, nodes.Name)):
            scope = argument.value.value if isinstance(argument.value, nodes.StringLiteral) else argument.value.name
        elif argument.name is not None:
            raise fault("0204", f"`{_name(node)}` has no argument `{argument.name}`", argument.span, hint='known: `scope="block"`')
    if scope not in ("block", "device", "system"):
        raise fault("0203", f"`{scope}` is no scope of an atomic", node.span, hint="one of block, device, system")
    target = positional[0]
    if not isinstance(target, nodes.Index):
        raise fault("0203", f"`{_name(node)}` needs an element, such as `out[i]`", target.span)
    memory = target_memory(body, target)
    _judge_dtype(operation, memory, node)
    forms = index_forms(body, memory, indices_of(body, target), target)
    spans = tuple(index.span for index in target.indices)
    values = [number(body, value, memory.dtype if operation in ("add", "sub") else None) for value in positional[1:]]
    note(body, memory, forms, target, spans, is_write=True, accumulates=True, number=values[-1])
    if body.final:
        guard(body, memory, forms, target, spans)
    given = [value_of(body.build, value, memory.dtype) for value in values]
    compare = given[0] if operation == "cas" else None
    atomic = body.build.emit(
        Atomic(
            operation=operation,
            mem=memory.value,
            index=forms,
            value=given[-1],
            compare=compare,
            scope="block" if memory.role == "shared" else scope,
        )
    )
    return typed(atomic.result, memory.dtype, memory.dtype)


def _judge_dtype(operation: str, memory: Memory, node: nodes.Call) -> None:
    dtype = memory.dtype
    if operation in ("inc", "dec") and dtype is not DType.U32:
        raise fault(
            "0504", f"`atomic_{operation}` works on u32 only: `{memory.name}` holds {dtype.value}", node.span, hint="use `atomic_add`"
        )
    if operation in ("and", "or", "xor") and not dtype.is_int:
        raise fault("0504", f"`atomic_{operation}` works on ints only: `{memory.name}` holds {dtype.value}", node.span)


# ---- warps ---------------------------------------------------------------------------------------------------------------


def _shuffle(body: Body, node: nodes.Call, into: DType | None) -> Operand:
    _require_arguments(node, 2)
    value, lane = (number(body, argument.value, into) for argument in node.arguments)
    if not lane.dtype.is_int:
        raise fault("0407", f"a lane is an int, not {lane.shown}", node.arguments[1].value.span)
    exchanged = _exchange(body, _SHUFFLES[_name(node)], value_of(body.build, value), value_of(body.build, lane, DType.I32))
    return typed(exchanged, value.dtype, value.origin, value.weak)


def _exchange(body: Body, mode: str, value: Value, lane: Value) -> Value:
    return body.build.emit(Shuffle(mode=mode, value=value, lane=lane)).result


def _vote(body: Body, node: nodes.Call, into: DType | None) -> Operand:
    _require_arguments(node, 1)
    operation = _name(node).removeprefix("warp_")
    predicate = truth(body, node.arguments[0].value).value
    answer = body.build.emit(Vote(operation=operation, predicate=predicate)).result
    dtype = DType.I32 if operation == "ballot" else DType.BOOL
    return typed(answer, dtype, dtype)


def _match(body: Body, node: nodes.Call, into: DType | None) -> Operand:
    _require_arguments(node, 1)
    value = number(body, node.arguments[0].value, into)
    return typed(body.build.emit(MatchLanes(mode="any", value=value_of(body.build, value))).result, DType.I32, DType.I32)


def _warp_sum(body: Body, node: nodes.Call, into: DType | None) -> Operand:
    _require_arguments(node, 1)
    value = number(body, node.arguments[0].value, into)
    return typed(_summed_over_warp(body, value_of(body.build, value)), value.dtype, value.origin, value.weak)


def _summed_over_warp(body: Body, value: Value) -> Value:
    """In all lanes the sum of all lanes: neighbours 16, 8, 4, 2, 1 apart exchange."""
    for distance in (16, 8, 4, 2, 1):
        value = body.build.add(value, _exchange(body, "xor", value, body.build.const(distance, "i32")))
    return value


def _block_sum(body: Body, node: nodes.Call, into: DType | None) -> Operand:
    """In all threads the sum of all threads of the block, through shared memory; all of them must come here."""
    _require_arguments(node, 1)
    given = number(body, node.arguments[0].value, into)
    build = body.build
    value = value_of(build, given)
    threads = prod(workgroup(body))
    dtype = hir_name(given.dtype)
    x, y, z = (_coordinate(body, "thread_idx", axis).form for axis in range(3))
    assert x is not None and y is not None and z is not None
    width, height, _ = workgroup(body)
    thread = x + y * width + z * (width * height)
    parts = threads
    whole_warps = threads % WARP == 0
    if whole_warps:
        value = _summed_over_warp(body, value)
        parts = threads // WARP
    shared = build.emit(SharedAlloc(type=Mem(dtype, (Affine((), parts),), space=Space.SHARED)), "sums").result
    if whole_warps:
        lane = build.emit(WarpIndex(operator="lane"), "lane").result
        warp = build.emit(WarpIndex(operator="warp"), "warp").result
        with build.when(build.op("eq", lane, build.const(0, "index"))) as inner:
            inner.store(shared, value, [warp.name])
    else:
        build.store(shared, value, [thread])
    build.emit(SyncThreads())
    total = build.slot(value_of(build, literal(0 if given.dtype.is_int else 0.0, given.dtype)), "sum")
    with build.loop("part", 0, parts) as (inner, handle):
        inner.set(total, inner.add(inner.get(total), inner.load(shared, [handle.variable.name])))
    build.emit(SyncThreads())
    return typed(build.get(total), given.dtype, given.origin, given.weak)


CALLS: dict[str, Callable[[Body, nodes.Call, DType | None], Operand]] = {
    **dict.fromkeys(_GRID, _place),
    **dict.fromkeys(_SHUFFLES, _shuffle),
    **{f"atomic_{name}": _atomic for name in _ATOMICS},
    **dict.fromkeys(("warp_any", "warp_all", "warp_ballot"), _vote),
    "warp_match": _match,
    "lane_id": _lane,
    "fence": _fence,
    "warp_sum": _warp_sum,
    "block_sum": _block_sum,
    "barrier": _barrier_call,
}
"""The words of `custom` kernels that are called."""
