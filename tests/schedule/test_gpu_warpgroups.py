"""Products on warpgroups mean the field, in every layout, with what follows the sum; and the assembler has nothing against them."""

import ml_dtypes
import numpy as np
import pytest
from attrs import evolve

import zynml
from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.emulator.interpret import interpret
from compiler.hir.build import FunctionBuilder
from compiler.hir.hopper import WarpgroupMma
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.hir.verify import verify
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.choose import launches_for
from compiler.schedule.gpu.facts import Facts, facts_of, specialised
from compiler.schedule.gpu.products import rounds, tiling
from compiler.schedule.gpu.products.boxed_product import boxed_product
from compiler.schedule.gpu.products.tiling import Tiling
from compiler.schedule.launches import Launches

EIGHTHS = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
WHOLE = {"i8": np.int8, "u8": np.uint8, "i32": np.int32, "u32": np.uint32}
NUMPY = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, **EIGHTHS, **WHOLE}


def product(
    dtype: str, to: str, out: str, turned_a: bool = False, turned_b: bool = True, bias: bool = False, dims: tuple[str, str] = ("M", "N")
) -> HirFunction:
    """`C = A B` (and a row added, negatives cut), A and B as they lie, C at the beginning of a memory of these sizes."""
    made = FunctionBuilder("product", Form.FIELD)
    a = made.parameter("A", Mem(dtype, ("K", "M") if turned_a else ("M", "K"), readonly=True))
    b = made.parameter("B", Mem(dtype, ("N", "K") if turned_b else ("K", "N"), readonly=True))
    row = made.parameter("R", Mem("f32", ("N",), readonly=True))
    c = made.parameter("C", Mem(out, dims))
    for size in dict.fromkeys(("M", "N", "K", *dims)):
        made.parameter(size, INDEX)
    for axis, extent in (("i", "M"), ("j", "N"), ("k", "K")):
        made.axis(axis, extent)
    left = made.body.load(a, ["k", "i"] if turned_a else ["i", "k"])
    right = made.body.load(b, ["j", "k"] if turned_b else ["k", "j"])
    value = made.body.contract(left, right, ["k"], to)
    if bias:
        value = made.body.op("max", made.body.add(value, made.body.load(row, ["j"])), made.body.const(0.0))
    made.body.store(c, made.body.cast(value, out), ["i", "j"])
    return made.finish()


@pytest.mark.parametrize(("left", "right", "to"), [("f8e5m2", "f8e4m3", "f32"), ("f8e4m3", "f8e5m2", "f32"), ("u8", "i8", "i32"), ("i8", "u8", "i32")])
def test_bytes_of_two_types(left: str, right: str, to: str) -> None:
    """`C[i, j] = sum A[i, k] B[j, k]`, each converted to the sum's type first."""
    m, n, k = 72, 80, 144
    made = FunctionBuilder("product", Form.FIELD)
    a, b = (made.parameter(name, Mem(dtype, (rows, "K"), readonly=True)) for name, dtype, rows in (("A", left, "M"), ("B", right, "N")))
    c = made.parameter("C", Mem(to, ("M", "N")))
    for size, axis in zip("MNK", "ijk", strict=True):
        made.parameter(size, INDEX)
        made.axis(axis, size)
    factors = [made.body.cast(made.body.load(memory, [axis, "k"]), to) for memory, axis in ((a, "i"), (b, "j"))]
    made.body.store(c, made.body.contract(*factors, ["k"], to), ["i", "j"])
    random = np.random.default_rng(3)
    x, y = (random.integers(0 if dtype == "u8" else -4, 9, (rows, k)).astype(NUMPY[dtype]) for dtype, rows in ((left, m), (right, n)))
    (x if left == "u8" else y)[0, 0] = 200 if to == "i32" else 8
    found = np.zeros((m, n), NUMPY[to])
    ready = launches(made.finish(), facts(m, n, k))
    arguments, known = ready.counted([x, y, found, m, n, k], {"M": m, "N": n, "K": k})
    interpret(ready.launches[0].function, arguments, grid=(ready.launches[0].blocks(known), 1, 1))
    np.testing.assert_array_equal(found, x.astype(np.float64) @ y.astype(np.float64).T)
    assert assemble(compile_kernels([ready.launches[0].function], gpu_target("sm_90a"))).kernels


@pytest.mark.parametrize(
    ("left", "right", "sizes"),
    [("IK", "KJ", (72, 80, 144)), ("IK", "JK", (16, 24, 33040)), ("KI", "KJ", (40, 33, 70)), ("KI", "JK", (1, 9, 40))],
)
def test_bytes_without_a_sign(left: str, right: str, sizes: tuple[int, int, int]) -> None:
    """Sums are u32, up to above the largest i32."""
    dims, of = dict(zip("IJK", sizes, strict=True)), np.uint8
    given = [np.random.default_rng(4).integers(225, 256, [dims[axis] for axis in axes]).astype(of) for axes in (left, right)]
    first, second = (f"tensor[{', '.join(axes)}, u8]" for axes in (left, right))
    program = zynml.compile(
        f"""def f(x: {first}, y: {second}) {{ compute(x, y) {{ for i in 0..I, j in 0..J {{
            var s = 0
            for k in 0..K: s += x[{', '.join(left.lower())}] * y[{', '.join(right.lower())}]
            out[i, j] = s
        }} }} }}""",
        device="emulator:sm_90a",
    )
    a, b = (each.astype(np.int64) if axes[-1] == "K" else each.T.astype(np.int64) for each, axes in zip(given, (left, right), strict=True))
    np.testing.assert_array_equal(program.f(*given), a @ b.T)


def facts(m: int, n: int, k: int, processors: int = 2) -> Facts:
    return facts_of({"M": m, "N": n, "K": k}, ["A", "B", "C", "R"], MACHINES["sm_90a"], processors)


def launches(field: HirFunction, known: Facts) -> Launches:
    return checked(launches_for(field, field, known))


def cut(field: HirFunction, known: Facts, rows: int, **shape: int) -> Launches:
    """With tiles of this shape."""
    made, _, about = specialised(field, known)
    product = boxed_product(made, about)
    assert product is not None
    return launches(field, evolve(known, tiling=Tiling(product.a.axes, (rows,), **shape)))


def checked(made: Launches) -> Launches:
    (launch,) = made.launches
    verify(launch.function)
    assert any(isinstance(op, WarpgroupMma) for top in launch.function.body.body for op in top.walk())
    return made


CASES = [
    ("bf16", "f32", "bf16", False, False, True, (136, 80, 24)),
    ("f16", "f32", "f16", True, False, False, (200, 72, 48)),
    ("i8", "i32", "i32", False, True, False, (72, 136, 48)),
    ("bf16", "f32", "bf16", False, False, True, (136, 80, 72)),
    ("bf16", "f32", "f32", True, True, False, (136, 80, 72)),
    ("f16", "f32", "f16", True, False, False, (200, 72, 136)),
    ("f16", "f32", "f32", False, True, True, (130, 66, 64)),
    ("bf16", "f32", "bf16", False, True, False, (16, 128, 72)),
    ("bf16", "f32", "f32", False, False, False, (3, 200, 64)),
    ("bf16", "f32", "bf16", False, False, True, (64, 136, 200)),
    ("bf16", "f32", "bf16", False, True, False, (700, 64, 64)),
    ("f16", "f32", "f16", False, True, False, (1, 136, 72)),
    ("i8", "i32", "i32", False, True, False, (72, 136, 128)),
    ("f8e4m3", "f32", "f32", False, True, False, (72, 136, 128)),
]


@pytest.mark.parametrize(("m", "n", "cluster"), [(72, 72, 1), (64, 64, 2)])
def test_what_lies_beyond_the_result_stays(m: int, n: int, cluster: int) -> None:
    """Of a memory that is larger than the result, where tiles are not full, or are fewer than the blocks of a cluster."""
    k, wide = 64, 136
    field = product("bf16", "f32", "bf16", turned_b=False, dims=("P", "Q"))
    a, b = (np.ones(shape, NUMPY["bf16"]) for shape in ((m, k), (k, n)))
    c = np.full((m + 8, wide), 7, NUMPY["bf16"])
    sizes = {"M": m, "N": n, "K": k, "P": m + 8, "Q": wide}
    made = cut(field, facts_of(sizes, ["A", "B", "C", "R"], MACHINES["sm_90a"], 2), 64, columns=64, groups=1, blocks=1, stages=4, cluster=cluster)
    arguments, known = made.counted([a, b, np.zeros(n, np.float32), c, *sizes.values()], sizes)
    (launch,) = made.launches
    interpret(launch.function, arguments, grid=(launch.blocks(known), 1, 1))
    wanted = np.full((m + 8, wide), 7.0)
    wanted[:m, :n] = k
    np.testing.assert_array_equal(c.astype(np.float64), wanted)


@pytest.mark.parametrize(("first", "second", "columns"), [("bf16", "bf16", 192), ("bf16", "bf16", 128), ("f16", "bf16", 64), ("f32", "bf16", 64)])
def test_two_results(first: str, second: str, columns: int) -> None:
    """The sums, and what a row added and negatives cut makes of them; buffers in shared memory serve both where they are of one type."""
    m, n, k = 136, 200, 72
    field = FunctionBuilder("product", Form.FIELD)
    memories = [("A", "bf16", ("M", "K")), ("B", "bf16", ("K", "N")), ("R", "f32", ("N",))]
    a, b, row = (field.parameter(name, Mem(dtype, dims, readonly=True)) for name, dtype, dims in memories)
    c, d = (field.parameter(name, Mem(dtype, ("M", "N"))) for name, dtype in (("C", first), ("D", second)))
    for size, axis in zip("MNK", "ijk", strict=True):
        field.parameter(size, INDEX)
        field.axis(axis, size)
    sums = field.body.contract(field.body.load(a, ["i", "k"]), field.body.load(b, ["k", "j"]), ["k"], "f32")
    field.body.store(c, field.body.cast(sums, first), ["i", "j"])
    cut_off = field.body.op("max", field.body.add(sums, field.body.load(row, ["j"])), field.body.const(0.0))
    field.body.store(d, field.body.cast(cut_off, second), ["i", "j"])
    random = np.random.default_rng(columns)
    x, y = (random.integers(-4, 5, shape).astype(NUMPY["bf16"]) for shape in ((m, k), (k, n)))
    added = random.integers(-4, 5, n).astype(np.float32)
    results = [np.zeros((m, n), NUMPY[dtype]) for dtype in (first, second)]
    known = facts_of({"M": m, "N": n, "K": k}, "ABCDR", MACHINES["sm_90a"], 2)
    made = cut(field.finish(), known, 64, columns=columns, groups=1, blocks=1, stages=4)
    arguments, sizes = made.counted([x, y, added, *results, m, n, k], {"M": m, "N": n, "K": k})
    (launch,) = made.launches
    interpret(launch.function, arguments, grid=(launch.blocks(sizes), 1, 1))
    want = x.astype(np.float64) @ y.astype(np.float64)
    np.testing.assert_array_equal(results[0].astype(np.float64), want.astype(NUMPY[first]).astype(np.float64))
    np.testing.assert_array_equal(results[1].astype(np.float64), np.maximum(want + added, 0).astype(NUMPY[second]).astype(np.float64))


@pytest.mark.parametrize("processors", [2, 64], ids="{} processors".format)
@pytest.mark.parametrize(("dtype", "to", "out", "turned_a", "turned_b", "bias", "sizes"), CASES, ids=str)
def test_warpgroups_mean_the_product(
    dtype: str, to: str, out: str, turned_a: bool, turned_b: bool, bias: bool, sizes: tuple[int, int, int], processors: int
) -> None:
    field = product(dtype, to, out, turned_a, turned_b, bias)
    means_the_product(launches(field, facts(*sizes, processors)), dtype, out, turned_a, turned_b, bias, sizes)


def means_the_product(
    made: Launches, dtype: str, out: str, turned_a: bool, turned_b: bool, bias: bool, sizes: tuple[int, int, int]
) -> None:
    m, n, k = sizes
    random = np.random.default_rng(k)
    a, b = (random.integers(-4, 5, shape).astype(NUMPY[dtype]) for shape in ((m, k), (k, n)))
    row = random.integers(-4, 5, n).astype(np.float32)
    c = np.full((m, n), -7, NUMPY[out])
    given = [np.ascontiguousarray(a.T) if turned_a else a, np.ascontiguousarray(b.T) if turned_b else b, row, c]
    arguments, known = made.counted([*given, m, n, k], {"M": m, "N": n, "K": k})
    (launch,) = made.launches
    shared = [
        np.full([dim.evaluate(known.__getitem__) for dim in mem.dims], 0 if place in made.zeros else -3, NUMPY[mem.dtype])
        for place, mem in enumerate(made.workspaces)
    ]
    interpret(launch.function, [*arguments, *shared], grid=(launch.blocks(known), 1, 1))
    expected = a.astype(np.float64) @ b.astype(np.float64)
    if bias:
        expected = np.maximum(expected + row, 0)
    np.testing.assert_array_equal(c, expected.astype(NUMPY[out]))


SHAPES = [
    ("bf16", "f32", "bf16", False, False, {"rows": 256, "columns": 128, "groups": 2, "blocks": 2, "stages": 3}, (300, 136, 72)),
    ("f16", "f32", "f16", False, True, {"rows": 128, "columns": 192, "groups": 2, "blocks": 1, "stages": 3}, (136, 200, 136)),
    ("bf16", "f32", "f32", True, False, {"rows": 128, "columns": 64, "groups": 1, "blocks": 2, "stages": 4}, (136, 72, 136)),
    ("bf16", "f32", "bf16", False, False, {"rows": 64, "columns": 128, "groups": 1, "blocks": 1, "stages": 4, "cluster": 2}, (200, 304, 72)),
    ("f16", "f32", "f32", False, True, {"rows": 128, "columns": 64, "groups": 2, "blocks": 1, "stages": 4, "cluster": 2}, (64, 130, 136)),
    ("bf16", "f32", "bf16", False, False, {"rows": 64, "columns": 128, "groups": 1, "blocks": 1, "stages": 4, "pieces": 2}, (72, 264, 200)),
    ("f16", "f32", "f32", True, True, {"rows": 128, "columns": 64, "groups": 2, "blocks": 1, "stages": 4, "pieces": 4}, (136, 72, 200)),
    ("bf16", "f32", "f32", False, False, {"rows": 128, "columns": 64, "groups": 1, "blocks": 2, "stages": 4, "pieces": 8}, (64, 136, 136)),
    ("bf16", "f32", "bf16", False, False, {"rows": 64, "columns": 128, "groups": 1, "blocks": 1, "stages": 3, "turns": 2}, (200, 136, 136)),
    ("f16", "f32", "f32", True, False, {"rows": 128, "columns": 64, "groups": 1, "blocks": 2, "stages": 3, "turns": 2, "cluster": 2}, (520, 72, 72)),
    ("i8", "i32", "i32", False, True, {"rows": 64, "columns": 64, "groups": 1, "blocks": 1, "stages": 4, "pieces": 2}, (72, 66, 272)),
    ("f8e4m3", "f32", "f32", False, True, {"rows": 128, "columns": 192, "groups": 2, "blocks": 1, "stages": 4}, (130, 200, 2192)),
    ("f8e5m2", "f32", "bf16", False, True, {"rows": 128, "columns": 64, "groups": 2, "blocks": 1, "stages": 3, "cluster": 2}, (72, 66, 640)),
    ("f8e4m3", "f32", "f32", False, True, {"rows": 128, "columns": 32, "groups": 1, "blocks": 2, "stages": 3, "pieces": 2}, (72, 66, 1296)),
    ("bf16", "f32", "bf16", False, False, {"rows": 64, "columns": 64, "groups": 1, "blocks": 1, "stages": 3, "cut": True}, (136, 136, 72)),
    ("f16", "f32", "f32", True, True, {"rows": 128, "columns": 64, "groups": 2, "blocks": 1, "stages": 3, "cut": True}, (64, 72, 520)),
    ("bf16", "f32", "bf16", False, False, {"rows": 64, "columns": 8, "groups": 1, "blocks": 1, "stages": 3, "cut": True, "residents": 2}, (5, 136, 264)),
    ("i8", "i32", "i32", False, True, {"rows": 128, "columns": 64, "groups": 1, "blocks": 2, "stages": 3, "cut": True, "cluster": 2}, (72, 66, 400)),
]


@pytest.mark.parametrize(("dtype", "to", "out", "turned_a", "turned_b", "shape", "sizes"), SHAPES, ids=str)
def test_tiles_of_every_shape(
    dtype: str, to: str, out: str, turned_a: bool, turned_b: bool, shape: dict[str, int], sizes: tuple[int, int, int]
) -> None:
    """Warpgroups of two blocks of rows, clusters that load for each other, sums in pieces (more of them than steps, too), in stretches."""
    made = cut(product(dtype, to, out, turned_a, turned_b, bias=dtype != "i8"), facts(*sizes, processors=4), **shape)
    means_the_product(made, dtype, out, turned_a, turned_b, dtype != "i8", sizes)


def test_few_tiles_of_long_sums_are_cut_in_many_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than eight, where each still has many steps: here one."""
    for module in (rounds, tiling):
        monkeypatch.setattr(module, "LONG_PIECE", 1)
    sizes, shape = (64, 72, 64 * 21), {"rows": 64, "columns": 128, "groups": 1, "blocks": 1, "stages": 2, "cut": True}
    made = cut(product("bf16", "f32", "f32"), facts(*sizes, processors=12), **shape)
    means_the_product(made, "bf16", "f32", False, True, False, sizes)
    work = tiling.ProductWork(("i",), 1, (256,), 256, 1 << 14, 132)
    assert tiling.last_pieces(Tiling(("i",), (128,), 128, 2, 1, 3), work) == 32


@pytest.mark.parametrize("sizes", [(8192, 8192, 8192), (1024, 1024, 1024), (16, 4096, 4096), (64, 4096, 4096), (4000, 4104, 4040)], ids=str)
@pytest.mark.parametrize("turned_b", [False, True])
def test_the_assembler_keeps_products_side_by_side(sizes: tuple[int, int, int], turned_b: bool) -> None:
    made = launches(product("bf16", "f32", "bf16", turned_b=turned_b), facts(*sizes, processors=132))
    module = compile_kernels([one.function for one in made.launches], gpu_target("sm_90a"))
    assert module.hands_registers == (sizes[0] > 1024)
    cubin = assemble(module)
    assert all(use.spills == 0 for use in cubin.kernels.values())
    assert "C7509" not in cubin.log and "C7510" not in cubin.log and "C7519" not in cubin.log, cubin.log


def test_what_follows_may_divide() -> None:
    """ptxas makes a call of a division, and waits for every product in a kernel with calls."""
    made = FunctionBuilder("product", Form.FIELD)
    a, b = (made.parameter(name, Mem("bf16", dims, readonly=True)) for name, dims in (("A", ("M", "K")), ("B", ("K", "N"))))
    c = made.parameter("C", Mem("bf16", ("M", "N")))
    for size, axis in zip("MNK", "ijk", strict=True):
        made.parameter(size, INDEX)
        made.axis(axis, size)
    x = made.body.contract(made.body.load(a, ["i", "k"]), made.body.load(b, ["k", "j"]), ["k"], "f32")
    root = made.body.op("sqrt", made.body.add(made.body.mul(x, x), made.body.const(1.0)))
    made.body.store(c, made.body.cast(made.body.op("div", x, root), "bf16"), ["i", "j"])
    module = compile_kernels([one.function for one in launches(made.finish(), facts(1024, 1024, 1024, 132)).launches], gpu_target("sm_90a"))
    assert ".rn.f32" not in "".join(line for line in module.text.splitlines() if "div" in line or "sqrt" in line or "rcp" in line)
    log = assemble(module).log
    assert "C7509" not in log and "C7510" not in log and "C7519" not in log, log


def chosen(field: HirFunction, known: Facts) -> bool:
    made, _, about = specialised(field, known)
    return boxed_product(made, about) is not None


def test_what_boxes_can_not_have_is_left_to_others() -> None:
    field = product("bf16", "f32", "bf16", turned_b=False)
    good = facts(1024, 1024, 1024)
    assert chosen(field, good)
    assert not chosen(field, evolve(good, machine=MACHINES["sm_90"]))
    assert not chosen(field, facts(1024, 1024, 1001))  # rows that don't begin at multiples of 16 bytes
    assert not chosen(field, evolve(good, aligned=frozenset({"A", "C"})))
    assert chosen(field, facts(1024, 1024, 16))
    assert not chosen(field, facts(1024, 1024, 8))
    assert not chosen(product("i8", "i32", "i32", turned_b=False), good)  # bytes multiply along their rows only
    assert not chosen(product("f32", "f32", "f32"), good)  # tf32 rounds
