"""Calls that another process made: here another program object, with the folder of the cache between them."""

from pathlib import Path

import numpy as np
import pytest

import zynml
from compiler.launch.cuda import kernels as cuda_kernels
from runtime import device
from runtime.cuda.remote import upload
from runtime.tensor import Tensor
from zynml import api

PROGRAM = """
def add(x: tensor[M, N], y: tensor[M, N]): tensor { compute(x, y) { for i in 0..M, j in 0..N: out[i, j] = x[i, j] + y[i, j] } }
def scale(x: tensor[N], by: f32): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def first(x: tensor[N], n: int): tensor { compute(x, n) { for i in 0..n: out[i] = x[i] } }
def both(x: tensor[N]) { compute(x) -> (y: tensor[N], z: tensor[N, f64]) { for i in 0..N { y[i] = x[i] + 1.0; z[i] = x[i] * 2.0 } } }
def ordered(x: tensor[N, i32]) { compute(x) @kernel(sort) { for i in 0..N: yield x[i] } }
def total(x: tensor[N]): f32 { compute(x) @kernel reduce(+) { for i in 0..N: yield x[i] } }
"""


@pytest.fixture
def scheduled(monkeypatch, tmp_path):
    """Kernels that were scheduled, by name."""
    monkeypatch.setenv("ZYNTAX_CACHE", "on")
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    made, original = [], cuda_kernels.thread_kernel

    def counted(built, compute, facts):
        made.append(built.lowered.function.name)
        return original(built, compute, facts)

    monkeypatch.setattr(cuda_kernels, "thread_kernel", counted)
    return made


def resident(gpu, array):
    return Tensor(None, upload(array, gpu, named=True))


def numbers(*shape, seed=1):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


def entries(folder: Path) -> list[Path]:
    return sorted((folder / "code").glob("*.zyn"))


CALLS = {
    "add": (lambda gpu, seed: (resident(gpu, numbers(5, 6, seed=seed)), resident(gpu, numbers(5, 6, seed=seed + 1))), lambda x, y: x + y),
    "scale": (lambda gpu, seed: (resident(gpu, numbers(7, seed=seed)), 2.5 + seed), lambda x, by: x * np.float32(by)),
    "first": (lambda gpu, seed: (resident(gpu, numbers(9, seed=seed)), 4), lambda x, n: x[:n]),
    "both": (lambda gpu, seed: (resident(gpu, numbers(6, seed=seed)),), lambda x: (x + 1, x.astype(np.float64) * 2)),
    "ordered": (lambda gpu, seed: (resident(gpu, numbers(40, seed=seed).astype(np.int32)),), np.sort),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_was_made_elsewhere_needs_no_schedule(name, fake, gpu, scheduled):
    given, wanted = CALLS[name]
    for seed in range(4):
        program = zynml.compile(PROGRAM)
        for again in range(2):
            values = given(gpu, seed + 10 * again)
            plain = [np.asarray(value) if isinstance(value, Tensor) else value for value in values]
            found, expected = getattr(program, name)(*values), wanted(*plain)
            for one, other in zip(found if isinstance(found, tuple) else [found], expected if isinstance(expected, tuple) else [expected], strict=True):
                assert np.asarray(one).dtype == other.dtype
                np.testing.assert_array_equal(np.asarray(one), other)
    assert len(scheduled) == 1


def test_what_decides_on_a_call_is_in_its_name(fake, gpu, scheduled):
    for program in (PROGRAM, PROGRAM + "// another text\n"):
        for count, kind, n in ((8, np.float32, 4), (9, np.float32, 4), (8, np.int32, 4), (8, np.float32, 5)):
            x = numbers(count).astype(kind)
            for _ in range(2):
                np.testing.assert_array_equal(np.asarray(zynml.compile(program.replace("x: tensor[N], n", "x, n")).first(resident(gpu, x), n)), x[:n])
    assert len(scheduled) == 8


def test_damage_costs_only_time(fake, gpu, scheduled, tmp_path):
    x = numbers(7)
    for damage in (lambda held: held[:-3], lambda held: held[:40], lambda held: b"", lambda held: held.replace(b"plans", b"plane")):
        np.testing.assert_array_equal(np.asarray(zynml.compile(PROGRAM).scale(resident(gpu, x), 3.0)), x * 3)
        for entry in entries(tmp_path):
            entry.write_bytes(damage(entry.read_bytes()))
    assert len(scheduled) == 4


def test_numbers_are_kept_too(fake, gpu, scheduled):
    for _ in range(2):
        assert zynml.compile(PROGRAM).total(resident(gpu, numbers(9))) == numbers(9).sum()
    assert len(scheduled) == 1


def test_nothing_is_kept_without_a_cache(fake, gpu, scheduled, tmp_path, monkeypatch):
    monkeypatch.setenv("ZYNTAX_CACHE", "off")
    for _ in range(2):
        zynml.compile(PROGRAM).scale(resident(gpu, numbers(7)), 3.0)
    assert len(scheduled) == 2
    assert not entries(tmp_path)


# ---- programs that another process compiled ----


@pytest.fixture
def parsed(monkeypatch):
    """Texts that were parsed."""
    made, original = [], api.parse_source

    def counted(source):
        made.append(source.text)
        return original(source)

    monkeypatch.setattr(api, "parse_source", counted)
    return made


def test_a_program_whose_call_is_kept_is_not_parsed(fake, gpu, scheduled, parsed):
    x = numbers(7)
    for by in (2.0, 3.0, 4.0):
        program = zynml.compile(PROGRAM, device="cuda:0")
        assert (list(program.functions), program.warnings) == (["add", "scale", "first", "both", "ordered", "total"], ())
        np.testing.assert_array_equal(np.asarray(program.scale(resident(gpu, x), by)), x * np.float32(by))
    assert (len(parsed), len(scheduled)) == (1, 1)


def test_it_is_parsed_for_another_call(fake, gpu, scheduled, parsed):
    zynml.compile(PROGRAM).scale(resident(gpu, numbers(7)), 2.0)
    program = zynml.compile(PROGRAM)
    assert len(parsed) == 1
    np.testing.assert_array_equal(program.scale(numbers(5), 2.0), numbers(5) * 2)
    np.testing.assert_array_equal(np.asarray(program.scale(resident(gpu, numbers(9)), by=2.0)), numbers(9) * 2)
    assert "scale" in program.emit("hir")
    assert len(parsed) == 2
    with pytest.raises(zynml.ZynMLError) as error:
        zynml.compile(PROGRAM).scale(numbers(5))
    assert error.value.codes == ("ZYN0204",)


WRONG = PROGRAM + "def wrong(x: tensor[N]): tensor { compute(x) { for i in 0..N: out[i] = x[i] + y } }\n"
WARNED = PROGRAM + "def warned(x: tensor[N]): tensor { compute(x) -> tensor[2 * N] { for i in 0..N: out[2 * i] = x[i] } }\n"


def test_faults_and_warnings_come_each_time(fake, gpu, scheduled, parsed):
    for count in (1, 2):
        with pytest.raises(zynml.ZynMLError):
            zynml.compile(WRONG)
        assert len(parsed) == count
    warned = [zynml.compile(WARNED)]
    warned[0].scale(resident(gpu, numbers(7)), 2.0)
    warned.append(zynml.compile(WARNED))
    assert len(parsed) == 3
    assert [d.code for d in warned[0].warnings] == ["0601"]
    assert warned[1].warnings == warned[0].warnings


def test_statements_of_a_program_run_each_time(fake, gpu, scheduled, parsed, capfd):
    text = PROGRAM + 'println("begun")\n'
    for _ in range(2):
        zynml.compile(text).scale(resident(gpu, numbers(7)), 2.0)
    assert capfd.readouterr().out == "begun\nbegun\n"
    assert len(parsed) == 2


def test_a_device_that_is_gone_is_missed(fake, gpu, scheduled, monkeypatch):
    text = 'def f(x: tensor[N]): tensor { compute(x) @device("cuda:0") { for i in 0..N: out[i] = x[i] } }\n'
    zynml.compile(text).f(resident(gpu, numbers(7)))
    zynml.compile(text).f(resident(gpu, numbers(7)))
    monkeypatch.setattr(device, "_gpus", lambda: 0)
    for given in ({}, {"device": "cuda:0"}):
        with pytest.raises(zynml.ZynMLError) as error:
            zynml.compile(text, **given)
        assert error.value.codes == ("ZYN0501",)


def test_options_tell_programs_apart(fake, gpu, scheduled, parsed):
    for given in ({}, {"opt": "0"}, {"threads": 1}, {"device": "cuda:0"}, {"strict": True}, {}):
        zynml.compile(PROGRAM, **given).scale(resident(gpu, numbers(7)), 2.0)
    assert len(parsed) == 5


def test_what_no_gpu_was_asked_for_is_not_kept(fake, gpu, scheduled, parsed, tmp_path):
    for count in (1, 2):
        zynml.compile(PROGRAM).scale(numbers(7), 2.0)
        assert len(parsed) == count


def test_a_damaged_program_is_parsed_again(fake, gpu, scheduled, parsed, tmp_path):
    for damage in (lambda held: held[:-3], lambda held: b"", lambda held: held.replace(b"functions", b"functionz")):
        zynml.compile(PROGRAM).scale(resident(gpu, numbers(7)), 2.0)
        for entry in entries(tmp_path):
            entry.write_bytes(damage(entry.read_bytes()))
    zynml.compile(PROGRAM)
    assert len(parsed) == 4
