"""Values with axes: reductions, scans, contractions, combinations of pairs, taking and joining, against NumPy."""

import numpy as np
import pytest
from cpu_runs import NUMPY, assert_as_interpreted, assert_same, run, run_kernel

from compiler.backends.cpu.compile import compile_function
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.core import Combine, Concat, Scan, Take
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem, Tile, is_float


def reduction(monoid: str, dtype: str, over: list[str], flags: tuple[str, ...] = ()) -> HirFunction:
    """Of a 3 x 4 x 8 block, the last axis in lanes; kept axes come out in order."""
    f = FunctionBuilder("reduction", Form.TILE, {"i": 3, "j": 4, "simd": 8})
    extents = {"i": 3, "j": 4, "simd": 8}
    kept = [axis for axis in extents if axis not in over]
    x, out = f.parameter("x", Mem(dtype, [3, 4, 8])), f.parameter("out", Mem(dtype, [extents[a] for a in kept]))
    (result,) = f.body.reduce(monoid, f.body.load(x, ["i", "j", "simd"]), over=over, flags=flags)
    f.body.store(out, result, kept)
    return f.finish()


@pytest.mark.parametrize("over", (["i"], ["simd"], ["j", "simd"], ["i", "j", "simd"]), ids="+".join)
@pytest.mark.parametrize("dtype", ("i8", "u32", "i64", "f16", "bf16", "f32", "f64"))
def test_reduce(dtype: str, over: list[str]) -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0 if dtype[0] == "u" else -9, 10, (3, 4, 8)).astype(NUMPY[dtype])
    monoids = ["add", "mul", "min", "max"] + ([] if is_float(dtype) else ["and", "or", "xor"])
    for monoid in monoids:
        function = reduction(monoid, dtype, over)
        shape = [n for axis, n in (("i", 3), ("j", 4), ("simd", 8)) if axis not in over]
        assert_as_interpreted(function, [values, np.zeros(shape, NUMPY[dtype])])


def test_reduce_with_reassoc_is_near_the_sum() -> None:
    values = np.random.default_rng(1).random((3, 4, 8), np.float32)
    found = np.zeros((), np.float32)
    run(reduction("add", "f32", ["i", "j", "simd"], ("reassoc",)), [values, found])
    np.testing.assert_allclose(found, values.sum(dtype=np.float64), rtol=1e-6)


def test_nan_wins_in_min_and_max() -> None:
    values = np.random.default_rng(2).random((3, 4, 8))
    values[1, 2, 3] = np.nan
    for monoid in ("min", "max"):
        found = np.zeros((3, 4))
        run(reduction(monoid, "f64", ["simd"]), [values, found])
        np.testing.assert_array_equal(found, getattr(values, monoid)(axis=2))


@pytest.mark.parametrize("monoid", ("argmin", "argmax"))
@pytest.mark.parametrize("over", (["i", "simd"], ["i"], ["simd"]), ids="+".join)
def test_argmin_and_argmax_take_the_first_and_nan_wins(monoid: str, over: list[str]) -> None:
    extents = {"i": 5, "simd": 16}
    kept = [axis for axis in extents if axis not in over]
    f = FunctionBuilder("arg", Form.TILE, extents)
    x = f.parameter("x", Mem("f32", [5, 16]))
    value_out = f.parameter("v", Mem("f32", [extents[a] for a in kept]))
    index_out = f.parameter("k", Mem("i64", [extents[a] for a in kept]))
    b = f.body
    place = Affine.of("i") * 16 * ("i" in over) + (Affine.of("simd") if "simd" in over else 0)
    value, index = b.reduce(monoid, b.load(x, ["i", "simd"]), b.cast(b.index(place), "i64"), over=over)
    b.store(value_out, value, kept)
    b.store(index_out, index, kept)
    function = f.finish()
    for seed in range(3):
        values = np.random.default_rng(seed).integers(0, 6, (5, 16)).astype(np.float32)
        if seed == 2:
            values[2, 5] = values[3, 1] = np.nan
        axis = None if len(over) == 2 else 0 if over == ["i"] else 1
        shape = [extents[a] for a in kept]
        best, where = np.zeros(shape, np.float32), np.zeros(shape, np.int64)
        assert run(function, [values, best, where]) is None
        expected = getattr(np, monoid)(values, axis=axis)
        np.testing.assert_array_equal(where, expected * (16 if over == ["i"] else 1))
        if axis is None:
            picked = np.asarray(values.ravel()[expected])
        else:
            picked = np.take_along_axis(values, np.expand_dims(expected, axis), axis).squeeze(axis)
        assert_same(best, picked)


def test_combine_prefers_the_first_pair_among_equals() -> None:
    f = FunctionBuilder("combine", Form.TILE, {"simd": 4})
    x, y = f.parameter("x", Mem("f32", [4])), f.parameter("y", Mem("f32", [4]))
    out = f.parameter("out", Mem("i64", [4]))
    b = f.body
    op = Combine(monoid="argmax", operands_=(b.load(x, ["simd"]), b.const(1, "i64"), b.load(y, ["simd"]), b.const(2, "i64")))
    b.store(out, b.emit(op).results[1], ["simd"])
    found = np.zeros(4, np.int64)
    first, second = np.array([1, 2, np.nan, 3], np.float32), np.array([1, 3, np.nan, np.nan], np.float32)
    assert run(f.finish(), [first, second, found]) is None
    assert found.tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize("exclusive", (False, True))
@pytest.mark.parametrize("reverse", (False, True))
@pytest.mark.parametrize("axis", ("i", "simd"))
def test_scan(axis: str, reverse: bool, exclusive: bool) -> None:
    for dtype, monoid in (("i32", "add"), ("f32", "add"), ("f64", "max"), ("u8", "xor")):
        f = FunctionBuilder("scan", Form.TILE, {"i": 5, "simd": 8})
        x, out = f.parameter("x", Mem(dtype, [5, 8])), f.parameter("out", Mem(dtype, [5, 8]))
        op = Scan(monoid=monoid, value=f.body.load(x, ["i", "simd"]), over=(axis,), exclusive=exclusive, reverse=reverse)
        f.body.store(out, f.body.emit(op).result, ["i", "simd"])
        values = np.random.default_rng(3).integers(0, 100, (5, 8)).astype(NUMPY[dtype])
        assert_as_interpreted(f.finish(), [values, np.zeros((5, 8), NUMPY[dtype])])


@pytest.mark.parametrize("dtype", ("f32", "f64", "i32"))
def test_contraction_in_registers(dtype: str) -> None:
    """A register-blocked product: rows and steps in registers, columns in two registers of lanes, ragged edges masked."""
    f = FunctionBuilder("product", Form.TILE, {"i": 4, "j": 2, "k": 2, "simd": 8})
    a, b = f.parameter("A", Mem(dtype, ["M", "K"])), f.parameter("B", Mem(dtype, ["K", "N"]))
    c = f.parameter("C", Mem(dtype, ["M", "N"]))
    for size in "MKN":
        f.parameter(size, INDEX)
    row = Affine.of("i0") * 4 + "i"
    column = Affine.of("j0") * 16 + Affine.of("j") * 8 + "simd"
    rows_of_tiles = f.body.loop("i0", 0, Affine.of("M").ceildiv(4), place="thread", serial_below=2)
    with rows_of_tiles as (rows, _), rows.loop("j0", 0, Affine.of("N").ceildiv(16)) as (tile, _):
        zero = tile.const(0, Tile(dtype, (("i", 4), ("j", 2), ("simd", 8))))
        with tile.loop("k0", 0, Affine.of("K").ceildiv(2), carried=[zero]) as (body, loop):
            step = Affine.of("k0") * 2 + "k"
            left, right = body.load(a, [row, step], pad=0), body.load(b, [step, column], pad=0)
            body.yield_(body.contract(left, right, ["k"], dtype, loop.carried[0]))
        inside = tile.op("and", tile.inbounds(row, "M"), tile.inbounds(column, "N"))
        tile.store(c, loop.results[0], [row, column], where=inside)
    function = f.finish()
    rng = np.random.default_rng(4)
    for m, k, n in ((4, 2, 16), (7, 5, 37), (1, 1, 1), (33, 16, 64), (0, 3, 3), (3, 0, 5)):
        left, right = rng.integers(-5, 6, (m, k)).astype(NUMPY[dtype]), rng.integers(-5, 6, (k, n)).astype(NUMPY[dtype])
        found = np.full((m, n), 77, NUMPY[dtype])
        assert run(function, [left, right, found, m, k, n], threads=2) is None
        np.testing.assert_array_equal(found, left @ right)


def test_contraction_over_lanes_with_an_accumulator() -> None:
    f = FunctionBuilder("dot", Form.TILE, {"i": 3, "simd": 16})
    a, b = f.parameter("A", Mem("bf16", [3, 16])), f.parameter("B", Mem("bf16", [16]))
    out = f.parameter("out", Mem("f32", [3]))
    body = f.body
    start = body.const(0.5, Tile("f32", (("i", 3),)))
    body.store(out, body.contract(body.load(a, ["i", "simd"]), body.load(b, ["simd"]), ["simd"], "f32", start), ["i"])
    rng = np.random.default_rng(5)
    left, right = rng.integers(-8, 8, (3, 16)).astype(NUMPY["bf16"]), rng.integers(-8, 8, 16).astype(NUMPY["bf16"])
    found = np.zeros(3, np.float32)
    assert run(f.finish(), [left, right, found]) is None
    np.testing.assert_array_equal(found, left.astype(np.float64) @ right.astype(np.float64) + 0.5)


def test_gathers_by_a_tile_of_indices_and_strided_lanes() -> None:
    f = FunctionBuilder("gather", Form.TILE, {"r": 2, "simd": 8})
    x, at = f.parameter("x", Mem("f32", [10, 40])), f.parameter("at", Mem("i32", [16]))
    out, turned = f.parameter("out", Mem("f32", [16])), f.parameter("turned", Mem("f32", [8, 2]))
    b = f.body
    place = Affine.of("r") * 8 + "simd"
    index = b.cast(b.load(at, [place]), "index")
    b.store(out, b.load(x, ["r", index.name]), [place])
    b.store(turned, b.load(x, ["simd", "r"]), ["simd", "r"])
    values = np.arange(400, dtype=np.float32).reshape(10, 40)
    where = np.random.default_rng(6).integers(0, 40, 16).astype(np.int32)
    found, other = np.zeros(16, np.float32), np.zeros((8, 2), np.float32)
    assert run(f.finish(), [values, where, found, other]) is None
    np.testing.assert_array_equal(found, values[np.repeat([0, 1], 8), where])
    np.testing.assert_array_equal(other, values[:8, :2])


def test_take_and_concat() -> None:
    f = FunctionBuilder("pieces", Form.TILE, {"i": 3, "j": 2, "simd": 4})
    x, out = f.parameter("x", Mem("i32", [3, 4])), f.parameter("out", Mem("i32", [3, 4]))
    last = f.parameter("last", Mem("i32", [3]))
    f.parameter("n", INDEX)
    b = f.body
    value = b.load(x, ["i", "simd"])
    row = b.emit(Take(value=value, axis="i", at=Affine.of("n"))).result
    b.store(out, b.add(value, row), ["i", "simd"])
    b.store(last, b.emit(Take(value=value, axis="simd", at=3)).result, ["i"])
    values = np.arange(12, dtype=np.int32).reshape(3, 4)
    found, ends = np.zeros((3, 4), np.int32), np.zeros(3, np.int32)
    assert run(f.finish(), [values, found, ends, 2]) is None
    np.testing.assert_array_equal(found, values + values[2])
    np.testing.assert_array_equal(ends, values[:, 3])

    f = FunctionBuilder("joined", Form.TILE, {"i": 2, "simd": 4})
    x, out = f.parameter("x", Mem("i32", [2, 4])), f.parameter("out", Mem("i32", [4, 4]))
    part = f.body.load(x, ["i", "simd"])
    joined = f.body.emit(Concat(values=(part, f.body.op("neg", part)), axis="i")).result
    for row_number in range(4):
        f.body.store(out, f.body.emit(Take(value=joined, axis="i", at=row_number)).result, [row_number, "simd"])
    whole = np.zeros((4, 4), np.int32)
    assert run(f.finish(), [values, whole]) is None
    np.testing.assert_array_equal(whole, np.concatenate([values[:2], -values[:2]]))


@pytest.mark.parametrize("dtype", ("f32", "f64", "bf16", "i8", "i1"))
@pytest.mark.parametrize("across", ("load", "store"))
def test_squares_are_turned_in_registers(across: str, dtype: str) -> None:
    """out[i, j] = x[j, i] in squares of 8 x 8, two of them in a tile."""
    f = FunctionBuilder("turned", Form.TILE, {"r": 16, "simd": 8})
    x, out = f.parameter("x", Mem(dtype, ["M", "N"])), f.parameter("out", Mem(dtype, ["N", "M"]))
    f.parameter("M", INDEX)
    f.parameter("N", INDEX)
    apart, near = Affine.of("a0") * 8 + "simd", Affine.of("b0") * 16 + "r"
    rows, columns = (("M", 8), ("N", 16)) if across == "load" else (("N", 8), ("M", 16))
    outer = f.body.loop("a0", 0, Affine.of(rows[0]).floordiv(rows[1]))
    with outer as (a, _), a.loop("b0", 0, Affine.of(columns[0]).floordiv(columns[1])) as (b, _):
        at = (apart, near) if across == "load" else (near, apart)
        b.store(out, b.load(x, at), at[::-1])
    function = f.finish()
    values = np.random.default_rng(7).integers(0, 2 if dtype == "i1" else 100, (48, 32)).astype(NUMPY[dtype])
    found = np.zeros((32, 48), NUMPY[dtype])
    kernel = compile_function(function)
    assert run_kernel(kernel, [values, found, 48, 32]) is None
    assert_same(found, values.T.copy())
    assert "masked.gather" not in kernel.llvm and "masked.scatter" not in kernel.llvm
