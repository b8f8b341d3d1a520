"""The programs of `programs/zynml`: each prints what its first lines state, at every level, and each can be read back at every stage
that has a text."""

from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from compiler.diagnostics import Diagnostic
from compiler.driver import CompileOptions, Session
from compiler.emit import module_of
from compiler.emulator.interpret import interpret
from compiler.hir.equal import equal_modules
from compiler.hir.parse import parse_module
from compiler.hir.verify import verify
from compiler.source import Sources
from compiler.typed_ast.json import from_json
from compiler.typed_ast.kernel import KernelType
from zynml.api import open_program
from zyntax.expectations import expectations
from zyntax.test_command import command

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((ROOT / "programs" / "zynml").glob("*.zynml"))
KINDS = ("elementwise", "reduce", "matmul", "batched_matmul", "conv2d", "depthwise", "attention", "scan", "sort", "fused", "custom")

by_name = pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)


@cache
def opened(path: Path) -> Session:
    """One session for all stages of a program that are looked at."""

    def ignore(warning: Diagnostic) -> None:
        """Warnings are tested where they are made."""

    return open_program(str(path), CompileOptions(device="cpu"), Sources(), ignore)


@by_name
def test_a_program_prints_what_it_states(path: Path, tmp_path: Path) -> None:
    assert expectations(path.read_text(encoding="utf-8")).lines, "a program states its output"
    done = CliRunner().invoke(command, [str(path), "--render-dir", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "0 failed" in done.output


@pytest.mark.parametrize("level", ("0", "1", "2", "s", "latency"))
@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_kind_has_a_program_that_means_the_same_at_every_level(kind: str, level: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(command, [str(ROOT / "programs" / "zynml" / f"{kind}.zynml"), "-O", level, "--render-dir", str(tmp_path)])
    assert done.exit_code == 0, done.output


def test_every_core_kind_has_a_program() -> None:
    stems = {path.stem for path in PROGRAMS}
    names = {kind.value for kind in KernelType} - {"flash_attention", "conv2d_depthwise"}
    assert names <= stems


@by_name
def test_its_hir_parses_back_to_the_same_module(path: Path) -> None:
    session = opened(path)
    text = str(session.emit("hir"))
    module = module_of(session)
    again = parse_module(text)
    assert equal_modules(again, module)
    assert equal_modules(module, again)
    verify(again)
    assert len(module.functions) == text.count("\n  func ") > 0


@by_name
def test_its_placed_hir_parses_back_to_what_prints_the_same(path: Path) -> None:
    from compiler.hir.text import print_module

    text = str(opened(path).emit("hir-after=place"))
    assert print_module(parse_module(text)) == text.removesuffix("\n") or print_module(parse_module(text)) == text


@by_name
def test_its_typed_tree_loads_back_equal(path: Path) -> None:
    session = opened(path)
    assert from_json(str(session.emit("typed-ast"))) == session.check()


@by_name
def test_its_tree_loads_back_equal(path: Path) -> None:
    session = opened(path)
    assert from_json(str(session.emit("ast"))) == session.program


def test_a_nest_read_back_computes_the_same() -> None:
    import numpy as np

    session = opened(ROOT / "programs" / "zynml" / "matmul.zynml")
    function = next(iter(parse_module(str(session.emit("hir"))).functions.values()))
    a, b, out = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(6, dtype=np.float32).reshape(3, 2), np.zeros((2, 2), np.float32)
    named = {"A": a, "B": b, "out": out, "M": 2, "N": 2, "K": 3}
    interpret(function, [named[parameter.name] for parameter in function.parameters])
    np.testing.assert_array_equal(out, a @ b)
