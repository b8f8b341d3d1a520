"""Forms F and B in the interpreter: axes meet by name, reductions, scans, contractions, masks; a field and its nest give the same bits."""

import math

import ml_dtypes
import numpy as np
import pytest

from compiler.diagnostics import ZyntaxError
from compiler.emulator.interpret import KernelFault, interpret
from compiler.hir.parse import parse_function, parse_module
from compiler.hir.verify import verify


def run(text: str, *arguments: object) -> None:
    function = parse_function(text)
    verify(function)
    interpret(function, arguments)


def field(parameters: str, axes: str, body: str) -> str:
    return f"func @f({parameters}) form=F axes=[{axes}] {{ {body} }}"


MN = "%x: mem<MxNxf64>, %r: mem<Mxf64>, %out: mem<NxMxf64>, %M: index, %N: index"


def test_operands_meet_by_the_names_of_their_axes() -> None:
    x, r, out = np.random.default_rng(0).standard_normal((3, 5)), np.arange(3.0), np.zeros((5, 3))
    run(
        field(
            MN,
            "i:M, j:N",
            """%a = load %x[i, j] : tile<i:M, j:N, f64> %b = load %r[i] : tile<i:M, f64> %c = sub %b, %a : tile<i:M, j:N, f64>
            store %out[j, i], %c""",
        ),
        x,
        r,
        out,
        3,
        5,
    )
    assert np.array_equal(out, (r[:, None] - x).T)


def test_reductions_run_in_the_order_of_the_axes() -> None:
    x = np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)
    out = np.zeros(2, np.float32)
    run(
        field(
            "%x: mem<4x6xf32>, %out: mem<2xf32>",
            "i:4, j:6",
            """%a = load %x[i, j] : tile<i:4, j:6, f32> %s = reduce add %a over=[i, j] : f32 store %out[0], %s
            %m = reduce mul %a over=[i, j] : f32 store %out[1], %m""",
        ),
        x,
        out,
    )
    total, product = np.float32(0), np.float32(1)
    for value in x.ravel():
        total, product = total + value, product * value
    assert out.tolist() == [total, product]


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32", "i8", "u8"])
@pytest.mark.parametrize("monoid", ["add", "mul", "min", "max"])
def test_a_reduction_equals_its_nest(monoid: str, dtype: str) -> None:
    numpy = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i32": np.int32, "i8": np.int8, "u8": np.uint8}[dtype]
    x = (np.random.default_rng(2).standard_normal((3, 37)) * 9).astype(numpy)
    start = {"add": "0", "mul": "1", "min": "inf", "max": "-inf"}[monoid]
    if dtype[0] in "iu" and monoid in ("min", "max"):
        info = np.iinfo(numpy)
        start = str(info.max if monoid == "min" else info.min)
    one, two = np.zeros(3, numpy), np.zeros(3, numpy)
    run(
        field(
            f"%x: mem<3x37x{dtype}>, %out: mem<3x{dtype}>",
            "i:3, j:37",
            f"%a = load %x[i, j] : tile<i:3, j:37, {dtype}> %s = reduce {monoid} %a over=[j] : tile<i:3, {dtype}> store %out[i], %s",
        ),
        x,
        one,
    )
    run(
        f"""func @f(%x: mem<3x37x{dtype}>, %out: mem<3x{dtype}>) form=A {{ %z = const {start} : {dtype}
        for i in 0..3 {{ %s = for j in 0..37 carry(%c = %z) {{ %a = load %x[i, j] : {dtype} %n = {monoid} %c, %a : {dtype} yield %n }}
          store %out[i], %s }} }}""",
        x,
        two,
    )
    assert np.array_equal(one.view(np.uint8), two.view(np.uint8))


def test_nan_wins_in_min_and_max() -> None:
    x, out = np.array([[1.0, math.nan], [3.0, 2.0]]), np.zeros((2, 2))
    run(
        field(
            "%x: mem<2x2xf64>, %out: mem<2x2xf64>",
            "i:2, j:2",
            """%a = load %x[i, j] : tile<i:2, j:2, f64> %m = reduce min %a over=[j] : tile<i:2, f64> store %out[0, i], %m
            %n = reduce max %a over=[j] : tile<i:2, f64> store %out[1, i], %n""",
        ),
        x,
        out,
    )
    np.testing.assert_array_equal(out, [[math.nan, 2.0], [math.nan, 3.0]])


def test_empty_reductions_give_the_identity() -> None:
    out = np.zeros(4)
    run(
        field(
            "%x: mem<Nxf64>, %out: mem<4xf64>, %N: index",
            "i:N",
            "%a = load %x[i] : tile<i:N, f64> "
            + " ".join(f"%r{k} = reduce {m} %a over=[i] : f64 store %out[{k}], %r{k}" for k, m in enumerate(("add", "mul", "min", "max"))),
        ),
        np.zeros(0),
        out,
        0,
    )
    assert out.tolist() == [0.0, 1.0, math.inf, -math.inf]


@pytest.mark.parametrize("monoid,pick", [("argmin", np.nanargmin), ("argmax", np.nanargmax)])
def test_argmin_and_argmax_give_value_and_lowest_index(monoid: str, pick: object) -> None:
    x = np.random.default_rng(3).integers(0, 5, (6, 20)).astype(np.float32)
    x[2, 7] = x[2, 11] = math.nan
    values, places = np.zeros(6, np.float32), np.zeros(6, np.int64)
    run(
        field(
            "%x: mem<6x20xf32>, %v: mem<6xf32>, %p: mem<6xi64>",
            "i:6, j:20",
            f"""%a = load %x[i, j] : tile<i:6, j:20, f32> %k = index of=j : tile<j:20, index> %w = cast %k to=i64 : tile<j:20, i64>
            %m, %n = reduce {monoid} %a, %w over=[j] : tile<i:6, f32>, tile<i:6, i64> store %v[i], %m store %p[i], %n""",
        ),
        x,
        values,
        places,
    )
    expected = [7 if i == 2 else int(pick(row)) for i, row in enumerate(x)]  # type: ignore[operator]
    assert places.tolist() == expected
    np.testing.assert_array_equal(values, [row[k] for row, k in zip(x, expected, strict=True)])


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_run_along_one_axis(exclusive: bool, reverse: bool) -> None:
    x, out = np.random.default_rng(4).integers(-9, 9, (3, 8)).astype(np.int32), np.zeros((3, 8), np.int32)
    marks = f"exclusive={str(exclusive).lower()} reverse={str(reverse).lower()}"
    run(
        field(
            "%x: mem<3x8xi32>, %out: mem<3x8xi32>",
            "i:3, j:8",
            f"%a = load %x[i, j] : tile<i:3, j:8, i32> %s = scan add %a over=[j] {marks} : tile<i:3, j:8, i32> store %out[i, j], %s",
        ),
        x,
        out,
    )
    lines = x[:, ::-1] if reverse else x
    sums = np.cumsum(lines, 1) - (lines if exclusive else 0)
    assert np.array_equal(out, sums[:, ::-1] if reverse else sums)


@pytest.mark.parametrize("order", ["i, k", "k, i"])
def test_contract_sums_products_over_axes_with_batches(order: str) -> None:
    generator = np.random.default_rng(5)
    a, b, c = (generator.standard_normal(s).astype(np.float32) for s in ((2, 3, 4), (2, 4, 5), (5,)))
    out = np.zeros((2, 3, 5), np.float32)
    stored = a if order == "i, k" else np.ascontiguousarray(a.transpose(0, 2, 1))
    shape = "2x3x4" if order == "i, k" else "2x4x3"
    run(
        field(
            f"%a: mem<{shape}xf32>, %b: mem<2x4x5xf32>, %c: mem<5xf32>, %out: mem<2x3x5xf32>",
            "h:2, i:3, j:5, k:4",
            f"""%x = load %a[h, {order}] : tile<h:2, i:3, k:4, f32> %y = load %b[h, k, j] : tile<h:2, j:5, k:4, f32>
            %z = load %c[j] : tile<j:5, f32> %s = contract %x, %y, %z over=[k] : tile<h:2, i:3, j:5, f32> store %out[h, i, j], %s""",
        ),
        stored,
        b,
        c,
        out,
    )
    np.testing.assert_allclose(out, a.astype(np.float64) @ b.astype(np.float64) + c, rtol=2e-6)  # the sum of 4 rounds once to f32


def test_contract_of_bytes_is_exact_in_i32() -> None:
    a, b, out = np.full((2, 300), 127, np.int8), np.full((300, 2), -128, np.int8), np.zeros((2, 2), np.int32)
    run(
        field(
            "%a: mem<2x300xi8>, %b: mem<300x2xi8>, %out: mem<2x2xi32>",
            "i:2, j:2, k:300",
            """%x = load %a[i, k] : tile<i:2, k:300, i8> %y = load %b[k, j] : tile<j:2, k:300, i8>
            %s = contract %x, %y over=[k] to=i32 : tile<i:2, j:2, i32> store %out[i, j], %s""",
        ),
        a,
        b,
        out,
    )
    assert (out == -127 * 128 * 300).all()


TILED = """func @f(%A: mem<MxKxf32>, %B: mem<KxNxf32>, %C: mem<MxNxf32>, %M: index, %N: index, %K: index) form=B axes=[i:8, j:16, k:4] {
  for i0 in 0..floor((M+7)/8) place=grid { for j0 in 0..floor((N+15)/16) place=grid {
    %z = const 0.0 : tile<i:8, j:16, f32>
    %c = for k0 in 0..floor((K+3)/4) carry(%acc = %z) {
      %a = load %A[8*i0+i, 4*k0+k] pad=0.0 : tile<i:8, k:4, f32>
      %b = load %B[4*k0+k, 16*j0+j] pad=0.0 : tile<k:4, j:16, f32>
      %n = contract %a, %b, %acc over=[k] : tile<i:8, j:16, f32>
      yield %n }
    %p = inbounds of=8*i0+i below=M : tile<i:8, i1>
    %q = inbounds of=16*j0+j below=N : tile<j:16, i1>
    %w = and %p, %q : tile<i:8, j:16, i1>
    store %C[8*i0+i, 16*j0+j], %c where=%w } } }"""


@pytest.mark.parametrize("shape", [(13, 19, 6), (8, 16, 4), (1, 1, 1), (9, 33, 0)])
def test_ragged_tiles_cover_the_matrix_once(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = (np.random.default_rng(6).standard_normal(s).astype(np.float32) for s in ((m, k), (k, n)))
    c = np.full((m, n), 99, np.float32)
    run(TILED, a, b, c, m, n, k)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-5, atol=1e-6)


def test_axis_instructions() -> None:
    x, out = np.arange(12.0).reshape(3, 4), np.zeros((7, 4))
    run(
        "func @f(%x: mem<3x4xf64>, %out: mem<7x4xf64>) form=B axes=[i:3, j:4] {"
        "%a = load %x[i, j] : tile<i:3, j:4, f64> %r = take %a axis=i at=2 : tile<j:4, f64> store %out[0, j], %r "
        "%e = take %r axis=j at=1 : f64 store %out[1, 0], %e }",
        x,
        out,
    )
    assert out[0].tolist() == x[2].tolist() and out[1, 0] == x[2, 1]


def test_stack_puts_scalars_side_by_side() -> None:
    x, out = np.array([3.0, -1.5], np.float32), np.zeros(2, np.float32)
    run(
        "func @f(%x: mem<2xf32>, %out: mem<2xf32>) form=B axes=[i:2] { %a = load %x[1] : f32 %b = load %x[0] : f32 "
        "%s = stack %a, %b axis=i : tile<i:2, f32> store %out[i], %s }",
        x,
        out,
    )
    assert out.tolist() == [-1.5, 3.0]


def test_pack2_puts_the_first_in_the_low_half() -> None:
    x, out = np.array([[1.0, -2.0], [0.5, 3.0]], np.float16), np.zeros(2, np.uint32)
    run(
        "func @f(%x: mem<2x2xf16>, %out: mem<2xu32>) form=B axes=[i:2, j:2] { %a = load %x[i, j] : tile<i:2, j:2, f16> "
        "%p = pack2 %a over=j : tile<i:2, u32> store %out[i], %p }",
        x,
        out,
    )
    assert out.tolist() == x.view(np.uint32)[:, 0].tolist()


def test_gathers_vary_along_the_axes_of_their_index() -> None:
    x, k, out = np.arange(20.0).reshape(4, 5), np.array([2, 0, 3], np.int32), np.zeros((3, 5))
    run(
        field(
            "%x: mem<4x5xf64>, %k: mem<3xi32>, %out: mem<3x5xf64>",
            "i:3, j:5",
            """%q = load %k[i] : tile<i:3, i32> %p = cast %q to=index : tile<i:3, index> %v = load %x[p, j] : tile<i:3, j:5, f64>
            store %out[i, j], %v""",
        ),
        x,
        k,
        out,
    )
    assert np.array_equal(out, x[k])


def test_masks_select_and_pad() -> None:
    x, out = np.arange(1.0, 5.0), np.zeros((2, 6))
    run(
        field(
            "%x: mem<4xf64>, %out: mem<2x6xf64>",
            "i:6",
            """%a = load %x[i-1] pad=-7.0 : tile<i:6, f64> store %out[0, i], %a
            %ok = inbounds of=i below=4 : tile<i:6, i1> %b = load %x[i] where=%ok : tile<i:6, f64> %m = const -1.0 : f64
            %c = select %ok, %b, %m : tile<i:6, f64> store %out[1, i], %c""",
        ),
        x,
        out,
    )
    assert out.tolist() == [[-7, 1, 2, 3, 4, -7], [1, 2, 3, 4, -1, -1]]


@pytest.mark.parametrize("line", ["%a = load %x[i+1] : tile<i:4, f64>", "%z = const 0.0 : tile<i:4, f64> store %x[i+1], %z"])
def test_a_tile_outside_is_a_compilers_fault(line: str) -> None:
    with pytest.raises(ZyntaxError) as error:
        run(field("%x: mem<4xf64>", "i:4", line), np.zeros(4))
    assert "reaches (4,) in a memory of shape (4,)" in error.value.diagnostics[0].message


def test_a_check_on_a_tile_reports_the_first_element_at_fault() -> None:
    with pytest.raises(KernelFault) as fault:
        run(
            field(
                "%k: mem<4xi32>",
                "i:4",
                """%v = load %k[i] : tile<i:4, i32> %n = const 3 : i32 %ok = lt %v, %n : tile<i:4, i1>
                check %ok, %v, %n code=0801 site=5""",
            ),
            np.array([0, 8, 9, 1], np.int32),
        )
    assert (fault.value.code, fault.value.site, fault.value.values) == ("0801", 5, (8, 3))


def test_an_online_softmax_over_blocks_equals_the_definition() -> None:
    x = (np.random.default_rng(8).standard_normal((2, 24)) * 5).astype(np.float64)
    out = np.zeros(2)
    run(
        """func @f(%x: mem<2x24xf64>, %out: mem<2xf64>) form=B axes=[i:2, j:8] {
        %low = const -1.0e308 : tile<i:2, f64> %zero = const 0.0 : tile<i:2, f64>
        %m, %l = for b in 0..3 carry(%mo = %low, %lo = %zero) {
          %a = load %x[i, 8*b+j] : tile<i:2, j:8, f64> %mb = reduce max %a over=[j] : tile<i:2, f64> %mn = max %mo, %mb : tile<i:2, f64>
          %d = sub %mo, %mn : tile<i:2, f64> %rho = exp %d : tile<i:2, f64> %e = sub %a, %mn : tile<i:2, j:8, f64>
          %p = exp %e : tile<i:2, j:8, f64> %s = reduce add %p over=[j] : tile<i:2, f64> %q = mul %lo, %rho : tile<i:2, f64>
          %ln = add %q, %s : tile<i:2, f64> yield %mn, %ln }
        %g = log %l : tile<i:2, f64> %r = add %g, %m : tile<i:2, f64> store %out[i], %r }""",
        x,
        out,
    )
    np.testing.assert_allclose(out, np.log(np.exp(x - x.max(1, keepdims=True)).sum(1)) + x.max(1), rtol=1e-14)


RING = """func @f(%x: mem<32xf64>, %out: mem<8xf64>) form=B axes=[j:8] {
  %r = ring.make : ring<2 x (tile<j:8, f64>)> %z = const 0.0 : tile<j:8, f64>
  %first = load %x[j] : tile<j:8, f64> ring.put %r, %first
  %s = for t in 0..4 carry(%c = %z) {
    %i = index of=t : index %three = const 3 : index %more = lt %i, %three : i1
    if %more { %n = load %x[8*t+8+j] : tile<j:8, f64> ring.put %r, %n }
    %g = ring.get %r : tile<j:8, f64> %a = add %c, %g : tile<j:8, f64> FREE yield %a }
  store %out[j], %s }"""


def test_a_ring_gives_what_was_put_in_order() -> None:
    x, out = np.arange(32.0), np.zeros(8)
    run(RING.replace("FREE", "ring.free %r"), x, out)
    assert out.tolist() == x.reshape(4, 8).sum(0).tolist()


def test_a_ring_that_is_never_freed_is_a_fault() -> None:
    with pytest.raises(ZyntaxError, match="a ring of 2 stages is full"):
        run(RING.replace("FREE", ""), np.arange(32.0), np.zeros(8))


def test_tables_of_the_module_are_read() -> None:
    module = parse_module("""module @m version=1 { global @table : mem<2x2xbf16, constant, readonly> = [1, -2.5, 0.1, inf]
      func @f(%out: mem<4xf32>) form=F axes=[i:2, j:2] { %t = global table : mem<2x2xbf16, constant, readonly>
        %v = load %t[i, j] : tile<i:2, j:2, bf16> %w = cast %v to=f32 : tile<i:2, j:2, f32> store %out[2*i+j], %w } }""")
    verify(module)
    out = np.zeros(4, np.float32)
    interpret(module.functions["f"], [out], module)
    assert out.tolist() == [1.0, -2.5, float(np.float32(0.1).astype(ml_dtypes.bfloat16)), math.inf]


ROLES = """func @f(%x: mem<32xf64>, %out: mem<8xf64>, %N: index) form=R axes=[j:8] {
  %r = ring.make : ring<2 x (tile<j:8, f64>)>
  role copy { for t in 0..4 { %n = load %x[8*t+j] : tile<j:8, f64> ring.put %r, %n } }
  role compute {
    %z = const 0.0 : tile<j:8, f64>
    %s = for u in 0..N carry(%c = %z) {
      %g = ring.get %r : tile<j:8, f64> %a = add %c, %g : tile<j:8, f64> ring.free %r yield %a }
    store %out[j], %s } }"""


def test_roles_wait_for_each_other_at_a_ring() -> None:
    x, out = np.arange(32.0), np.zeros(8)
    run(ROLES, x, out, 4)
    assert out.tolist() == x.reshape(4, 8).sum(0).tolist()


@pytest.mark.parametrize(("turns", "waiting"), [(1, "copy"), (5, "compute")])
def test_a_role_that_nobody_helps_is_named(turns: int, waiting: str) -> None:
    with pytest.raises(ZyntaxError, match=f"at rings that are full or empty `{waiting}` would wait for ever"):
        run(ROLES, np.arange(32.0), np.zeros(8), turns)
