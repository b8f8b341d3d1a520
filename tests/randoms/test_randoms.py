"""Random numbers by counter: the published vectors, the same bits in every way to run a kernel, and the distributions."""

import math
from statistics import NormalDist

import numpy as np
import pytest

import zynml
from compiler.backends.cpu.compile import CpuOptions, compile_function
from compiler.emulator.interpret import interpret
from compiler.hir import randoms
from compiler.hir.build import FunctionBuilder
from compiler.hir.module import HirFunction, OptimizationLevel
from compiler.hir.types import INDEX, Mem
from compiler.hir.verify import verify
from runtime import randoms as host
from tests.randoms import known

SEEDS = (0, 1, 7, -1, 1 << 32, (1 << 63) - 1)

KERNELS = """
def random_numbers(seed: i64, n: int, j: int) { compute(seed, n, j) { for i in 0..n: out[i] = random(seed, i - 3, j) } }
def uniform_numbers(seed: i64, n: int, j: int) { compute(seed, n, j) { for i in 0..n: out[i] = uniform(seed, i - 3, j) } }
def normal_numbers(seed: i64, n: int, j: int) { compute(seed, n, j) { for i in 0..n: out[i] = normal(seed, i - 3, j) } }
"""


def words() -> HirFunction:
    """Philox as the HIR has it: four words of a counter and a key in memory."""
    f = FunctionBuilder("words")
    given, made = f.parameter("given", Mem("u64", [3])), f.parameter("made", Mem("u64", [4]))
    seed, i, j = (f.body.load(given, [at]) for at in range(3))
    for at, word in enumerate(randoms.philox(f.body, seed, i, j)):
        f.body.store(made, word, [at])
    function = f.finish()
    verify(function)
    return function


@pytest.mark.parametrize("counter, key, expected", known.KNOWN)
def test_the_published_vectors(counter: tuple[int, ...], key: tuple[int, int], expected: tuple[int, ...]) -> None:
    given = np.array([key[0] | key[1] << 32, counter[0] | counter[1] << 32, counter[2] | counter[3] << 32], np.uint64)
    interpreted, native = np.zeros(4, np.uint64), np.zeros(4, np.uint64)
    interpret(words(), [given, interpreted])
    compile_function(words(), CpuOptions(level=OptimizationLevel.O3)).run([given.ctypes.data, native.ctypes.data], 1)
    assert tuple(interpreted) == tuple(native) == expected
    assert tuple(int(word) for word in known.philox(tuple(np.array(w) for w in counter), key)) == expected
    assert host.philox(counter, key) == expected


@pytest.mark.parametrize("device", ("cpu", "emulator"))
@pytest.mark.parametrize("n", (0, 1, 33, 1009))
def test_kernels_give_the_numbers_of_their_counters(device: str, n: int) -> None:
    program = zynml.compile(KERNELS, device=device)
    i = np.arange(n) - 3
    for seed in SEEDS if n < 1000 else SEEDS[:1]:
        for j in (0, -5, 1 << 40) if n == 33 else (-5,):
            np.testing.assert_array_equal(program.random_numbers(seed, n, j), known.random(seed, i, j))
            np.testing.assert_array_equal(program.uniform_numbers(seed, n, j), known.uniform(seed, i, j))
            found, expected = program.normal_numbers(seed, n, j), known.normal(seed, i, j) if n else np.empty(0)
            central = np.abs(known.uniform(seed, i, j) - 0.5) < 0.425
            np.testing.assert_array_equal(found[central], expected[central])
            np.testing.assert_allclose(found, expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_host_gives_the_same_numbers(seed: int) -> None:
    program = zynml.compile(
        "def random_at(s: i64, i: int, j: int) { random(s, i, j) }\n"
        "def uniform_at(s: i64, i: int) { uniform(s, i) }\n"
        "def normal_at(s: i64, i: int) { normal(s, i) }"
    )
    for i in (0, 1, -1, 1 << 50):
        assert program.random_at(seed, i, 9) == known.random(seed, i, 9)
        assert program.uniform_at(seed, i) == known.uniform(seed, i)
        assert program.normal_at(seed, i) == known.normal(seed, i)


def test_quantiles_at_the_ends_and_where_the_formulas_meet() -> None:
    f = FunctionBuilder("quantiles")
    f.parameter("N", INDEX)
    offsets, made = f.parameter("offsets", Mem("f64", ["N"])), f.parameter("made", Mem("f64", ["N"]))
    with f.body.loop("i", 0, "N") as (inner, loop):
        at = [loop.variable.name]
        inner.store(made, randoms.quantile(inner, inner.load(offsets, at)), at)
    function = f.finish()
    edges = [0.0, 2.0**-53, 0.425, 0.5 - 2.0**-53, 0.5 - math.exp(-25.0)]
    near = [math.nextafter(e, side) for e in edges[2:] for side in (0.0, 0.4999999999999999)]
    values = np.array([sign * e for e in (*edges, *near, *np.linspace(0.001, 0.4999, 101)) for sign in (1, -1)])
    found = np.zeros_like(values)
    compile_function(function, CpuOptions(level=OptimizationLevel.O3)).run([len(values), values.ctypes.data, found.ctypes.data], 1)
    # Half plus the offset rounds; the mirror image of the lower side doesn't.
    expected = [-math.copysign(1.0, v) * NormalDist().inv_cdf(0.5 - abs(v)) for v in values]
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=0)


def test_moments() -> None:
    """Each within five deviations of its own, for these seeds; of neighbours in either counter and in the seed no correlation."""
    n = 1 << 18
    program = zynml.compile(KERNELS)
    u, z = program.uniform_numbers(11, n, 0), program.normal_numbers(11, n, 0)
    assert u.min() >= 0 and u.max() < 1
    for sample, moments in ((u, (1 / 2, 1 / 3, 1 / 4, 1 / 5)), (z, (0, 1, 0, 3))):
        for power, expected in enumerate(moments, 1):
            parts = sample**power
            assert abs(parts.mean() - expected) < 5 * parts.std() / math.sqrt(n)
    counts, _ = np.histogram(u, bins=64, range=(0, 1))
    assert abs(((counts - n / 64) ** 2).sum() / (n / 64) - 63) < 5 * math.sqrt(2 * 63)
    for other in (program.normal_numbers(11, n, 1), program.normal_numbers(12, n, 0), np.roll(z, 1)):
        assert abs((z * other).mean()) < 5 / math.sqrt(n)


def test_sums_do_not_depend_on_threads() -> None:
    text = "def total(seed: i64, n: int) { compute(seed, n) @kernel(reduce, +) { for i in 0..n: yield normal(seed, i) } }"
    one, two = (zynml.compile(text, threads=threads).total(5, 100_003) for threads in (1, 2))
    assert one == two
    assert abs(one - math.fsum(known.normal(5, np.arange(100_003)))) < 1e-9
