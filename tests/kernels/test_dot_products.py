"""Products of bytes and of bf16, of which an instruction takes several terms at a time, in both signs and for numbers of every size: against
NumPy's exact sums, and its float64."""

import itertools

import numpy as np
import pytest

from compiler.backends.cpu.compile import CpuOptions, compile_function
from compiler.machines.cpu import CPUS, CpuMachine
from compiler.schedule.dot_tiles import PlacingDots
from compiler.schedule.field import table_for
from compiler.schedule.packed import packing_for
from tests.kernels.checks import DTYPES, Array, compiled, exactly, generator
from tests.schedule.test_packed import Product

TEXT = """
def f(a: tensor[M, K, {left}], b: tensor[{b_dims}, {right}]) {{
    compute(a, b) -> tensor[M, N, {to}] {{
        for i in 0..M, j in 0..N:
            var s: {to} = 0
            for k in 0..K: s += (a[i, k] as {to}) * (b[{b}] as {to})
            out[i, j] = s
    }}
}}
"""

SIZES = ((17, 40, 33), (66, 97, 131), (33, 33, 5003))
"""Rows, columns and terms: ends in every direction, several blocks of the sum."""


@pytest.mark.parametrize(("left", "right"), list(itertools.product(("i8", "u8"), repeat=2)))
@pytest.mark.parametrize("to", ("i32", "u32"))
def test_bytes_of_either_sign(left: str, right: str, to: str) -> None:
    program = compiled(TEXT.format(left=left, right=right, to=to, b_dims="K, N", b="k, j"), threads=2)
    rng = generator(left, right)
    for rows, columns, terms in SIZES:
        a, b = (
            rng.choice(np.array([np.iinfo(DTYPES[dtype]).min, np.iinfo(DTYPES[dtype]).max, 1], DTYPES[dtype]), shape)
            for dtype, shape in ((left, (rows, terms)), (right, (terms, columns)))
        )
        exactly(program.f(a, b), (a.astype(np.int64) @ b.astype(np.int64)).astype(DTYPES[to]))


def numbers_of(kind: str, rows: int, columns: int, terms: int) -> tuple[Array, Array]:
    """Normal distributed numbers: as they are; so small that products are subnormal; subnormal ones times large ones; some rows of each
    size, and zeros."""
    rng = generator("bf16", kind)
    a, b = rng.standard_normal((rows, terms)), rng.standard_normal((terms, columns))
    if kind == "products":
        a, b = a * 1e-20, b * 1e-19
    elif kind == "factors":
        a, b = a * 1e-39, b * 1e30
    elif kind == "rows":
        a = a * 10.0 ** rng.integers(-38, 1, (rows, 1)) * (rng.random(a.shape) < 0.7)
    return a.astype(DTYPES["bf16"]), b.astype(DTYPES["bf16"])


@pytest.mark.parametrize("kind", ("normal", "products", "factors", "rows"))
@pytest.mark.parametrize(("b_dims", "place"), (("K, N", "k, j"), ("N, K", "j, k")))
def test_floats_of_16_bits_of_every_size(kind: str, b_dims: str, place: str) -> None:
    """A step rounds a sum to 2^-24 of what it is at most, or to the last place of subnormal numbers."""
    program = compiled(TEXT.format(left="bf16", right="bf16", to="f32", b_dims=b_dims, b=place).replace("= 0", "= 0.0"), threads=2)
    for rows, columns, terms in SIZES:
        a, b = numbers_of(kind, rows, columns, terms)
        wide, other = a.astype(np.float64), b.astype(np.float64)
        got = np.asarray(program.f(a, b if place == "k, j" else np.ascontiguousarray(b.T)), np.float64)
        bound = np.sqrt(terms) * 2.0**-22 * (np.abs(wide) @ np.abs(other)) + terms * 2.0**-149
        assert (np.abs(got - wide @ other) <= bound).all()


def test_what_is_no_number_stays_so() -> None:
    program = compiled(TEXT.format(left="bf16", right="bf16", to="f32", b_dims="K, N", b="k, j").replace("= 0", "= 0.0"), threads=1)
    a, b = numbers_of("normal", 33, 34, 64)
    a[3, 5], a[4, 7], b[8, 9], b[9, 11] = np.nan, -np.inf, np.inf, 0
    with np.errstate(invalid="ignore"):
        want = a.astype(np.float64) @ b.astype(np.float64)
    got = np.asarray(program.f(a, b), np.float64)
    odd = ~np.isfinite(want)
    np.testing.assert_array_equal(got[odd], want[odd])
    assert np.isfinite(got[~odd]).all()


@pytest.mark.parametrize(
    ("dtype", "to", "bits", "features", "word"),
    (
        ("i8", "i32", 512, ",+avx512vnni", "vpdpbusd"),
        ("i8", "i32", 512, "", "vpmaddwd"),
        ("i8", "i32", 256, ",+avxvnni", "vpdpbusd"),
        ("bf16", "f32", 512, ",+avx512bf16", "vdpbf16ps"),
    ),
)
def test_machines_multiply_by_the_instructions_that_they_have(dtype: str, to: str, bits: int, features: str, word: str) -> None:
    level = CPUS["x86-64-v4" if bits == 512 else "x86-64-v3"]
    machine = CpuMachine(bits, level.vector_registers, level.triple, level.cpu, f"{level.features}{features}")
    field = Product("product", dtype=dtype, to=to).field()
    table = table_for(field, machine, tiled=False)
    packing = packing_for(field, table, machine)
    assert packing is not None and packing.dots is not None
    placed = PlacingDots(field, table, packing).run()
    options = CpuOptions(triple=machine.triple, cpu=machine.cpu, features=machine.features, threads="serial")
    assert word in compile_function(placed, options).asm
