"""Functions of several blocks that come back on a GPU: their launches come again without the program, and as one graph where addresses
do; never for what they weren't seen with."""

from collections import Counter

import numpy as np
import pytest
from foreign import ByDlpack

import zynml
from compiler.launch.cuda import repeats
from tests.fusion import transformer
from tests.fusion.test_transformer_block import NARROW

PROGRAM = """
def first(x: tensor[N], by: f32): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def chain(x: tensor[N], y: tensor[N], by: f32): tensor {
    let a = compute(x, y) { for i in 0..N: out[i] = x[i] + y[i] }
    let b = first(a, by)
    let c = compute(b, a) { for i in 0..N: out[i] = b[i] * a[i] }
    let d = compute(c, x) { for i in 0..N: out[i] = c[i] - x[i] }
    first(d, 0.5)
}
def both(x: tensor[N], y: tensor[N]) {
    let a = compute(x, y) { for i in 0..N: out[i] = x[i] + y[i] }
    let b = compute(a, y) { for i in 0..N: out[i] = a[i] * y[i] }
    let c = compute(b) @kernel(scan, +) { for i in 0..N: yield b[i] }
    (c, a)
}
def looks(x: tensor[N]): tensor {
    let a = compute(x) { for i in 0..N: out[i] = x[i] * 2.0 }
    println(a.shape())
    compute(a, x) { for i in 0..N: out[i] = a[i] + x[i] }
}
let x = tensor([1.0])  // a name that functions have of their own, too
let mut outside = 1.0f32
def depends(x: tensor[N]): tensor {
    let a = compute(x, outside) { for i in 0..N: out[i] = x[i] * outside }
    first(a, 2.0)
}
def change(value: f32) { outside = value }
"""


@pytest.fixture(autouse=True)
def several_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls stay calls: inlined, the chains of these programs would be one launch."""
    monkeypatch.setattr("compiler.backends.host.program.inlined", lambda program, checker: program)


@pytest.fixture
def program(fake):
    return zynml.compile(PROGRAM, device="cuda")


def numbers(seed, count=9):
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def expected(x, y, by):
    x, y = x.astype(np.float64), y.astype(np.float64)
    return ((x + y) * by * (x + y) - x) * 0.5


def on_gpu(program, gpu, values):
    return program.first(ByDlpack(gpu, values), 1.0)


def test_a_sequence_comes_again_as_one_graph(program, gpu, fake, monkeypatch):
    monkeypatch.setattr(repeats, "COMES_AGAIN", 0)  # machine code makes each launch, for less
    values = [(numbers(2 * k), numbers(2 * k + 1)) for k in range(3)]
    arrays = [(on_gpu(program, gpu, x), on_gpu(program, gpu, y)) for x, y in values]
    kernels = set()
    for _ in range(8):
        for (x, y), (one, other) in zip(values, arrays, strict=True):
            before = Counter(fake.calls)
            result = program.chain(one, other, 3.0)
            calls = Counter(fake.calls) - before
            np.testing.assert_allclose(np.asarray(result), expected(x, y, 3.0), rtol=1e-5, atol=1e-5)
            del result
        kernels.add((calls["cuLaunchKernelEx"], calls["cuGraphLaunch"]))
    assert (0, 1) in kernels
    assert calls == {"cuGraphLaunch": 1}


def test_other_sizes_numbers_and_arrays(program, gpu):
    for count in (5, 0, 1, 40, 5):
        for by in (2.0, -0.0, 0.0, 3.0, 2.0):
            x, y = numbers(count, count), numbers(count + 1, count)
            one, other = on_gpu(program, gpu, x), on_gpu(program, gpu, y)
            for left, right, a, b in ((one, other, x, y), (other, one, y, x), (one, one, x, x), (one, other, x, y)):
                np.testing.assert_allclose(np.asarray(program.chain(left, right, by)), expected(a, b, by), rtol=1e-5, atol=1e-5)


def test_results_that_live_on(program, gpu):
    x, y = numbers(1), numbers(2)
    one, other = on_gpu(program, gpu, x), on_gpu(program, gpu, y)
    kept = [program.chain(one, other, float(k)) for k in (1, 2, 1, 2, 1, 2)]
    for k, result in zip((1, 2, 1, 2, 1, 2), kept, strict=True):
        np.testing.assert_allclose(np.asarray(result), expected(x, y, float(k)), rtol=1e-5, atol=1e-5)
    again = program.chain(kept[0], other, 1.0)
    np.testing.assert_allclose(np.asarray(again), expected(expected(x, y, 1.0), y, 1.0), rtol=1e-4, atol=1e-4)


def test_what_shows_something_shows_it_each_time(program, gpu, capsys):
    one = on_gpu(program, gpu, numbers(1))
    for _ in range(3):
        program.looks(one)
    assert capsys.readouterr().out == "[9]\n" * 3


def test_what_depends_on_the_program_is_made_anew(program, gpu):
    x = numbers(1)
    one = on_gpu(program, gpu, x)
    for value in (1.0, 3.0, 1.0):
        program.change(value)
        for _ in range(3):
            np.testing.assert_allclose(np.asarray(program.depends(one)), x * np.float32(value) * 2, rtol=1e-6)


def test_several_values(program, gpu, fake):
    """One kernel of two results, of which a later block reads one, and the function gives the other."""
    one, other = on_gpu(program, gpu, numbers(1, 40)), on_gpu(program, gpu, numbers(2, 40))
    a = numbers(1, 40).astype(np.float64) + numbers(2, 40)
    seen, kept = [], []
    for _ in range(12):
        before = Counter(fake.calls)
        sums, added = program.both(one, other)
        seen.append(Counter(fake.calls) - before)
        np.testing.assert_allclose(np.asarray(sums), np.cumsum(a * numbers(2, 40)), rtol=1e-4, atol=1e-5)
        kept = [*kept, added][-2:]
        assert all(np.allclose(np.asarray(one), a, atol=1e-6) for one in kept)
    assert any(calls == {"cuLaunchKernelEx": 2} for calls in seen) and seen[0]["cuLaunchKernelEx"] <= 3


def test_no_memory_is_kept(program, gpu):
    one, other = on_gpu(program, gpu, numbers(1)), on_gpu(program, gpu, numbers(2))
    for _ in range(5):
        program.chain(one, other, 3.0)
    gpu.stream.synchronize()
    assert gpu.pool.statistics().blocks_in_use == 2


HEADS = """
def heads(x: tensor[N, C], by: f32): tensor {
    let a = compute(x, by) { for i in 0..N, c in 0..C: out[i, c] = x[i, c] * by }
    let b = compute(a) -> tensor[N, C, f32] { for h in 0..C / 4, i in 0..N, d in 0..4: out[i, h * 4 + d] = a[i, h * 4 + 3 - d] }
    compute(b, x) { for i in 0..N, c in 0..C: out[i, c] = b[i, c] + x[i, c] }
}
def turned(x: tensor[N, C]): tensor {
    compute(x) -> tensor[N, C, f32] { for d in 0..4, h in 0..C / 4, i in 0..N: out[i, h * 4 + d] = x[i, h * 4 + 3 - d] }
}
"""


def turned(x):
    """The columns of each whole head the other way around; the rest is 0."""
    want = np.zeros(x.shape)
    whole = x.shape[1] // 4 * 4
    want[:, :whole] = x[:, :whole].reshape(x.shape[0], -1, 4)[:, :, ::-1].reshape(x.shape[0], whole)
    return want


@pytest.mark.parametrize("columns", [8, 7, 4, 3, 8])
def test_heads_that_fill_rows_need_no_zeros(gpu, fake, columns):
    program = zynml.compile(HEADS, device="cuda")
    x = np.random.default_rng(columns).standard_normal((3, columns)).astype(np.float32)
    array = ByDlpack(gpu, x)
    given = program.turned(array)
    np.testing.assert_array_equal(np.asarray(given), turned(x))
    seen = []
    for _ in range(6):
        before = Counter(fake.calls)
        result = program.heads(given, 2.0)
        seen.append(Counter(fake.calls) - before)
        np.testing.assert_allclose(np.asarray(result), turned(2.0 * turned(x)) + turned(x), rtol=1e-6)
        del result
    zeros = [sum(count for name, count in calls.items() if name.startswith("cuMemset")) for calls in seen]
    if columns % 4 == 0:
        assert not any(zeros) and any(calls == {"cuGraphLaunch": 1} for calls in seen)
    else:
        assert all(zeros)


KEEP = """
def keep1(x: tensor[N, bf16]): tensor { compute(x) { for i in 0..N: out[i] = x[i] } }
def keep2(x: tensor[N, M, bf16]): tensor { compute(x) { for i in 0..N, j in 0..M: out[i, j] = x[i, j] } }
def keep3(x: tensor[N, M, K, bf16]): tensor { compute(x) { for i in 0..N, j in 0..M, k in 0..K: out[i, j, k] = x[i, j, k] } }
"""


def test_a_block_of_a_transformer_is_one_graph(gpu, fake):
    program = zynml.compile(NARROW[: NARROW.index("def filled")] + KEEP, device="cuda")
    given = transformer.inputs(1, 3, 16, 8)
    arrays = [getattr(program, f"keep{one.ndim}")(ByDlpack(gpu, one)) for one in given]
    want, seen = transformer.expected(given, depth=8), []
    for _ in range(8):
        before = Counter(fake.calls)
        result = program.transformer_block(*arrays)
        seen.append(Counter(fake.calls) - before)
        assert np.linalg.norm(np.asarray(result).astype(np.float64) - want) <= 0.01 * np.linalg.norm(want)
        del result
    assert any(calls == {"cuGraphLaunch": 1} for calls in seen)
    assert not any(name.startswith("cuMemset") for calls in seen for name in calls)


def test_memory_of_a_sequence_is_laid_out_once():
    """Parts of 1000 and 2000 bytes: what is still read isn't written over, what isn't is; the function's value lies elsewhere."""
    from types import SimpleNamespace

    from compiler.launch.cuda.memory import CallMemory, LastingZeros
    from compiler.launch.cuda.sequences import SequencePart, laid_out

    def part(results, workspaces, made):
        return SequencePart(SimpleNamespace(results=results, workspaces=workspaces), (), (), made)

    small, large, zeros = CallMemory.of((250,), "f32"), CallMemory.of((500,), "f32"), LastingZeros.of((4,), "i32")
    parts = [
        part((small,), (large,), ()),
        part((small, large), (zeros,), ((0, 0, 0),)),
        part((small,), (), ((0, 1, 0),)),
        part((large,), (), ((0, 0, 0), (1, 2, 0))),
        part((small,), (), ((0, 3, 0),)),
    ]
    found = laid_out(parts, {(4, 0)})
    assert found.results == ((0,), (1024, 2048), (2048,), (3072,), (None,))
    assert found.workspaces == ((1024,), (None,), (), (), ())
    assert found.bytes == 5120
