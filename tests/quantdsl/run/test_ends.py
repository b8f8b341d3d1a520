"""Runs that are cut short from outside, by the command: a kill, a full disk, Ctrl-C. What they leave is valid, and marked partial."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from runtime.replay.outputs.tables import NAMES
from tests.quantdsl.golden.programs import DATA, PROGRAMS, ROOT

TRADES = DATA / "btcusdt_spot_20240808_trades.csv"
DAYS = 5
CHILD = """
import resource, signal, sys
from attrs import evolve
from runtime.replay.feed import Feed
from quantdsl import replays

events, what, run_options = Feed.events, sys.argv[1], replays.run_options
replays.run_options = lambda given: evolve(run_options(given), checkpoint_every=0.0)

def slowly(self):
    for number, block in enumerate(events(self)):
        yield block
        if number == 1 and what == "wait":
            print("ready", flush=True)
            signal.pause()
        if number == 1 and what == "fill":
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

Feed.events = slowly
from zyntax.main import main
main(sys.argv[2:])
"""


@pytest.fixture
def child(tmp_path: Path) -> Any:
    """Starts the command on some days of trades; it stops for the test after the second block, or its disk is full from there on."""
    head, *lines = TRADES.read_text().splitlines()
    with (tmp_path / "trades.csv").open("w") as file:
        file.write(head + "\n")
        for day in range(DAYS):
            for line in lines:
                ts, id, rest = line.split(",", 2)
                file.write(f"{int(ts) + day * 86_400 * 10**9},{int(id) + day * 10**7},{rest}\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def start(what: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", CHILD, what, "run", str(PROGRAMS / "ema_cross.qdsl"), "--data", "trades.csv", "--out", "out"]
        return subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


def left(folder: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """The summary, and the rows of each table, all of whose files are valid and marked partial."""
    found: dict[str, int] = {}
    for name in NAMES:
        files = [*folder.glob(f"{name}.parquet"), *folder.glob(f"{name}.partial-*.parquet")]
        read = [parquet.read_table(file) for file in files]
        assert all(table.schema.metadata[b"partial"] == b"true" for table in read), name
        found[name] = sum(table.num_rows for table in read)
    assert not (folder / "report.html").exists()
    return json.loads((folder / "summary.json").read_text()), found


def test_a_killed_run_leaves_what_its_last_checkpoint_had(child: Any, tmp_path: Path) -> None:
    with child("wait") as process:
        assert process.stdout.readline() == "ready\n", process.communicate()
        process.send_signal(signal.SIGKILL)
    summary, rows = left(tmp_path / "out")
    assert summary["complete"] is False
    assert rows["fills"] > 50 and rows["pnl"] > rows["fills"]


def test_ctrl_c_ends_in_order(child: Any, tmp_path: Path) -> None:
    with child("wait") as process:
        assert process.stdout.readline() == "ready\n", process.communicate()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert (process.returncode, errors.strip()) == (130, "error[ZYN0809]: interrupted")
    summary, rows = left(tmp_path / "out")
    assert (summary["complete"], summary["partial"]) == (False, "stopped by hand")
    assert summary["rows"] == rows and rows["fills"] > 50
    assert not list((tmp_path / "out").glob("*.partial-*"))


def test_a_full_disk_ends_with_a_message_and_valid_files(child: Any, tmp_path: Path) -> None:
    with child("fill") as process:
        out, errors = process.communicate()
    assert (process.returncode, out) == (1, "")
    assert errors.startswith("error[ZYN0807]: `out/") and "can't be written: file too large" in errors and errors.count("error[") == 1
    summary, rows = left(tmp_path / "out")
    assert summary["complete"] is False and rows["fills"] > 50
    assert not list((tmp_path / "out").glob("*.unfinished"))
