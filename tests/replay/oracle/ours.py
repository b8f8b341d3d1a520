"""The same requests by the engine: a timer sends them."""

from pathlib import Path
from typing import Any

from attrs import evolve

from quantdsl.engine.interface import EVENTS
from quantdsl.engine.risk import RiskRules
from quantdsl.run.options import Input, RunOptions
from quantdsl.run.replay import Replay
from runtime.replay.outputs.kept import KeptRecords
from runtime.replay.outputs.records import Tif
from tests.quantdsl.engine import desk_stand as stand
from tests.quantdsl.reference.market import Fee, Instrument
from tests.quantdsl.run.acting import acts, put_acts, strategy
from tests.replay.oracle.cases import BUY, OracleCase

TICK_VALUE = 10
"""Money units that a lot gains as the price rises one tick: 0.01 x 0.00001 USDT at scale 8."""
INSTRUMENT = Instrument(TICK_VALUE, maker=Fee("-0.5"), taker=Fee(2))
RULES = RiskRules(tick_value=TICK_VALUE)


def records_of(case: OracleCase) -> dict[str, Any]:
    """Orders and fills, by table."""
    made = strategy(RULES, INSTRUMENT, timers=(case.period,))
    settings = {**made.metadata.settings, "handles": 1 << EVENTS.index("timer")}
    options = RunOptions(data=(Input(Path("events"), None, case.events),), fills="queue", sample=0)
    replay = Replay(evolve(made, metadata=evolve(made.metadata, settings=settings)), options)
    put_acts(replay.engine.state, RULES, acts(*map(_act, case.requests)))
    sinks: list[KeptRecords] = []

    def sink(run: Any) -> KeptRecords:
        sinks.append(KeptRecords(run))
        return sinks[0]

    replay.run(sink)
    orders = sinks[0].records["orders"]
    assert sorted(orders["ts"].tolist()) == case.requests["ts"][case.requests["cancel"] == 0].tolist()
    return sinks[0].records


def _act(request: Any) -> dict[str, Any]:
    if request["cancel"]:
        return {"kind": stand.CANCEL, "id": request["cancel"]}
    return {
        "kind": stand.ORDER,
        "side": 0 if request["side"] == BUY else 1,
        "qty": request["qty"],
        "limited": not request["market"],
        "limit": request["limit"],
        "post_only": request["post_only"],
        "tif": Tif[str(request["tif"])],
    }


def moments_of(records: dict[str, Any]) -> list[dict[str, Any]]:
    """Fills as the oracle tells them: those of one order at one moment together, its last one apart."""
    whole = dict(zip(records["orders"]["id"].tolist(), records["orders"]["qty"].tolist(), strict=True))
    filled: dict[int, int] = dict.fromkeys(whole, 0)
    moments: dict[tuple[int, int], dict[str, Any]] = {}
    for fill in records["fills"]:
        ts, order, qty = int(fill["ts"]), int(fill["order"]), int(fill["qty"])
        filled[order] += qty
        before = moments.get((ts, order), {"qty": 0})
        moments[ts, order] = {
            "ts": ts,
            "order": order,
            "qty": before["qty"] + qty,
            "last_price": int(fill["price"]),
            "last_qty": qty,
            "maker": bool(fill["maker"]),
            "whole": filled[order] == whole[order],
            "fee": int(fill["fee"]),
        }
    return [moments[key] for key in sorted(moments)]
