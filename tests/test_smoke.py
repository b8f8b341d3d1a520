"""The shortest whole way: a program's text to a native result, from Python and from the command."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import zynml

ROOT = Path(__file__).parents[1]

TEXT = """def scale(x: tensor[N], by: f32): tensor {
    compute(x, by) { for i in 0..N: out[i] = x[i] * by }
}
"""


def test_a_block_runs_natively_on_numpy_arrays() -> None:
    program = zynml.compile(TEXT)
    got = program.scale(np.arange(5, dtype=np.float32), 2.0)
    np.testing.assert_array_equal(got, np.arange(5, dtype=np.float32) * 2)
    assert "define i64 @" in program.llvm
    assert "form=A" in program.hir


def test_errors_reach_python_as_one_message() -> None:
    with pytest.raises(zynml.ZynMLError) as raised:
        zynml.compile("let a = b\n")
    assert raised.value.codes == ("ZYN0201",)


def zyntax(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "zyntax", *words], capture_output=True, text=True, cwd=ROOT, check=False)


def test_the_seeds_block_asks_for_a_gpu_and_runs_on_the_cpu_when_told() -> None:
    program = "programs/zynml/matmul.zynml"
    done = zyntax("run", program, "--device", "cpu")
    assert (done.returncode, done.stdout) == (0, "tensor([[58.0, 64.0], [139.0, 154.0]], shape=[2, 2], dtype=f32)\n"), done.stderr


def test_a_hello_program_needs_no_kernels(tmp_path: Path) -> None:
    path = tmp_path / "hello.zynml"
    path.write_text('println("hello")\n')
    done = zyntax("run", str(path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")


def test_the_language_that_authors_begin_with_runs_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    template = ROOT / "zyntax" / "language" / "template"
    monkeypatch.syspath_prepend(str(template))
    language = importlib.import_module("tinypipe").language
    file = tmp_path / "in.npy"
    np.save(file, np.array([[[10, 20, 30], [40, 50, 60]]], np.uint8))
    language.compile(f'load "{file}" as photo\ninvert photo  // each from 255\nprint photo\n').run()
    assert capsys.readouterr().out == "tensor([[[245, 235, 225], [215, 205, 195]]], shape=[1, 2, 3], dtype=u8)\n"
