"""A log of many records: the oldest ones of an event give their place to the newest, and are counted; orders and fills never do."""

import numpy as np
import pytest

import quantdsl
from quantdsl.api import Result
from quantdsl.engine.layout import ENOUGH
from quantdsl.run.options import RunOptions, tables
from quantdsl.run.replay import Replay
from runtime.replay.outputs.kept import KeptRecords
from runtime.replay.outputs.records import RunDescription

HEAD = "currency USD { scale 8 }\ninstrument ES : USD { tick 0.25  lot 1  multiplier 50 }\n"


def logged(body: str, rows: int, progress_every: float = 0.1) -> Result:
    program = quantdsl.compile(f"{HEAD}strategy S on ES {{ state n = 0\n on trade(t) {{ {body} }} }}\n")
    ts = 1_700_000_000_000_000_000 + np.arange(rows) * 1_000_000
    columns = {"ts": ts, "price": np.full(rows, 100.0), "qty": np.ones(rows)}
    sinks: list[KeptRecords] = []

    def sink(about: RunDescription) -> KeptRecords:
        sinks.append(KeptRecords(about))
        return sinks[0]

    ending = Replay(program.strategy, RunOptions(tables(columns), progress_every=progress_every)).run(sink)
    assert ending.failure is None
    return Result(ending.summary, None, sinks[0])


def numbers(found: Result) -> list[int]:
    return [int(text) for text in found.table("log")["text"].to_pylist()]


def test_a_busy_log_is_whole() -> None:
    found = logged("n += 1; log_ring(n); log_ring(-n)", 50_000)
    assert numbers(found) == [sign * n for n in range(1, 50_001) for sign in (1, -1)]
    assert found.summary["log_dropped"] == 0 and found.failure is None


@pytest.mark.parametrize("many", [ENOUGH, ENOUGH + 1, 2 * ENOUGH + 7, 5 * ENOUGH])
def test_one_event_keeps_its_newest_records(many: int) -> None:
    """However many records were there when it began, and however often they are collected."""
    body = f"n += 1; log_ring(-n); if n == 3 {{ for i in 0..{many} {{ log_ring(i) }} }}"
    found = [logged(body, 5), logged(body, 5, progress_every=-1.0)]
    kept = list(range(many))
    want = [-1, -2, *([-3, *kept])[-ENOUGH:], -4, -5]
    for one in found:
        assert numbers(one) == want
        assert one.summary["log_dropped"] == many + 5 - len(want)
    assert found[0].summary["hash"] == found[1].summary["hash"]
