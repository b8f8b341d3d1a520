"""The numbers of a summary, against sums over the records, and the hash that two runs share."""

import copy
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from runtime.replay.outputs.summary import iso, to_json
from tests.replay_outputs.samples import Sample, write


def read(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text(), parse_float=Decimal)
    return found


def test_counts_add_up(folder: Path, swing: Sample) -> None:
    s = read(folder)
    assert s["complete"] is True
    assert (s["rows_in"], s["rows_used"], s["rows_bad"]) == (503, 500, 3)
    assert s["submitted"] == s["filled"] + s["cancelled"] + s["rejected"] + s["open"] == swing.totals.submitted
    assert s["rejected"] == len(swing.records["rejects"])
    masks = swing.records["rejects"]["mask"].tolist()
    assert s["rejects_by_rule"] == {
        name: sum(bool(m & bit) for m in masks) for name, bit in (("max_order_qty", 2), ("price_collar", 8), ("max_position", 16))
    }
    filled, ordered = sum(swing.records["fills"]["qty"].tolist()), sum(swing.records["orders"]["qty"].tolist())
    assert float(s["fill_ratio"]) == filled / ordered


def test_money_is_exact_to_its_last_digit(folder: Path, swing: Sample) -> None:
    s, last = read(folder), swing.records["pnl"][-1]
    for name in ("realized", "unrealized", "fees", "net"):
        expected = Decimal(int(last[name])).scaleb(-8)
        assert s["pnl"]["USD"][name] == s["positions"]["ES"][name] == expected
        assert f'"{name}": {expected:f}' in (folder / "summary.json").read_text()
    peak = fall = 0
    for net in swing.records["pnl"]["net"].tolist():
        peak = max(peak, net)
        fall = max(fall, peak - net)
    assert s["pnl"]["USD"]["max_drawdown"] == Decimal(fall).scaleb(-8)
    cash = sum((1 if f["side"] == 2 else -1) * int(f["price"]) * int(f["qty"]) for f in swing.records["fills"]) * 1_250_000_000
    value = int(last["position"]) * int(last["mark2"]) * 1_250_000_000 // 2
    assert s["pnl"]["USD"]["realized"] + s["pnl"]["USD"]["unrealized"] == Decimal(cash + value).scaleb(-8)


def test_percentiles_of_latency(folder: Path, swing: Sample) -> None:
    ns = sorted(swing.records["latency"]["ns"].tolist())
    found = read(folder)["latency_ns"]
    assert [float(found[name]) for name in ("p50", "p99", "p99.9", "max")] == [ns[999], ns[1979], ns[1997], ns[1999]]
    assert float(found["within_target"]) == sum(n <= 5000 for n in ns) / 2000


@pytest.mark.parametrize(("size", "checkpoints"), [(1, False), (97, True)])
def test_the_hash_and_the_files_dont_depend_on_the_pieces(
    size: int, checkpoints: bool, folder: Path, swing: Sample, tmp_path: Path
) -> None:
    assert write(tmp_path, swing, size, checkpoints)["hash"] == read(folder)["hash"]
    for name in ("orders", "fills", "rejects", "pnl", "bad_rows"):
        assert (tmp_path / f"{name}.parquet").read_bytes() == (folder / f"{name}.parquet").read_bytes()


def test_the_hash_is_of_what_the_run_decides(folder: Path, swing: Sample, tmp_path: Path) -> None:
    known = read(folder)["hash"]
    other_machine = copy.deepcopy(swing)
    other_machine.records["latency"]["ns"] += 1
    other_machine = evolve(
        other_machine,
        run=evolve(swing.run, program="elsewhere/swing.qdsl"),
        bad=[evolve(row, file=f"/data/{row.file}") for row in swing.bad],
        totals=evolve(swing.totals, machine={"cpu": "another"}),
    )
    assert write(tmp_path, other_machine)["hash"] == known
    other_fee, other_seed = copy.deepcopy(swing), evolve(swing, totals=evolve(swing.totals, settings={"fast": 12, "seed": 1}))
    other_fee.records["fills"]["fee"][5] += 1
    other_text = evolve(swing, bad=[evolve(swing.bad[0], text="inf"), *swing.bad[1:]])
    hashes = {write(tmp_path, other)["hash"] for other in (other_fee, other_seed, other_text)}
    assert len(hashes) == 3 and known not in hashes


@pytest.mark.parametrize("wrong", [{"rows_in": 504}, {"submitted": 1}, {"rows_in": 504, "rows_bad": 4}])
def test_counts_that_disagree_never_become_a_summary(wrong: dict[str, int], swing: Sample, tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        write(tmp_path, evolve(swing, totals=evolve(swing.totals, **wrong)))
    assert read(tmp_path)["complete"] is False


def test_json_text() -> None:
    value = {"a": [1, True, None, 'x"y', Decimal("1E+3"), Decimal("0.50")], "e": {}, "n": float("nan"), "f": 0.1}
    text = to_json(value)
    assert json.loads(text, parse_float=Decimal) == {
        "a": [1, True, None, 'x"y', 1000, Decimal("0.50")],
        "e": {},
        "n": None,
        "f": Decimal("0.1"),
    }
    assert '    0.50\n  ],\n  "e": {},' in text


def test_times_before_1970_and_to_the_nanosecond() -> None:
    assert iso(1) == "1970-01-01T00:00:00.000000001Z"
    assert iso(-1) == "1969-12-31T23:59:59.999999999Z"
