"""Run-time checks: no wild access in the fast kernel, the exact first fault from the report kernel."""

import numpy as np
import pytest
from cpu_runs import run, run_kernel

from compiler.backends.cpu.compile import CpuOptions, compile_function
from compiler.backends.cpu.faults import NativeFault
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.module import HirFunction, OptimizationLevel
from compiler.hir.types import INDEX, Mem, Space


def gather(place: str = "thread") -> HirFunction:
    """out[i] = x[at[i]], with a check on at[i]."""
    f = FunctionBuilder("gather")
    x, at = f.parameter("x", Mem("f32", ["N"], readonly=True)), f.parameter("at", Mem("i32", ["M"], readonly=True))
    out = f.parameter("out", Mem("f32", ["M"]))
    f.parameter("N", INDEX)
    f.parameter("M", INDEX)
    with f.body.loop("i", 0, "M", place=place) as (b, _):
        index = b.cast(b.load(at, ["i"]), "index")
        b.check(b.inbounds(index.name, "N"), index, b.index("N"), code="0801", site=7)
        b.store(out, b.load(x, [index.name]), ["i"])
    return f.finish()


def test_a_gather_with_good_indices_runs_as_vectors() -> None:
    kernel = compile_function(gather())
    x, at = np.arange(50, dtype=np.float32), np.random.default_rng(0).integers(0, 50, 100_000).astype(np.int32)
    out = np.zeros(len(at), np.float32)
    assert run_kernel(kernel, [x, at, out, len(x), len(at)], threads=2) is None
    np.testing.assert_array_equal(out, x[at])
    # Whether a gather is cheaper than single loads is the machine's: a named one, whose gathers are fast, says it everywhere.
    features = "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx2,+fma"
    assert "masked.gather" in compile_function(gather(), CpuOptions(cpu="skylake-avx512", features=features)).llvm


@pytest.mark.parametrize("level", list(OptimizationLevel))
def test_the_first_fault_is_reported_whatever_the_threads(level: OptimizationLevel) -> None:
    x, at = np.arange(50, dtype=np.float32), np.zeros(100_000, np.int32)
    at[77_777], at[99_000], at[99_001] = -2_000_000_000, 50, 2_000_000_000
    out = np.zeros(len(at), np.float32)
    assert run(gather(), [x, at, out, len(x), len(at)], 2, level) == NativeFault("0801", 7, (-2_000_000_000, 50))
    at[77_777] = 0
    assert run(gather("simd"), [x, at, out, len(x), len(at)], 2, level) == NativeFault("0801", 7, (50, 50))


def test_an_access_to_an_empty_memory_is_never_made() -> None:
    at, out = np.array([3, 0], np.int32), np.zeros(2, np.float32)
    assert run(gather(), [0, at, out, 0, 2]) == NativeFault("0801", 7, (3, 0))


def test_a_checked_store_does_not_write_outside() -> None:
    f = FunctionBuilder("scatter")
    at, out = f.parameter("at", Mem("i64", ["M"], readonly=True)), f.parameter("out", Mem("i32", ["N"]))
    f.parameter("M", INDEX)
    f.parameter("N", INDEX)
    with f.body.loop("i", 0, "M") as (b, _):
        index = b.cast(b.load(at, ["i"]), "index")
        b.check(b.inbounds(index.name, "N"), index, b.index("N"), code="0801", site=0)
        b.store(out, b.add(b.load(out, [index.name]), b.const(1, "i32")), [index.name])
    room = np.zeros(30, np.int32)
    fault = run(f.finish(), [np.array([0, 9, -1, 10, 3]), room[10:20], 5, 10])
    assert fault == NativeFault("0801", 0, (-1, 10))
    assert not room[:10].any() and not room[20:].any()


def test_shifted_indices_are_guarded_by_their_own_check() -> None:
    """y[i] = x[i-1] + z[i]: the check on i-1 masks x, and z stays a plain load."""
    f = FunctionBuilder("shift")
    x, z = f.parameter("x", Mem("f64", ["N"])), f.parameter("z", Mem("f64", ["N"]))
    y = f.parameter("y", Mem("f64", ["N"]))
    f.parameter("N", INDEX)
    before = Affine.of("i") - 1
    with f.body.loop("i", 0, "N", place="simd") as (b, _):
        b.check(b.inbounds(before, "N"), b.index(before), b.index("N"), code="0801", site=2)
        b.store(y, b.add(b.load(x, [before]), b.load(z, ["i"])), ["i"])
    values = np.ones(100)
    assert run(f.finish(), [values, values.copy(), np.zeros(100), 100]) == NativeFault("0801", 2, (-1, 100))


@pytest.mark.parametrize("level", (OptimizationLevel.O0, OptimizationLevel.O3))
@pytest.mark.parametrize("worst", (2**63 - 1, -(2**63), 2**62, -(2**62)))
def test_an_index_from_data_may_wrap_and_is_still_found_out(worst: int, level: OptimizationLevel) -> None:
    """out[i] = x[2*at[i] + 1]."""
    f = FunctionBuilder("far")
    x, at = f.parameter("x", Mem("i64", ["N"])), f.parameter("at", Mem("i64", ["M"]))
    out = f.parameter("out", Mem("i64", ["M"]))
    f.parameter("N", INDEX)
    f.parameter("M", INDEX)
    with f.body.loop("i", 0, "M", place="simd") as (b, _):
        index = Affine.of(b.cast(b.load(at, ["i"]), "index").name) * 2 + 1
        b.check(b.inbounds(index, "N"), b.index(index), b.index("N"), code="0801", site=0)
        b.store(out, b.load(x, [index]), ["i"])
    indices = np.full(100, 3)
    indices[64] = worst
    wrapped = (2 * worst + 1 + 2**63) % 2**64 - 2**63
    fault = run(f.finish(), [np.arange(10), indices, np.zeros(100, np.int64), 10, 100], level=level)
    assert fault == (None if 0 <= wrapped < 10 else NativeFault("0801", 0, (wrapped, 10)))


@pytest.mark.parametrize("dtype", ("i32", "i64", "u8"))
def test_division_by_zero_is_a_fault_and_no_trap(dtype: str) -> None:
    kind = {"i32": np.int32, "i64": np.int64, "u8": np.uint8}[dtype]
    f = FunctionBuilder("divide")
    x, y = f.parameter("x", Mem(dtype, ["N"])), f.parameter("y", Mem(dtype, ["N"]))
    out = f.parameter("out", Mem(dtype, ["N"]))
    f.parameter("N", INDEX)
    with f.body.loop("i", 0, "N", place="simd") as (b, loop):
        divisor = b.load(y, ["i"])
        b.check(b.op("ne", divisor, b.const(0, dtype)), loop.variable, code="0806", site=1)
        b.store(out, b.op("div", b.load(x, ["i"]), divisor), ["i"])
    function = f.finish()
    left, right = np.full(100, 7, kind), np.full(100, 2, kind)
    out_array = np.zeros(100, kind)
    assert run(function, [left, right, out_array, 100]) is None
    assert (out_array == 3).all()
    right[[40, 90]] = 0
    assert run(function, [left, right, out_array, 100]) == NativeFault("0806", 1, (40,))


def test_a_while_loop_fed_by_a_fault_ends() -> None:
    """next = table[next] until 0 is found; a bad index would otherwise read 5 for ever."""
    f = FunctionBuilder("walk")
    table, out = f.parameter("table", Mem("i64", ["N"])), f.parameter("out", Mem("i64", []))
    f.parameter("N", INDEX)
    b = f.body
    at = b.slot(b.const(1, "i64"))
    with b.repeat() as (before, body):
        before.condition(before.op("ne", before.get(at), before.const(0, "i64")))
        index = body.cast(body.get(at), "index")
        body.check(body.inbounds(index.name, "N"), index, body.index("N"), code="0801", site=0)
        body.set(at, body.add(body.load(table, [index.name]), body.const(5, "i64")))
    b.store(out, b.get(at), [])
    assert run(f.finish(), [np.array([0, 100, 0]), np.zeros((), np.int64), 3]) == NativeFault("0801", 0, (105, 3))


def test_the_report_follows_the_nest_as_written_when_it_is_given() -> None:
    """The scheduled kernel sees columns first; the fault told is the first by rows."""

    def nest(columns_first: bool) -> HirFunction:
        f = FunctionBuilder("nest")
        x = f.parameter("x", Mem("i32", ["M", "N"]))
        out = f.parameter("out", Mem("i32", ["M", "N"]))
        f.parameter("M", INDEX)
        f.parameter("N", INDEX)
        order = [("i", "M"), ("j", "N")]
        (first, low), (second, high) = reversed(order) if columns_first else order
        with f.body.loop(first, 0, low) as (outer, _), outer.loop(second, 0, high) as (b, _):
            value = b.load(x, ["i", "j"])
            b.check(b.op("ne", value, b.const(0, "i32")), b.index("i"), b.index("j"), code="0806", site=0)
            b.store(out, value, ["i", "j"])
        return f.finish()

    kernel = compile_function(nest(True), CpuOptions(), reference=nest(False))
    x = np.ones((4, 5), np.int32)
    x[1, 4] = x[3, 0] = 0
    assert run_kernel(kernel, [x, np.zeros_like(x), 4, 5]) == NativeFault("0806", 0, (1, 4))
    assert run(nest(True), [x, np.zeros_like(x), 4, 5]) == NativeFault("0806", 0, (3, 0))


def test_a_value_of_a_check_keeps_its_type() -> None:
    f = FunctionBuilder("values")
    x = f.parameter("x", Mem("f32", [1]))
    b = f.body
    value = b.load(x, [0])
    whole = b.cast(value, "u64")
    b.check(b.op("lt", value, b.const(1.0)), value, whole, b.const(True, "i1"), b.const(-3, "i8"), code="0801", site=0)
    assert run(f.finish(), [np.array([1e30], np.float32)]) == NativeFault("0801", 0, (float(np.float32(1e30)), 2**64 - 1, True, -3))


@pytest.mark.parametrize("place", ("time", "thread"))
def test_memory_that_cannot_be_had_is_a_fault(place: str) -> None:
    f = FunctionBuilder("greedy")
    out = f.parameter("out", Mem("f32", ["M"]))
    f.parameter("N", INDEX)
    f.parameter("M", INDEX)
    with f.body.loop("i", 0, "M", place=place, serial_below=2) as (b, _):
        scratch = b.alloc(Mem("f64", ["N"], space=Space.LOCAL))
        b.store(scratch, b.const(1.0, "f64"), [Affine.of("N") - 1])
        b.store(out, b.cast(b.load(scratch, [Affine.of("N") - 1]), "f32"), ["i"])
    function = f.finish()
    assert run(function, [np.zeros(4, np.float32), 2**45, 4], threads=2) == NativeFault("0804", -1, ())
    assert run(function, [np.zeros(4, np.float32), 10**4, 4], threads=2) is None
