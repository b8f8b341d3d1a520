"""Prices read off the code of threads: what a block of a known kernel reads and issues, as counted by hand, and tables near a rule's."""

import json
from math import prod

import numpy as np
import pytest

import zynml
from compiler.emulator.interpret import interpret
from compiler.hir.parse import parse_function
from compiler.hir.text import print_function
from compiler.launch.cuda import tuned
from compiler.launch.thread_kernels import launch_choices
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.block_launches import field_launches
from compiler.schedule.gpu.choose import LaunchChoice
from compiler.schedule.gpu.price.block_digits import BlockDigits, digits_of
from compiler.schedule.gpu.price.block_work import BlockWork, NotPriced, block_work
from compiler.schedule.gpu.price.near_tables import near_tables
from compiler.schedule.gpu.price.queue import passed
from compiler.schedule.gpu.tiles.priced_blocks import in_blocks
from compiler.schedule.region import NotPlaceable
from compiler.schedule.table import AxisPlan, LoopSplit, Table
from runtime.records import evolve

SM_90A = MACHINES["sm_90a"]
LATENCY = 700


def work(body: str, axes: str = "", block: tuple[int, int, int] = (256, 1, 1), place: int = 0, **sizes: int) -> BlockWork:
    parameters = "%x: mem<NxMxf32, readonly, align=16>, %out: mem<NxMxf32, align=16>, %N: index, %M: index"
    function = parse_function(f"func @f({parameters}) form=C {axes} {{ {body} }}")
    return block_work(function, {"N": 4096, "M": 4096} | sizes, block, place, 32, LATENCY)


def test_lanes_side_by_side_touch_each_sector_once() -> None:
    done = work("%t = thread_idx x : index   %b = block_idx x : index   %v = load %x[b, t] : f32   store %out[b, t], %v")
    read, written = done.memories["x"], done.memories["out"]
    assert (read.touched, read.run, read.widest) == (256 * 4, 256 * 4, 4)
    assert read.wavefronts == 8 * 2  # a warp's 128 bytes, 64 a cycle
    assert (read.stored, written.stored) == (0, 8 * 4)
    assert done.instructions == 8 * 2
    assert done.waiting == LATENCY


def test_vectors_of_registers_are_one_access() -> None:
    body = "%t = thread_idx x : index   %v = load %x[0, 4*t+simd] : tile<simd:4, f32>   store %out[0, 4*t+simd], %v"
    done = work(body, "axes=[simd:4]")
    assert done.memories["x"].widest == 16
    assert done.memories["x"].touched == 256 * 16
    assert done.instructions == 8 * 2


def test_lanes_down_a_column_touch_a_sector_each() -> None:
    done = work("%t = thread_idx x : index   %v = load %x[t, 0] : f32   store %out[t, 0], %v")
    assert done.memories["x"].touched == 256 * 32
    assert done.memories["x"].run == 32
    assert done.memories["x"].wavefronts == 8 * 32


def test_turns_along_a_row_lengthen_the_run() -> None:
    row = "%t = thread_idx x : index   for i in 0..16 { %v = load %x[0, 256*i+t] : f32   store %out[0, 256*i+t], %v }"
    column = "%t = thread_idx x : index   for i in 0..16 { %v = load %x[i, t] : f32   store %out[i, t], %v }"
    assert (work(row).memories["x"].touched, work(row).memories["x"].run) == (16 * 1024, 16 * 1024)
    assert (work(column).memories["x"].touched, work(column).memories["x"].run) == (16 * 1024, 1024)
    assert work(row).waiting == 16 * LATENCY


def test_what_two_loops_alike_read_is_read_once() -> None:
    loop = "for i{} in 0..16 {{ %v{} = load %x[i{}, t] : f32   store %out[i{}, t], %v{} }}"
    text = "%t = thread_idx x : index   " + "   ".join(loop.format(*[number] * 5) for number in (1, 2))
    assert work(text).memories["x"].touched == 16 * 1024
    assert work(text).memories["x"].wavefronts == 2 * 16 * 16


def test_elements_on_the_way_of_windows_count_once() -> None:
    loads = "   ".join(f"%v{n} = load %x[0, t+{n}] : f32" for n in range(3))
    text = f"%t = thread_idx x : index   {loads}   %a = add %v0, %v1 : f32   %c = add %a, %v2 : f32   store %out[0, t], %c"
    assert work(text).memories["x"].touched == 1024 + 32


def test_conditions_known_for_no_thread_are_not_followed() -> None:
    text = "%b = block_idx x : index   %n = const 3 : index   %p = lt %b, %n : i1   %t = thread_idx x : index   if %p { %v = load %x[0, t] : f32   store %out[0, t], %v }"
    assert work(text, place=2).memories.keys() == {"x", "out"}
    assert work(text, place=3).memories == {}


def test_masks_keep_lanes_from_memory() -> None:
    text = "%t = thread_idx x : index   %p = inbounds of=t below=M : i1   %v = load %x[0, t] where=%p : f32   store %out[0, t], %v where=%p"
    assert work(text, M=64).memories["x"].touched == 64 * 4


@pytest.mark.parametrize(("stride", "cycles"), [(1, 8), (2, 16), (32, 8 * 32), (33, 8)])
def test_words_of_one_bank_come_one_after_the_other(stride: int, cycles: int) -> None:
    text = (
        f"%s = shared_alloc : mem<{256 * stride}xf32, shared, align=16>   %t = thread_idx x : index   "
        f"%v = load %s[{stride}*t] : f32   store %out[0, t], %v"
    )
    assert work(text).shared_cycles == cycles


def test_registers_are_what_lives_at_once() -> None:
    """What is read ends where the sum of it with itself begins."""
    text = "%t = thread_idx x : index   %v = load %x[r, t] : tile<r:8, f32>   %w = add %v, %v : tile<r:8, f32>   store %out[r, t], %w"
    assert work(text, "axes=[r:8]").registers == 8


def test_matrix_units_have_no_price_here() -> None:
    (kernel,) = zynml.compile(
        "def f(a: tensor[M, K, bf16], b: tensor[K, N, bf16]) {\n    compute(a, b) {\n        for i in 0..M, j in 0..N:\n            var s = 0.0\n"
        "            for k in 0..K:\n                s += a[i, k] * b[k, j]\n            out[i, j] = s\n    }\n}\n"
    )._session.launches_like(["a=1024x1024:bf16, b=1024x1024:bf16"], "emulator:sm_90a")
    (launch,) = kernel.threads.launches.launches
    with pytest.raises(NotPriced):
        block_work(launch.function, {}, launch.block, 0, 32, LATENCY)


def test_the_slowest_of_what_is_shared_sets_the_time() -> None:
    """Many warps: the time goes to that of the thing that is busiest, and no lower; one: waiting and everything else add up."""
    streams = {"memory": 1e6, "the second cache": 1e5, "the first cache": 1e5, "instructions": 2e5, "blocks": 1e4}
    assert 1e6 < passed(streams, 132 * 100, 132, 8, 8, 500, 10) < 1.1e6
    alone = {**dict.fromkeys(streams, 0.0), "instructions": 132 * 8 * 300.0 / 132}
    assert passed(alone, 132 * 8, 132, 1, 1, 700) >= 8 * 1000


def table(*plans: AxisPlan, block: tuple[int, ...], resident: int | None = None, split: LoopSplit | None = None) -> Table:
    return Table(plans, (), block, resident=resident, split=split, machine=SM_90A)


def test_tables_nearby_keep_rows_whole_and_threads_in_blocks() -> None:
    """A row that a block holds stays whole, whatever threads it has; a block's extents are those of its threads."""
    rows = table(AxisPlan("i", "block", threads=4, dim=1), AxisPlan("j", "once", 5, 4, threads=64), block=(64, 4), resident=3)
    seen = list(near_tables(rows))
    assert len(seen) == len(set(seen)) > 4
    for near in seen:
        assert near["j"].tile >= 5 * 4 * 64
        assert near.block == (near["j"].threads, near["i"].threads)
        assert near.resident == max(1, 3 * 256 // prod(near.block))


def test_tables_nearby_share_out_sums_otherwise() -> None:
    columns = table(
        AxisPlan("i", "block", lanes=4, threads=32), AxisPlan("k", "time", 8, threads=8, dim=1), block=(32, 8), split=LoopSplit("k", 8)
    )
    parts = [near.split.parts for near in near_tables(columns) if near.split is not None]
    assert {4, 16} <= set(parts)
    assert all(64 <= prod(near.block) <= 512 for near in near_tables(columns))


GROUPS = """def f(x: tensor[N, 4, 384, bf16]) {
    compute(x) { for n in 0..N, g in 0..4 {
        var s = 0.0
        for p in 0..384: s += x[n, g, p]
        for p in 0..384: out[n, g, p] = x[n, g, p] - s / 384
    } }
}"""


def test_no_threads_stand_where_nothing_is() -> None:
    """Eight warps a block for rows of which there are four in a group: half of them had nothing to do."""
    (kernel,) = zynml.compile(GROUPS)._session.launches_like(["x=65536x4x384:bf16"], "emulator:sm_90a")
    (launch,) = kernel.threads.launches.launches
    blocks, threads = launch.blocks(kernel.threads.launches.counted_sizes(kernel.sizes)), prod(launch.block)
    assert blocks * threads * 12 <= 1.5 * 65536 * 4 * 384


def test_facts_decide_alone() -> None:
    """The same facts give the same kernel: prices are of sizes that facts tell, not of those of a call."""
    kernels = [zynml.compile(GROUPS)._session.launches_like([f"x={n}x4x384:bf16"], "emulator:sm_90a")[0] for n in (65024, 65280)]
    first, second = (print_function(kernel.threads.launches.launches[0].function) for kernel in kernels)
    assert kernels[0].threads.facts == kernels[1].threads.facts
    assert first == second


def test_tables_are_offered_once_for_the_same_facts() -> None:
    """A thousand lengths must not be a thousand searches."""
    built = zynml.compile(HIGHEST)._session.launches_like(["x=3264x24192"], "emulator:sm_90a")[0].built
    choices = [launch_choices(built, {"N": n, "M": 24192}, ("x", "out"), SM_90A) for n in (3264, 3392, 3520)]
    assert len(choices[0]) > 1
    assert choices[0] == choices[1] == choices[2]


HIGHEST = """def f(x: tensor[N, M, u8]) {
    compute(x) { for i in 0..M {
        var s = 0
        for j in 0..N: s = max(s, x[j, i])
        out[i] = s
    } }
}"""
SUM = HIGHEST.replace("u8]", "f32]").replace("s = 0", "s = 0.0").replace("max(s, x[j, i])", "s + x[j, i]")


def offered(text: str, **sizes: int) -> tuple[LaunchChoice, ...]:
    built = zynml.compile(text)._session.launches_like([f"x={sizes['N']}x{sizes['M']}"], "emulator:sm_90a")[0].built
    return launch_choices(built, sizes, ("x", "out"), SM_90A)


def test_exact_reductions_offer_tables_to_try() -> None:
    """The rule's table first; each of another shape, priced, of which a device may find the fastest."""
    found = offered(HIGHEST, N=3200, M=24192)
    assert 2 <= len(found) <= 5
    assert len({choice.cut for choice in found}) == len(found)
    assert all(isinstance(choice.cut, BlockDigits) and choice.nanoseconds for choice in found)


def test_sums_of_floats_have_one_table() -> None:
    """Another table would add them up in another order."""
    assert len(offered(SUM, N=3200, M=24192)) == 1


def test_digits_are_told_by_their_fields() -> None:
    digits = BlockDigits(((64, 1, 8), (4, 8, 1)), (64, 4), 16, 2)
    assert digits.words() == ("blocks of 64 x 4 threads, 16 blocks share each sum",)
    assert tuned._cut_of(json.loads(json.dumps(tuned._as_json(digits)))).words() == digits.words()


def test_a_table_takes_its_digits() -> None:
    rule = table(AxisPlan("i", "block", lanes=16, threads=32), AxisPlan("j", threads=8, dim=1), block=(32, 8), split=LoopSplit("j", 8))
    other = BlockDigits(((64, 1, 8), (4, 8, 1)), (64, 4), 16, 0).of(rule)
    assert digits_of(other) == BlockDigits(((64, 1, 8), (4, 8, 1)), (64, 4), 16, 0)
    assert [plan.tile for plan in other.plans] == [512, 32]


@pytest.mark.parametrize("rows", [1, 97, 131])
def test_each_table_gives_the_same_bits(rows: int) -> None:
    """The highest of each column, by the rule's table and by all near it."""
    x = np.random.default_rng(rows).integers(0, 255, (rows, 77), np.uint8)
    built = zynml.compile(HIGHEST)._session.launches_like([f"x={rows}x77"], "emulator:sm_90a")[0].built
    facts = launch_choices(built, {"N": rows, "M": 77}, ("x", "out"), SM_90A)[0].facts
    assert built.field is not None
    ruled = in_blocks(built.field, facts)
    assert ruled is not None
    sizes, tried = {"N": rows, "M": 77}, 0
    for near in [ruled[1], *near_tables(ruled[1])]:
        try:
            (launch,) = field_launches(ruled[0], evolve(near, split=None)).launches
        except NotPlaceable:
            continue  # rows of threads that have several offsets
        tried += 1
        out = np.zeros(77, np.uint32)
        given = {"x": x, "out": out} | sizes
        arguments = [given[parameter.name] for parameter in launch.function.parameters]
        interpret(launch.function, arguments, grid=(launch.blocks(sizes), 1, 1), block=launch.block)
        assert out.tolist() == x.max(axis=0).tolist()
    assert tried > 3
