"""Several sums of products of the same rows, columns and terms are one launch on warpgroups, which copies once what several of them
multiply."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from attrs import evolve

from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.emulator.interpret import interpret
from compiler.hir.hopper import BulkLoad, WarpgroupMma
from compiler.hir.verify import verify
from compiler.launch.cpu import numpy_dtype
from compiler.machines.nvidia import MACHINES
from compiler.schedule.gpu.choose import choices, launches_for
from compiler.schedule.gpu.facts import facts_of, specialised
from compiler.schedule.gpu.products.sums_together import sums_together
from compiler.schedule.gpu.products.tiling import Tiling
from compiler.schedule.launches import Launches
from tests.schedule.test_gpu_convolutions import built

BF16 = ml_dtypes.bfloat16
SIZES = {"M": 72, "N": 80, "K": 200}
READS = {"A": ("A[i, k]", "M, K"), "At": ("A[k, i]", "K, M"), "B": ("B[i, k]", "M, K")}
READS |= {name: (f"{name}[k, j]", "K, N") for name in "PQR"} | {f"{name}t": (f"{name}[j, k]", "N, K") for name in "PQR"}
ONE_LAUNCH = [
    ("A P, A Q", "max(s0, 0.0) * s1"),
    ("A Pt, A Qt", "max(s0, 0.0) * s1"),
    ("A P, A Qt", "s0 - s1"),
    ("At P, At Q", "s0 - s1"),
    ("A P, B P", "s0 - 2.0 * s1"),
    ("A P, B Q", "s0 + s1"),
    ("A P, A Q, A R", "s0 + s1 - s2"),
    ("A P, A Q, B P, B Rt", "s0 + s1 - s2 * s3"),
]


def source(products: list[tuple[str, str]], stored: str, dtype: str = "bf16", to: str = "f32", batch: bool = False) -> str:
    """`out[i, j]` of the sums `s0`, `s1`.. of these products, given by what is read."""
    names = {READS[name][0][0]: READS[name] for pair in products for name in pair}
    own = "B, " if batch else ""
    parameters = ", ".join(f"{name}: tensor[{own}{dims}, {dtype}]" for name, (_, dims) in names.items())
    read = {name: text.replace("[", "[b, ") if batch else text for name, (text, _) in READS.items()}
    lines = [f"def f({parameters}) {{", f"    compute({', '.join(names)}) -> tensor[{own}M, N, {to}] {{"]
    lines.append(f"        for {'b in 0..B, ' if batch else ''}i in 0..M, j in 0..N:")
    zero = "0" if to == "i32" else "0.0"
    lines += [f"            var s{number} = {zero}" for number in range(len(products))]
    lines.append("            for k in 0..K:")
    cast = f" as {to}" if to == "i32" else ""
    lines += [f"                s{n} += ({read[a]}{cast}) * ({read[b]}{cast})" for n, (a, b) in enumerate(products)]
    return "\n".join([*lines, f"            out[{'b, ' if batch else ''}i, j] = {stored}", "    }", "}"])


def pairs(text: str) -> list[tuple[str, str]]:
    return [(one.split()[0], one.split()[1]) for one in text.split(", ")]


def arrays_of(products: list[tuple[str, str]], sizes: dict[str, int], dtype: Any = BF16, batch: int | None = None) -> dict[str, Any]:
    """Small whole numbers, of which every sum is exact."""
    random, arrays = np.random.default_rng(5), dict[str, Any]()
    for name in dict.fromkeys(name for pair in products for name in pair):
        shape = [sizes[dim.strip()] for dim in READS[name][1].split(",")]
        arrays[name[0]] = random.integers(-3, 4, shape if batch is None else [batch, *shape]).astype(dtype)
    return arrays


def wanted(products: list[tuple[str, str]], stored: str, arrays: dict[str, Any]) -> Any:
    def matrix(name: str) -> Any:
        wide = arrays[name[0]].astype(np.float64)
        return wide.swapaxes(-1, -2) if name.endswith("t") else wide

    sums = {f"s{n}": matrix(a) @ matrix(b) for n, (a, b) in enumerate(products)}
    return eval(stored.replace("max(", "maximum("), {"maximum": np.maximum}, sums)


def run(text: str, arrays: dict[str, Any], sizes: dict[str, int], processors: int = 2, **tiling: int) -> tuple[Launches, Any]:
    """The launches, with tiles of this shape if one is given, and what they store."""
    kernel = built(text)
    assert kernel.field is not None
    names = [one.name for one in kernel.nest.parameters]
    known = facts_of(sizes, names, MACHINES["sm_90a"], processors)
    if tiling:
        field, _, about = specialised(kernel.field, known)
        product = sums_together(field, about)
        assert product is not None
        counts = {"sums": len(product.targets), "products": len(product.summed)}
        known = evolve(known, tiling=Tiling(product.a.axes, (tiling.pop("rows"),), **counts, **tiling))
    made = launches_for(kernel.nest, kernel.field, known)
    out = next(one for one in kernel.nest.parameters if one.name == "out")
    found = np.full([sizes[str(dim)] for dim in out.type.dims], -7, numpy_dtype(out.type.dtype))
    given = {**sizes, **arrays, "out": found}
    arguments, counted = made.counted([given[name] for name in names], sizes)
    arguments += [np.zeros([dim.evaluate(counted.__getitem__) for dim in mem.dims], numpy_dtype(mem.dtype)) for mem in made.workspaces]
    for launch in made.launches:
        verify(launch.function)
        interpret(launch.function, arguments, grid=(launch.blocks(counted), 1, 1))
    return made, found


def ops_of(made: Launches, kind: type) -> list[Any]:
    return [op for one in made.launches for top in one.function.body.body for op in top.walk() if isinstance(op, kind)]


@pytest.mark.parametrize(("products", "stored"), ONE_LAUNCH)
def test_sums_of_one_launch(products: str, stored: str) -> None:
    known = pairs(products)
    arrays = arrays_of(known, SIZES)
    made, found = run(source(known, stored), arrays, SIZES)
    np.testing.assert_array_equal(found, wanted(known, stored, arrays))
    assert len(made.launches) == 1
    assert len({op.tensor.name for op in ops_of(made, BulkLoad)}) == len(arrays)
    assert not assemble(compile_kernels([made.launches[0].function], gpu_target("sm_90a"))).spills


@pytest.mark.parametrize("sizes", [{"M": 1, "N": 64, "K": 64}, {"M": 200, "N": 8, "K": 136}, {"M": 65, "N": 72, "K": 64}], ids=str)
def test_sizes_that_leave_tiles_open(sizes: dict[str, int]) -> None:
    known = pairs("A Pt, A Qt")
    arrays = arrays_of(known, sizes)
    made, found = run(source(known, "s0 - s1"), arrays, sizes)
    np.testing.assert_array_equal(found, wanted(known, "s0 - s1", arrays))
    assert ops_of(made, WarpgroupMma)


@pytest.mark.parametrize(
    "tiling",
    [
        {"rows": 128, "columns": 64, "groups": 2, "blocks": 1, "stages": 2},
        {"rows": 128, "columns": 64, "groups": 1, "blocks": 2, "stages": 2},
        {"rows": 64, "columns": 64, "groups": 1, "blocks": 1, "stages": 3, "turns": 2},
        {"rows": 64, "columns": 64, "groups": 1, "blocks": 1, "stages": 2, "cluster": 2},
        {"rows": 64, "columns": 64, "groups": 1, "blocks": 1, "stages": 2, "pieces": 2},
        {"rows": 64, "columns": 64, "groups": 1, "blocks": 1, "stages": 2, "cut": True},
    ],
    ids=str,
)
def test_every_way_to_cut_tiles_keeps_sums_apart(tiling: dict[str, int]) -> None:
    sizes, known = {"M": 136, "N": 72, "K": 200}, pairs("A P, A Q")
    arrays = arrays_of(known, sizes)
    _, found = run(source(known, "s0 - 2.0 * s1"), arrays, sizes, 4, **tiling)
    np.testing.assert_array_equal(found, wanted(known, "s0 - 2.0 * s1", arrays))


@pytest.mark.parametrize(("dtype", "to"), [("f16", "f32"), ("f8e4m3", "f32"), ("i8", "i32")])
def test_other_types(dtype: str, to: str) -> None:
    sizes, known = {"M": 72, "N": 80, "K": 272}, pairs("A Pt, A Qt")
    arrays = arrays_of(known, sizes, numpy_dtype(dtype))
    made, found = run(source(known, "s0 - s1", dtype, to), arrays, sizes)
    np.testing.assert_array_equal(found, wanted(known, "s0 - s1", arrays))
    assert len(made.launches) == 1


def test_matrices_of_a_batch() -> None:
    known, sizes = pairs("A P, A Q"), {**SIZES, "B": 3}
    arrays = arrays_of(known, sizes, batch=3)
    made, found = run(source(known, "s0 - s1", batch=True), arrays, sizes)
    np.testing.assert_array_equal(found, wanted(known, "s0 - s1", arrays))
    assert len(made.launches) == 1


def test_results_of_their_own() -> None:
    text = """
def f(A: tensor[M, K, bf16], P: tensor[K, N, bf16], Q: tensor[K, N, bf16]) {
    compute(A, P, Q) -> (out: tensor[M, N, bf16], other: tensor[M, N, bf16]) {
        for i in 0..M, j in 0..N:
            var s = 0.0
            var t = 0.0
            for k in 0..K:
                s += A[i, k] * P[k, j]
                t += A[i, k] * Q[k, j]
            out[i, j] = s
            other[i, j] = t
    }
}"""
    arrays = arrays_of(pairs("A P, A Q"), SIZES)
    other = np.full((72, 80), -7, BF16)
    made, found = run(text, {**arrays, "other": other}, SIZES)
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    np.testing.assert_array_equal(found, (wide["A"] @ wide["P"]).astype(BF16))
    np.testing.assert_array_equal(other, (wide["A"] @ wide["Q"]).astype(BF16))
    assert len(made.launches) == 1


@pytest.mark.parametrize(("where", "value"), [("A", np.inf), ("P", np.nan)])
def test_numbers_that_are_not_finite_stay_in_their_sums(where: str, value: float) -> None:
    known = pairs("A P, A Q")
    arrays = arrays_of(known, SIZES)
    arrays[where][3, 5] = value
    _, found = run(source(known, "max(s0, -1.0e30) * s1"), arrays, SIZES)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, wanted(known, "max(s0, -1.0e30) * s1", arrays))


def test_launches_of_their_own_are_among_the_choices() -> None:
    sizes = {"M": 4096, "N": 4096, "K": 4096}
    kernel = built(source(pairs("A P, A Q"), "max(s0, 0.0) * s1", to="bf16"))
    names = [one.name for one in kernel.nest.parameters]
    found = choices(kernel.field, facts_of(sizes, names, MACHINES["sm_90a"], 132), sizes)
    assert found[0].facts.tiling is not None and found[0].facts.tiling.sums == 2
    launches = {choice.facts.tiling.sums: launches_for(kernel.nest, kernel.field, choice.facts) for choice in found if choice.facts.tiling}
    assert {sums: len(made.launches) for sums, made in launches.items()} == {2: 1, 1: 2}


@pytest.mark.usefixtures("in_parts")
def test_sums_of_other_terms_or_columns_are_launches_of_their_own() -> None:
    text = """
def f(A: tensor[M, K, bf16], P: tensor[K, N, bf16], B: tensor[M, L, bf16], Q: tensor[L, N, bf16]) {
    compute(A, P, B, Q) -> tensor[M, N, f32] {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += A[i, k] * P[k, j]
            for l in 0..L: s += B[i, l] * Q[l, j]
            out[i, j] = s
    }
}"""
    sizes = {"M": 72, "N": 80, "K": 64, "L": 128}
    random = np.random.default_rng(2)
    arrays = {
        name: random.integers(-3, 4, [sizes[dim] for dim in dims]).astype(BF16)
        for name, dims in zip("APBQ", ("MK", "KN", "ML", "LN"), strict=True)
    }
    made, found = run(text, arrays, sizes)
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    np.testing.assert_array_equal(found, wide["A"] @ wide["P"] + wide["B"] @ wide["Q"])
    assert len(made.launches) == 2


NORMED = """
def f(A: tensor[M, K, bf16], P: tensor[K, N, bf16], Q: tensor[K, N, bf16]) {
    compute(A, P, Q) -> tensor[M, N, f32] {
        for i in 0..M:
            var squares = 0.0
            for k in 0..K: squares += A[i, k] * A[i, k]
            let scale = rsqrt(squares / (K as f32) + 1.0)
            for j in 0..N:
                var s = 0.0
                var t = 0.0
                for k in 0..K:
                    s += LEFT * P[k, j]
                    t += LEFT * Q[k, j]
                out[i, j] = SCALE * (max(s, 0.0) - t)
    }
}"""


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("sizes", [SIZES, {"M": 33, "N": 72, "K": 136}], ids=str)
def test_the_norm_of_rows_is_a_launch_before_products(sizes: dict[str, int]) -> None:
    arrays = arrays_of(pairs("A P, A Q"), sizes)
    made, found = run(NORMED.replace("LEFT", "A[i, k]").replace("SCALE", "scale"), arrays, sizes)
    a, p, q = (arrays[name].astype(np.float64) for name in "APQ")
    scale = 1 / np.sqrt((a * a).mean(1, keepdims=True) + 1)
    np.testing.assert_allclose(found, scale * (np.maximum(a @ p, 0) - a @ q), rtol=1e-5, atol=1e-5)
    assert len(made.launches) == 2 and ops_of(made, WarpgroupMma)
