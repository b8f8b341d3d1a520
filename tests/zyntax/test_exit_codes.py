"""The exit code of each family of errors, alone and mixed, of every verb that meets it."""

import json

import pytest

from compiler.diagnostics import Diagnostic, ZyntaxError, before_it_runs
from tests.zyntax.conftest import Zyntax
from zyntax.report import exit_code

WRONG, FAULT, BAD = Diagnostic("0201", "a name"), Diagnostic("0806", "a division"), Diagnostic("0807", "a row", data=True)
SEEN, LATE, OURS, LEFT = (
    Diagnostic("0806", "a division", compiling=True),
    Diagnostic("0705", "a constant", running=True),
    Diagnostic("0901", "ours"),
    Diagnostic("0809", "interrupted"),
)


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([WRONG], 2),
        ([FAULT], 1),
        ([BAD], 3),
        ([SEEN], 2),
        ([LATE], 1),
        ([OURS], 1),
        ([LEFT], 130),
        ([WRONG, FAULT], 2),
        ([FAULT, SEEN], 2),
        ([BAD, WRONG], 2),
        ([FAULT, BAD], 3),
        ([OURS, FAULT], 1),
        ([WRONG, BAD, LEFT], 130),
        ([], 2),
    ],
)
def test_of_several_the_first_kind_counts(found: list[Diagnostic], code: int) -> None:
    assert exit_code(found) == exit_code(found[::-1]) == code


def test_what_the_compiler_sees_coming_is_no_fault_of_a_run() -> None:
    with pytest.raises(ZyntaxError) as raised, before_it_runs():
        raise ZyntaxError(FAULT, OURS, BAD, LEFT)
    assert [one.at_run_time for one in raised.value.diagnostics] == [False, True, True, True]


DIVIDES = "def f(x: tensor[N]) -> tensor[N] {\n  let y = compute(x) { for i in 0..N: out[i] = i / 0 }\n  return y\n}\n"
PROGRAMS = {
    "divides.zynml": DIVIDES + "println(f(tensor([1.0])))\n",
    "mixed.zynml": DIVIDES + "println(unknown)\n",
    "divides.qdsl": "fn f(x: int) -> int { x / 0 }\n",
    "mixed.qdsl": "fn f(x: int) -> int { x / 0 }\nfn g() -> int { unknown }\n",
    "main.qdsl": 'fn main() {\n  let n = 0\n  println(f"{1 / n}")\n}\n',
}
CODES = {
    "divides.zynml": ["ZYN0806"],
    "mixed.zynml": ["ZYN0806", "ZYN0201"],
    "divides.qdsl": ["ZYN0705"],
    "mixed.qdsl": ["ZYN0705", "ZYN0201"],
}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("name", CODES)
def test_a_program_that_surely_fails_does_not_compile(zyntax: Zyntax, folder: object, name: str, form: str) -> None:
    for program, text in PROGRAMS.items():
        (folder / program).write_text(text)  # type: ignore[operator]
    for verb in (["check"], ["compile", "--emit", "hir"]):
        done = zyntax(*verb, "--error-format", form, name)
        assert done.returncode == 2, done.stderr
        if form == "json":
            assert [json.loads(line)["code"] for line in done.stderr.splitlines()] == CODES[name]
        else:
            assert [code for code in CODES[name] if f"error[{code}]" in done.stderr] == CODES[name]


def test_one_wrong_program_of_several_decides(zyntax: Zyntax, folder: object) -> None:
    for program, text in PROGRAMS.items():
        (folder / program).write_text(text)  # type: ignore[operator]
    assert zyntax("check", "hello.zynml", "divides.zynml", "main.qdsl").returncode == 2
    assert zyntax("check", "hello.zynml", "main.qdsl").returncode == 0
    assert zyntax("run", "divides.zynml").returncode == 2
    assert (
        zyntax("run", "main.qdsl").returncode == zyntax("run", "fault.zynml").returncode == zyntax("test", "divides.zynml").returncode == 1
    )
