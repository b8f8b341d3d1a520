"""`zyntax repl`, its inputs piped in. Values are written down by hand."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compiler.languages import language_named
from compiler.options import CompileOptions
from tests.zyntax.conftest import ROOT, Zyntax
from zyntax.interactive import Interpreter, goes_on
from zyntax.repl_command import completions
from zyntax.report import reporter


def answers(zyntax: Zyntax, typed: str) -> list[str]:
    done = zyntax("repl", typed=typed)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_values_are_printed(zyntax: Zyntax) -> None:
    typed = '1 + 2\n"a"\n[1, 2]\nlet x = 2.0\nx\nprintln(x)\nif x > 1.0 { 5 } else { 6 }\narange(0, 2)\n()\n'
    assert answers(zyntax, typed) == ["3", "a", "[1, 2]", "2.0", "2.0", "5", "tensor([0.0, 1.0], shape=[2], dtype=f32)"]


def test_names_live_on(zyntax: Zyntax) -> None:
    typed = """struct P { x: int }
enum E { A, B(int) }
mut n = 1
let p = P { x: 7 }
let e = B(3)
def f(a) { a + n }
n += 9
f(p.x)
match e { A => 0, B(v) => v + n }
let t = arange(0, 3)
let u = compute(t) { for i in 0..N: out[i] = t[i] * 2.0 }
let v = compute(u) { for i in 0..N: out[i] = u[i] + 1.0 }
v
"""
    assert answers(zyntax, typed) == ["17", "13", "tensor([1.0, 3.0, 5.0], shape=[3], dtype=f32)"]


def test_statements_run_once(zyntax: Zyntax) -> None:
    assert answers(zyntax, 'println("a")\nmut xs = [1]\nxs.push(2)\nfor i in 0..2: xs.push(i)\n\nprintln("b")\nxs\n') == ["a", "b", "[1, 2, 0, 1]"]


def test_closures_see_what_variables_become(zyntax: Zyntax) -> None:
    assert answers(zyntax, "mut n = 1\nlet g = k => k + n\nn = 10\ng(1)\nn += 5; g(1)\n") == ["11", "16"]


def test_redefinition(zyntax: Zyntax) -> None:
    typed = 'def f(a) { a + 1 }\nf(1)\ndef f(a) { a * 100 }\nf(2)\nlet x = 1\nlet x = "text"\nx\nstruct P { x: int }\nstruct P { y: int }\nP { y: 3 }\n'
    assert answers(zyntax, typed) == ["2", "200", "text", "P { y: 3 }"]


def test_imports_and_parameters(zyntax: Zyntax, folder: Path) -> None:
    (folder / "helper.zynml").write_text("def twice(x: int): int { x * 2 }\n")
    assert answers(zyntax, "import helper\nhelper.twice(4)\nparam n: int = 3\nn + 1\n") == ["8", "4"]


def test_inputs_of_many_lines(zyntax: Zyntax) -> None:
    typed = "def f(a) {\n    let b = a\n\n    b + 1\n}\nf(1)\ndef g(a):\n    a + 2\n\ng(1)\nlet x = [\n  1,\n  2\n]\nx\nlet y = 1 +\n  2\n\ny\n"
    assert answers(zyntax, typed) == ["2", "3", "[1, 2]", "3"]


def test_errors_end_nothing_and_leave_nothing(zyntax: Zyntax) -> None:
    done = zyntax("repl", typed="let a = b\na\nmut n = 1\nlet c = 1 / (n - 1)\nc\nn\nlet = 3\nn + 1\n")
    assert (done.returncode, done.stdout) == (0, "1\n2\n")
    assert done.stderr == (
        "error[ZYN0201]: `b` is not defined\n --> <typed>:1:9\n  |\n1 | let a = b\n  |         ^ not found\n"
        "error[ZYN0201]: `a` is not defined\n --> <typed>:1:1\n  |\n1 | a\n  | ^ not found\n"
        "error[ZYN0806]: 1 / 0: division by zero\n --> <typed>:2:9\n  |\n2 | let c = 1 / (n - 1)\n  |         ^^^^^^^^^^^\n"
        "error[ZYN0201]: `c` is not defined\n --> <typed>:2:1\n  |\n2 | c\n  | ^ not found\n"
        "error[ZYN0101]: expected a name, `(`, `[` or `mut` after `let`\n --> <typed>:3:5\n  |\n3 | let = 3\n  |     ^\n"
    )


def test_commands(zyntax: Zyntax) -> None:
    typed = "let x = [1.0]\n:type x\n:type x.len() + 1\nlet t = arange(0, 4)\nlet y = compute(t) { for i in 0..N: out[i] = t[i] }\n:emit hir\n:help\n:quit\nprintln(1)\n"
    lines = answers(zyntax, typed)
    assert lines[:2] == ["List<f64>", "i64"]
    assert lines[2].startswith("module ") and any("store %out[i]" in line for line in lines)
    assert lines[-1].startswith(":quit")


def test_time(zyntax: Zyntax) -> None:
    value, taken = answers(zyntax, ":time 20 + 1\n")
    assert value == "21" and taken.endswith(" ms, with compiling")


def test_an_unknown_command(zyntax: Zyntax) -> None:
    done = zyntax("repl", typed=":foo\n1\n")
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert done.stderr.startswith("`:foo` isn't known, or lacks what it is about\n")


def test_a_language_without_statements_at_its_top(zyntax: Zyntax) -> None:
    done = zyntax("repl", "--language", "quantdsl")
    assert (done.returncode, done.stderr) == (
        2,
        "error[ZYN0505]: a program in QuantDSL begins at its `main`: it has no statements that could be typed in\n"
        "hint: zyntax run - --language quantdsl reads a whole program\n",
    )


def test_an_interrupt_stops_a_statement(folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "zyntax", "repl"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write('println("begun")\nmut n = 0\nwhile true {\n  if n == 0 { println("running") }\n  n = 1\n}\n')
    process.stdin.flush()
    assert [process.stdout.readline(), process.stdout.readline()] == ["begun\n", "running\n"]
    process.send_signal(signal.SIGINT)
    out, error = process.communicate("21 * 2\n", timeout=200)
    assert (process.returncode, out) == (0, "42\n")
    assert "interrupted" in error


@pytest.mark.parametrize("text", ["f(\n", "if a {\n", "if a:\n", "if a:\n    b\n", 'let s = """a\n', "/* a\n", "let x =\n", "x +\n", "f(\n\n", "if a {\n\n"])
def test_an_input_that_goes_on(text: str) -> None:
    assert goes_on(text)


@pytest.mark.parametrize("text", ["\n", "1\n", "f(1)\n", "if a: b\n", "if a:\n    b\n\n", "if a { b }\n", "let x = 'a\n", "x // (\n", "let = \n\n", ")\n"])
def test_an_input_that_is_whole(text: str) -> None:
    assert not goes_on(text)


TYPED = """struct Point { x: float, y: float }
impl Point {
    def norm(self): float { sqrt(self.x * self.x + self.y * self.y) }
    def origin(): Point { Point { x: 0.0, y: 0.0 } }
}
let p = Point { x: 3.0, y: 4.0 }
let points = [p]
let word = "abc"
"""


@pytest.mark.parametrize(
    ("line", "begun", "some", "others"),
    [
        ("p.", "p.", ["p.norm", "p.x", "p.y"], ["p.origin", "p.push"]),
        ("println(p.n", "p.n", ["p.norm"], []),
        ("let z = points[0].", ".", [".norm", ".x"], [".push"]),
        ("points.s", "points.s", ["points.sort", "points.sorted", "points.sum"], []),
        ("word.to_upper().l", ".l", [".len", ".lines"], [".push"]),
        ("wo", "wo", ["word"], ["p.x"]),
        ("nothing.", "nothing.", [], ["nothing.x"]),
    ],
)
def test_what_completes_a_word(line: str, begun: str, some: list[str], others: list[str]) -> None:
    interpreter = Interpreter(language_named("zynml"), CompileOptions(device="cpu"), reporter("text"))
    interpreter.run(TYPED)
    names = completions(interpreter, begun, line)
    assert set(some) <= set(names) and not set(others) & set(names)
