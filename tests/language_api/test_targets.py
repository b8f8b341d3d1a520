"""Targets that packages outside of the repository bring."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from compiler.diagnostics import ZyntaxError
from compiler.targets.registry import target_named
from tests.language_api.conftest import Install
from zyntax.main import cli

TOY = """
from zyntax.targets import GPU_PASSES, GpuMachine, Target

MACHINE = GpuMachine(
    "tiny", (0, 1), warps=32, blocks=8, shared=16384, block_shared=16384, stage_shared=8192, registers=8192, lanes=16
)


def emit(program, stage):
    return "".join(f"{stage} of {kernel.heading}\\n" for kernel in program.kernels)


def target():
    return Target("tiny", MACHINE, GPU_PASSES, ("notes",), emit, "emulator:tiny")
"""
PROGRAM = "def f(x: tensor[N, f32]): tensor { compute(x) { for i in 0..N: out[i] = x[i] * 2.0f32 } }\nprintln(f(ones(3)))\n"
POINTS = "tiny = tinychip:target"


@pytest.fixture(autouse=True)
def own_reporter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's main function, which is left out here, would end with its invocation's reporter."""
    monkeypatch.setattr("zyntax.report._current", [])


def run(*arguments: str) -> str:
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("p.zynml").write_text(PROGRAM, encoding="utf-8")
    return "p.zynml"


def test_a_program_runs_on_the_emulator_of_its_machine(install: Install, program: str) -> None:
    install("tinychip", POINTS, TOY, group="zyntax.targets")
    assert run("run", program, "--device", "emulator:tiny") == "tensor([2.0, 2.0, 2.0], shape=[3], dtype=f32)\n"


def test_its_stages_are_shown(install: Install, program: str) -> None:
    install("tinychip", POINTS, TOY, group="zyntax.targets")
    assert run("compile", program, "--target", "tiny", "--emit", "notes") == "notes of p.zynml:1:36: @f_line1\n"
    assert run("compile", program, "--target", "tiny", "--emit", "notes", "--like", "x=5") == (
        "notes of p.zynml:1:36: @kernel of x=5:f32, N=5\n"
    )


def test_a_stage_that_it_does_not_have(install: Install, program: str) -> None:
    install("tinychip", POINTS, TOY, group="zyntax.targets")
    with pytest.raises(ZyntaxError, match=r"ZYN0401: `tiny` has no stage `ptx`"):
        run("compile", program, "--target", "tiny", "--emit", "ptx")


def test_two_packages_with_one_target(install: Install) -> None:
    install("tinychip", POINTS, TOY, group="zyntax.targets")
    install("otherchip", "tiny = otherchip:target", group="zyntax.targets")
    with pytest.raises(ZyntaxError, match=r"ZYN0110: two packages have the target `tiny`: `otherchip` and `tinychip`"):
        target_named("tiny")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("1 / 0", r"the target `tinychip:target` of the package `tinychip` can't be loaded: ZeroDivisionError: division by zero"),
        ("def target():\n    return 3", r"`tinychip:target` of the package `tinychip` is registered as the target `tiny`, and is a `int`"),
        (TOY.replace('Target("tiny"', 'Target("small"'), r"registered as the target `tiny`, and is a target of the name `small`"),
    ],
)
def test_a_target_that_cannot_be_used(install: Install, code: str, words: str) -> None:
    install("tinychip", POINTS, code, group="zyntax.targets")
    with pytest.raises(ZyntaxError, match=f"ZYN0110: .*{words}"):
        target_named("tiny")


def test_names_that_nobody_has_are_refused_as_before(program: str) -> None:
    with pytest.raises(ZyntaxError, match="ZYN0501: there is no GPU target `sm_1`"):
        target_named("sm_1")
