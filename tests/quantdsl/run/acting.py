"""Strategies to run without a program: at each handler the next act of a table (`tests.quantdsl.engine.desk_stand`), linked with the engine."""

from functools import cache
from typing import Any

import numpy as np

from compiler.backends.native.compile import compile_module
from compiler.backends.native.link import Linked, link_modules
from compiler.hir.layout import numpy_dtype, offset_of, size_of
from compiler.hir.module import OptimizationLevel
from quantdsl.engine.interface import EVENTS
from quantdsl.engine.risk import RiskRules
from quantdsl.metadata import Market, StateShape, StrategyMetadata
from quantdsl.run.program import LinkedStrategy
from tests.quantdsl.engine import desk_stand as stand
from tests.quantdsl.reference.market import Instrument
from tests.quantdsl.whole_engine import compiled_engine

STEP = {"tick": (2, 1), "lot": (5, 1)}
"""Of BTCUSDT: 0.01 and 0.00001."""


@cache
def linked(rules: RiskRules) -> Linked:
    return link_modules([compiled_engine(OptimizationLevel.OLATENCY), compile_module(stand.acting_module(rules), OptimizationLevel.O0)])


def strategy(rules: RiskRules, instrument: Instrument, timers: tuple[int, ...] = (), target_ns: float | None = None) -> LinkedStrategy:
    state = stand.acting_module(rules).functions["act"].parameters[1].type.pointee  # type: ignore[attr-defined]
    settings: dict[str, Any] = {"handles": (1 << len(EVENTS)) - 1, **rules.settings()}
    for name, fee in (("maker", instrument.maker), ("taker", instrument.taker)):
        rate = fee.bps / 10_000
        for field, value in (("numerator", rate.numerator), ("denominator", rate.denominator), ("per_lot", fee.per_lot)):
            settings[f"{name}.{field}"] = value
    metadata = StrategyMetadata(
        "acting",
        "Acting",
        Market("BTCUSDT", "USDT", 8, **STEP, tick_value=instrument.point),
        settings,
        timers=timers,
        kill_texts=("by hand",),
        state_bytes=size_of(state),
        state=(StateShape("next", "int", offset_of(state, "next")),),
        parameters={"acts": stand.ACTS},
        target_ns=target_ns,
    )
    return LinkedStrategy("acting.qdsl", metadata, linked(rules), (), ("memcpy",), (), {})


def put_acts(state: Any, rules: RiskRules, acts: Any) -> None:
    """The table of acts in a desk's state."""
    of = stand.acting_module(rules).functions["act"].parameters[1].type.pointee  # type: ignore[attr-defined]
    row = state.view(numpy_dtype(of))[0]
    row["acts"][: len(acts)] = [tuple(a) for a in acts]
    row["count"] = len(acts)


def acts(*rows: dict[str, Any]) -> Any:
    made = np.zeros(len(rows), stand.ACT_TYPE)
    for number, row in enumerate(rows):
        for name, value in row.items():
            made[number][name] = value
    return made


def order(side: int, qty: int, limit: int | None = None, tif: int = 2) -> dict[str, Any]:
    return {"kind": stand.ORDER, "side": side, "qty": qty, "limited": limit is not None, "limit": limit or 0, "tif": tif}
