"""Products in tiles (form B) and in roles (form R): their text, what the interpreter makes of them, and that threads are made of that text."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from attrs import evolve, frozen

from compiler.emulator.interpret import interpret
from compiler.hir.gpu import SharedAlloc
from compiler.hir.module import Form, HirFunction
from compiler.hir.parse import parse_function
from compiler.hir.text import print_function
from compiler.hir.types import Mem
from compiler.hir.verify import verify
from compiler.launch.cpu import numpy_dtype
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.block_launches import launches_of_blocks
from compiler.schedule.gpu.choose import launches_for
from compiler.schedule.gpu.facts import facts_of, specialised
from compiler.schedule.gpu.products.boxed_launch import BoxedProductLaunch
from compiler.schedule.gpu.products.boxed_product import boxed_product
from compiler.schedule.gpu.products.product_roles import product_of_roles
from compiler.schedule.gpu.products.sums_together import sums_together
from compiler.schedule.gpu.products.tiling import Tiling
from tests.schedule.test_gpu_convolutions import built
from tests.windows import CHANNELS_LAST, convolved, small

SIZES = {"M": 200, "N": 72, "K": 136, "B": 2}


@frozen
class Product:
    """`out[i, j]` of `sums` over `k`. `read`: the dims of the tensors, matrices of bf16 and rows of f32, each with a matrix for each `b`
    where it is `batched`; `expected`: the same by NumPy."""

    read: dict[str, str]
    sums: tuple[str, ...]
    stored: str
    expected: str
    text: str = ""
    """What the roles do, without loops and types."""
    batched: bool = False

    @property
    def source(self) -> str:
        own, along = ("B, ", "b in 0..B, ") if self.batched else ("", "")
        parameters = [f"{name}: tensor[{own if ',' in dims else ''}{dims}, {'bf16' if ',' in dims else 'f32'}]" for name, dims in self.read.items()]
        lines = [f"def f({', '.join(parameters)}) {{ compute({', '.join(self.read)}) -> tensor[{own}M, N, f32] {{"]
        lines += [f"for {along}i in 0..M, j in 0..N:", *(f"    var s{n} = 0.0" for n in range(len(self.sums)))]
        lines += ["    for k in 0..K:", *(f"        s{n} += {product}" for n, product in enumerate(self.sums))]
        return "\n".join([*lines, f"    out[{'b, ' if self.batched else ''}i, j] = {self.stored}", "} }"])

    def arrays(self) -> dict[str, Any]:
        """Small whole numbers, of which every sum is exact."""
        random, arrays = np.random.default_rng(7), dict[str, Any]()
        for name, dims in self.read.items():
            shape = [SIZES[dim.strip()] for dim in dims.split(",")]
            whole = random.integers(-3, 4, [SIZES["B"], *shape] if self.batched and len(shape) > 1 else shape)
            arrays[name] = whole.astype(np.float32 if len(shape) == 1 else ml_dtypes.bfloat16)
        return arrays

    def wanted(self) -> Any:
        return eval(self.expected, {"maximum": np.maximum}, {name: array.astype(np.float64) for name, array in self.arrays().items()})


def forms(text: str, sizes: dict[str, int] = SIZES, is_cut: bool = True) -> tuple[HirFunction, HirFunction]:
    """The tiles and the roles of the one launch, cut in tiles of 128 by 64."""
    kernel = built(text)
    assert kernel.field is not None
    known = facts_of(sizes, [one.name for one in kernel.nest.parameters], MACHINES["sm_90a"], 2)
    if is_cut:
        field, _, about = specialised(kernel.field, known)
        product = boxed_product(field, about) or sums_together(field, about)
        assert product is not None
        counts = {"sums": len(product.targets), "products": len(product.summed)}
        cut = Tiling(product.a.axes, (128,), columns=64, groups=2, blocks=1, stages=4, **counts)
        known = evolve(known, tiling=cut)
    (launch,) = launches_for(kernel.nest, kernel.field, known).launches
    tiles, roles = (form for _, form in launch.forms)
    assert (tiles.form, roles.form) == (Form.TILE, Form.ROLES)
    return tiles, roles


def run(function: HirFunction, arrays: dict[str, Any], sizes: dict[str, int] = SIZES, **launch: Any) -> Any:
    """What it stores to `out`."""
    known = {**sizes, **{f"{name}_{unit}": size // unit for name, size in sizes.items() for unit in (2, 4, 8, 16, 32, 64, 128, 256)}}
    out = next(one.type for one in function.parameters if one.name == "out")
    assert isinstance(out, Mem)
    found = np.full([dim.evaluate(known.__getitem__) for dim in out.dims], np.nan, numpy_dtype(out.dtype))
    given = {**known, **arrays, "out": found}
    interpret(function, [given[parameter.name] for parameter in function.parameters], **launch)
    return found


PLAIN = Product({"A": "M, K", "P": "K, N"}, ("A[i, k] * P[k, j]",), "s0", "A @ P")

TILES = """\
func @f_line1(%A: mem<(8*M_8)x(8*K_8)xbf16, align=16, readonly>, %P: mem<(8*K_8)x(8*N_8)xbf16, align=16, readonly>, \
%out: mem<(8*M_8)x(8*N_8)xf32, align=16>, %M_8: index, %K_8: index, %N_8: index) \
form=B axes=[i:128, j:64, k:64] kernel=[entry=true, kind=fused] {
  for i0 in 0..floor((8*M_8+127)/128) place=grid axis="i" blocks=1 extent=affine(8*M_8) groups=2 {
    %t8 = inbounds of=i+128*i0 below=8*M_8 : tile<i:128, i1>
    for j0 in 0..floor((8*N_8+63)/64) place=grid axis="j" extent=affine(8*N_8) {
      %t0 = const 0.0 : tile<i:128, j:64, f32>
      %t7 = for k0 in 0..floor((8*K_8+63)/64) carry(%t1 = %t0) axis="k" extent=affine(8*K_8) pipeline=4 {
        %t2 = load %A[i+128*i0, k+64*k0] pad=0.0 : tile<i:128, k:64, bf16>
        %t3 = convert %t2 place=shared : tile<i:128, k:64, bf16, in shared>
        %t4 = load %P[k+64*k0, j+64*j0] pad=0.0 : tile<j:64, k:64, bf16>
        %t5 = convert %t4 place=shared : tile<j:64, k:64, bf16, in shared>
        %t6 = contract %t3, %t5, %t1 over=[k] : tile<i:128, j:64, f32>
        yield %t6
      }
      %t9 = inbounds of=j+64*j0 below=8*N_8 : tile<j:64, i1>
      %t10 = and %t8, %t9 : tile<i:128, j:64, i1>
      store %out[i+128*i0, j+64*j0], %t7 where=%t10
    }
  }
}
"""

ROLES = """\
form=R axes=[i:128, j:64, k:64] kernel=[entry=true, kind=fused] {
  %ring = ring.make : ring<4 x (tile<i:128, k:64, bf16, in shared>, tile<j:64, k:64, bf16, in shared>)>
  role copy {
    for i0 in 0..floor((8*M_8+127)/128) place=grid axis="i" blocks=1 extent=affine(8*M_8) groups=2 {
      for j0 in 0..floor((8*N_8+63)/64) place=grid axis="j" extent=affine(8*N_8) {
        for k0 in 0..floor((8*K_8+63)/64) axis="k" extent=affine(8*K_8) {
          %t2 = load %A[i+128*i0, k+64*k0] pad=0.0 : tile<i:128, k:64, bf16>
          %t3 = convert %t2 place=shared : tile<i:128, k:64, bf16, in shared>
          %t4 = load %P[k+64*k0, j+64*j0] pad=0.0 : tile<j:64, k:64, bf16>
          %t5 = convert %t4 place=shared : tile<j:64, k:64, bf16, in shared>
          ring.put %ring, %t3, %t5
        }
      }
    }
  }
  role compute {
    for i1 in 0..floor((8*M_8+127)/128) place=grid axis="i" blocks=1 extent=affine(8*M_8) groups=2 {
      %t8 = inbounds of=i+128*i1 below=8*M_8 : tile<i:128, i1>
      for j1 in 0..floor((8*N_8+63)/64) place=grid axis="j" extent=affine(8*N_8) {
        %t0 = const 0.0 : tile<i:128, j:64, f32>
        %t10 = for k1 in 0..floor((8*K_8+63)/64) carry(%t1 = %t0) axis="k" extent=affine(8*K_8) {
          %t6, %t7 = ring.get %ring : tile<i:128, k:64, bf16, in shared>, tile<j:64, k:64, bf16, in shared>
          %t9 = contract %t6, %t7, %t1 over=[k] : tile<i:128, j:64, f32>
          ring.free %ring
          yield %t9
        }
        %t11 = inbounds of=j+64*j1 below=8*N_8 : tile<j:64, i1>
        %t12 = and %t8, %t11 : tile<i:128, j:64, i1>
        store %out[i+128*i1, j+64*j1], %t10 where=%t12
      }
    }
  }
}
"""

CASES = {
    "plain": PLAIN,
    "transposed": Product(
        {"A": "K, M", "P": "N, K"},
        ("P[j, k] * A[k, i]",),
        "s0",
        "A.T @ P.T",
        """
        %t2 = load %A[k+64*k0, i+128*i0] pad=0.0
        %t4 = load %P[j+64*j0, k+64*k0] pad=0.0
        ring.put %ring, %t3, %t5
        %t6, %t7 = ring.get %ring
        %t9 = contract %t7, %t6, %t1 over=[k]
        yield %t9
        store %out[i+128*i1, j+64*j1], %t10 where=%t12""",
    ),
    "a bias and an activation": Product(
        {"A": "M, K", "P": "K, N", "R": "N"},
        ("A[i, k] * P[k, j]",),
        "max(s0 + R[j], 0.0)",
        "maximum(A @ P + R, 0)",
        """
        %t2 = load %A[i+128*i0, k+64*k0] pad=0.0
        %t4 = load %P[k+64*k0, j+64*j0] pad=0.0
        ring.put %ring, %t3, %t5
        %t6, %t7 = ring.get %ring
        %t9 = contract %t6, %t7, %t1 over=[k]
        yield %t9
        %t14 = load %R[j+64*j1] where=%t11
        %t15 = add %t10, %t14 contract
        %t16 = max %t15, %t13
        store %out[i+128*i1, j+64*j1], %t16 where=%t12""",
    ),
    "two sums of the same rows": Product(
        {"A": "M, K", "P": "K, N", "Q": "K, N"},
        ("A[i, k] * P[k, j]", "A[i, k] * Q[k, j]"),
        "max(s0, 0.0) * s1",
        "maximum(A @ P, 0) * (A @ Q)",
        """
        %t3 = load %A[i+128*i0, k+64*k0] pad=0.0
        %t5 = load %P[k+64*k0, j+64*j0] pad=0.0
        %t7 = load %Q[k+64*k0, j+64*j0] pad=0.0
        ring.put %ring, %t4, %t6, %t8
        %t9, %t10, %t11 = ring.get %ring
        %t12 = contract %t9, %t10, %t1 over=[k]
        %t14 = contract %t9, %t11, %t2 over=[k]
        yield %t12, %t14
        %t20 = max %t15, %t16
        %t21 = mul %t20, %t17 contract
        store %out[i+128*i1, j+64*j1], %t21 where=%t19""",
    ),
    "two sums of the same columns": Product(
        {"A": "M, K", "D": "M, K", "P": "N, K"},
        ("A[i, k] * P[j, k]", "D[i, k] * P[j, k]"),
        "s0 - s1",
        "A @ P.T - D @ P.T",
        """
        %t3 = load %A[i+128*i0, k+64*k0] pad=0.0
        %t5 = load %P[j+64*j0, k+64*k0] pad=0.0
        %t7 = load %D[i+128*i0, k+64*k0] pad=0.0
        ring.put %ring, %t4, %t6, %t8
        %t9, %t10, %t11 = ring.get %ring
        %t12 = contract %t9, %t10, %t1 over=[k]
        %t14 = contract %t11, %t10, %t2 over=[k]
        yield %t12, %t14
        %t19 = sub %t15, %t16 contract
        store %out[i+128*i1, j+64*j1], %t19 where=%t18""",
    ),
    "sums of two products each": Product(
        {"A": "M, K", "D": "M, K", "P": "K, N", "Q": "K, N"},
        ("A[i, k] * P[k, j] - D[i, k] * Q[k, j]", "A[i, k] * Q[k, j] + D[i, k] * P[k, j]"),
        "s0 - 2.0 * s1",
        "A @ P - D @ Q - 2 * (A @ Q + D @ P)",
        """
        %t3 = load %A[i+128*i0, k+64*k0] pad=0.0
        %t5 = load %P[k+64*k0, j+64*j0] pad=0.0
        %t7 = load %D[i+128*i0, k+64*k0] pad=0.0
        %t9 = load %Q[k+64*k0, j+64*j0] pad=0.0
        ring.put %ring, %t4, %t6, %t8, %t10
        %t11, %t12, %t13, %t14 = ring.get %ring
        %t15 = cast %t11 to=f32
        %t16 = cast %t12 to=f32
        %t17 = mul %t15, %t16 contract
        %t18 = cast %t13 to=f32
        %t19 = cast %t14 to=f32
        %t20 = mul %t18, %t19 contract
        %t21 = sub %t17, %t20 contract
        %t22 = reduce add %t21 over=[k] reassoc contract
        %t23 = add %t1, %t22 reassoc contract
        %t24 = mul %t15, %t19 contract
        %t25 = mul %t18, %t16 contract
        %t26 = add %t24, %t25 contract
        %t28 = reduce add %t26 over=[k] reassoc contract
        %t29 = add %t2, %t28 reassoc contract
        yield %t23, %t29
        %t35 = mul %t32, %t30 contract
        %t36 = sub %t31, %t35 contract
        store %out[i+128*i1, j+64*j1], %t36 where=%t34""",
    ),
    "batched": Product(
        {"A": "M, K", "P": "K, N"},
        ("A[b, i, k] * P[b, k, j]",),
        "s0",
        "A @ P",
        """
        %t2 = load %A[b0, i+128*i0, k+64*k0] pad=0.0
        %t4 = load %P[b0, k+64*k0, j+64*j0] pad=0.0
        ring.put %ring, %t3, %t5
        %t6, %t7 = ring.get %ring
        %t9 = contract %t6, %t7, %t1 over=[k]
        yield %t9
        store %out[b1, i+128*i1, j+64*j1], %t10 where=%t12""",
        batched=True,
    ),
}


def heart(roles: HirFunction) -> list[str]:
    """What roles do, without loops, conditions of the ends of tiles and types."""
    lines = [line.strip().partition(" : ")[0] for line in print_function(roles).splitlines()[2:]]
    left_out = (" = const ", " = inbounds ", " = and ", " = convert ", "ring.free ")
    return [line for line in lines if line[-1:] not in "{}" and not any(word in f" {line} " for word in left_out)]


def test_a_product_as_text() -> None:
    tiles, roles = forms(PLAIN.source)
    assert print_function(tiles) == TILES
    assert print_function(roles).partition(") form=")[2] == ROLES.removeprefix("form=")


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].text])
def test_how_many_sums_and_operands_there_are_is_what_the_field_says(name: str) -> None:
    assert heart(forms(CASES[name].source)[1]) == [line.strip() for line in CASES[name].text.splitlines() if line]


@pytest.mark.parametrize("name", CASES)
def test_forms_mean_the_product(name: str) -> None:
    """Also read from their text. Tiles reach beyond the ends of rows, columns and terms."""
    case = CASES[name]
    for form in forms(case.source):
        read = parse_function(print_function(form))
        assert print_function(read) == print_function(form)
        for function in form, read:
            verify(function)
            np.testing.assert_array_equal(run(function, case.arrays()), case.wanted())


@pytest.mark.parametrize("name", CASES)
def test_threads_are_made_of_the_text_of_roles(name: str) -> None:
    """Of a text that says something else than the field, they do that."""
    case = CASES[name]
    text = print_function(forms(case.source)[1]).replace("ring<4 x", "ring<3 x")
    text = text.replace("store %out", "%more = add %last, %last : tile<i:128, j:64, f32>\nstore %out", 1)
    last = text.rpartition("], ")[2].split()[0]
    text = text.replace("%last", last).replace(f"], {last} where", "], %more where")
    roles = parse_function(text)
    verify(roles)
    launch = launches_of_blocks(BoxedProductLaunch(*product_of_roles(roles, 2)).run()).launches[0]
    sizes = {f"{size}_8": number // 8 for size, number in SIZES.items()} | SIZES
    np.testing.assert_array_equal(run(launch.function, case.arrays(), grid=(launch.blocks(sizes), 1, 1)), 2 * case.wanted())
    tiles = [op.type for top in launch.function.body.body for op in top.walk() if isinstance(op, SharedAlloc) and op.type.rank == 4]
    assert len([tile for tile in tiles if tile.dims[0].value == 3]) == len([name for name, dims in case.read.items() if "," in dims])



TRIANGLE = """def f(A: tensor[M, M, bf16], P: tensor[M, N, bf16]) { compute(A, P) -> tensor[M, N, f32] {
    for i in 0..M, j in 0..N:
        var s = 0.0
        for k in 0..i + 1: s += A[i, k] * P[k, j]
        out[i, j] = s
} }"""
PACKED = """def f(A: tensor[M, K, bf16], W: tensor[K2, N, u8], S: tensor[G, N, f32]) { compute(A, W, S) -> tensor[M, N, f32] {
    for i in 0..M, j in 0..N:
        var s: f32 = 0.0
        for k in 0..K: s += A[i, k] * ((((W[k / 2, j] as i32 >> (4 * (k % 2))) & 15) - 8) as f32) * S[k / 128, j]
        out[i, j] = s
} }"""
PARTS = """def f(A: tensor[M, K, f32], P: tensor[N, K, f32]) { compute(A, P) -> tensor[M, N, f32] {
    for i in 0..M, j in 0..N:
        var s: f32 = 0.0
        for k in 0..K: s += A[i, k] * P[j, k]
        out[i, j] = s
} }"""


def meant(text: str, sizes: dict[str, int], arrays: dict[str, Any], wanted: Any, *words: str) -> None:
    """Tiles and roles mean this, and the roles' text has these words."""
    for form in forms(text, sizes, is_cut=False):
        verify(form)
        np.testing.assert_array_equal(run(form, arrays, sizes), wanted)
        assert all(word in print_function(form) for word in words)


@pytest.mark.parametrize("weight", [1.0, np.inf], ids=str)
def test_products_at_the_border_of_a_window_count_nothing(weight: float) -> None:
    """Whatever the weight there is: the multiplied tiles say so, also where matrix units don't."""
    x, f = small(3, 2, 4, 5, 16), small(4, 24, 3, 3, 16)
    f[1, 0, 0, 5] = weight
    sizes = dict(zip("NHWCKRSYZ", (2, 4, 5, 16, 24, 3, 3, 4, 5), strict=True))
    meant(CHANNELS_LAST % ("f32", 1, 1, 1), sizes, {"X": x, "F": f}, convolved(x, f, 1, 1, 1).astype(np.float32), "where=", "select")


def test_sums_up_to_the_diagonal() -> None:
    sizes = {"M": 136, "N": 72}
    a, p = small(5, 136, 136), small(6, 136, 72)
    a[3, 70], a[135, 0] = np.inf, np.inf
    p[:, 0] = 1
    with np.errstate(invalid="ignore"):
        wanted = np.array([a[i, : i + 1].astype(np.float64) @ p[: i + 1].astype(np.float64) for i in range(136)])
    meant(TRIANGLE, sizes, {"A": a, "P": p}, wanted, "select", "reduce add")


def test_factors_of_four_bits_with_scales_of_groups() -> None:
    m, n, k = 33, 64, 1024
    random = np.random.default_rng(9)
    a, w = small(7, m, k), random.integers(0, 256, (k // 2, n)).astype(np.uint8)
    s = (2.0 ** random.integers(-2, 3, (k // 128, n))).astype(np.float32)
    weights = np.stack([w & 15, w >> 4], axis=1).reshape(k, n).astype(np.float64) - 8
    wanted = a.astype(np.float64) @ (weights * np.repeat(s, 128, axis=0))
    sizes = {"M": m, "N": n, "K": k, "K2": k // 2, "G": k // 128}
    meant(PACKED, sizes, {"A": a, "W": w, "S": s}, wanted, "u8, in shared", "unpacks=true")


def test_f32_in_parts() -> None:
    """What tensor cores leave of columns is made in a stage, or copied to it; the sum is that of the factors as they are."""
    sizes = {"M": 256, "N": 256, "K": 256}
    a, p = small(1, 256, 256).astype(np.float32), small(2, 256, 256).astype(np.float32)
    meant(PARTS, sizes, {"A": a, "P": p}, a.astype(np.float64) @ p.T.astype(np.float64), "makes_low=true")


NORMED = """def f(A: tensor[M, K, bf16], P: tensor[K, N, bf16]) { compute(A, P) -> tensor[M, N, bf16] {
    for i in 0..M {
        var q: f32 = 0.0
        for k in 0..K: q += A[i, k] * A[i, k]
        for j in 0..N {
            var s: f32 = 0.0
            for k in 0..K: s += A[i, k] * P[k, j]
            out[i, j] = s * rsqrt(q)
        }
    }
} }"""


def test_a_product_under_a_norm() -> None:
    """What rows come to is computed first, and read where the sums of tiles are there."""
    kernel, sizes = built(NORMED), {"M": 1024, "N": 1024, "K": 1024}
    assert kernel.field is not None
    known = facts_of(sizes, [one.name for one in kernel.nest.parameters], MACHINES["sm_90a"])
    rows, product = launches_for(kernel.nest, kernel.field, known).launches
    roles = dict(product.forms)["split-roles"]
    assert not rows.forms and any(line.startswith("ring.put") for line in heart(roles))
    assert len([line for line in heart(roles) if "load %kept" in line and line.endswith("*i1]")]) == 1
