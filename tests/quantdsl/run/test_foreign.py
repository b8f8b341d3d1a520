"""Data that has nothing for the program's instrument, or nothing in the window."""

import gzip
from pathlib import Path

import pytest

from tests.quantdsl.golden.programs import DATA
from tests.quantdsl.run.conftest import Zyntax

PROGRAM = """
currency USDT {{ scale 8 }}
instrument {name} : USDT {{ tick 0.01  lot 0.00001 }}
strategy Watch on {name} {{
  state seen = 0
  on trade(t) {{ seen += 1 }}
  on stop {{ log_ring(seen) }}
}}
"""
BINANCE, TRADES, ITCH = DATA / "btcusdt_spot_20240808.jsonl.gz", DATA / "btcusdt_spot_20240808_trades.csv", DATA / "sim_20101224.itch50.gz"
HYPERLIQUID = DATA / "btc_hyperliquid_l2book_20250126.jsonl.gz"


def program(folder: Path, name: str) -> Path:
    path = folder / "watch.qdsl"
    path.write_text(PROGRAM.format(name=name))
    return path


@pytest.mark.parametrize(
    ("name", "data", "held", "way"),
    [
        ("BTC", BINANCE, "`BTCUSDT`", ""),
        ("BTCUSDT", HYPERLIQUID, "`BTC`", ""),
        ("XYZ", ITCH, "`ALC`, `BOB`, `CHAR`", " --map symbol=ALC"),
    ],
)
def test_a_file_about_others_says_which(zyntax: Zyntax, tmp_path: Path, name: str, data: Path, held: str, way: str) -> None:
    done = zyntax("run", program(tmp_path, name), "--data", data, "--on-bad", "skip", "--out", "out")
    assert (done.code, done.err) == (
        3,
        f"error[ZYN0807]: {data}: no row is about `{name}`; the file has {held}\nhint: --data {name}={data}{way}\n",
    )
    assert "partial" in (tmp_path / "out" / "summary.json").read_text() or not (tmp_path / "out" / "summary.json").exists()


def test_each_file_about_others_is_told_of(zyntax: Zyntax, tmp_path: Path) -> None:
    path = program(tmp_path, "BTC")
    part = tmp_path / "part.jsonl"
    part.write_bytes(b"".join(gzip.decompress(BINANCE.read_bytes()).splitlines(keepends=True)[1000:2000]))
    for second, messages in ((part, 2), (BINANCE, 1)):
        both = zyntax("run", path, "--data", BINANCE, "--data", second, "--on-bad", "skip")
        assert both.code == 3 and both.err.count("no row is about `BTC`") == messages
    one = zyntax("run", path, "--data", BINANCE, "--data", TRADES, "--on-bad", "skip")
    assert one.code == 0
    way = f"`--data BTC={BINANCE}` takes it for that"
    assert one.err == f"note[ZYN0811]: {BINANCE}: no row is about `BTC`; the file has `BTCUSDT`; {way}\n"


@pytest.mark.parametrize(
    ("data", "window", "hint"),
    [
        (TRADES, ("--from", "2025-01-01"), "the data ends at 2024-08-08T23:59:59.997948484Z"),
        (TRADES, ("--to", "2023-01-01"), "the data begins at 2024-08-08T23:54:14.087896568Z"),
        (BINANCE, ("--from", "2025-01-01"), "the data ends at 2024-08-08T23:59:59.999231384Z"),
        (BINANCE, ("--from", "2022-01-01", "--to", "2023-01-01"), "the data begins at 2024-08-08T"),
    ],
)
def test_a_window_without_a_row(zyntax: Zyntax, tmp_path: Path, data: Path, window: tuple[str, ...], hint: str) -> None:
    done = zyntax("run", program(tmp_path, "BTCUSDT"), "--data", data, *window, "--on-bad", "skip")
    shown = " ".join(f"{text}T00:00:00.000000000Z" if text[0] != "-" else text for text in window)
    assert done.code == 3
    assert done.err.startswith(f"error[ZYN0807]: no row is in the window {shown}\nhint: {hint}")


def test_a_file_without_rows_is_a_run_without_events(zyntax: Zyntax, tmp_path: Path) -> None:
    empty = tmp_path / "trades.csv"
    empty.write_text(TRADES.read_text().splitlines()[0] + "\n")
    done = zyntax("run", program(tmp_path, "BTCUSDT"), "--data", empty, "--from", "2025-01-01")
    assert (done.code, done.err) == (0, "")
