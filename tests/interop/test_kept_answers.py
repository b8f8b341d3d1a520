"""Calls on the CPU that another process made: its machine code answers, and neither the compiler nor LLVM is loaded."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import zynml
from compiler.launch import kernels
from compiler.launch.native_calls import calls
from compiler.launch.native_calls.kept import KeptAnswers
from runtime.cpu import load

PROGRAM = """
def product(x: tensor[M, K], y: tensor[K, N]): tensor {
    compute(x, y) { for i in 0..M, j in 0..N { var s = 0.0; for k in 0..K: s += x[i, k] * y[k, j]; out[i, j] = s } }
}
def scale(x: tensor[N], by: f32): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def times(x: tensor[N, i64], by: int): tensor[N, i64] { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def halved(x: tensor[N, bf16]): tensor[N, bf16] { compute(x) { for i in 0..N: out[i] = x[i] * 0.5 } }
def waves(x: tensor[N, f64]): tensor[N, f64] { compute(x) { for i in 0..N: out[i] = sin(x[i]) } }
def total(x: tensor[N, f64]): f64 { compute(x) @kernel reduce(+) { for i in 0..N: yield x[i] } }
def both(x: tensor[N]) { compute(x) -> (y: tensor[N], z: tensor[N]) { for i in 0..N { y[i] = x[i] + 1.0; z[i] = x[i] * 2.0 } } }
def raised(mut w: tensor[N], x: tensor[N]) { compute(mut w, x) { for i in 0..N: w[i] = w[i] + x[i] } }
def picked(x: tensor[N], k: tensor[M, i64]): tensor { compute(x, k) { for i in 0..M: out[i] = x[k[i]] } }
def twice(x: tensor[N]): tensor {
    let y = compute(x) { for i in 0..N: out[i] = x[i] + x[i] }
    compute(y) { for i in 0..N: out[i] = y[i] + y[i] }
}
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("ZYNTAX_CACHE", "on")
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def made(monkeypatch):
    """Objects that LLVM made."""
    texts, original = [], load.CompiledModule._optimise

    def counted(module):
        texts.append(module.text)
        return original(module)

    monkeypatch.setattr(load.CompiledModule, "_optimise", counted)
    monkeypatch.setattr(load, "_GENERATED", {})  # of other tests of this process
    return texts


def numbers(*shape, seed=1, dtype=np.float32):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(dtype)


def halves_of_bf16():
    import ml_dtypes

    return numbers(9, dtype=ml_dtypes.bfloat16)


CALLS = {
    "product": (lambda: (numbers(7, 5), numbers(5, 9, seed=2)), lambda x, y: x @ y),
    "scale": (lambda: (numbers(7), 2.5), lambda x, by: x * np.float32(by)),
    "times": (lambda: (numbers(7, dtype=np.int64), 3), lambda x, by: x * by),
    "halved": (lambda: (halves_of_bf16(),), lambda x: x * x.dtype.type(0.5)),
    "waves": (lambda: (numbers(7, dtype=np.float64),), np.sin),
    "total": (lambda: (numbers(7, dtype=np.float64),), np.sum),
    "both": (lambda: (numbers(7),), lambda x: (x + 1, x * 2)),
    "picked": (lambda: (numbers(7), np.array([6, 0, 3])), lambda x, k: x[k]),
    "twice": (lambda: (numbers(7),), lambda x: 4 * x),
}


def compare(value, wanted):
    for one, other in zip(value if isinstance(value, tuple) else [value], wanted if isinstance(wanted, tuple) else [wanted], strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_allclose(np.asarray(one, np.float64), np.asarray(other, np.float64), rtol=1e-6)


@pytest.mark.parametrize("name", CALLS)
def test_another_program_object_needs_no_llvm(name, made):
    given, wanted = CALLS[name]
    compare(getattr(zynml.compile(PROGRAM), name)(*given()), wanted(*given()))
    count = len(made)
    assert count
    program = zynml.compile(PROGRAM)
    for _ in range(3):
        compare(getattr(program, name)(*given()), wanted(*given()))
    assert len(made) == count
    assert program._opened._session is None


def test_sizes_are_read_from_the_arrays(made):
    """Paths through the kernel are compiled as they come; the next process finds all of it."""
    zynml.compile(PROGRAM).product(numbers(4, 5), numbers(5, 6))
    for _ in range(3):
        count, program = len(made), zynml.compile(PROGRAM)
        for m, k, n in ((1, 1, 1), (0, 3, 2), (33, 17, 65), (300, 40, 200)):
            x, y = numbers(m, k), numbers(k, n, seed=2)
            compare(program.product(x, y), x @ y)
    assert len(made) == count


def test_inputs_are_updated_in_place(made):
    zynml.compile(PROGRAM).raised(numbers(4), numbers(4))
    count = len(made)
    w = numbers(6)
    assert zynml.compile(PROGRAM).raised(w, numbers(6)) is w
    np.testing.assert_array_equal(w, 2 * numbers(6))
    assert len(made) == count


def test_what_decides_on_the_code_is_in_its_name(made):
    for program in (PROGRAM, PROGRAM + "// another text\n"):
        for options in ({}, {"opt": 1}, {"threads": 1}, {"floats": "strict"}):
            for values in ((numbers(8), 2.0), (numbers(8), 2), (numbers(16)[::2], 2.0)):
                before = len(made)
                load._GENERATED.clear()  # what differs in nothing that the code depends on
                compare(zynml.compile(program, **options).scale(*values), values[0] * np.float32(2))
                count = len(made)
                assert count > before
                compare(zynml.compile(program, **options).scale(*values), values[0] * np.float32(2))
                assert len(made) == count


def test_faults_are_those_of_the_program():
    zynml.compile(PROGRAM).picked(numbers(3), np.array([2, 0]))
    messages = []
    for program in (zynml.compile(PROGRAM), zynml.compile(PROGRAM + "// another text\n")):
        with pytest.raises(zynml.ZynMLError) as error:
            program.picked(numbers(3), np.array([0, 3]))
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert "ZYN0801" in messages[0]


def test_refused_arguments_have_the_messages_of_the_program():
    zynml.compile(PROGRAM).scale(numbers(3), 2.0)
    for values in ((numbers(3),), (numbers(3, 3), 2.0), (numbers(3, dtype=np.float64), 2.0), (numbers(3), "2")):
        with pytest.raises(zynml.ZynMLError) as cold:
            zynml.compile(PROGRAM).scale(*values)
        with pytest.raises(zynml.ZynMLError) as known:
            zynml.compile(PROGRAM + "// another text\n").scale(*values)
        assert str(cold.value) == str(known.value)


def test_any_flipped_byte_is_a_miss(folder, made):
    x, y = numbers(4, 5), numbers(5, 3, seed=2)
    zynml.compile(PROGRAM).product(x, y)
    entries = sorted((folder / "code").glob("*.zyn"))
    assert len(entries) >= 2  # the program and its call; the first test of a process, too, the code that Python calls first
    held = {entry: entry.read_bytes() for entry in entries}
    random = np.random.default_rng(3)
    for entry in entries:
        for position in (0, 20, 50, len(held[entry]) - 1, *random.integers(0, len(held[entry]), 3)):
            damaged = bytearray(held[entry])
            damaged[position] ^= 1 << int(random.integers(8))
            entry.write_bytes(damaged)
            compare(zynml.compile(PROGRAM).product(x, y), x @ y)
            for each, content in held.items():
                each.write_bytes(content)


def test_places_outside_of_an_image_are_refused(made, monkeypatch):
    """Whole entries of ours with other numbers in them, as another version may have written them."""
    zynml.compile(PROGRAM).scale(numbers(3), 2.0)
    original = KeptAnswers._put_in_front

    def moved(self, target, entries, head, code):
        head["image"]["places"][0][0] = len(code)
        return original(self, target, entries, head, code)

    monkeypatch.setattr(KeptAnswers, "_put_in_front", moved)
    program = zynml.compile(PROGRAM)
    compare(program.scale(numbers(3), 2.0), numbers(3) * 2)
    assert program._opened._session is not None


COLD = """
import sys
import numpy
import zynml
program = zynml.compile(open(sys.argv[1]).read())
value = program.product(numpy.ones((3, 4), numpy.float32), numpy.ones((4, 5), numpy.float32))
assert (value == 4).all()
print(*sys.modules)
"""


def test_a_cold_process_loads_neither_compiler_nor_llvm(tmp_path):
    file = tmp_path / "program.txt"
    file.write_text(PROGRAM)
    for _ in range(2):
        ran = subprocess.run([sys.executable, "-c", COLD, str(file)], capture_output=True, text=True, check=True, env=dict(os.environ))
    heavy = ("llvmlite", "compiler.driver", "compiler.typed_ast.check", "compiler.lowering", "compiler.schedule", "compiler.hir", "grammars", "ml_dtypes")
    assert [name for name in ran.stdout.split() if name.startswith(heavy)] == []


def test_machine_code_of_a_cold_process_takes_all_threads(tmp_path):
    """A product that is worth threads, in a process without LLVM: the same bits as with it."""
    text = COLD.replace("(3, 4)", "(200, 300)").replace("(4, 5)", "(300, 100)").replace("== 4", "== 300")
    file: Path = tmp_path / "program.txt"
    file.write_text(PROGRAM)
    for _ in range(2):
        subprocess.run([sys.executable, "-c", text, str(file)], check=True, capture_output=True, env=dict(os.environ))


def test_code_that_is_made_beside_the_program_is_asked_for_once(monkeypatch):
    """Calls that take turns in sizes, and so in the kernels' paths, don't ask again and again, or the thread would never find quiet."""
    asked = []
    monkeypatch.setenv("ZYNTAX_TIER", "auto")
    monkeypatch.setattr(calls, "later", asked.append)
    monkeypatch.setattr(kernels, "later", lambda work: None)  # or the kernel's own code of tier 1 may be there before it is asked for
    program = zynml.compile(PROGRAM)
    for size in (3, 64, 3, 200, 64, 3, 1):
        x, y = numbers(size, 5), numbers(5, size, seed=2)
        np.testing.assert_array_equal(program.product(x, y), x @ y)
    assert len(asked) == 1


def test_code_for_all_paths_has_the_last_tier(monkeypatch):
    """Where kept code is that of another path, the call's new code has the kernel's address for good."""
    quick = []
    answer = calls.answer
    monkeypatch.setenv("ZYNTAX_TIER", "auto")
    monkeypatch.setattr(kernels, "later", lambda work: None)
    monkeypatch.setattr(calls, "later", lambda work: work.do(False))
    monkeypatch.setattr(calls, "answer", lambda *given: quick.append([one.is_quick for one in given[-1]]) or answer(*given))
    for rows, terms, columns in ((8, 40, 5), (40, 1000, 48)):  # programs of their own, as other processes have
        x, y = np.ones((rows, terms), np.float32), np.ones((terms, columns), np.float32)
        program = zynml.compile(PROGRAM)
        for _ in range(2):
            np.testing.assert_array_equal(program.product(x, y), x @ y)
    assert quick == [[False], [False]]
