"""Nests on blocks of threads: rows whose loops threads share, reductions at the top, what one block does alone. Everything is watched by
the sanitizer; expected values come from NumPy."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import zynml
from compiler.backends.nvptx.assemble import assemble, can_assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.hir.core import InBounds
from compiler.hir.memory import Check
from compiler.hir.verify import verify
from compiler.schedule.gpu import blocks
from compiler.schedule.launches import Either, Launches
from tests.kernels.checks import numbers
from tests.random_nests.families import random_program
from tests.random_nests.running import FAULTS, run_on
from tests.schedule.nests_on_blocks import barriers, emulated, watched
from tests.shrinking import require_passing
from zynml import ZynMLError

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> list[Launches]:
    """The launches that a test makes."""
    return watched(monkeypatch)


def close(got: Any, want: Array, size: int) -> None:
    assert np.shape(got) == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-6 * max(1, size) ** 0.5, atol=1e-6 * np.abs(want).max(initial=1) * max(1, size) ** 0.5)


# ---- rows ----

SHARED_ROW = """def f(x: tensor[M, N]) {
    compute(x) @kernel(fused) WORKGROUP {
        for i in 0..M:
            shared var row[N, f32]
            for j in 0..N: row[j] = x[i, j] * 2.0
            barrier()
            var s = 0.0
            for j in 0..N: s += row[j]
            barrier()
            for j in 0..N: row[j] = row[j] + s
            barrier()
            for j in 0..N: out[i, j] = row[N - 1 - j]
    }
}
"""


def shared_row(x: Array) -> Array:
    wide: Array = 2 * x.astype(np.float64)
    wanted: Array = (wide + wide.sum(1, keepdims=True))[:, ::-1]
    return wanted


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 1), (3, 31), (2, 33), (2, 257), (1, 1000)])
@pytest.mark.parametrize("workgroup", ["", "@workgroup(32)", "@workgroup(48)", "@workgroup(8, 3, 2)"])
def test_shared_rows(made: list[Launches], shape: tuple[int, int], workgroup: str) -> None:
    x = numbers("f32", shape)
    program = emulated(SHARED_ROW.replace("WORKGROUP", workgroup))
    close(program.f(x), shared_row(x), shape[1])
    (launch,) = made[0].launches
    assert launch.block == {"": (256, 1, 1), "@workgroup(32)": (32, 1, 1), "@workgroup(48)": (48, 1, 1)}.get(workgroup, (8, 3, 2))


def test_barriers_stand_where_threads_read_what_others_wrote_and_nowhere_else(made: list[Launches]) -> None:
    program = emulated(SHARED_ROW.replace("WORKGROUP", ""))
    program.f(numbers("f32", (2, 7)))
    (launch,) = made[0].launches
    # one in the sum, one before the row is read from its end; loops of one shape that touch their own elements need none
    assert barriers(launch.function) == 2


def test_a_loop_around_what_threads_share_has_a_barrier_for_its_next_turn(made: list[Launches]) -> None:
    program = emulated("""def f(x: tensor[M, N]) {
    compute(x) @kernel(fused) {
        for i in 0..M:
            shared var row[N, f32]
            for j in 0..N: row[j] = x[i, j]
            for turn in 0..3:
                shared var next[N, f32]
                for j in 0..N: next[j] = 0.5 * (row[j] + row[N - 1 - j])
                for j in 0..N: row[j] = next[j]
            for j in 0..N: out[i, j] = row[j]
    }
}
""")
    x = numbers("f32", (2, 70))
    close(program.f(x), (x.astype(np.float64) + x[:, ::-1]) / 2, 1)
    # the averages wait for the row, and the row for all who still average
    assert barriers(made[0].launches[0].function) == 2


def test_rows_with_a_while_over_sums_of_their_elements() -> None:
    program = emulated("""def f(x: tensor[M, N], limit: f32) {
    compute(x, limit) {
        for i in 0..M:
            var scale = 1.0
            var n = 0
            var total = 0.0
            for j in 0..N: total += abs(x[i, j])
            while total > limit:
                scale = scale * 0.5
                total = 0.0
                for j in 0..N: total += abs(x[i, j] * scale)
                n += 1
            for j in 0..N: out[i, j] = x[i, j] * scale + (n as f32)
    }
}
""")
    for shape in ((3, 100), (7, 33), (2, 5), (5, 0)):
        x = numbers("f32", shape)
        want = []
        for row in x.astype(np.float64):
            turns = 0
            while np.abs(row).sum() * 0.5**turns > 3.0:
                turns += 1
            want.append(row * 0.5**turns + turns)
        close(program.f(x, 3.0), np.array(want).reshape(shape), shape[1])


def test_a_recurrence_beside_shared_loops_is_one_threads_work() -> None:
    program = emulated("""def f(x: tensor[M, N]) {
    compute(x) @kernel(fused) {
        for i in 0..M:
            var s = 0.0
            for j in 0..N: s += x[i, j] * x[i, j]
            out[i, 0] = s
            for j in 1..N: out[i, j] = 0.5 * out[i, j - 1] + x[i, j]
    }
}
""")
    x = numbers("f32", (3, 65))
    wide = x.astype(np.float64)
    want = np.empty_like(wide)
    want[:, 0] = (wide**2).sum(1)
    for j in range(1, 65):
        want[:, j] = 0.5 * want[:, j - 1] + wide[:, j]
    close(program.f(x), want, 65)


def test_ranges_that_depend_on_the_row_and_steps() -> None:
    program = emulated("""def f(x: tensor[N, N]) {
    compute(x) {
        for i in 0..N:
            var least = inf
            var sum = 0.0
            for j in 0..i + 1: least = min(least, x[i, j])
            for j in i..N step 3: sum += x[i, j]
            for j in 0..N: out[i, j] = x[i, j] * least + sum
    }
}
""")
    for n in (1, 2, 40):
        x = numbers("f32", (n, n))
        wide = x.astype(np.float64)
        want = np.array([row * row[: i + 1].min() + row[i::3].sum() for i, row in enumerate(wide)])
        close(program.f(x), want, n)


def test_the_last_barrier_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the barriers that analysis places, the sanitizer finds the race."""
    monkeypatch.setattr("compiler.schedule.gpu.nests.barriers.Barriers.clash", lambda self, first, second: False)
    program = emulated(SHARED_ROW.replace("WORKGROUP", "").replace("N, f32", "70, f32"))
    with pytest.raises((ZynMLError, AssertionError)) as caught:
        program.f(numbers("f32", (1, 70)))
    assert "row" in str(caught.value)


@pytest.mark.parametrize("written", ["then", "otherwise"])
def test_threads_meet_after_either_side_of_a_branch(written: str) -> None:
    """One side of the branch writes what the threads read at other elements behind it, the other side doesn't."""
    writes, other = "line[j] = line[j] * 2.0 + out[i, j]", "out[i, j] = out[i, j] + 1.0"
    then, otherwise = (writes, other) if written == "then" else (other, writes)
    program = emulated(f"""def f(x: tensor[R, C], k: tensor[R, i32]) {{
    compute(x, k) -> tensor[R, C] @kernel(fused) {{
        for i in 0..R {{
            shared var line[64, f32]
            for j in 0..64: line[j] = x[i, j]
            for j in 0..64: out[i, j] = line[63 - j]
            if k[i] > 0 {{
                for j in 0..64: {then}
            }} else {{
                for j in 0..64: {otherwise}
            }}
            for j in 0..64: out[i, j] = out[i, j] + line[63 - j]
        }}
    }}
}}
""")
    x, k = numbers("f32", (4, 64)), np.array([0, 1, 0, 1], np.int32)
    line, want = x.astype(np.float64), x[:, ::-1].astype(np.float64)
    is_writing = (k > 0) == (written == "then")
    want = np.where(is_writing[:, None], want + (line * 2 + want)[:, ::-1], want + 1 + line[:, ::-1])
    close(program.f(x, k), want, 4)


# ---- blocks or threads ----

ROWS = """def f(x: tensor[M, N]) {
    compute(x) {
        for i in 0..M:
            var s = 0.0
            for j in 0..N:
                s += x[i, j]
            var n = 0
            while s > 1.0:
                s = s * 0.5
                n += 1
            out[i] = n as f32
    }
}
"""


def test_short_loops_are_a_threads_work_and_long_ones_a_blocks(made: list[Launches]) -> None:
    program = emulated(ROWS)
    for shape in ((5, 3), (3, 100)):
        x = np.abs(numbers("f32", shape)) + 1
        want = np.floor(np.log2(x.astype(np.float64).sum(1)))
        np.testing.assert_array_equal(program.f(x), want + (x.astype(np.float64).sum(1) > 2**want))
    choice, *_ = (stage for launches in made for stage in launches.stages if isinstance(stage, Either))
    assert choice.chosen({"M": 5, "N": 31}) is choice.threads
    assert choice.chosen({"M": 1 << 20, "N": 32}) is choice.blocks  # memory is contiguous along j


def test_many_columns_are_threads_work(made: list[Launches]) -> None:
    program = emulated(ROWS.replace("x[i, j]", "x[j, i]").replace("tensor[M, N]", "tensor[N, M]"))
    program.f(np.ones((40, 3), np.float32))
    (choice,) = (stage for stage in made[0].stages if isinstance(stage, Either))
    sizes = [{"M": m, "N": 1000} for m in (100, 1 << 14)]
    assert [choice.chosen(one) is choice.blocks for one in sizes] == [True, False]


HALVED = """def f(x: tensor[B, M, N]) {
    compute(x) WORKGROUP {
        for b in 0..B, i in 0..M, j in 0..N:
            var v = x[b, i, j]
            while v > 1.0: v = v * 0.5
            out[b, i, j] = v
    }
}
"""


@pytest.mark.parametrize(
    ("workgroup", "blocks"),
    [("@workgroup(4, 8)", 3 * 1 * 3), ("@workgroup(4, 2, 2)", 2 * 3 * 3), ("@workgroup(48)", 4), ("@workgroup(1, 1, 3)", 5 * 11)],
)
def test_blocks_have_the_shape_that_the_program_gives(made: list[Launches], workgroup: str, blocks: int) -> None:
    x = 10 * np.abs(numbers("f32", (3, 5, 11)))
    want = x.astype(np.float64)
    while (want > 1).any():
        want[want > 1] *= 0.5
    np.testing.assert_array_equal(emulated(HALVED.replace("WORKGROUP", workgroup)).f(x), want)
    assert made[0].launches[0].blocks({"B": 3, "M": 5, "N": 11}) == blocks
    assert emulated(HALVED.replace("WORKGROUP", workgroup)).f(x[:, :0]).shape == (3, 0, 11)


# ---- reductions at the top ----

GATHERED = """def f(x: tensor[N, DTYPE], at: tensor[M, i32]) {
    compute(x, at) @kernel(reduce, OP) { for i in 0..M: yield ELEMENT }
}
"""


def gathered(op: str, dtype: str = "f32", element: str = "x[at[i]]") -> zynml.CompiledProgram:
    return emulated(GATHERED.replace("OP", op).replace("DTYPE", dtype).replace("ELEMENT", element))


@pytest.mark.parametrize("count", [0, 1, 255, 1024, 1025, 5000])
def test_sums_over_a_grid(count: int) -> None:
    x, at = numbers("f32", 100), np.random.default_rng(count).integers(0, 100, count).astype(np.int32)
    picked = x[at].astype(np.float64)
    assert abs(gathered("+").f(x, at) - picked.sum()) <= 1e-6 * max(1, count) ** 0.5 * np.abs(picked).sum()
    ints = numbers("i32", 100)
    assert gathered("+", "i32").f(ints, at) == ints[at].sum()


@pytest.mark.parametrize(("op", "function"), [("min", np.min), ("max", np.max), ("argmin", np.argmin), ("argmax", np.argmax)])
def test_extremes_over_a_grid(op: str, function: Callable[[Array], Any]) -> None:
    x, at = np.arange(50, dtype=np.float32), np.random.default_rng(1).integers(0, 50, 3000).astype(np.int32)
    program = gathered(op, element="(x[at[i]], i)" if op.startswith("arg") else "x[at[i]]")
    for values in (x, np.where(x == 7, np.nan, x).astype(np.float32), np.zeros_like(x)):
        got, want = program.f(values, at), function(values[at])
        if op.startswith("arg"):
            np.testing.assert_array_equal(got, (values[at][want], want))
        else:
            np.testing.assert_array_equal(got, want)


def test_several_results_and_what_follows_a_reduction(made: list[Launches]) -> None:
    program = emulated("""def f(x: tensor[N], at: tensor[M, i32]) {
    compute(x, at) {
        var sum = 0.0
        var most = -inf
        for i in 0..M:
            sum += x[at[i]]
            most = max(most, x[at[i]])
        for j in 0..N: out[j] = (x[j] - most) / sum
    }
}
""")
    x, at = np.abs(numbers("f32", 70)), np.random.default_rng(0).integers(0, 70, 2100).astype(np.int32)
    wide = x.astype(np.float64)
    close(program.f(x, at), (wide - wide[at].max()) / wide[at].sum(), 2100)
    (launches,) = made
    assert [launch.blocks({"N": 70, "M": 2100}) for launch in launches.launches] == [3, 1, 1]


def test_sums_of_two_loops_are_shared_as_one() -> None:
    program = emulated("""def f(x: tensor[N, f64], at: tensor[M, K, i32]) {
    compute(x, at) @kernel(reduce, +) { for i in 0..M, k in 0..K: yield x[at[i, k]] }
}
""")
    x = numbers("f64", 100)
    for shape in ((3, 700), (700, 3), (0, 5), (5, 0)):
        at = np.random.default_rng(0).integers(0, 100, shape).astype(np.int32)
        assert abs(program.f(x, at) - x[at].sum()) <= 1e-12 * max(1, at.size)


@pytest.mark.parametrize("shape", [(0, 40), (3, 0), (3, 100), (300, 40), (70, 3)])
def test_sums_of_rows_that_blocks_share(made: list[Launches], shape: tuple[int, int]) -> None:
    program = emulated("""def f(x: tensor[M, N, f64], at: tensor[M, N, i32]) {
    compute(x, at) @kernel(fused) @workgroup(64) {
        var most = -1000.0
        for i in 0..M:
            shared var row[N, f64]
            for j in 0..N: row[j] = x[i, at[i, j]]
            var s = 0.0
            for j in 0..N: s += row[j] * row[N - 1 - j]
            most = max(most, s)
        out[0] = most
    }
}
def g(x: tensor[M, N, f64], at: tensor[M, N, i32]) {
    compute(x, at) @workgroup(64) {
        var sum = 1.0
        for i in 0..M:
            var least = 1000.0
            for j in 0..N: least = min(least, x[i, at[i, j]])
            sum += least
        out[0] = sum
    }
}
""")
    x = numbers("f64", shape)
    at = np.argsort(x, 1).astype(np.int32)
    picked = np.sort(x, 1)
    want = (picked * picked[:, ::-1]).sum(1).max(initial=-1000.0)
    np.testing.assert_allclose(program.f(x, at), [want], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(program.g(x, at), [1 + picked.min(1, initial=1000.0).sum()], rtol=1e-12, atol=1e-12)
    sizes = {"M": shape[0], "N": shape[1]}
    assert [next(launches.steps(sizes))[0] for launches in made] == [0, int(shape[1] < 32)]


# ---- what one block does ----


def test_steps_in_time_are_one_blocks_work() -> None:
    program = emulated("""def f(mut x: tensor[N], steps: i64) {
    compute(mut x, steps) @kernel(fused) {
        for t in 0..steps:
            var mean = 0.0
            for i in 0..N: mean += x[i]
            mean = mean / N
            for i in 0..N: x[i] = 0.5 * (x[i] + mean)
    }
}
""")
    x = numbers("f32", 70)
    want = x.astype(np.float64)
    for _ in range(4):
        want = 0.5 * (want + want.mean())
    program.f(x, 4)
    close(x, want, 70)


def test_until_a_sum_is_small() -> None:
    program = emulated("""def f(mut x: tensor[N]) {
    compute(mut x) @kernel(fused) {
        var left = 100.0
        while left > 1.0:
            for i in 0..N: x[i] = x[i] * 0.5
            left = 0.0
            for i in 0..N: left += abs(x[i])
    }
}
""")
    x = numbers("f32", 40)
    want = x.astype(np.float64) * 0.5
    while np.abs(want).sum() > 1.0:
        want = want * 0.5
    program.f(x)
    close(x, want, 1)


# ---- limits ----


def test_shared_memory_that_only_the_launch_knows_is_checked() -> None:
    program = emulated(SHARED_ROW.replace("WORKGROUP", "@workgroup(32)"))
    with pytest.raises(ZynMLError) as caught:
        program.f(np.zeros((1, 60_000), np.float32))
    assert str(caught.value).startswith(
        "error[ZYN0503]: a block needs 240000 bytes of shared memory; `sm_90` has 232448\n --> <program>:2:5"
    )
    assert "`row` takes 240000 bytes" in str(caught.value)


def test_a_cap_of_the_program_is_kept() -> None:
    program = emulated(SHARED_ROW.replace("WORKGROUP", "@workgroup(32) @shared(1024)"))
    close(program.f(np.ones((1, 200), np.float32)), np.full((1, 200), 402.0), 1)
    with pytest.raises(ZynMLError, match=r"a block needs 1200 bytes of shared memory; `@shared\(1024\)` allows 1024"):
        program.f(np.ones((1, 300), np.float32))


# ---- faults ----


def test_the_first_fault_in_the_order_of_the_loops_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thread 0 comes to the last of these indices before thread 5 comes to the first."""
    monkeypatch.undo()  # unwatched: the sanitizer goes on, and tells what each thread does
    at = np.zeros(3000, np.int32)
    at[[5, 6, 2304]] = [500, 600, 700]
    with pytest.raises(ZynMLError, match="index 500 is out of range: axis 0 of `x` has 100 elements"):
        gathered("+").f(numbers("f32", 100), at)


def test_inputs_stay_as_they_were_when_a_later_row_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    program = emulated("""def f(mut x: tensor[M, N], at: tensor[M, N, i32]) {
    compute(mut x, at) @kernel(fused) {
        for i in 0..M:
            var s = 0.0
            for j in 0..N: s += x[i, at[i, j]]
            for j in 0..N: x[i, j] = s
    }
}
""")
    x, at = numbers("f32", (3, 40)), np.zeros((3, 40), np.int32)
    at[2, 33], at[1, 39] = 41, 40
    before = x.copy()
    with pytest.raises(ZynMLError, match="index 40 is out of range"):
        program.f(x, at)
    np.testing.assert_array_equal(x, before)


def test_conditions_of_checks_are_computed_where_they_guard(made: list[Launches], monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches follow each other whether or not a check has failed: what guards an access must be seen to speak of its index."""
    text = """def f(x: tensor[M, N], at: tensor[K, i32]) {
    compute(x, at) {
        let row = at[0]
        var s = 0.0
        for j in 0..N: s += x[row, j]
        for j in 0..N: out[j] = x[row, j] * s + x[row, at[j]]
    }
}
"""
    x = numbers("f32", (3, 5))
    program = emulated(text)
    at = np.array([2, 1, 0, 3, 4], np.int32)
    wide = x.astype(np.float64)
    close(program.f(x, at), wide[2] * wide[2].sum() + wide[2, at], 5)
    for launch in made[0].launches:
        operations = [op for top in launch.function.body.body for op in top.walk()]
        assert all(isinstance(op.condition.source, InBounds) for op in operations if isinstance(op, Check))
    monkeypatch.undo()
    with pytest.raises(ZynMLError, match="index 3 is out of range: axis 0 of `x` has 3 elements"):
        emulated(text).f(x, np.array([3, 1, 0, 3, 4], np.int32))


# ---- any nest ----


@pytest.mark.parametrize("first", range(3000, 3040, 8))
def test_random_nests(first: int, made: list[Launches], monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks wherever loops can be shared, of sizes that aren't whole warps too, and what the CPU and Python say."""
    monkeypatch.setattr(blocks, "LONG", 2)
    monkeypatch.setattr("compiler.schedule.launches.LONG", 2)
    for seed in range(first, first + 8):
        monkeypatch.setattr(blocks, "BLOCK", (64, 48, 32, 17)[seed % 4])
        require_passing(partial(random_program, seed, None), partial(run_on, "emulator"), FAULTS)
    for launches in made:
        for launch in launches.launches:
            verify(launch.function)


# ---- machine code ----


def test_launch_bounds_are_what_the_program_says() -> None:
    ptx = str(emulated(HALVED.replace("WORKGROUP", "@workgroup(48, 2) @registers(64)")).emit("ptx", "sm_90"))
    assert ".reqntid 48, 2, 1" in ptx
    assert ".maxnreg 64" in ptx


@pytest.mark.skipif(not can_assemble(), reason="needs nvJitLink")
@pytest.mark.parametrize("target", ["sm_75", "sm_90a"])
def test_launches_verify_and_assemble_without_spills(target: str) -> None:
    text = "".join(
        source.replace("def f(", f"def f{number}(") for number, source in enumerate((SHARED_ROW.replace("WORKGROUP", ""), ROWS, GATHERED))
    )
    program = emulated(text.replace("DTYPE", "f32").replace("OP", "argmax").replace("ELEMENT", "(x[at[i]], i)"))
    from compiler.fusion.program_kernels import kernels
    from compiler.launch.thread_kernels import thread_kernel

    functions = [f for compute, built in kernels(program._session) for f in thread_kernel(built, compute).functions]
    for function in functions:
        verify(function)
    cubin = assemble(compile_kernels(functions, gpu_target(target)))
    assert len(functions) == 5
    assert all(kernel.spills == 0 and kernel.stack == 0 for kernel in cubin.kernels.values())
