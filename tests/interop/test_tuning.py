"""Tuning runs on the emulated GPU, whose times are those that a test gives: what is taken, told, kept, and when there is no run."""

import itertools
import logging
import re

import ml_dtypes
import numpy as np
import pytest

import zynml
from compiler.devices.tuning import trials, tuner
from compiler.launch.cuda import kernels as cuda_kernels
from compiler.schedule.gpu.products import candidates
from runtime.cuda.errors import CudaOutOfMemory
from runtime.cuda.graph import Recording
from runtime.cuda.remote import upload
from runtime.tensor import Tensor
from zyntax.main import cli
from zyntax.report import guarded

PRODUCT = """
def f(A: tensor[M, K, bf16], B: tensor[K, N, bf16]) {
    compute(A, B) @kernel(matmul) {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += A[i, k] * B[k, j]
            out[i, j] = s
    }
}"""


SIZES = (64, 64, 64)


@pytest.fixture
def times(monkeypatch, tmp_path, gpu):
    """Seconds of each candidate, in the order in which they are made: the second is the faster one until a test says else. Nothing is
    run while they are timed."""
    for name, value in {"ZYNTAX_TUNE": "on", "ZYNTAX_CACHE": "on", "ZYNTAX_CACHE_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ZYNTAX_TUNE_BUDGET", raising=False)
    monkeypatch.setattr(candidates, "LEAST", 0.0)
    monkeypatch.setattr(candidates, "MOST", 2)
    given, order = [10e-6, 8e-6], []

    def seconds(self, graph):
        kernel = graph.steps[0].plan.kernel
        if kernel not in order:
            order.append(kernel)
        return given[order.index(kernel) % 2] * len(graph.steps)

    monkeypatch.setattr(trials.Trials, "seconds", seconds)
    tuner.forget()
    yield given
    tuner.forget()


@pytest.fixture
def told(caplog):
    caplog.set_level(logging.INFO, "zyntax.tuning")

    def lines():
        messages = [record.message for record in caplog.records if record.name == "zyntax.tuning"]
        caplog.clear()
        return messages

    return lines


def matrices(gpu, m, n, k, seed=1):
    random = np.random.default_rng(seed)
    plain = [random.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n))]
    return plain, [Tensor(None, upload(one, gpu, named=True)) for one in plain]


def right(found, a, b):
    np.testing.assert_array_equal(np.asarray(found).astype(np.float64), a.astype(np.float64) @ b.astype(np.float64))


@pytest.fixture
def scheduled(monkeypatch):
    """The tilings that kernels were made for."""
    made, original = [], cuda_kernels.thread_kernel

    def watched(built, compute, facts):
        made.append(facts.tiling)
        return original(built, compute, facts)

    monkeypatch.setattr(cuda_kernels, "thread_kernel", watched)
    return made


def called(gpu, sizes=SIZES, **options):
    """One call of a program of its own, whose value is right."""
    (a, b), given = matrices(gpu, *sizes)
    f = zynml.compile(PRODUCT, device="cuda:0", **options).f
    right(f(*given), a, b)
    return f, given


def test_the_faster_is_taken_told_and_kept(fake, gpu, times, told, scheduled):
    f, given = called(gpu)
    (line,) = told()
    assert line.startswith("tuned <program>:3 (A 64x64, B 64x64): 2 of 2 candidates in ")
    usual, other = scheduled
    assert line.endswith(f"1.25 times as fast as the model's choice with {'; '.join(other.words())}")
    f(*given)
    assert told() == [] and len(scheduled) == 2
    tuner.forget()  # as in another process, with another text: kept calls don't hide what is known
    zynml.compile(PRODUCT + "\n// again\n", device="cuda:0").f(*given)
    assert told() == [] and scheduled[2:] == [other]
    assert usual != other


def test_the_models_choice_stands(fake, gpu, times, told, scheduled):
    times[1] = 11e-6
    called(gpu)
    assert told()[0].endswith("the model's choice is the fastest")
    tuner.forget()
    zynml.compile(PRODUCT + "\n// again\n", device="cuda:0").f(*matrices(gpu, *SIZES)[1])
    assert told() == [] and scheduled[2:] == scheduled[:1]


def test_other_sizes_are_tried_anew(fake, gpu, times, told):
    called(gpu)
    called(gpu, (64, 64, 128))
    assert len(told()) == 2


def test_nothing_is_kept_of_a_busy_device(fake, gpu, times, told, scheduled, monkeypatch):
    noise = itertools.cycle([0.8, 1.0, 1.3, 1.1])
    quiet = trials.Trials.seconds
    monkeypatch.setattr(trials.Trials, "seconds", lambda self, graph: next(noise) * quiet(self, graph))
    f, given = called(gpu)
    assert "the device is busy" in told()[0]
    f(*given)
    assert told() == []  # once is enough for a process
    monkeypatch.setattr(trials.Trials, "seconds", quiet)
    tuner.forget()
    called(gpu)
    assert "1.25 times as fast" in told()[0]


def test_out_of_memory_changes_nothing(fake, gpu, times, told, monkeypatch):
    def short(self, call):
        raise CudaOutOfMemory("cuMemAllocAsync", 2, "CUDA_ERROR_OUT_OF_MEMORY", 1 << 40, "none is free")

    monkeypatch.setattr(trials.Trials, "candidate", short)
    called(gpu)
    (line,) = told()
    assert "a candidate failed, and the model's choice stands: " in line and "out of memory" in line


def test_an_interrupted_run_is_made_again(fake, gpu, times, told, monkeypatch):
    quiet = trials.Trials.seconds

    def interrupted(self, graph):
        raise KeyboardInterrupt

    monkeypatch.setattr(trials.Trials, "seconds", interrupted)
    (a, b), given = matrices(gpu, *SIZES)
    f = zynml.compile(PRODUCT, device="cuda:0").f
    with pytest.raises(KeyboardInterrupt, match="ZYN0809"):
        f(*given)
    monkeypatch.setattr(trials.Trials, "seconds", quiet)
    right(f(*given), a, b)
    assert len(told()) == 1


def test_a_damaged_entry_is_as_none(fake, gpu, times, told, tmp_path):
    called(gpu)
    for path in (tmp_path / "code").glob("*.zyn"):
        path.write_bytes(path.read_bytes()[:-3] + b"???")
    tuner.forget()
    called(gpu)
    assert len(told()) == 2


@pytest.mark.parametrize("how", ["keyword", "environment"])
def test_no_run_where_nobody_wants_one(fake, gpu, times, told, scheduled, monkeypatch, how):
    called(gpu)
    usual = scheduled[0]
    told()
    tuner.forget()
    if how == "environment":
        monkeypatch.setenv("ZYNTAX_TUNE", "off")
    called(gpu, tune=how != "keyword")
    assert told() == [] and scheduled[2:] == [usual]  # nor is used what runs have found


def test_no_run_while_a_stream_is_recorded(fake, gpu, times, told):
    (a, b), given = matrices(gpu, *SIZES)
    f = zynml.compile(PRODUCT, device="cuda:0").f
    with Recording(gpu.new_stream()):
        right(f(*given), a, b)
    assert told() == []


def test_a_bad_budget_is_told(fake, gpu, times, monkeypatch):
    monkeypatch.setenv("ZYNTAX_TUNE_BUDGET", "60")
    with pytest.raises(zynml.ZynMLError) as error:
        called(gpu)
    assert error.value.codes == ("ZYN0505",)


def test_a_process_is_not_tuned_for_ever(fake, gpu, times, told):
    tuner.tuner_of(gpu).spent = tuner.ALL_RUNS
    for k in (64, 128):
        called(gpu, (64, 64, k))
    assert told() == ["tuning took 60 s in this process: from here on estimates decide, where nothing is known"]


def test_a_sequence_of_blocks_is_tuned_block_by_block(fake, gpu, times, told):
    twice = """
def f(A: tensor[M, K, bf16], B: tensor[K, N, bf16], C: tensor[N, K, bf16]) {
    let x = compute(A, B) @kernel(matmul) { for i in 0..M, j in 0..N { var s = 0.0
        for k in 0..K: s += A[i, k] * B[k, j]
        out[i, j] = s } }
    compute(x, C) @kernel(matmul) { for i in 0..M, j in 0..K { var s = 0.0
        for k in 0..N: s += x[i, k] * C[k, j]
        out[i, j] = s } }
}"""
    given = [tensor for seed in (1, 2) for tensor in matrices(gpu, *SIZES, seed)[1]]
    zynml.compile(twice, device="cuda:0").f(*given[:3])
    assert len(told()) == 2


def test_without_the_cache_a_process_still_knows(fake, gpu, times, told, monkeypatch):
    monkeypatch.setenv("ZYNTAX_CACHE", "off")
    called(gpu)
    called(gpu)
    assert len(told()) == 1


def test_the_schedule_says_what_is_known(fake, gpu, times, told, scheduled):
    open_to_choice = "1 other way is estimated to be as fast within 15%: the first call with its sizes tries such ways, without `--no-tune`"
    shown = zynml.compile(PRODUCT).emit("schedule", "sm_90a")
    assert open_to_choice in shown and "tuned on" not in shown
    called(gpu)
    shown = zynml.compile(PRODUCT).emit("schedule", "sm_90a")
    assert f"  tuned on Fake GPU for M=64, K=64, N=64: {'; '.join(scheduled[1].words())}\n" in shown
    assert "tuned on" not in zynml.compile(PRODUCT, tune=False).emit("schedule", "sm_90a")


PROGRAM = """let A = zeros(64, 64, dtype=bf16)
let c = compute(A) @device("cuda:0") @kernel(matmul) {
    for i in 0..M, j in 0..M:
        var s = 0.0
        for k in 0..K: s += A[i, k] * A[j, k]
        out[i, j] = s
}
println(c[3, 4])
"""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "tuned product.zynml:2 (A 64x64): 2 of 2 candidates in # s, the model's choice is the fastest\n"),
        (["--no-tune"], ""),
    ],
)
def test_the_command_tells_a_run(fake, gpu, times, tmp_path, monkeypatch, capsys, options, message):
    times[1] = 11e-6
    monkeypatch.chdir(tmp_path)
    (tmp_path / "product.zynml").write_text(PROGRAM)
    code = guarded(lambda: cli.main(args=["run", "product.zynml", *options], prog_name="zyntax", standalone_mode=False))
    out, err = capsys.readouterr()
    assert (code, out, re.sub(r"\d+\.\d s", "# s", err)) == (0, "0.0\n", message)


def test_a_run_leaves_no_trace_on_what_is_multiplied(fake, gpu, times, told, monkeypatch):
    """Arrays that another stream uses would go the long way at each later call."""
    planned = []
    original = cuda_kernels.planned
    monkeypatch.setattr(cuda_kernels, "planned", lambda *given: planned.append(given) or original(*given))
    f, given = called(gpu)
    assert len(told()) == 1 and all(not one.remote.elements.owner.users for one in given)
    f(*given)
    assert len(planned) == 1
