"""Faults in tier 0: every one is a coded message at the program's own place."""

import subprocess
import sys
from types import FrameType

import pytest
from host_programs import Recorder, build, lines, message

from compiler.diagnostics import ZyntaxError
from compiler.source import Span


def test_an_index_out_of_range_is_shown_at_its_place() -> None:
    program = 'let a = [1, 2]\nlet text = "ééé" + f"é{a[5]}"\n'
    assert message(program) == (
        "error[ZYN0801]: index 5 is out of range: the list has 2, indices go from 0 to 1\n"
        " --> program.zynml:2:24\n"
        "  |\n"
        '2 | let text = "ééé" + f"é{a[5]}"\n'
        "  |                        ^^^^"
    )


def test_a_division_deep_in_an_expression_has_its_own_span() -> None:
    program = "let a = 4\nlet z = 0\nlet b = (a + 1) * (a / z) + 3"
    assert message(program) == (
        "error[ZYN0806]: 4 / 0: division by zero\n"
        " --> program.zynml:3:20\n"
        "  |\n"
        "3 | let b = (a + 1) * (a / z) + 3\n"
        "  |                    ^^^^^"
    )


def test_a_fault_inside_a_function_is_shown_there() -> None:
    program = "def f(xs, i) {\n    xs[i]\n}\nlet y = f([1], 3)"
    assert message(program).splitlines()[1:] == [
        " --> program.zynml:2:5",
        "  |",
        "2 |     xs[i]",
        "  |     ^^^^^",
        " ...",
        "4 | let y = f([1], 3)",
        "  |         --------- called from here",
    ]


def test_an_expression_over_several_lines_has_its_span() -> None:
    program = "let a = 1\nlet b = (a +\n    a /\n    0)\n"
    assert message(program).splitlines()[1] == " --> program.zynml:3:5"


def test_endless_recursion_is_0808() -> None:
    found = message("def f(n) { f(n) }\nf(0)").splitlines()
    assert found[:2] == ["error[ZYN0808]: functions call each other too deep", " --> program.zynml:1:12"]


def test_interruption_is_0809() -> None:
    program = build("def f(g) {\n    g()\n}", typed=False)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(ZyntaxError) as caught:
        program.functions["f"](interrupt)
    [found] = caught.value.diagnostics
    assert (found.code, found.message, found.span) == ("0809", "interrupted", Span("program.zynml", 15, 18))


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (MemoryError(), "0804", "out of memory"),
        (FileNotFoundError(2, "No such file or directory", "a.npy"), "0807", "a.npy: No such file or directory"),
        (ValueError("odd"), "0901", "a fault of the compiler itself: ValueError: odd"),
    ],
)
def test_exceptions_of_python_get_a_code(raised: Exception, code: str, said: str) -> None:
    program = build("def f(g) {\n    g()\n}", typed=False)

    def fail() -> None:
        raise raised

    with pytest.raises(ZyntaxError) as caught:
        program.functions["f"](fail)
    [found] = caught.value.diagnostics
    assert (found.code, found.message, found.span) == (code, said, Span("program.zynml", 15, 18))


def test_a_diagnostic_without_a_place_gets_the_place_of_the_call() -> None:
    from compiler.diagnostics import Diagnostic

    program = build("def f(g) {\n    g()\n}", typed=False)

    def fail() -> None:
        raise ZyntaxError(Diagnostic("0805", "device fault", None))

    with pytest.raises(ZyntaxError) as caught:
        program.functions["f"](fail)
    assert caught.value.diagnostics[0].span == Span("program.zynml", 15, 18)


def test_a_condition_must_be_a_bool() -> None:
    assert message("def f(x) { if x { 1 } else { 2 } }\nf(3)", typed=False).splitlines()[0] == "error[ZYN0807]: expected bool, found i64"


def test_a_variable_read_before_its_value_is_a_fault() -> None:
    program = "def f() { later }\nf()\nlet later = 1"
    assert message(program, typed=False).splitlines()[0] == "error[ZYN0808]: `later` is read before it has a value"


def test_a_local_without_a_value_is_a_fault_in_each_turn() -> None:
    program = """
def f() {
    for i in 0..2 {
        var x: i64
        if i == 0 { x = 5 }
        println(x)
    }
}
f()
"""
    assert message(program).splitlines()[:2] == ["error[ZYN0808]: `x` is read before it has a value", " --> program.zynml:6:17"]


def test_a_step_of_zero_is_a_fault() -> None:
    assert message("let s = 0\nfor i in 0..3 step s: println(i)", typed=False).splitlines()[0] == "error[ZYN0806]: the step of a range is 0"


@pytest.mark.parametrize(
    ("program", "what"),
    [
    ],
)
def test_what_comes_later_says_so(program: str, what: str) -> None:
    assert message(program, typed=False).splitlines()[0] == f"error[ZYN0109]: {what} is valid, but not supported yet"


def test_more_than_twenty_nested_loops_are_refused() -> None:
    program = "".join(f"{'  ' * i}for i{i} in 0..1:\n" for i in range(22)) + "  " * 22 + "println(1)\n"
    assert message(program).splitlines()[0] == "error[ZYN0108]: more than 20 loops stand inside each other"


def test_long_choices_and_pipes_run() -> None:
    chain = "if x == 0 { 0 }" + "".join(f" elif x == {i} {{ {i} }}" for i in range(1, 150)) + " else { -1 }"
    pipes = "1" + " |> f" * 300
    assert lines(f"def f(x) {{ x + 1 }}\nlet x = 149\nprintln({{ {chain} }})\nprintln({pipes})") == ["149", "301"]


def test_render_goes_to_the_runtime() -> None:
    runtime = Recorder()
    build('let x = 3\nrender x { title: "Loss", width: 640 }', runtime, typed=False).run()
    assert runtime.asked == [("render", 3, "", {"title": "Loss", "width": 640})]


@pytest.mark.parametrize("before", ["", "import numpy"])
def test_floats_of_numpy_are_silent_wherever_numpy_is_imported(before: str) -> None:
    script = f"""{before}
from compiler.backends.host.faults import silent_floats
with silent_floats():
    import numpy
    print(numpy.float32(1) / numpy.float32(0))
numpy.float32(1) / numpy.float32(0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    warning = "<string>:6: RuntimeWarning: divide by zero encountered in scalar divide"
    assert (done.stdout, done.stderr.splitlines()[0]) == ("inf\n", warning)


def test_debuggers_see_the_lines_and_names_of_the_program() -> None:
    program = build("def double(n) {\n    let m = n * 2\n    m\n}\nlet x = double(4)\nlet y = x + 1\n")
    seen: list[tuple[str, int]] = []
    variables: dict[str, object] = {}

    def trace(frame: FrameType, event: str, argument: object) -> object:
        if frame.f_code.co_filename != "program.zynml":
            return None
        if event == "line":
            seen.append((frame.f_code.co_name, frame.f_lineno))
        if event == "return":
            variables.update(frame.f_locals)
        return trace

    sys.settrace(trace)
    try:
        program.run()
    finally:
        sys.settrace(None)
    assert [line for name, line in seen if name == "double"] == [2, 3]
    assert [line for name, line in seen if name != "double"][:2] == [5, 6]
    assert (variables["n"], variables["m"]) == (4, 8)
