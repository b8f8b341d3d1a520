"""`zyntax compile`: every stage, where it is written, and what it needs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.hir.parse import parse_module
from compiler.hir.text import print_module
from compiler.targets.cpu import PASSES
from tests.zyntax.conftest import ROOT, Zyntax


@pytest.mark.parametrize("stage", ["ast", "typed-ast"])
def test_trees_are_json(zyntax: Zyntax, stage: str) -> None:
    done = zyntax("compile", "double.zynml", "--emit", stage)
    assert (done.returncode, done.stderr) == (0, "")
    assert isinstance(json.loads(done.stdout), dict)


@pytest.mark.parametrize("stage", ["hir", *(f"hir-after={name}" for name in PASSES)])
def test_modules_parse_back_to_the_same_text(zyntax: Zyntax, stage: str) -> None:
    done = zyntax("compile", "double.zynml", "--emit", stage)
    assert (done.returncode, done.stderr) == (0, "")
    assert print_module(parse_module(done.stdout)) == done.stdout


@pytest.mark.parametrize(
    ("stage", "words"),
    [("schedule", "double.zynml:3:9: @kernel_line3"), ("llvm", "define"), ("asm", "ret")],
)
def test_code_is_text(zyntax: Zyntax, stage: str, words: str) -> None:
    done = zyntax("compile", "double.zynml", "--emit", stage)
    assert (done.returncode, done.stderr) == (0, "")
    assert words in done.stdout


def test_an_object_file_is_written_beside_the_program(zyntax: Zyntax, folder: Path) -> None:
    done = zyntax("compile", "double.zynml", "--emit", "obj")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len((folder / "double.o").read_bytes()) > 500


def test_o_names_the_file(zyntax: Zyntax, folder: Path) -> None:
    done = zyntax("compile", "double.zynml", "-o", "double.hir")
    assert (done.returncode, done.stdout) == (0, "")
    assert (folder / "double.hir").read_text(encoding="utf-8").startswith("module @double version=1 {\n")


def test_a_file_that_cannot_be_written_is_a_message(zyntax: Zyntax) -> None:
    done = zyntax("compile", "double.zynml", "-o", "nowhere/double.hir")
    assert (done.returncode, done.stderr) == (1, "error[ZYN0807]: `nowhere/double.hir` can't be written: no such file or directory\n")


def test_an_unknown_pass_says_which_there_are(zyntax: Zyntax) -> None:
    done = zyntax("compile", "double.zynml", "--emit", "hir-after=magic")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error[ZYN0505]: `--emit hir-after=magic`: there is no such pass\nhint: passes are {', '.join(PASSES)}\n"


def test_time_passes_prints_a_table_to_standard_error(zyntax: Zyntax) -> None:
    done = zyntax("compile", "double.zynml", "--emit", "llvm", "--time-passes")
    assert done.returncode == 0
    assert {"lower", "lift", "schedule", "llvm"} <= {line.split("%")[1].strip() for line in done.stderr.splitlines()}


def test_a_program_for_a_device_that_is_not_here_can_still_be_looked_at(zyntax: Zyntax) -> None:
    assert zyntax("compile", "cuda.zynml", "--emit", "hir").returncode == 0


def test_the_tree_needs_no_checker_no_numpy_and_no_llvm(folder: Path) -> None:
    script = (
        "import sys\nfrom zyntax.main import main\n"
        "try:\n    main(['compile', 'wrong-types.zynml', '--emit', 'ast', '-o', 'tree.json'])\nexcept SystemExit as end:\n    print(end.code)\n"
        "print([m for m in ('compiler.driver', 'compiler.typed_ast.check', 'numpy', 'llvmlite', 'rich') if m in sys.modules])\n"
    )
    (folder / "wrong-types.zynml").write_text('let x: int = "text"\n', encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True)
    assert done.stdout == "0\n[]\n"
    assert json.loads((folder / "tree.json").read_text(encoding="utf-8"))


def test_what_only_the_run_knows_is_assumed_from_how_the_block_uses_it(zyntax: Zyntax, folder: Path) -> None:
    """Lists, and tensors of unknown elements that the block indexes with, by way of a variable too."""
    (folder / "unknown.zynml").write_text(
        "let w = [0.25, 0.5]\nlet m = [[1, 2], [3, 4]]\nlet x = arange(0, 10)\nlet k = load(\"nowhere.npy\")\n"
        "let a = compute(x, w) { for i in 0..2: out[i] = x[i] * w[i] }\n"
        "let b = compute(m) { for i in 0..2, j in 0..2: out[i, j] = m[i, j] }\n"
        "let c = compute(x, k) {\n    for i in 0..8:\n        var at = 0\n        at = k[i]\n        out[i] = x[at + 1]\n}\n"
        "let d = compute(k) { for i in 0..N: out[i] = k[i] }\n",
        encoding="utf-8",
    )  # fmt: skip
    done = zyntax("compile", "unknown.zynml")
    assert (done.returncode, done.stderr) == (0, "")
    heads = [line for line in done.stdout.splitlines() if line.startswith("  func ")]
    expected = ["%w: mem<w_0xf32, readonly>", "%m: mem<m_0xm_1xi64, readonly>", "%k: mem<k_0xi64, readonly>", "%k: mem<Nxf32, readonly>"]
    assert [word in head for word, head in zip(expected, heads, strict=True)] == [True] * 4, heads


def test_floats_says_what_may_be_done_with_them(zyntax: Zyntax, folder: Path) -> None:
    (folder / "fused.zynml").write_text("let x = ones(3)\nprintln(compute(x) { for i in 0..N: out[i] = x[i] * 2.0 + 1.0 })\n", encoding="utf-8")
    shown = {rule: zyntax("compile", "fused.zynml", "--floats", rule, "--emit", "llvm") for rule in ("contract", "strict")}
    assert all((done.returncode, done.stderr) == (0, "") for done in shown.values())
    assert "@llvm.fma." in shown["contract"].stdout
    assert not any(word in shown["strict"].stdout for word in ("@llvm.fma.", "contract", "reassoc"))
    done = zyntax("compile", "fused.zynml", "--floats", "strict")
    assert "floats=strict" in done.stdout
    assert print_module(parse_module(done.stdout)) == done.stdout
    for command, told in (("run", "tensor([3.0, 3.0, 3.0], shape=[3], dtype=f32)\n"), ("check", "")):
        done = zyntax(command, "fused.zynml", "--floats", "strict")
        assert (done.returncode, done.stdout, done.stderr) == (0, told, "")
    done = zyntax("test", "fused.zynml", "--floats", "strict")
    assert (done.returncode, done.stdout) == (0, "ok    fused.zynml\n1 passed, 0 failed\n")
    done = zyntax("compile", "fused.zynml", "--products", "tf32")
    assert (done.returncode, "products=tf32" in done.stdout) == (0, True)
    done = zyntax("run", "fused.zynml", "--floats", "fast")
    assert done.returncode == 2
    assert "'fast' is not one of 'contract', 'strict'" in done.stderr
