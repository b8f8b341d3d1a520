"""What users get wrong outside of their programs: files, options, data, arguments, interruptions, too little memory. Each gives a coded
message, the right exit code and no traceback. (What programs themselves get wrong is in tests/errors.)"""

import json
import os
import resource
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import zynml
from zyntax.main import cli
from zyntax.report import guarded

ROOT = Path(__file__).parents[1]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command, in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = guarded(lambda: cli.main(args=list(arguments), prog_name="zyntax", standalone_mode=False))
        out, error = capsys.readouterr()
        assert "Traceback" not in out + error
        return code, out, error

    return call


def write(name: str, text: str | bytes) -> str:
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return name


def process(*arguments: str, **given: object) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "zyntax", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **given)  # type: ignore[call-overload, no-any-return]


# ---- source files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["run", "check", "compile"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "error[ZYN0108]: `p.zynml` can't be read: no such file or directory\n  --> p.zynml\n"),
        (b"let x = 1\0", "error[ZYN0108]: `p.zynml` is a binary file, not a program\n  --> p.zynml\n"),
        (
            b'let x = 1\nlet y = "\xe9"',
            "error[ZYN0108]: `p.zynml` is not UTF-8: byte 0xe9 in line 2\n  --> p.zynml\nhint: save it as UTF-8\n",
        ),
        (
            b"\n" * (4 * 1024 * 1024 + 1),
            "error[ZYN0108]: `p.zynml` is too large: a program has at most 4 MiB\n  --> p.zynml\n"
            "hint: move its data to a file that it loads\n",
        ),
    ],
    ids=["missing", "binary", "not UTF-8", "too large"],
)
def test_a_file_that_is_no_program(run: Run, verb: str, content: bytes | None, message: str) -> None:
    if content is not None:
        write("p.zynml", content)
    assert run(verb, "p.zynml") == (2, "", message)


def test_lines_that_end_with_carriage_returns_alone(run: Run) -> None:
    write("old.zynml", b"let x = 1\rlet y = 2")
    message = (
        "error[ZYN0101]: a carriage return alone ends no line\n --> old.zynml:1:10\n  |\n"
        "1 | let x = 1\N{REPLACEMENT CHARACTER}let y = 2\n  |          ^\n"
        "hint: end lines with a line feed, as editors do for Unix or Windows\n"
    )
    assert run("check", "old.zynml") == (2, "", message)


def test_a_folder_is_no_program(run: Run) -> None:
    Path("p.zynml").mkdir()
    assert run("run", "p.zynml") == (2, "", "error[ZYN0108]: `p.zynml` can't be read: is a directory\n  --> p.zynml\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission(run: Run) -> None:
    Path(write("p.zynml", "println(1)")).chmod(0)
    assert run("run", "p.zynml") == (2, "", "error[ZYN0108]: `p.zynml` can't be read: permission denied\n  --> p.zynml\n")


@pytest.mark.parametrize("text", ["", "\n", "// nothing\n", "\ufeff"])
def test_an_empty_program_does_nothing(run: Run, text: str) -> None:
    assert run("run", write("p.zynml", text)) == (0, "", "")


def test_byte_order_marks_and_carriage_returns_are_no_matter(run: Run) -> None:
    assert run("run", write("p.zynml", "\ufeffprintln(7)\r\nif true:\r\n    println(8)\r\n")) == (0, "7\n8\n", "")


def test_an_ending_that_no_language_has(run: Run) -> None:
    expected = "error[ZYN0108]: `a.txt`: no language has the ending `.txt`\nhint: endings known: `.zynml`, `.ml`, `.qdsl`, `.imgpipe`, `.ip`\n"
    assert run("run", write("a.txt", "println(1)")) == (2, "", expected)


def test_every_file_of_check_is_reported(run: Run) -> None:
    code, out, error = run("check", write("a.zynml", "println(y)"), "b.zynml", write("c.zynml", "println(1)"))
    assert (code, out) == (2, "")
    assert error.count("error[ZYN0201]") == 1
    assert error.count("error[ZYN0108]") == 1


def test_unreadable_programs_fail_their_test(run: Run) -> None:
    code, out, _ = run("test", "missing.zynml", write("b.zynml", b"\xff"))
    assert code == 1
    assert "`missing.zynml` can't be read: no such file or directory" in out
    assert "`b.zynml` is not UTF-8: byte 0xff in line 1" in out
    assert out.endswith("0 passed, 2 failed\n")


@pytest.mark.parametrize(
    "text",
    [
        "println(" + "(" * 5000 + "1" + ")" * 5000 + ")",
        "".join("if true {\n" for _ in range(5000)) + "}" * 5000,
        "".join("    " * depth + "if true:\n" for depth in range(300)) + "    " * 300 + "println(1)\n",
        "let x = " + "-" * 5000 + "1",
        "let x = " + "1 + " * 50_000 + "1",
        "let x = 1" + ".a" * 5000,
        "type T = " + "list[" * 5000 + "int" + "]" * 5000,
    ],
    ids=["brackets", "braces", "colons", "signs", "terms", "fields", "types"],
)
def test_deep_nesting_is_refused_or_fine_but_never_a_crash(run: Run, text: str) -> None:
    code, _, error = run("check", write("p.zynml", text))
    assert code in (0, 2)
    assert "ZYN0901" not in error
    assert (code == 0) == (error == "")


# ---- options ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "p.zynml", "--bogus"],
        ["run", "p.zynml", "q.zynml"],
        ["ruun", "p.zynml"],
        ["run", "p.zynml", "--threads", "0"],
        ["run", "p.zynml", "-O", "9"],
        ["run", "p.zynml", "--set", "n"],
        ["run", "p.zynml", "--set", "=3"],
        ["check", "p.zynml", "--error-format", "xml"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_wrong_usage_ends_with_2(run: Run, arguments: list[str]) -> None:
    write("p.zynml", "println(1)")
    code, out, error = run(*arguments)
    assert (code, out) == (2, "")
    assert error.startswith("Usage: zyntax")


def test_a_stage_that_is_none_ends_with_2(run: Run) -> None:
    write("p.zynml", "println(1)")
    code, out, error = run("compile", "p.zynml", "--emit", "foo")
    assert (code, out) == (2, "")
    assert error.startswith("error[ZYN0505]: `--backend llvm` makes no `foo`")


@pytest.mark.parametrize("device", ["tpu", "cuda:99", "metal"])
def test_a_device_that_is_not_here(run: Run, device: str) -> None:
    code, out, error = run("run", write("p.zynml", "println(1)"), "--device", device)
    assert (code, out) == (2, "")
    assert error.startswith("error[ZYN0501]: ")
    assert f"`{device}`" in error


PARAMETERS = "param n: int in 1..100 = 30\nparam small: u8 = 4\nparam rate: f32 = 0.5\nparam flag: bool = true\nprintln(n, small, rate, flag)\n"


def test_parameters_are_set(run: Run) -> None:
    settings = ["--set", "n=0x10", "--set", "small=255", "--set", "rate=2", "--set", "flag=false"]
    assert run("run", write("p.zynml", PARAMETERS), *settings) == (0, "16 255 2.0 false\n", "")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("n=x", "--set n=x: `n` is an int (i64)"),
        ("n=1.5", "--set n=1.5: `n` is an int (i64)"),
        ("n=100", "`n` is 100, outside of 1..100"),
        ("n=99999999999999999999", "--set n=99999999999999999999: `n` is an int (i64)"),
        ("small=256", "--set small=256: `small` is of type u8"),
        ("small=1.5", "--set small=1.5: `small` is of type u8"),
        ("rate=abc", "--set rate=abc: `rate` is of type f32"),
        ("rate=1e300", "--set rate=1e300: `rate` is of type f32"),
        ("flag=1", "--set flag=1: `flag` is true or false"),
    ],
)
def test_a_parameter_that_does_not_fit(run: Run, setting: str, message: str) -> None:
    code, out, error = run("run", write("p.zynml", PARAMETERS), "--set", setting)
    assert (code, out) == (1, "")
    assert error.startswith(f"error[ZYN0807]: {message}\n --> p.zynml:")


def test_a_parameter_that_the_program_does_not_have(run: Run) -> None:
    expected = "error[ZYN0201]: --set rat: `p.zynml` has no `param rat`\nhint: did you mean `rate`?\n"
    assert run("run", write("p.zynml", PARAMETERS), "--set", "rat=3") == (2, "", expected)


def test_json_messages_are_a_line_each(run: Run) -> None:
    code, out, error = run("run", write("p.zynml", 'println(y)\nlet n: int = "a"\n'), "--error-format", "json")
    assert (code, out) == (2, "")
    found = [json.loads(line) for line in error.splitlines()]
    assert [(one["code"], one["place"]["line"], one["place"]["column"]) for one in found] == [("ZYN0201", 1, 9), ("ZYN0203", 2, 14)]


WARNED = "let x = zeros(3)\ncompute(x) { for i in 0..N: out[i] = x[i] }\nlet y = compute(x) { for i in 0..1: out[2 * i + 1] = x[i] }\nprintln(1)\n"


def test_warnings_are_shown_and_the_program_runs(run: Run) -> None:
    code, out, error = run("run", write("p.zynml", WARNED))
    assert (code, out) == (0, "1\n")
    assert [line.partition(":")[0] for line in error.splitlines() if line.startswith("warning")] == ["warning[ZYN0604]", "warning[ZYN0601]"]


@pytest.mark.parametrize("verb", ["run", "check", "compile"])
def test_strict_makes_warnings_errors(run: Run, verb: str) -> None:
    code, out, error = run(verb, write("p.zynml", WARNED), "--strict")
    assert (code, out) == (2, "")
    assert [line.partition(":")[0] for line in error.splitlines() if "[ZYN" in line] == ["error[ZYN0604]", "error[ZYN0601]"]


def test_a_note_stays_a_note_under_strict(run: Run) -> None:
    program = "let x = ones(2)\nlet w = ones(2)\nprintln(compute(x) { for i in 0..N: out[i] = x[i] * w[i] })\n"
    assert run("run", write("p.zynml", program), "--strict")[0] == 0


def test_output_that_can_not_be_written(run: Run) -> None:
    write("p.zynml", "println(1)")
    code, out, error = run("compile", "p.zynml", "--emit", "ast", "-o", "nowhere/x")
    assert (code, out, error) == (1, "", "error[ZYN0807]: `nowhere/x` can't be written: no such file or directory\n")


RENDERED = 'let x = zeros(4, 4)\nrender x { title: "t" }\n'


def test_a_render_folder_that_is_a_file(run: Run) -> None:
    code, _, error = run("run", write("p.zynml", RENDERED), "--render-dir", write("pictures", ""))
    assert code == 2
    assert error.startswith("Usage: zyntax run")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no folder here in which not even root can write")
def test_a_render_folder_that_can_not_be_made(run: Run) -> None:
    code, _, error = run("run", write("p.zynml", RENDERED), "--render-dir", "/proc/pictures")
    assert code == 1
    assert error.startswith("error[ZYN0807]: ")
    assert " --> p.zynml:2:1\n" in error


@pytest.mark.parametrize(("text", "code"), [("0404", 0), ("ZYN0404", 0), ("zyn404", 0), ("9999", 2), ("nonsense", 2)])
def test_explain(run: Run, text: str, code: int) -> None:
    found, out, error = run("explain", text)
    assert found == code
    assert out.startswith("ZYN0404: race") if code == 0 else error.startswith(f"error[ZYN0201]: there is no code `{text}`")


def test_explain_without_a_code_lists_them(run: Run) -> None:
    code, out, _ = run("explain")
    assert code == 0
    assert "  ZYN0101  unexpected token\n" in out
    assert "  ZYN0901  internal fault\n" in out


# ---- data files ------------------------------------------------------------------------------------------------------------


def npy(header: str, data: bytes = b"") -> bytes:
    padded = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded + data


@pytest.mark.parametrize(
    ("name", "content", "code", "message"),
    [
        ("a.npy", None, "0807", "`a.npy`: there is no such file"),
        ("a.npy", b"", "0807", "`a.npy`: this is no npy file, or a damaged one"),
        ("a.npy", bytes(range(200)), "0807", "`a.npy`: this is no npy file, or a damaged one"),
        ("a.npy", npy("__import__('os').abort()"), "0807", "`a.npy`: this is no npy file, or a damaged one"),
        (
            "a.npy",
            npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", b"1234"),
            "0807",
            "`a.npy`: it is cut off: shape [2, 3] needs 24 bytes",
        ),
        (
            "a.npy",
            npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999, 99999), }"),
            "0804",
            "`a.npy`: a tensor of shape [99999999999999, 99999] has more elements than any memory can hold",
        ),
        ("a.npy", npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"x" * 8), "0807", "`a.npy`: it holds Python objects, which are never loaded"),
        (
            "a.npy",
            npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", b"x" * 8),
            "0807",
            "expected tensor[M, N, f32], found a tensor of shape [2]",
        ),
        ("a.npz", b"PK" + bytes(100), "0807", "`a.npz`: this is no npz file, or a damaged one"),
        ("a.csv", b"1,2\n3\n", "0807", "`a.csv`: row 2 has 1 cells, and the rows before it have 2"),
        ("a.csv", b"1,2\n3,x\n", "0807", '`a.csv`: row 2, column 2 is "x", which is no number'),
        ("a.csv", b"1,2\n3,\xe9\n", "0807", "`a.csv`: this is no text in UTF-8"),
        ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(range(100)), "0807", "`a.png`: this is no picture in its format, or a damaged one"),
        ("a.png", b"", "0807", "`a.png`: this is no picture in its format, or a damaged one"),
    ],
)  # fmt: skip
def test_data_that_can_not_be_loaded(run: Run, name: str, content: bytes | None, code: str, message: str) -> None:
    if content is not None:
        write(name, content)
    found, out, error = run("run", write("p.zynml", f'println(1)\nlet t = load("{name}") as tensor[M, N, f32]\nprintln(t)\n'))
    assert (found, out) == (1, "1\n")
    assert error.startswith(f"error[ZYN{code}]: {message}\n --> p.zynml:2:9\n")


def test_data_of_another_type_is_converted_as_asked(run: Run) -> None:
    write("a.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1), }", np.float64(0.1).tobytes()))
    found, out, error = run("run", write("p.zynml", 'let t = load("a.npy") as tensor[M, N, f32]\nprintln(t.dtype(), t[0, 0] == 0.1f32)\n'))
    assert (found, out, error) == (0, "f32 true\n", "")


def test_a_first_row_that_is_no_header_says_how_to_make_it_one(run: Run) -> None:
    write("a.csv", b"0x1F,2\n3,4\n")
    _, _, error = run("run", write("p.zynml", 'let t = load("a.csv") as tensor[M, N, f32]\n'))
    assert error == (
        'error[ZYN0807]: `a.csv`: row 1, column 1 is "0x1F", which is no number\n'
        " --> p.zynml:1:9\n"
        "  |\n"
        '1 | let t = load("a.csv") as tensor[M, N, f32]\n'
        "  |         ^^^^^^^^^^^^^\n"
        "hint: `header=true` says that the first row names the columns\n"
    )


def test_empty_tensors_are_loaded_and_computed_with(run: Run) -> None:
    Path("a.npy").write_bytes(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), }"))
    program = 'let t = load("a.npy") as tensor[M, N, f32]\nprintln(compute(t) { for i in 0..M, j in 0..N: out[i, j] = t[i, j] + 1.0 }.shape())\n'
    assert run("run", write("p.zynml", program)) == (0, "[0, 3]\n", "")


# ---- arguments from Python -------------------------------------------------------------------------------------------------

FUNCTIONS = """
def scale(x: tensor[N], by: f32): tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
def add(x: tensor[N], y: tensor[N]): tensor { compute(x, y) { for i in 0..N: out[i] = x[i] + y[i] } }
def three(x: tensor[3, D, i32]): int { D }
def next(a: int): int { a + 1 }
def bump(x: tensor[N], k: tensor[N, i64]) { compute(mut x, k) { for i in 0..N: x[i] = x[i] + (10 / k[i]) as f32 } }
def gather(x: tensor[N], k: tensor[M, i64]): tensor { compute(x, k) { for i in 0..M: out[i] = x[k[i]] } }
"""
ONES = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("scale", (np.ones(3), 2.0), "error[ZYN0807]: `x` is an array of float64, and `scale` takes a tensor of f32"),
        ("scale", (np.ones((3, 2), np.float32), 2.0), "error[ZYN0807]: expected tensor[N, f32], found a tensor of shape [3, 2]"),
        ("scale", (np.ones(3, complex), 2.0), "error[ZYN0807]: an array of NumPy type complex128 has no counterpart"),
        ("scale", (np.array([{}]), 2.0), "error[ZYN0807]: an array of NumPy type object has no counterpart"),
        ("scale", (np.ones(3, ">f4"), 2.0), "error[ZYN0807]: an array of NumPy type >f4 can't be taken: its bytes are in the other order"),
        ("scale", ({}, 2.0), "error[ZYN0807]: a Python dict has no counterpart"),
        ("scale", (None, 2.0), "error[ZYN0807]: expected a tensor, found unit"),
        ("scale", ("abc", 2.0), "error[ZYN0807]: expected a tensor, found String"),
        ("scale", ([[1.0], [2.0, 3.0]], 2.0), "error[ZYN0301]: rows differ in length: `[1]` has 2 elements, and `[0]` has 1"),
        ("scale", (ONES, "2"), "error[ZYN0807]: expected f32, found String"),
        ("scale", (ONES,), "error[ZYN0204]: `scale` lacks the argument `by`"),
        ("scale", (ONES, 1.0, 2.0), "error[ZYN0204]: `scale` takes 2 arguments, but 3 are given"),
        ("add", (ONES, np.ones(4, np.float32)), "error[ZYN0802]: size `N` is 3 by axis 0 of `x` and 4 by axis 0 of `y`"),
        ("three", (np.ones((2, 2), np.int32),), "error[ZYN0807]: expected tensor[3, D, i32], found a tensor of shape [2, 2]"),
        ("next", (1 << 70,), "error[ZYN0807]: 1180591620717411303424 fits into no int of 64 bits"),
        ("next", (1.5,), "error[ZYN0807]: `a` is a float, and `next` takes i64"),
        ("gather", (np.ones(0, np.float32), np.zeros(1, np.int64)), "error[ZYN0801]: index 0 is out of range: axis 0 of `x` has 0 elements"),
    ],
)
def test_wrong_arguments_from_python(name: str, arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(zynml.ZynMLError) as caught:
        getattr(zynml.compile(FUNCTIONS), name)(*arguments)
    assert str(caught.value).splitlines()[0] == message


def test_an_unknown_keyword_from_python() -> None:
    with pytest.raises(zynml.ZynMLError, match="`scale` has no parameter `bye`"):
        zynml.compile(FUNCTIONS).scale(ONES, bye=2.0)


def test_read_only_memory_is_not_updated() -> None:
    fixed = np.ones(3, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(zynml.ZynMLError, match="`x` can't be updated: its memory is read-only"):
        zynml.compile(FUNCTIONS).bump(fixed, np.ones(3, np.int64))
    assert list(fixed) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_fault_in_a_kernel_leaves_its_inputs_as_they_were(threads: int) -> None:
    before = np.arange(1_000_000, dtype=np.float32)
    x, k = before.copy(), np.ones(len(before), np.int64)
    k[[999_999, 700_001, 500_000]] = 0
    program = zynml.compile(FUNCTIONS, threads=threads)
    with pytest.raises(zynml.ZynMLError) as caught:
        program.bump(x, k)
    assert str(caught.value).splitlines()[0] == "error[ZYN0806]: division by zero in `10 / k[i]`"
    assert np.array_equal(x, before)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_fault_of_a_kernel_is_the_first_in_the_order_of_its_loops(threads: int) -> None:
    k = np.zeros(1_000_000, np.int64)
    k[[999_999, 700_001, 500_000]] = [7, 8, 9]
    with pytest.raises(zynml.ZynMLError, match="index 9 is out of range: axis 0 of `x` has 3 elements"):
        zynml.compile(FUNCTIONS, threads=threads).gather(ONES, k)


# ---- interruptions, memory, pipes ------------------------------------------------------------------------------------------

LONG = {
    "a loop": "println(0)\nmut i = 0\nwhile true { i = (i + 1) % 7 }\n",
    "a kernel": "let n = 100_000_000_000\nlet x = ones(8)\nprintln(0)\nlet y = compute(x, n) -> tensor[8] {\n    for i in 0..8:\n        var s = 0.0\n"
    "        for k in 0..n:\n            s = s * 0.999 + sin(x[i] + s)\n        out[i] = s\n}\nprintln(y)\n",
    "many kernels": "mut x = ones(9)\nprintln(0)\nwhile true { compute(mut x) { for i in 0..N: x[i] = x[i] * 0.5 + 1.0 } }\n",
}


@pytest.mark.parametrize("what", LONG)
def test_an_interruption_ends_the_run_with_130(tmp_path: Path, what: str) -> None:
    program = tmp_path / "p.zynml"
    program.write_text(LONG[what])
    running = process("run", "p.zynml", "--threads", "2", cwd=tmp_path)
    assert running.stdout is not None
    assert running.stdout.readline() == "0\n"
    running.send_signal(signal.SIGINT)
    _, error = running.communicate(timeout=200)
    assert running.returncode == 130
    assert error.startswith("error[ZYN0809]: interrupted\n")
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("let xs = [i for i in 0..1000000000]\n", "1:1"),
        ("mut s = \"abc\"\nwhile true { s = s + s }\n", "2:"),
        ("let n = 40_000\nlet x = ones(n)\nlet y = compute(x) { for i in 0..N, j in 0..N: out[i, j] = x[i] * x[j] }\nprintln(y[0, 0])\n", "3:9"),
        ("def f(n: int): int {\n    let x = zeros(100000)\n    f(n + 1) + 1\n}\nprintln(f(0))\n", ""),
    ],
    ids=["list", "text", "result of a kernel", "recursion"],
)  # fmt: skip
def test_too_little_memory_is_a_message(tmp_path: Path, text: str, place: str) -> None:
    (tmp_path / "p.zynml").write_text(text)
    limit = 520 << 20
    running = process("run", "p.zynml", cwd=tmp_path, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    _, error = running.communicate(timeout=120)
    assert running.returncode == 1
    assert error.startswith("error[ZYN0804]: ")
    assert f" --> p.zynml:{place}" in error


def test_more_elements_than_memory_are_refused(run: Run) -> None:
    code, out, error = run("run", write("p.zynml", "let n = 1_000_000_000_000_000\nlet x = zeros(n)\n"))
    assert (code, out) == (1, "")
    assert error.startswith("error[ZYN0804]: a tensor of shape [1000000000000000] takes 3.6 PB, and ")


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "p.zynml").write_text("for i in 0..100000 { println(i) }\n")
    running = process("run", "p.zynml", cwd=tmp_path)
    assert running.stdout is not None and running.stderr is not None
    assert running.stdout.readline() == "0\n"
    running.stdout.close()
    assert running.stderr.read() == ""
    assert running.wait(60) == 0


@pytest.mark.parametrize("closed", [1, 2])
def test_closed_output_streams_are_no_fault(tmp_path: Path, closed: int) -> None:
    (tmp_path / "p.zynml").write_text("println(1)\n" if closed == 1 else "println(y)\n")
    running = process("run", "p.zynml", cwd=tmp_path, preexec_fn=lambda: os.close(closed))
    out, error = running.communicate(timeout=200)
    assert running.returncode == (0 if closed == 1 else 2)
    assert (out, error) == ("", "")


def test_a_full_disk_is_a_message(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    (tmp_path / "p.zynml").write_text("for i in 0..100000 { println(i) }\n")
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "zyntax", "run", "p.zynml"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error[ZYN0807]: No space left on device\n")


def test_an_internal_fault_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    def break_down() -> None:
        raise LookupError("gone")

    assert guarded(break_down) == 1
    head, hint = capsys.readouterr().err.splitlines()
    assert head.startswith("error[ZYN0901]: internal fault: LookupError: gone (test_bad_input.py:")
    assert hint == "hint: this is a fault of zyntax, not of your program; please report it with the program"


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    from zyntax.report import wants_colour

    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert wants_colour(Terminal())  # type: ignore[arg-type]
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(Terminal())  # type: ignore[arg-type]
