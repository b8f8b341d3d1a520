"""Maps on a GPU: one wide access a thread where sizes and addresses allow it, squares through shared memory where reads and writes run
along different axes. Expected values from NumPy."""

from itertools import permutations

import numpy as np
import pytest

import zynml
from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.memory import Load
from compiler.hir.module import Form, HirFunction
from compiler.hir.types import INDEX, Mem
from compiler.schedule.gpu.facts import facts_of, specialised
from compiler.schedule.gpu.maps.maps import map_launches
from compiler.schedule.gpu.maps.one_row import in_one_row
from compiler.schedule.gpu.memory_order import memory_order, without_gaps
from compiler.schedule.launches import Launches

SHAPES = [(0, 4), (1, 1), (3, 5), (31, 33), (32, 64), (40, 72), (100, 8), (2, 1000), (64, 3)]


def turned(dtype: str = "f32", to: str | None = None) -> HirFunction:
    """A matrix turned and cast."""
    f = FunctionBuilder("turned", Form.FIELD)
    x = f.parameter("x", Mem(dtype, ("M", "N"), readonly=True))
    out = f.parameter("out", Mem(to or dtype, ("N", "M")))
    for size in "MN":
        f.parameter(size, INDEX)
    f.axis("i", "M")
    f.axis("j", "N")
    f.body.store(out, f.body.cast(f.body.load(x, ["i", "j"]), to or dtype), ["j", "i"])
    return f.finish()


def launches(field: HirFunction, sizes: dict[str, int], aligned: tuple[str, ...] = ("x", "y", "out")) -> Launches:
    known, _, about = specialised(field, facts_of(sizes, aligned))
    found = map_launches(known, about)
    assert found is not None
    return found


def ptx(found: Launches, target: str = "sm_90") -> str:
    module = compile_kernels([one.function for one in found.launches], gpu_target(target))
    assert all(use.spills == 0 for use in assemble(module).kernels.values())
    return module.text


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_of_matrices_rows_and_columns(shape: tuple[int, int]) -> None:
    p = zynml.compile(
        """def f(x: tensor[M, N], r: tensor[N], c: tensor[M], s: f32) {
            compute(x, r, c, s) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] * s + r[j] - c[i] }
        }""",
        device="emulator",
    )
    rng = np.random.default_rng(1)
    x, r, c = (rng.integers(-50, 50, s).astype(np.float32) for s in (shape, shape[1:], shape[:1]))
    np.testing.assert_array_equal(p.f(x, r, c, 2.0), x * 2 + r - c[:, None])


@pytest.mark.parametrize("dtype", ["i8", "f16", "i32", "f64", "bool"])
@pytest.mark.parametrize("shape", [(1, 7), (33, 65), (128, 128), (48, 160), (0, 3), (88, 248), (100, 68), (8, 8)])
def test_turned_matrices(dtype: str, shape: tuple[int, int]) -> None:
    p = zynml.compile(
        f"def f(x: tensor[M, N, {dtype}]) {{ compute(x) {{ for i in 0..M, j in 0..N: out[j, i] = x[i, j] }} }}", device="emulator"
    )
    kind = {"i8": np.int8, "f16": np.float16, "i32": np.int32, "f64": np.float64, "bool": np.bool_}[dtype]
    x = np.random.default_rng(2).integers(-9, 9, shape).astype(kind)
    np.testing.assert_array_equal(p.f(x), x.T)


@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (3, 8, 4, 16), (2, 33, 1, 40)])
def test_permuted_axes(shape: tuple[int, ...]) -> None:
    p = zynml.compile(
        """def f(x: tensor[A, B, C, D], y: tensor[C, A, D, B]) {
            compute(x, y) { for a in 0..A, b in 0..B, c in 0..C, d in 0..D: out[d, a, c, b] = x[a, b, c, d] * y[c, a, d, b] }
        }""",
        device="emulator",
    )
    rng = np.random.default_rng(3)
    x = rng.integers(-9, 9, shape).astype(np.float32)
    y = rng.integers(-9, 9, [shape[k] for k in (2, 0, 3, 1)]).astype(np.float32)
    np.testing.assert_array_equal(p.f(x, y), (x * y.transpose(1, 3, 0, 2)).transpose(3, 0, 2, 1))


def test_views_are_read_where_they_lie() -> None:
    p = zynml.compile(
        "def f(x: tensor[M, N], y: tensor[M, N]) { compute(x, y) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] - y[i, j] } }",
        device="emulator",
    )
    x = np.arange(40 * 64, dtype=np.float32).reshape(40, 64)
    np.testing.assert_array_equal(p.f(x.T, x.T[::-1]), x.T - x.T[::-1])
    np.testing.assert_array_equal(p.f(x[:, 1:33], x[:, ::2]), x[:, 1:33] - x[:, ::2])


def columns(x: np.ndarray) -> np.ndarray:
    return np.asfortranarray(x)


def padded(x: np.ndarray) -> np.ndarray:
    return np.pad(x, ((0, 0), (0, 8)))[:, : x.shape[1]]


def padded_columns(x: np.ndarray) -> np.ndarray:
    return padded(x.T).T


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32])
@pytest.mark.parametrize("shape", [(64, 64), (31, 33), (1, 50), (50, 1), (0, 5)])
def test_operands_of_any_layouts(dtype: type, shape: tuple[int, int]) -> None:
    name = {np.int8: "i8", np.float16: "f16", np.float32: "f32"}[dtype]
    p = zynml.compile(
        f"""def f(x: tensor[M, N, {name}], y: tensor[M, N, {name}]) {{
            compute(x, y) {{ for i in 0..M, j in 0..N: out[i, j] = x[i, j] * 2 - y[i, j] }}
        }}""",
        device="emulator",
    )
    rng = np.random.default_rng(5)
    x, y = (rng.integers(-9, 9, shape).astype(dtype) for _ in range(2))
    for first, second in ((columns, columns), (columns, padded), (padded_columns, columns), (padded_columns, padded_columns)):
        np.testing.assert_array_equal(p.f(first(x), second(y)), x * 2 - y)


def test_axes_of_any_order_in_windows_and_sums() -> None:
    p = zynml.compile(
        """def f(x: tensor[A, B, C]) {
            compute(x) { for a in 0..A, b in 0..B - 2, c in 0..C: out[a, b, c] = x[a, b, c] + x[a, b + 1, c] - x[a, b + 2, c] }
        }
        def g(x: tensor[A, B, C]) { compute(x) { for a in 0..A, c in 0..C: for b in 0..B: out[a, c] += x[a, b, c] } }""",
        device="emulator",
    )
    x = np.random.default_rng(6).integers(-9, 9, (4, 7, 9)).astype(np.float32)
    for order in permutations(range(3)):
        turned_x = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
        np.testing.assert_array_equal(p.f(turned_x), x[:, :-2] + x[:, 1:-1] - x[:, 2:])
        np.testing.assert_array_equal(p.g(turned_x), x.sum(1))


def test_what_lies_along_another_axis_is_turned_in_shared_memory() -> None:
    f = FunctionBuilder("scaled", Form.FIELD)
    x = f.parameter("x", Mem("f32", ("M", "N"), ("x_stride0", "x_stride1"), readonly=True))
    out = f.parameter("out", Mem("f32", ("M", "N")))
    for size in ("M", "N", "x_stride0", "x_stride1"):
        f.parameter(size, INDEX)
    f.axis("i", "M")
    f.axis("j", "N")
    f.body.store(out, f.body.mul(f.body.load(x, ["i", "j"]), f.body.const(2.0)), ["i", "j"])
    field = f.finish()
    assert "st.shared.v4" in ptx(launches(field, {"M": 64, "N": 96, "x_stride0": 1, "x_stride1": 64}))
    assert "shared" not in ptx(launches(field, {"M": 64, "N": 96, "x_stride0": 96, "x_stride1": 1}))


@pytest.mark.parametrize(
    ("strides", "order"),
    [
        ((1, "s"), (1, 0)),
        (("s", 1, "t"), (0, 2, 1)),
        ((1, 12, 4), (1, 2, 0)),
        (("s", 1), None),
        ((1, 1), None),
        (("s", "t"), None),
        ((1, -8), (1, 0)),
        ((1, 0, 64), (1, 2, 0)),
        ((0, 1), None),
    ],
)
def test_the_dimension_of_neighbours_is_the_last(strides: tuple[int | str, ...], order: tuple[int, ...] | None) -> None:
    assert memory_order([Affine.of(stride) if isinstance(stride, str) else Affine((), stride) for stride in strides]) == order


@pytest.mark.parametrize(
    ("dims", "strides", "dense"),
    [((3, 4), (4, 1), True), ((3, 4), (8, 1), False), ((1, 4), (9, 1), True), ((3, "N"), (4, 1), False), ((0, 4), (4, 1), False)],
)
def test_rows_without_gaps_need_no_strides(dims: tuple[int | str, ...], strides: tuple[int, ...], dense: bool) -> None:
    assert (without_gaps(Mem("f32", dims, strides)).strides is None) == dense


ROWS = """def f(x: tensor[A, B, C, DT], y: tensor[C, DT], z: tensor[A, B, DT], w: tensor[B, C, DT]) {
    compute(x, y, z, w) { for i in 0..A, j in 0..B, k in 0..C: out[i, j, k] = x[i, j, k] + y[k] - z[i, j] + w[j, k] }
}"""


@pytest.mark.parametrize(("dtype", "name"), [(np.int8, "i8"), (np.float16, "f16"), (np.float64, "f64")])
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 1, 33), (2, 3, 35), (7, 5, 21), (1, 40, 19), (0, 3, 17)])
def test_rows_of_any_length_as_one(dtype: type, name: str, shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(7)
    x, y, z, w = (rng.integers(-9, 9, extents).astype(dtype) for extents in (shape, shape[2:], shape[:2], shape[1:]))
    p = zynml.compile(ROWS.replace("DT", name), device="emulator", sanitize=True)
    wide = np.pad(x, ((0, 0), (0, 0), (0, 3)))[:, :, : shape[2]]
    np.testing.assert_array_equal(p.f(x, y, z, w), x + y - z[..., None] + w)
    np.testing.assert_array_equal(p.f(wide, y, z, w), x + y - z[..., None] + w)


def rows(columns: int | str) -> HirFunction:
    """`x[i, j] + y[j]` of i8."""
    f = FunctionBuilder("rows", Form.FIELD, {"i": Affine.of("M"), "j": Affine.of(columns)})
    x, y = (f.parameter(name, Mem("i8", dims, readonly=True)) for name, dims in (("x", ("M", columns)), ("y", (columns,))))
    out = f.parameter("out", Mem("i8", ("M", columns)))
    for size in ("M", "N"):
        f.parameter(size, INDEX)
    f.body.store(out, f.body.add(f.body.load(x, ["i", "j"]), f.body.load(y, ["j"])), ["i", "j"])
    return f.finish()


@pytest.mark.parametrize(
    ("columns", "sizes", "taken"),
    [
        ("N", {"M": 9, "N": 333}, True),
        (21, {"M": 9, "N": 1}, True),
        ("N", {"M": 9, "N": 320}, False),
        ("N", {"M": 9, "N": 15}, False),
        (7, {"M": 9, "N": 1}, False),
    ],
)
def test_long_rows_that_wide_accesses_do_not_divide_are_one(columns: int | str, sizes: dict[str, int], taken: bool) -> None:
    known, _, about = specialised(rows(columns), facts_of(sizes, ("x", "y", "out")))
    row = in_one_row(known, about)
    assert (row is not None) == taken
    if row is not None:
        found = map_launches(row[0], row[2])
        assert found is not None and "st.global.v4.b32" in ptx(found)


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float16])
def test_rows_with_gaps_are_read_as_one_long_row(dtype: type) -> None:
    """Threads whose elements lie in one row read these alone; others read the ends of two."""
    program = zynml.compile("def f(x: tensor[M, N]) { compute(x) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] + x[i, j] } }".replace(
        "[M, N]", f"[M, N, {np.dtype(dtype).name.replace('uint', 'u').replace('int', 'i').replace('float', 'f')}]"
    ), device="emulator:sm_90a", sanitize=True)
    for shape in ((9, 333), (3, 17), (1, 1000), (5, 31), (0, 33)):
        x = np.zeros((shape[0] + 1, shape[1] + 9), dtype)[1:, 1 : 1 + shape[1]]
        x[...] = np.random.default_rng(1).integers(0, 99, shape)
        np.testing.assert_array_equal(program.f(x), 2 * x.astype(np.int64))


def test_what_is_turned_is_no_long_row() -> None:
    known, _, about = specialised(turned("i8"), facts_of({"M": 333, "N": 333}, ("x", "out")))
    assert in_one_row(known, about) is None


def test_an_element_that_all_need_is_read_in_their_launch() -> None:
    source = """def f(x: tensor[N], s: tensor[1]) {
        compute(x, s) { for i in 0..N: out[i] = x[i] * exp2(s[0]) }
    }"""
    x = np.arange(200, dtype=np.float32)
    np.testing.assert_array_equal(zynml.compile(source, device="emulator").f(x, np.array([3], np.float32)), 8 * x)
    f = FunctionBuilder("scaled", Form.FIELD)
    given, scale, out = (
        f.parameter(name, Mem("f32", (size,), readonly=name != "out")) for name, size in (("x", "N"), ("s", 1), ("out", "N"))
    )
    f.parameter("N", INDEX)
    f.axis("i", "N")
    f.body.store(out, f.body.mul(f.body.load(given, ["i"]), f.body.load(scale, [0])), ["i"])
    assert len(launches(f.finish(), {"N": 200}).launches) == 1


def test_gathers_are_of_single_elements() -> None:
    p = zynml.compile("def f(x: tensor[M], at: tensor[N, i64]) { compute(x, at) { for i in 0..N: out[i] = x[at[i]] } }", device="emulator")
    x, at = np.arange(50, dtype=np.float32), np.random.default_rng(4).integers(0, 50, 256)
    np.testing.assert_array_equal(p.f(x, at), x[at])


@pytest.mark.parametrize(("m", "n"), [(37, 65), (3, 9)])
def test_what_is_turned_beside_a_gather_has_its_indices_checked_before(m: int, n: int) -> None:
    text = """def f(t: tensor[M, N], x: tensor[M, N, i32], y: tensor[M, N]) {
        compute(t, x, y) { for i in 0..M, j in 0..N: out[i, j] = y[i, j] + t[i, x[i, j]] }
    }"""
    p = zynml.compile(text, device="emulator:sm_90a")
    rng = np.random.default_rng(5)
    t, x, y = rng.integers(0, 50, (m, n)).astype("f"), rng.integers(0, n, (m, n)), rng.integers(0, 50, (n, m)).astype("f").T
    np.testing.assert_array_equal(p.f(t, x.astype("i4"), y), y + np.take_along_axis(t, x, 1))
    x[m // 2, 1] = n
    with pytest.raises(zynml.ZynMLError, match=f"index {n} is out of range"):
        p.f(t, x.astype("i4"), y)


@pytest.mark.parametrize(("dtype", "name"), [(np.int8, "i8"), (np.float32, "f32")])
@pytest.mark.parametrize(("rows", "columns", "count"), [(23, 19, 59), (3, 127, 5), (384, 24, 40)])
def test_rows_of_a_table_as_one_long_row(dtype: type, name: str, rows: int, columns: int, count: int) -> None:
    """The values that find the rows keep their names, or are known by their new ones; the check of them is a launch of its own."""
    p = zynml.compile(
        f"def f(t: tensor[V, C, {name}], x: tensor[N, i32]) {{ compute(t, x) {{ for n in 0..N, c in 0..C: out[n, c] = t[x[n], c] }} }}",
        device="emulator",
    )
    rng = np.random.default_rng(8)
    t, x = rng.integers(-9, 9, (rows, columns)).astype(dtype), rng.integers(0, rows, count).astype(np.int32)
    np.testing.assert_array_equal(p.f(t, x), t[x])
    with pytest.raises(zynml.ZynMLError, match="is out of range"):
        p.f(t, x + rows)


def test_values_of_a_row_are_not_taken_for_others_of_their_name() -> None:
    """The values that a row's shift is made of are new, and have names that other values of the nest have."""
    p = zynml.compile(
        """
        def shifted(x: tensor[Q, H, W], along: tensor[Q, i64], down: tensor[Q, i64]): tensor[Q, H, W] {
            compute(x, along, down) {
                for q in 0..Q, i in 0..H, j in 0..W: out[q, i, j] = x[q, (i - down[q] + H) % H, (j - along[q] + W) % W]
            }
        }
        """,
        device="emulator:sm_90a",
    )
    rng = np.random.default_rng(9)
    for rows, columns in [(5, 7), (3, 33)]:
        x, along, down = rng.standard_normal((9, rows, columns)).astype("f"), rng.integers(-1, 2, 9), rng.integers(-1, 2, 9)
        rolled = [np.roll(page, (a, b), (0, 1)) for page, a, b in zip(x, down, along, strict=True)]
        np.testing.assert_array_equal(p.shifted(x, along, down), rolled)


@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
def test_accesses_are_of_16_bytes_where_all_is_aligned(target: str) -> None:
    text = ptx(launches(turned("f32"), {"M": 64, "N": 96}), target)
    assert "ld.global.nc.v4" in text and "st.global.v4" in text and "st.shared.v4" in text
    text = ptx(launches(turned("bf16"), {"M": 64, "N": 192}), target)
    assert "ld.global.nc.v4" in text and "st.global.v4" in text


@pytest.mark.parametrize(("sizes", "aligned"), [({"M": 64, "N": 97}, ("x", "out")), ({"M": 64, "N": 96}, ("out",))])
def test_accesses_are_of_one_element_elsewhere(sizes: dict[str, int], aligned: tuple[str, ...]) -> None:
    text = ptx(launches(turned("f32"), sizes, aligned))
    assert ".v4" not in text and "bar.sync" in text


WIDTHS = [
    (128, 512, "v4.b32", "v4.b32"), (136, 512, "v2.b32", "v4.b32"), (132, 512, "b32", "v4.b32"), (131, 512, "v4.b32", "v4.b32"),
    (136, 520, "v2.b32", "v2.b32"), (132, 516, "b32", "b32"), (131, 131, "b8", "b8"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "rows", "read", "written"), WIDTHS)
def test_accesses_are_narrower_where_less_is_aligned(columns: int, rows: int, read: str, written: str) -> None:
    """Rows that begin at any address are read in vectors all the same."""
    text = ptx(launches(turned("i8"), {"M": rows, "N": columns}))
    assert f"ld.global.nc.{read} " in text and f"st.global.{written} " in text and "bar.sync" in text


def test_squares_of_two_types() -> None:
    text = ptx(launches(turned("bf16", "f32"), {"M": 64, "N": 64}))
    assert "ld.global.nc.v2.b32" in text and "st.global.v4" in text


@pytest.mark.parametrize("target", ("sm_80", "sm_90a"))
@pytest.mark.parametrize(("n", "m"), ((1, 13), (3, 13), (13, 13)))
def test_the_row_behind_the_last_one_reads_inside_where_indices_fall(n: int, m: int, target: str) -> None:
    text = """
def f(x: tensor[N, N, f64], y: tensor[N, f64], M: int): tensor[N, M, f64] {
    compute(x, y, M) -> tensor[N, M, f64] { for i in 0..N, j in 0..M: out[i, j] = x[i, N - 1 - i] + y[(N - 1 - i) / 2] }
}
"""
    x, y = np.arange(n * n, dtype=np.float64).reshape(n, n), np.arange(n, dtype=np.float64)
    falling = n - 1 - np.arange(n)
    expected = x[np.arange(n), falling] + y[falling // 2]
    np.testing.assert_array_equal(zynml.compile(text, device=f"emulator:{target}").f(x, y, m), np.repeat(expected[:, None], m, axis=1))


def lower() -> HirFunction:
    """The part of a matrix up to its diagonal."""
    f = FunctionBuilder("lower", Form.FIELD)
    x = f.parameter("x", Mem("f32", ("M", "N"), readonly=True))
    out = f.parameter("out", Mem("f32", ("M", "N")))
    for size in "MN":
        f.parameter(size, INDEX)
    f.axis("i", "M")
    f.axis("j", "N")
    taken = f.body.op("le", f.body.index("j"), f.body.index("i"))
    f.body.store(out, f.body.select(taken, f.body.load(x, ["i", "j"]), f.body.const(0.0, "f32")), ["i", "j"])
    return f.finish()


@pytest.mark.parametrize("columns", [384, 16384])
def test_threads_above_the_diagonal_read_nothing(columns: int) -> None:
    (launch,) = launches(lower(), {"M": 4096, "N": columns}).launches
    loads = [op for top in launch.function.body.body for op in top.walk() if isinstance(op, Load)]
    assert loads and all(op.where is not None for op in loads)


def test_results_without_elements_have_no_rows() -> None:
    """Extents that the program writes as 0, where a thread would have several rows."""
    text = "def f(x: tensor[?, f32]) {\n    compute(x) -> tensor[0, 0, f32] {\n        for i in 0..0, j in 0..0:\n            out[i, j] = x[0]\n    }\n}\n"
    assert np.asarray(zynml.compile(text, device="emulator").f(np.ones(1, np.float32))).shape == (0, 0)
