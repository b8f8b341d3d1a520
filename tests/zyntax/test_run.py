"""`zyntax run` and `zyntax check`: output, messages, exit codes."""

import json
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.zyntax.conftest import ROOT, Zyntax


def test_a_program_prints_to_standard_output_and_nothing_else(zyntax: Zyntax) -> None:
    done = zyntax("run", "hello.zynml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")


def test_set_gives_parameters_their_values(zyntax: Zyntax) -> None:
    done = zyntax("run", "double.zynml", "--set", "by=3", "--threads", "1")
    assert (done.returncode, done.stdout) == (0, "tensor([0.0, 3.0, 6.0, 9.0], shape=[4], dtype=f32)\n")


def test_set_of_what_is_no_parameter_says_which_there_are(zyntax: Zyntax) -> None:
    done = zyntax("run", "double.zynml", "--set", "bye=3")
    assert done.returncode == 2
    assert done.stderr == "error[ZYN0201]: --set bye: `double.zynml` has no `param bye`\nhint: did you mean `by`?\n"


def test_set_without_a_value_is_wrong_usage(zyntax: Zyntax) -> None:
    done = zyntax("run", "double.zynml", "--set", "by")
    assert done.returncode == 2
    assert "--set by: write NAME=VALUE" in done.stderr


def test_a_fault_at_run_time_keeps_the_output_before_it_and_exits_with_1(zyntax: Zyntax) -> None:
    done = zyntax("run", "fault.zynml")
    assert (done.returncode, done.stdout) == (1, "before\n")
    assert done.stderr.startswith("error[ZYN0806]: ")
    assert "--> fault.zynml:3:9" in done.stderr


def test_a_missing_device_is_found_before_anything_runs(zyntax: Zyntax) -> None:
    done = zyntax("run", "cuda.zynml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error[ZYN0501]: there is no device `cuda:0` here\n --> cuda.zynml:3:20\n")


def test_the_device_option_overrides_the_program(zyntax: Zyntax) -> None:
    done = zyntax("run", "cuda.zynml", "--device", "cpu")
    assert (done.returncode, done.stdout) == (0, "first\ntensor([0.0, 1.0], shape=[2], dtype=f32)\n")


def test_a_device_that_is_none_is_an_error(zyntax: Zyntax) -> None:
    done = zyntax("run", "hello.zynml", "--device", "gpu")
    assert done.returncode == 2
    assert done.stderr.startswith("error[ZYN0501]: `gpu` names no device\n")


def test_warnings_go_to_standard_error_and_strict_makes_them_errors(zyntax: Zyntax) -> None:
    lax = zyntax("run", "warns.zynml")
    assert lax.returncode == 0
    assert lax.stdout == "tensor([0.0, 0.0, 1.0, 0.0, 2.0, 0.0, 3.0], shape=[7], dtype=f32)\n"
    assert lax.stderr.startswith("warning[ZYN0601]: ")
    strict = zyntax("run", "warns.zynml", "--strict")
    assert (strict.returncode, strict.stdout) == (2, "")
    assert strict.stderr == lax.stderr.replace("warning[", "error[", 1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.zynml", "error[ZYN0108]: `missing.zynml` can't be read: no such file or directory\n"),
        ("program.txt", "error[ZYN0108]: `program.txt`: no language has the ending `.txt`\nhint: endings known: `.zynml`, `.ml`, `.qdsl`, `.imgpipe`, `.ip`\n"),
    ],
)
def test_what_is_no_program_is_refused(zyntax: Zyntax, name: str, message: str) -> None:
    done = zyntax("run", name)
    assert done.returncode == 2
    assert done.stderr.startswith(message)


def test_check_reports_the_errors_of_every_file_and_exits_with_2(zyntax: Zyntax) -> None:
    done = zyntax("check", "hello.zynml", "names.zynml", "wrong.zynml", "double.zynml")
    assert (done.returncode, done.stdout) == (2, "")
    assert [line for line in done.stderr.splitlines() if line.startswith("error[")] == [
        "error[ZYN0201]: `one` is not defined",
        "error[ZYN0201]: `two` is not defined",
        "error[ZYN0201]: `three` is not defined",
        "error[ZYN0106]: unknown suffix `q` of the number `5q`",
    ]


def test_check_is_silent_about_programs_without_faults(zyntax: Zyntax) -> None:
    done = zyntax("check", "hello.zynml", "double.zynml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_messages_as_json_are_one_object_a_line(zyntax: Zyntax) -> None:
    done = zyntax("check", "names.zynml", "--error-format", "json")
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(one["code"], one["place"]["line"], one["place"]["column"]) for one in found] == [
        ("ZYN0201", 1, 9),
        ("ZYN0201", 3, 9),
        ("ZYN0201", 4, 9),
    ]


def test_messages_have_no_colour_where_there_is_no_terminal(zyntax: Zyntax) -> None:
    assert "\033" not in zyntax("check", "names.zynml").stderr


def test_rendered_pictures_go_where_the_option_says(zyntax: Zyntax, folder: Path) -> None:
    (folder / "picture.zynml").write_text('render zeros(8, 8) { file: "black.png" }\n', encoding="utf-8")
    done = zyntax("run", "picture.zynml", "--render-dir", "pictures")
    assert (done.returncode, done.stdout) == (0, "[render] pictures/black.png\n")
    assert (folder / "pictures" / "black.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("level", ["0", "1", "2", "3", "s", "latency"])
def test_every_level_of_optimisation_gives_the_same(zyntax: Zyntax, level: str) -> None:
    done = zyntax("run", "double.zynml", "-O", level)
    assert (done.returncode, done.stdout) == (0, "tensor([0.0, 2.0, 4.0, 6.0], shape=[4], dtype=f32)\n")


def test_an_interrupted_program_exits_with_130(folder: Path) -> None:
    (folder / "endless.zynml").write_text('println("started")\nflush()\nwhile true { }\n', encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "zyntax", "run", "endless.zynml"],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # jobs in the background ignore it otherwise
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=200)
    assert process.returncode == 130
    assert messages.startswith("error[ZYN0809]: interrupted")


def test_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    (folder / "many.zynml").write_text("for i in 0..200000: println(i)\n", encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "zyntax", "run", "many.zynml"],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "0\n"
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(timeout=200) == 0


def test_blocks_that_say_trace_leave_every_stage(zyntax: Zyntax, folder: Path) -> None:
    text = "let x = ones(8)\nlet y = compute(x) @trace { for i in 0..N: out[i] = 2.0 * x[i] }\n"
    text += "println(y[0])\nprintln(compute(x) { for i in 0..N: yield x[i] })\n"
    (folder / "traced.zynml").write_text(text)
    done = zyntax("run", "traced.zynml", "--device", "cpu")
    assert (done.returncode, done.stdout, done.stderr) == (0, "2.0\n8.0\n", "")
    files = {path.name for path in (folder / "out" / "trace").iterdir()}
    assert {"01-line2-cpu.hir", "01-line2-cpu.hir-after-lift", "01-line2-cpu.llvm", "01-line2-cpu.asm", "kernels.txt"} <= files
    assert all(name.startswith("01-line2-cpu.") for name in files - {"kernels.txt"})
