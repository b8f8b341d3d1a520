"""Runs that don't come to their end: whatever they leave is valid, marked partial, and never looks complete."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from runtime.replay.outputs.files import OutputFault
from runtime.replay.outputs.folder import OutputOptions, Outputs
from runtime.replay.outputs.tables import NAMES
from tests.replay_outputs.samples import Sample, pieces, write

ROOT = Path(__file__).parents[2]


def partial_rows(folder: Path, name: str) -> int:
    """Rows of all of a table's files, each of which must be valid and say that it is partial."""
    files = [*folder.glob(f"{name}.parquet"), *folder.glob(f"{name}.partial-*.parquet")]
    tables = [parquet.read_table(file) for file in files]
    assert all(table.schema.metadata[b"partial"] == b"true" for table in tables)
    return sum(table.num_rows for table in tables)


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found


CHILD = """
import resource, signal, sys
from pathlib import Path
from runtime.replay.outputs.folder import OutputOptions, Outputs
from tests.replay_outputs.samples import pieces, sample

swing = sample()
limit = int(sys.argv[2])
with Outputs(Path(sys.argv[1]), swing.run, OutputOptions(part_rows=100)) as out:
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    for name in ("fills", "pnl"):
        for piece in pieces(swing.records[name], 30):
            out.add(name, piece)
    out.checkpoint()
    if not limit:
        out.add("orders", swing.records["orders"][:50])
        print("ready", flush=True)
        signal.pause()
    for name in ("orders", "rejects", "latency"):
        out.add(name, swing.records[name])
    out.add_bad_rows(swing.bad)
    out.finish(swing.totals)
"""


def child(folder: Path, limit: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", CHILD, str(folder), str(limit)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment)


def test_a_killed_run_leaves_what_its_last_checkpoint_had(swing: Sample, tmp_path: Path) -> None:
    with child(tmp_path, 0) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
    assert summary(tmp_path)["complete"] is False
    assert partial_rows(tmp_path, "fills") == len(swing.records["fills"])
    assert partial_rows(tmp_path, "pnl") == len(swing.records["pnl"])
    assert not (tmp_path / "fills.parquet").exists() and not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("limit", [600, 4000, 9000])
def test_a_full_disk_ends_with_a_fault_and_valid_files(limit: int, tmp_path: Path) -> None:
    with child(tmp_path, limit) as process:
        _, errors = process.communicate()
    assert process.returncode == 1
    assert "OutputFault: " in errors and "File too large" in errors
    assert summary(tmp_path)["complete"] is False
    assert not (tmp_path / "report.html").exists()
    for name in NAMES:
        partial_rows(tmp_path, name)
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_run_stopped_by_hand_keeps_all_it_had(swing: Sample, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Outputs(tmp_path, swing.run, OutputOptions(part_rows=100)) as out:
        for name, records in swing.records.items():
            for piece in pieces(records, 33):
                out.add(name, piece)
        out.add_bad_rows(swing.bad)
        raise KeyboardInterrupt
    found = summary(tmp_path)
    assert (found["complete"], found["partial"]) == (False, "stopped by hand")
    for name, count in found["rows"].items():
        assert partial_rows(tmp_path, name) == count == (3 if name == "bad_rows" else len(swing.records[name]))
    assert not list(tmp_path.glob("*.partial-*"))


def test_parts_become_one_file_in_order(swing: Sample, folder: Path, tmp_path: Path) -> None:
    write(tmp_path, swing, 13, checkpoints=True, options=OutputOptions(part_rows=64))
    for name in NAMES:
        assert parquet.read_table(tmp_path / f"{name}.parquet").equals(parquet.read_table(folder / f"{name}.parquet"))
    assert not list(tmp_path.glob("*.partial-*"))


def test_a_fault_while_finishing_leaves_no_table_that_looks_whole(swing: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("runtime.replay.outputs.folder.report", fails)
    with pytest.raises(OutputFault, match=r"report\.html: No space left on device"):
        write(tmp_path, swing, options=OutputOptions(png=True))
    assert summary(tmp_path)["partial"].endswith("No space left on device")
    assert {name: partial_rows(tmp_path, name) for name in NAMES} == summary(tmp_path)["rows"]
    assert not list(tmp_path.glob("*.png"))


def test_a_new_run_takes_the_old_ones_outputs_away_first_and_nothing_else(swing: Sample, tmp_path: Path) -> None:
    write(tmp_path, swing, options=OutputOptions(png=True))
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "photo.png").write_text("mine")
    (tmp_path / "fills.partial-0001.parquet").write_text("of a killed run")
    Outputs(tmp_path, swing.run)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt", "photo.png", "summary.json"]
    assert summary(tmp_path)["complete"] is False


def test_outputs_must_be_ended(swing: Sample, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Outputs(tmp_path, swing.run):
        pass
    assert summary(tmp_path)["complete"] is False


def test_a_folder_that_cant_be_made_is_a_fault(swing: Sample, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputFault, match="file"):
        Outputs(tmp_path / "file" / "out", swing.run)


def test_records_of_another_layout_are_refused(swing: Sample, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="layout"), Outputs(tmp_path, swing.run) as out:
        out.add("orders", swing.records["fills"])
