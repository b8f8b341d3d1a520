"""Launches that write between each other's elements, as one launch whose blocks take turns: lines of the cache are whole when they leave
it."""

from collections.abc import Sequence
from math import prod

from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.control import For
from compiler.hir.core import dtype_of
from compiler.hir.gpu import GridIndex, SharedAlloc
from compiler.hir.instruction import Instruction, Value
from compiler.hir.module import Form
from compiler.hir.types import Tile, bytes_of
from compiler.schedule.launches import Launch, Launches
from compiler.schedule.stages import InstructionCopy
from runtime.records import evolve

RESIDENT, CARRIED = 768, 1 / 3
"""Threads of a multiprocessor at a time whose loops carry at most such a share of the registers that leaves them: as much again are
operands of a step, and places. On an H200 launches whose threads carry 44 to 100 bytes took 1.5, 3.2, 5.3 and 1.5 ms so, 3.4 and
2.5 ms (52 and 100) with the registers they like, 1.8, 5.9 and 2.3 ms (44, 64 and 100) as a launch for each part; with 152 and 288 bytes a
thread would spill 224 and 1,676."""
REGISTER_BYTES = 256 << 10
"""Of a multiprocessor."""


def interleaved(parts: Sequence[Launches]) -> list[Launches]:
    """The launches, with those alike as one, which stands where the last of them stood."""
    alike = [part for part in parts if _is_alike(part, parts[-1])]
    if len(alike) < 2:
        return [*parts]
    launch = _interleaved([part.launches[0] for part in alike])
    return [*(part for part in parts if part not in alike), evolve(alike[-1], stages=(launch,))]


def _is_alike(part: Launches, other: Launches) -> bool:
    """Whether blocks of both can be those of one launch."""
    launches = part.stages[0], other.stages[0]
    if any(len(one.stages) > 1 or one.workspaces or not isinstance(one.stages[0], Launch) for one in (part, other)):
        return False
    first, second = (launch for launch in launches if isinstance(launch, Launch))
    return (
        first.share == second.share == 1
        and first.block == second.block
        and not (first.shared or second.shared)
        and [(one.name, one.type) for one in first.function.parameters] == [(one.name, one.type) for one in second.function.parameters]
    )


def _carried(launch: Launch) -> int:
    """Bytes that a thread carries through a loop, at most."""
    loops = (op for top in launch.function.body.body for op in top.walk() if isinstance(op, For))
    return max((sum(map(_bytes, loop.carried)) for loop in loops), default=0)


def _bytes(value: Value) -> int:
    extents = value.type.axes if isinstance(value.type, Tile) else ()
    return bytes_of(dtype_of(value)) * prod(extent.value or 1 for _, extent in extents)


def _known_before(part: Launch) -> list[Instruction]:
    """The instructions that its counts may name, and no thread's place."""
    known = {value.name for value in part.function.parameters}
    ops = list[Instruction]()
    for op in part.before:
        if not isinstance(op, GridIndex) and known.issuperset([*op.symbols, *(value.name for value in op.operand_values)]):
            ops.append(op)
            known.update(result.name for result in op.results)
    return ops


def _interleaved(parts: Sequence[Launch]) -> Launch:
    functions = [part.function for part in parts]
    out = FunctionBuilder(functions[0].name, Form.THREAD)
    parameters = [out.parameter(parameter.name, parameter.type) for parameter in functions[0].parameters]
    copies = []
    for which, function in enumerate(functions):
        names = {axis: f"{axis}_{which}" for axis, extent in function.axes.items() if out.function.axes.get(axis, extent) != extent}
        for axis, extent in function.axes.items():
            if names.get(axis, axis) not in out.function.axes:
                out.axis(names.get(axis, axis), extent)
        copies.append(InstructionCopy(out, dict(zip(function.parameters, parameters, strict=True)), names))
    b, counts = out.body, list[Value]()
    for part, copy in zip(parts, copies, strict=True):
        copy.all(_known_before(part), b)
        extents = [b.op("max", b.index(copy.form(form)), b.const(0, "index")) for form in part.counts]
        counts.append(b.product(extents))
    most = counts[0]
    for count in counts[1:]:
        most = b.op("max", most, count)
    many = b.const(len(parts), "index")
    total = b.mul(most, many)
    before = tuple(out.function.body.body)
    number = b.emit(GridIndex(operator="block_idx", dim="x")).result
    place, turn = b.op("div", number, many), b.op("rem", number, many)
    shared = list[Value]()
    for position, (part, copy, count) in enumerate(zip(parts, copies, counts, strict=True)):
        own = b.both(b.op("eq", turn, b.const(position, "index")), b.op("lt", place, count))
        free = [*shared]
        with b.when(own) as inner:
            for op in part.function.body.body:
                if copy.values.keys() >= {*op.results} and op.results:
                    continue
                if isinstance(op, GridIndex) and op.operator == "block_idx":
                    copy.values[op.result] = place
                elif isinstance(op, SharedAlloc):
                    memory = next((value for value in free if value.type == op.type), None)
                    if memory is None:
                        shared.append(memory := b.emit(SharedAlloc(type=op.type), op.result.name).result)
                    else:
                        free.remove(memory)
                    copy.values[op.result] = memory
                else:
                    copy.one(op, inner)
    function = out.finish()
    function.kernel_info, function.sites = functions[0].kernel_info, functions[0].sites
    bounds = None if function.kernel_info is None else function.kernel_info.launch_bounds
    is_light = 0 < max(map(_carried, parts)) <= CARRIED * REGISTER_BYTES / RESIDENT
    if function.kernel_info is not None and bounds is not None and is_light:
        blocks = max(1, RESIDENT // bounds.max_threads_per_block)
        function.kernel_info = evolve(function.kernel_info, launch_bounds=evolve(bounds, min_blocks_per_sm=blocks))
    function.calling_convention = functions[0].calling_convention
    return Launch(function, (Affine.of(total.name),), before)
