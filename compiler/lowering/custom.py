"""`custom` kernels: SPMD bodies in which every thread runs the block, with its place in the grid, shared memory, barriers,
atomics and the exchange of values in a warp. Form C. Also `shared var` and `barrier` of `fused` bodies, which are sequential."""

from collections.abc import Callable
from math import prod

from compiler.hir.affine import Affine
from compiler.hir.gpu import Atomic, Fence, GridIndex, Match, SharedAlloc, Shuffle, SyncThreads, Vote, WarpIndex
from compiler.hir.instruction import Value
from compiler.hir.types import Mem, Space
from compiler.lowering.arithmetic import form_of
from compiler.lowering.body import Body, Memory, fault
from compiler.lowering.dtypes import hir_name, scalar_named
from compiler.lowering.expressions import indices_of, number, truth
from compiler.lowering.indices import guard, index_forms, note
from compiler.lowering.numbers import Number, Operand, Tensor, Tuple, affine, index_value, literal, typed, value_of
from compiler.lowering.ranges import loop_range
from compiler.lowering.statements import ranged
from compiler.lowering.words import words
from compiler.lowering.writes import target_memory
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.types import DType

DEFAULT_WORKGROUP = (256, 1, 1)
_GRID = ("thread_idx", "block_idx", "block_dim", "grid_dim", "global_idx")
_SHUFFLES = {"warp_shuffle": "idx", "warp_shuffle_up": "up", "warp_shuffle_down": "down", "warp_shuffle_xor": "xor"}
_ATOMICS = ("add", "sub", "min", "max", "and", "or", "xor", "exchange", "cas", "inc", "dec")


def install(body: Body) -> None:
    """Make the words of `custom` (and of `fused`) known to the walk."""
    if body.kind is KernelType.FUSED:
        body.extra["shared"] = _shared_local
        body.extra["barrier"] = lambda b, node: b.barriers.append(node.span)
    if body.kind is not KernelType.CUSTOM:
        return
    body.extra["shared"] = _shared
    body.extra["barrier"] = _barrier
    body.extra["dynamic_loop"] = _dynamic_loop
    words_: dict[str, Callable[[Body, nodes.Call], Operand]] = dict.fromkeys(_GRID, _place)
    words_ |= dict.fromkeys(_SHUFFLES, _shuffle)
    words_ |= {f"atomic_{name}": _atomic for name in _ATOMICS}
    words_ |= {"warp_any": _vote, "warp_all": _vote, "warp_ballot": _vote, "warp_match": _match, "lane_id": _lane, "fence": _fence}
    words_ |= {"warp_sum": _warp_sum, "block_sum": _block_sum, "barrier": _barrier_call}
    body.extra["intrinsics"] = words_


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


def _place(body: Body, node: nodes.Call) -> Operand:
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
    body.opaque.add(value.name)
    body.facts.at_least_zero(form - (1 if name == "grid_dim" else 0))
    if name == "thread_idx":
        body.facts.at_least_zero(Affine((), threads - 1) - form)
    return affine(form)


def _lane(body: Body, node: nodes.Call) -> Operand:
    _require_arguments(node, 0)
    value = body.build.emit(WarpIndex(operator="lane"), "lane").result
    body.opaque.add(value.name)
    body.facts.at_least_zero(Affine.of(value.name))
    body.facts.at_least_zero(Affine((), 31) - value.name)
    return affine(Affine.of(value.name))


# ---- shared memory and barriers ----------------------------------------------------------------------------------------


def _shared_dims(body: Body, node: nodes.SharedVariable) -> tuple[Affine, ...]:
    dims = []
    for dim in node.dims:
        found = number(body, dim)
        if not found.dtype.is_int:
            raise fault("0203", f"an extent is an int: `{words(dim)}` is {found.shown}", dim.span, hint="write a number or a size")
        form = form_of(body, found)
        if not all(body.is_size(name) for name in form.names):
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


def _bind_shared(body: Body, node: nodes.SharedVariable, value: Value, dtype: DType, dims: tuple[Affine, ...]) -> None:
    name = value.name
    body.memories[name] = Memory(node.name, value, dtype, dims, "shared", True, shape=dims, span=node.span)
    body.bind(node.name, Tensor(name), node.span, "a `shared var`")


def _shared(body: Body, node: nodes.SharedVariable) -> None:
    dims = _shared_dims(body, node) or (Affine((), 1),)
    for dim, written in zip(dims, node.dims, strict=False):
        if dim.value is None and body.final:
            raise fault(
                "0109",
                f"the extent `{words(written)}` of `{node.name}` must be constant: other shared memory isn't supported yet",
                written.span,
                hint="write a number",
            )
    dtype = _element(node)
    value = body.build.emit(SharedAlloc(type=Mem(hir_name(dtype), dims, space=Space.SHARED)), node.name).result
    _bind_shared(body, node, value, dtype, dims)


def _shared_local(body: Body, node: nodes.SharedVariable) -> None:
    dims = _shared_dims(body, node) or (Affine((), 1),)
    dtype = _element(node)
    value = body.build.alloc(Mem(hir_name(dtype), dims, space=Space.LOCAL), node.name)
    _bind_shared(body, node, value, dtype, dims)


def _barrier(body: Body, node: nodes.Call) -> None:
    _require_arguments(node, 0)
    body.build.emit(SyncThreads())


def _barrier_call(body: Body, node: nodes.Call) -> Operand:
    raise fault("0203", "`barrier()` has no value", node.span, hint="write it as a statement of its own")


def _fence(body: Body, node: nodes.Call) -> Operand:
    _require_arguments(node, 1)
    value = node.arguments[0].value
    scope = value.name if isinstance(value, nodes.Name) else value.value if isinstance(value, nodes.StringLiteral) else ""
    if scope not in ("block", "device", "system"):
        raise fault("0203", f"`{words(value)}` is no scope of a fence", value.span, hint="one of block, device, system")
    body.build.emit(Fence(scope=scope))
    return Tuple(())


# ---- loops with a step that is known as it runs --------------------------------------------------------------------------


def _dynamic_loop(body: Body, clause: nodes.ForClause, low: Affine, high: Affine, inside: Callable[[], None]) -> None:
    """`for p in lo..hi step s` with s from the grid: a loop over q, p = lo + q * s."""
    source = clause.source
    assert isinstance(source, nodes.Range) and source.step is not None
    build = body.build
    one = build.const(1, "index")
    step = build.op("max", index_value(build, number(body, source.step)), one)
    reach = build.add(build.sub(build.index(high), build.index(low)), build.sub(step, one))
    if source.inclusive:
        reach = build.add(reach, one)
    count = build.op("div", build.op("max", reach, build.const(0, "index")), step)
    body.opaque.add(count.name)
    with build.loop("turn", 0, count.name, strided=True) as (inner, handle):
        turns = loop_range(handle.variable.name, Affine(), Affine.of(count.name), 1)
        with body.at(inner), body.scope(), body.branch(body.construct(), 0):
            position = inner.add(build.index(low), inner.mul(inner.index(handle.variable.name), step))
            body.opaque.add(position.name)
            form = Affine.of(position.name)
            with ranged(body, clause, turns, form):
                body.assume((form - low, high - 1 - form))
                inside()


# ---- atomics -------------------------------------------------------------------------------------------------------------


def _atomic(body: Body, node: nodes.Call) -> Operand:
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
    with body.widening(memory.dtype if operation in ("add", "sub") else None):
        values = [number(body, value) for value in positional[1:]]
    note(body, memory, forms, target, spans, is_write=True, accumulates=True, number=values[-1])
    if body.final:
        guard(body, memory, forms, target, spans)
    given = [value_of(body.build, value, memory.dtype) for value in values]
    compare = given[0] if operation == "cas" else None
    made = body.build.emit(
        Atomic(
            operation=operation,
            mem=memory.value,
            index=forms,
            value=given[-1],
            compare=compare,
            scope="block" if memory.role == "shared" else scope,
        )
    )
    return typed(made.result, memory.dtype, memory.dtype)


def _judge_dtype(operation: str, memory: Memory, node: nodes.Call) -> None:
    dtype = memory.dtype
    if operation in ("inc", "dec") and dtype is not DType.U32:
        raise fault(
            "0504", f"`atomic_{operation}` works on u32 only: `{memory.name}` holds {dtype.value}", node.span, hint="use `atomic_add`"
        )
    if operation in ("and", "or", "xor") and not dtype.is_int:
        raise fault("0504", f"`atomic_{operation}` works on ints only: `{memory.name}` holds {dtype.value}", node.span)


# ---- warps ---------------------------------------------------------------------------------------------------------------


def _shuffle(body: Body, node: nodes.Call) -> Operand:
    _require_arguments(node, 2)
    value, lane = (number(body, argument.value) for argument in node.arguments)
    if not lane.dtype.is_int:
        raise fault("0407", f"a lane is an int, not {lane.shown}", node.arguments[1].value.span)
    made = _exchange(body, _SHUFFLES[_name(node)], value_of(body.build, value), value_of(body.build, lane, DType.I32))
    return typed(made, value.dtype, value.origin, value.weak)


def _exchange(body: Body, mode: str, value: Value, lane: Value) -> Value:
    return body.build.emit(Shuffle(mode=mode, value=value, lane=lane)).result


def _vote(body: Body, node: nodes.Call) -> Operand:
    _require_arguments(node, 1)
    operation = _name(node).removeprefix("warp_")
    predicate = truth(body, node.arguments[0].value).value
    made = body.build.emit(Vote(operation=operation, predicate=predicate)).result
    dtype = DType.I32 if operation == "ballot" else DType.BOOL
    return typed(made, dtype, dtype)


def _match(body: Body, node: nodes.Call) -> Operand:
    _require_arguments(node, 1)
    value = number(body, node.arguments[0].value)
    return typed(body.build.emit(Match(mode="any", value=value_of(body.build, value))).result, DType.I32, DType.I32)


def _warp_sum(body: Body, node: nodes.Call) -> Operand:
    _require_arguments(node, 1)
    value = number(body, node.arguments[0].value)
    return typed(_summed_over_warp(body, value_of(body.build, value)), value.dtype, value.origin, value.weak)


def _summed_over_warp(body: Body, value: Value) -> Value:
    """In all lanes the sum of all lanes: neighbours 16, 8, 4, 2, 1 apart exchange."""
    for distance in (16, 8, 4, 2, 1):
        value = body.build.add(value, _exchange(body, "xor", value, body.build.const(distance, "i32")))
    return value


def _block_sum(body: Body, node: nodes.Call) -> Operand:
    """In all threads the sum of all threads of the block, through shared memory; all of them must come here."""
    _require_arguments(node, 1)
    given = number(body, node.arguments[0].value)
    build = body.build
    value = value_of(build, given)
    threads = prod(workgroup(body))
    dtype = hir_name(given.dtype)
    x, y, z = (_coordinate(body, "thread_idx", axis).form for axis in range(3))
    assert x is not None and y is not None and z is not None
    width, height, _ = workgroup(body)
    place = x + y * width + z * (width * height)
    parts = threads
    whole_warps = threads % 32 == 0
    if whole_warps:
        value = _summed_over_warp(body, value)
        parts = threads // 32
    shared = build.emit(SharedAlloc(type=Mem(dtype, (Affine((), parts),), space=Space.SHARED)), "sums").result
    if whole_warps:
        lane = build.emit(WarpIndex(operator="lane"), "lane").result
        warp = build.emit(WarpIndex(operator="warp"), "warp").result
        with build.when(build.op("eq", lane, build.const(0, "index"))) as inner:
            inner.store(shared, value, [warp.name])
    else:
        build.store(shared, value, [place])
    build.emit(SyncThreads())
    total = build.slot(value_of(build, literal(0 if given.dtype.is_int else 0.0, given.dtype)), "sum")
    with build.loop("part", 0, parts) as (inner, handle):
        inner.set(total, inner.add(inner.get(total), inner.load(shared, [handle.variable.name])))
    build.emit(SyncThreads())
    return typed(build.get(total), given.dtype, given.origin, given.weak)
