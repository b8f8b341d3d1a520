"""How a process ends while blocks are still running beside its program."""

import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENDLESS = """let n = 1_000_000_000_000
let x = ones(8)
let f = compute(x, n) @async -> tensor[8] {
    for i in 0..8:
        var s = 0.0
        for k in 0..n:
            s = s * 0.999 + sin(x[i] + s)
        out[i] = s
}
println("started")
flush()
"""


def process(folder: Path, program: str) -> "subprocess.Popen[str]":
    (folder / "p.zynml").write_text(program, encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-m", "zyntax", "run", "p.zynml"],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # jobs in the background ignore it otherwise
    )


@pytest.mark.parametrize("waiting", ["println(await f)", "while true { }", "let g = 3"], ids=["at await", "in a loop", "at the end"])
def test_an_interruption_ends_everything(tmp_path: Path, waiting: str) -> None:
    running = process(tmp_path, ENDLESS + waiting + "\n")
    assert running.stdout is not None
    assert running.stdout.readline() == "started\n"
    running.send_signal(signal.SIGINT)
    _, messages = running.communicate(timeout=200)
    assert running.returncode == 130
    assert "error[ZYN0809]: interrupted\n" in messages
    assert messages.count("error") == 1 and "Traceback" not in messages


@pytest.mark.parametrize(
    ("end", "code"),
    [("println(await f timeout 0ms)", "ZYN0810"), ("assert(false)", "ZYN0808")],
    ids=["late", "another fault"],
)
def test_a_program_that_fails_does_not_wait_for_its_blocks(tmp_path: Path, end: str, code: str) -> None:
    output, messages = process(tmp_path, ENDLESS + end + "\n").communicate(timeout=200)
    assert output == "started\n"
    assert f"error[{code}]" in messages
    assert messages.count("error") == 1 and "Traceback" not in messages
