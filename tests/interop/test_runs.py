"""Functions of host code that machine code answers whole once they come again: what is launched then is right for the arguments of that
call, and functions that do more than launch stay what they are. Expected values from NumPy."""

import numpy as np
import pytest
from fake_driver import OUT_OF_MEMORY

import zynml
from compiler.launch.cuda import runs
from runtime.cuda.gpu import gpu as gpu_of
from runtime.cuda.remote import upload
from runtime.tensor import Tensor
from tests.learnt_runs import learnt_runs

AFTER = 3
"""Runs until machine code answers."""

PROGRAM = """
struct Weight { value: tensor, mean: tensor }
struct Pace { rate: f32, turns: int }
struct Layer { one: Weight, two: Weight }
struct Pair { x: tensor, y: tensor }
struct Trace { x: tensor, y: tensor, flat: tensor }

def step(w: tensor[N], m: tensor[N], g: tensor[N], rate: f32) {
    compute(mut m, mut w, g, rate) {
        for i in 0..N:
            m[i] = 0.5 * m[i] + g[i]
            w[i] = w[i] - rate * m[i]
    }
}
def scaled(x: tensor[N, C], w: tensor[C], by: f32): tensor {
    compute(x, w, by) { for i in 0..N, j in 0..C: out[i, j] = x[i, j] * w[j] * by }
}
def sums(x: tensor[N, C]): tensor { compute(x) { for j in 0..C { var s = 0.0f32; for i in 0..N { s += x[i, j] }; out[j] = s } } }
def plus(x: tensor[N], by: int): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] + (by as f32) } }

impl Layer {
    def forward(self, x: tensor[N, C], turns: int) {
        let y = scaled(x, self.one.value, (1.0 / sqrt(C as float)) as f32)
        let z = scaled(y, self.two.value, (turns as float) as f32)
        (z, Trace { x: x, y: y, flat: y.reshape([N * C]) })
    }
    def backward(self, t: Trace, d: tensor[N, C], pace: Pace) {
        step(self.one.value, self.one.mean, sums(d), pace.rate)
        step(self.two.value, self.two.mean, sums(t.y), pace.rate)
    }
}
def layer(a: tensor[C], b: tensor[C], c: tensor[C], d: tensor[C]): Layer {
    Layer { one: Weight { value: a, mean: b }, two: Weight { value: c, mean: d } }
}
def trained(model: Layer, x: tensor[N, C], turns: int, rate: f32) {
    let (z, trace) = model.forward(x, turns)
    model.backward(trace, z, Pace { rate: rate, turns: turns })
    z
}
def flat_and_all(x: tensor[N, C], w: tensor[C]) {
    let y = scaled(x, w, 2.0 as f32)
    let z = plus(y.reshape([N * C]), 1)
    z.reshape([N, C])
}
def pair(x: tensor[N], y: tensor[N]): Pair { Pair { x: x, y: y } }
def both(p: Pair) { (plus(p.x, 1), plus(p.y, 2)) }
def added(w: tensor[N], m: tensor[N], g: tensor[N], rate: f32) {
    step(w, m, g, rate)
    plus(w, 0)
}
"""


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(runs, "COMES_AGAIN", AFTER)


@pytest.fixture
def learnt(monkeypatch):
    """How many launches each function has that machine code answers."""
    return learnt_runs(monkeypatch)


@pytest.fixture
def program(gpu):
    return zynml.compile(PROGRAM, device="cuda:0")


@pytest.fixture
def ran(monkeypatch):
    """The runs that went through the program."""
    seen, run = [], runs.RepeatedRuns.run

    def noting(self, *values, **named):
        seen.append(self.function.__name__)
        return run(self, *values, **named)

    monkeypatch.setattr(runs.RepeatedRuns, "run", noting)
    return seen


def there(array):
    return Tensor(None, upload(np.ascontiguousarray(array), gpu_of(0), True))


def floats(*shape, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


class Expected:
    """The same network in float64."""

    def __init__(self, parts):
        self.a, self.b, self.c, self.d = (part.astype(np.float64) for part in parts)

    def step(self, value, mean, gradient, rate):
        mean[:] = 0.5 * mean + gradient
        value -= rate * mean

    def trained(self, x, turns, rate):
        y = x * self.a / np.sqrt(x.shape[1])
        z = y * self.c * turns
        self.step(self.a, self.b, z.sum(0), rate)
        self.step(self.c, self.d, y.sum(0), rate)
        return z


def test_training_with_other_arrays_and_floats_each_time(ran, program, learnt):
    parts = [floats(4, seed=seed) for seed in range(4)]
    model, expected = program.layer(*map(there, parts)), Expected(parts)
    for turn in range(4 * AFTER):
        x, rate = floats(3, 4, seed=10 + turn), 0.001 * (turn % 5)
        before = len(ran)
        got = program.trained(model, there(x), 2, rate)
        np.testing.assert_allclose(np.asarray(got), expected.trained(x, 2, float(np.float32(rate))), rtol=1e-5, atol=1e-5)
        assert (len(ran) == before) == (turn >= AFTER), "machine code has it"
    for part, want in zip((*model.one, *model.two), (expected.a, expected.b, expected.c, expected.d), strict=True):
        np.testing.assert_allclose(np.asarray(part), want, rtol=1e-4, atol=1e-5)
    assert learnt == [5], "two products of elements are one launch"


def test_what_the_host_reads_between_runs_is_new(program, learnt):
    """The host looks at a weight, so it has a copy of it, which the next run makes old."""
    parts = [floats(4, seed=seed) for seed in range(4)]
    model, expected = program.layer(*map(there, parts)), Expected(parts)
    for turn in range(3 * AFTER):
        x = floats(3, 4, seed=10 + turn)
        program.trained(model, there(x), 1, 0.25)
        expected.trained(x, 1, 0.25)
        np.testing.assert_allclose(np.asarray(model.one.value), expected.a, rtol=1e-5)
    assert learnt


def test_other_sizes_ints_and_layouts(program, learnt):
    """An int is a part of what a run is known by, as is every extent and stride."""
    for turn in range(3 * AFTER):
        for shape in ((3, 4), (1, 4), (5, 7), (31, 1)):
            parts = [floats(shape[1], seed=seed) for seed in range(4)]
            for turns in (1, 3):
                model, expected, x = program.layer(*map(there, parts)), Expected(parts), floats(*shape, seed=turn)
                got = program.trained(model, there(x), turns, 0.5)
                np.testing.assert_allclose(np.asarray(got), expected.trained(x, turns, 0.5), rtol=1e-5, atol=1e-5)
    assert len(learnt) == 8


def test_floats_outside_of_f32_and_of_other_kinds(program, learnt):
    for turn in range(3 * AFTER):
        for rate in (0.5, np.inf, np.nan, -0.0, 1e-45):
            parts = [floats(4, seed=seed) + 9 for seed in range(4)]
            x = floats(3, 4, seed=turn)
            got = program.layer(*map(there, parts))
            program.trained(got, there(x), 1, np.float32(rate))
            expected = Expected(parts)
            with np.errstate(invalid="ignore"):
                expected.trained(x, 1, float(np.float32(rate)))
            np.testing.assert_allclose(np.asarray(got.one.value), expected.a, rtol=1e-5)


def test_views_of_what_a_run_makes(program, learnt):
    for turn in range(3 * AFTER):
        x, w = floats(3, 4, seed=turn), floats(4, seed=turn + 1)
        np.testing.assert_array_equal(np.asarray(program.flat_and_all(there(x), there(w))), x * w * 2 + 1)
    assert learnt


def test_one_array_twice_isn_t_two(program, learnt):
    x = there(floats(4))
    for turn in range(3 * AFTER):
        y = floats(4, seed=turn)
        first, second = program.both(program.pair(x, x if turn % 2 else there(y)))
        np.testing.assert_array_equal(np.asarray(first), floats(4) + 1)
        np.testing.assert_array_equal(np.asarray(second), (floats(4) if turn % 2 else y) + 2)
    assert learnt == [2], "from a run with two arrays"


def test_an_array_and_its_view_are_two_arguments(program, learnt):
    """Learnt from a run in which both are the same memory, right for others."""
    for turn in range(3 * AFTER):
        x, y = floats(4, seed=turn), floats(4, seed=turn + 1)
        one = there(x)
        other = one.viewed_as((4,)) if turn < AFTER else there(y)
        first, second = program.both(program.pair(one, other))
        np.testing.assert_array_equal(np.asarray(first), x + 1)
        np.testing.assert_array_equal(np.asarray(second), (x if turn < AFTER else y) + 2)
    assert learnt == [2]


def test_arrays_that_share_memory_are_told_as_before(program, learnt):
    """An update of an array that another argument views isn't what was learnt."""
    for turn in range(2 * AFTER):
        w, m, g = floats(4, seed=turn), floats(4, seed=turn + 1), floats(4, seed=turn + 2)
        got = np.asarray(program.added(there(w), there(m), there(g), 0.5))
        np.testing.assert_allclose(got, w - 0.5 * (0.5 * m + g))
    assert learnt
    w, m = there(floats(4)), there(floats(4, seed=1))
    with pytest.raises(zynml.ZynMLError) as told:
        program.added(w, m, w, 0.5)
    alone = zynml.compile(PROGRAM, device="cuda:0")
    with pytest.raises(zynml.ZynMLError) as first:
        alone.added(w, m, w, 0.5)
    assert str(told.value) == str(first.value) and "ZYN0813" in str(first.value)


def test_a_launch_that_is_refused_is_told_and_nothing_is_done_twice(program, fake, learnt):
    """The second of two launches is refused: the update before it is done once, and the error is the block's."""
    w, m, g = floats(4), floats(4, seed=1), floats(4, seed=2)
    for _ in range(AFTER + 1):
        program.added(there(w), there(m), there(g), 0.5)
    assert learnt == [2]
    first, second, third = there(w), there(m), there(g)
    launch, count = fake.library.driver._launch, []

    def refusing(*arguments):
        count.append(1)
        return (1, None) if len(count) == 2 else launch(*arguments)

    fake._launch = refusing
    with pytest.raises(zynml.ZynMLError, match="CUDA_ERROR_INVALID_VALUE"):
        program.added(first, second, third, 0.5)
    del fake._launch
    np.testing.assert_allclose(np.asarray(first), w - 0.5 * (0.5 * m + g))
    np.testing.assert_allclose(np.asarray(program.added(first, second, third, 0.0)), w - 0.5 * (0.5 * m + g))


def test_no_memory_goes_the_way_through_the_program(program, fake, learnt):
    x, w = floats(3, 4), floats(4)
    given = there(x), there(w)
    for _ in range(AFTER + 1):
        program.flat_and_all(*given)
    assert learnt
    gpu_of(0).trim()
    fake.fail_next["cuMemAllocAsync"] = OUT_OF_MEMORY
    np.testing.assert_array_equal(np.asarray(program.flat_and_all(*given)), x * w * 2 + 1)


def test_memory_stays_as_it_was(program, gpu, learnt):
    parts = [floats(4, seed=seed) for seed in range(4)]
    before, seen = gpu.pool.statistics().in_use, []
    model = program.layer(*map(there, parts))
    for turn in range(6 * AFTER):
        program.trained(model, there(floats(3, 4, seed=turn)), 2, 0.5)
        statistics = gpu.pool.statistics()
        seen.append((statistics.in_use, statistics.most))
    assert learnt and len(set(seen[2 * AFTER :])) == 1
    del model
    assert gpu.pool.statistics().in_use == before, "nothing keeps the arrays of the run that was watched"


MORE = """
struct Holder { x: tensor }
def holder(x: tensor[N]): Holder { Holder { x: x } }
mut calls = 0
mut kept: List<tensor> = []
def twice(x: tensor[N]): tensor { compute(x) { for i in 0..N: out[i] = 2.0 * x[i] } }
def plus(x: tensor[N], by: f32): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] + by } }

def by_element(h: Holder): tensor { plus(twice(h.x), twice(h.x)[0] as f32) }
def by_mean(h: Holder): tensor { plus(twice(h.x), h.x.mean() as f32) }
def by_choice(h: Holder, flag: bool): tensor { if flag { plus(twice(h.x), 1.0 as f32) } else { twice(twice(h.x)) } }
def by_float(h: Holder, rate: f32): tensor { if rate > 0.5 { plus(twice(h.x), rate) } else { twice(twice(h.x)) } }
def by_square(h: Holder, rate: f32): tensor { plus(twice(h.x), rate * rate) }
def by_half(h: Holder, rate: float): tensor { plus(twice(h.x), rate as f32) }
def by_random(h: Holder): tensor { plus(twice(h.x), rand(1)[0] as f32) }
def counted(h: Holder): tensor {
    calls += 1
    plus(twice(h.x), (calls as float) as f32)
}
def keeping(h: Holder): tensor {
    kept.push(twice(h.x))
    plus(twice(h.x), (len(kept) as float) as f32)
}
def told(h: Holder): tensor {
    println("told")
    twice(twice(h.x))
}
def picked(h: Holder, k: tensor[M, i64]): tensor {
    let y = twice(h.x)
    compute(y, k) { for i in 0..M: out[i] = y[k[i]] }
}
def by_any(h: Holder, rate): tensor { plus(twice(h.x), rate) }
def by_list(h: Holder, by: List<float>): tensor { plus(twice(h.x), by[0] as f32) }
def by_flag(h: Holder, flag: int): tensor { plus(chosen(twice(h.x), flag), 1.0 as f32) }
def chosen(x: tensor[N], flag: int): tensor { compute(x, flag) { for i in 0..N: out[i] = if flag == 1 { x[i] } else { -x[i] } } }
"""


def test_functions_that_do_more_than_launch(gpu, capsys, learnt):
    """Elements that are read, choices, computed and random numbers, variables, lists that grow, text: each call has its own."""
    program = zynml.compile(MORE, device="cuda:0")
    random = set()
    for turn in range(1, 4 * AFTER):
        x = floats(5, seed=turn)
        given, rate, flag = program.holder(there(x)), np.float32(turn / 8), bool(turn // 5 % 2)
        got = {
            "by_element": (program.by_element(given), 2 * x + 2 * x[0]),
            "by_mean": (program.by_mean(given), 2 * x + x.mean()),
            "by_choice": (program.by_choice(given, flag), 2 * x + 1 if flag else 4 * x),
            "by_float": (program.by_float(given, rate), 2 * x + rate if rate > 0.5 else 4 * x),
            "by_square": (program.by_square(given, rate), 2 * x + rate * rate),
            "by_half": (program.by_half(given, float(rate)), 2 * x + rate),
            "counted": (program.counted(given), 2 * x + turn),
            "keeping": (program.keeping(given), 2 * x + turn),
            "told": (program.told(given), 4 * x),
            "picked": (program.picked(given, there(np.array([turn % 5, 0]))), 2 * x[[turn % 5, 0]]),
            "by_any": (program.by_any(given, rate), 2 * x + rate),
            "by_any of an int": (program.by_any(given, turn), 2 * x + turn),
            "by_list": (program.by_list(given, [float(turn)]), 2 * x + turn),
            "by_flag": (program.by_flag(given, int(flag)), (2 * x if flag else -2 * x) + 1),
        }
        for name, (value, want) in got.items():
            np.testing.assert_allclose(np.asarray(value), want, rtol=1e-6, atol=1e-6, err_msg=name)
        random.add(float((np.asarray(program.by_random(given)) - 2 * x)[0]))
    assert len(random) > AFTER and learnt, "one is straight, with its int"
    assert capsys.readouterr().out.count("told") == 4 * AFTER - 1
    with pytest.raises(zynml.ZynMLError, match="5"):
        program.picked(program.holder(there(floats(5))), there(np.array([5, 0])))


def test_watching_a_run_sees_its_launches(program, learnt):
    """Whoever learns what a function launches isn't answered by those that it calls."""
    from compiler.launch.cuda.direct import GPU_CALLS

    x, w = floats(3, 4), floats(4)
    given = there(x), there(w)
    for _ in range(AFTER + 1):
        program.flat_and_all(*given)
    assert learnt
    with GPU_CALLS.watched() as calls:
        program.flat_and_all(*given)
    assert len(calls) == 2
