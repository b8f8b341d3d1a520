"""Programs that never end, and Ctrl-C: the run stops in the middle of native code, and leaves valid partial outputs."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.quantdsl.golden.programs import DATA, ROOT
from tests.quantdsl.run.test_ends import left

TRADES = DATA / "btcusdt_spot_20240808_trades.csv"
HEAD = "currency USDT { scale 8 }\ninstrument BTCUSDT : USDT { tick 0.01  lot 0.00001 }\n"
RECURSIVE = "fn often(n: int) -> int { if n < 2 { n } else { often(n - 1) +% often(n - 2) } }\n"
ENDLESS = {
    "a loop": "var i = 0\nwhile true { i = i +% 1 }\nlog_ring(i)",
    "a loop that nothing of changes": "while n > 5 { }",
    "a range without an end": "var s = 0\nfor i in 0..9_000_000_000_000_000_000 { s = s +% i % 7 }\nlog_ring(s)",
    "loops inside each other": "var s = 0.0\nfor i in 0..1_000_000 { for j in 0..1_000_000 { s = sqrt(s + 1.0) } }\nlog_ring(s)",
    "a function that loops": "log_ring(forever(n))",
    "a loop of functions": "var s = 0.0\nfor i in 0..1_000_000 { s += slowly(s) }\nlog_ring(s)",
    "functions that call themselves": "log_ring(often(200))",
}
ENDLESS["a range of the data"] = "var s = 0.0\nfor i in 0..t.qty.lots + 9_000_000_000_000_000_000 { s = sqrt(s + 1.0) }\nlog_ring(s)"
HELPERS = """fn forever(n: int) -> int { var i = n
  while i != -1 { i = (i +% 1) % 7 }
  i }
fn slowly(x: f64) -> f64 { var s = x
  for i in 0..1_000_000 { s = sqrt(s + 1.0) }
  s }
"""
FROM_PYTHON = """
import sys
import quantdsl
program = quantdsl.compile(sys.argv[1])
print("ready", flush=True)
try:
    program.run(sys.argv[2], out="out")
except KeyboardInterrupt:
    print("interrupted", quantdsl.compile(open(sys.argv[1]).read().replace("n > 5", "false")) is not None)
"""


def program(folder: Path, body: str) -> str:
    text = (
        f"{HEAD}{RECURSIVE}{HELPERS}strategy S on BTCUSDT {{\n  state n = 0\n  on trade(t) {{\n n += 1\n if n > 5 {{\n{body}\n}} }}\n}}\n"
    )
    (folder / "p.qdsl").write_text(text)
    return "p.qdsl"


def interrupted(folder: Path, *command: str) -> "tuple[int, str, str]":
    """Starts a command and sends it a Ctrl-C while it is in native code: it has opened its outputs, and used a whole second of the processor."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, *command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        begun: float | None = None
        while process.poll() is None:
            used = sum(map(int, Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
            if begun is None and (folder / "out" / "summary.json").exists():
                begun = used
            if begun is not None and used - begun > 0.3:
                process.send_signal(signal.SIGINT)
                break
            time.sleep(0.01)
        try:
            out, errors = process.communicate(timeout=200)
        finally:
            process.kill()
    return process.returncode, out, errors


@pytest.mark.parametrize("what", ENDLESS)
def test_ctrl_c_ends_an_endless_handler(what: str, tmp_path: Path) -> None:
    path = program(tmp_path, ENDLESS[what])
    code, out, errors = interrupted(tmp_path, "-m", "zyntax", "run", path, "--data", str(TRADES), "--out", "out")
    assert (code, out, errors.strip()) == (130, "", "error[ZYN0809]: interrupted")
    summary, _ = left(tmp_path / "out")
    assert (summary["complete"], summary["partial"]) == (False, "stopped by hand")


def test_from_python_it_is_a_keyboard_interrupt(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(FROM_PYTHON)
    code, out, errors = interrupted(tmp_path, "run.py", program(tmp_path, "while n > 5 { }"), str(TRADES))
    assert (code, out.split(), errors) == (0, ["ready", "interrupted", "True"], "")
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["partial"] == "stopped by hand"
