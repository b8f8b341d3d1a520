"""Files with letters changed, lost and doubled anywhere: each is read to its end or refused as a whole, and every row is counted once."""

import gzip
import random
from pathlib import Path

import pytest
from feeds import BTC, DATA, FINE, read

from runtime.replay.bad_rows import BadSource
from runtime.replay.grids import Listing
from runtime.replay.rules import Rules

ES = Listing("ESH1", "0.25", "1")
COIN = Listing("BTC", "1", "0.00001")
STOCKS = [Listing(name, "0.0001", "1") for name in ("ALC", "BOB", "CHAR")]


def _unpacked(name: str) -> bytes:
    raw = (DATA / name).read_bytes()
    if name.endswith(".gz"):
        return gzip.decompress(raw)
    if name.endswith(".zst"):
        import pyarrow

        with pyarrow.CompressedInputStream(pyarrow.OSFile(str(DATA / name)), "zstd") as file:
            return bytes(file.read())
    return raw


FILES = {
    "btcusdt_spot_20240808_trades.csv": [BTC],
    "btcusdt_spot_20240808.jsonl.gz": [FINE],
    "btc_hyperliquid_l2book_20250126.jsonl.gz": [COIN],
    "sim_20101224.itch50.gz": STOCKS,
    "sample.trades.v3.dbn.zst": [ES],
    "sample.mbp-1.v3.dbn.zst": [ES],
    "sample.mbp-10.v3.dbn.zst": [ES],
    "sample.mbo.v3.dbn": [ES],
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("reorder", [0, 10**9])
def test_no_file_is_too_bad(tmp_path: Path, name: str, reorder: int) -> None:
    rng = random.Random(f"{name}{reorder}")
    whole = _unpacked(name)[:60_000]
    for _ in range(12):
        raw = bytearray(whole)
        for _ in range(rng.choice((1, 3, 40))):
            at = rng.randrange(len(raw))
            match rng.randrange(4):
                case 0:
                    raw[at] = rng.randrange(256)
                case 1:
                    raw[at] = rng.choice(b'0123456789.,-"{}[]\n\r e')
                case 2:
                    del raw[at : at + rng.choice((1, 2, 50))]
                case _:
                    raw[at:at] = raw[at : at + rng.choice((1, 2, 300))]
        path = tmp_path / name.removesuffix(".gz").removesuffix(".zst")
        path.write_bytes(raw)
        try:
            # which counts the rows
            events, tally, _ = read(path, *FILES[name], rules=Rules(skip=True, reorder=reorder))
        except BadSource:
            continue
        assert tally.used >= 0 and events["qty"].min(initial=0) >= 0 and events["qty2"].min(initial=0) >= 0


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith((".gz", ".zst"))])
def test_no_packing_is_too_bad(tmp_path: Path, name: str) -> None:
    rng = random.Random(name)
    whole = (DATA / name).read_bytes()
    for _ in range(5):
        raw = bytearray(whole)
        for _ in range(rng.choice((1, 20))):
            raw[rng.randrange(4, len(raw))] = rng.randrange(256)
        path = tmp_path / name
        path.write_bytes(raw[: rng.randrange(5, len(raw))])
        try:
            read(path, *FILES[name], rules=Rules(skip=True))
        except BadSource:
            continue
