"""Who calls whom between the engine and a program: names and types of the functions that each gives to the other.

Every function takes the engine's state and the program's state first. A handler acts on the market through the functions here, and the
engine notifies a program through `HANDLERS`. A handler that fails is caught by the engine (`attempt`): nothing that it asked for
leaves, and no handler runs any more."""

from collections.abc import Mapping

from compiler.hir.native_types import F64, I1, I64, U8, U32, U64
from compiler.hir.types import Array, HirType, Pointer, Struct
from quantdsl.engine.layout import ENGINE_STATE, EVENT
from runtime.records import frozen

OPAQUE = Struct("state", (("bytes", Array(U8, 1)),))
"""The program's state as the engine sees it: an address to hand on. A byte is the least that a program has there."""

EVENTS = ("start", "stop", "trade", "quote", "book", "bar", "timer", "ack", "fill", "cancelled", "reject", "gap", "halt")
"""Numbers of events: bits of `settings.handles`, and of `handler` in records of latency."""


@frozen
class EngineSignature:
    """Parameters behind the two states, and results."""

    parameters: Mapping[str, HirType]
    results: tuple[HirType, ...] = ()

    def whole(self, state: HirType = OPAQUE) -> dict[str, HirType]:
        """With the two states."""
        return {"engine": Pointer(ENGINE_STATE), "state": Pointer(state), **self.parameters}


def _handler(event: str) -> EngineSignature:
    return EngineSignature({"number": I64} if event in ("bar", "timer") else {})


HANDLERS = {f"on.{event}": _handler(event) for event in EVENTS}
"""Of every program; one without that handler has an empty function. What a handler is given lies in the engine's state under the event's
name (`engine.trade`), and stays as it is while it runs. `number`: which of the program's bars or timers, in their order."""

PRICE = (I1, I64)
"""`Price?`: whether there is one, and its ticks."""
ANSWER = (I1, U64, U32)
"""`Result<OrderId, RejectMask>`: whether it was accepted, the id, the mask."""
ORDER_PARAMETERS: dict[str, HirType] = {
    "side": U8,
    "qty": I64,
    "limit.present": I1,
    "limit": I64,
    "tif": U8,
    "post_only": I1,
    "reduce_only": I1,
    "tag": I64,
    "client.present": I1,
    "client": U64,
    "stop.present": I1,
    "stop": I64,
    "show.present": I1,
    "show": I64,
}

OF_PROGRAM = {
    "engine.order": EngineSignature(ORDER_PARAMETERS, ANSWER),
    "engine.replace": EngineSignature({"id": U64, "qty.present": I1, "qty": I64, "limit.present": I1, "limit": I64}, ANSWER),
    "risk.judge": EngineSignature(
        {
            "side": U8,
            "qty": I64,
            "limit.present": I1,
            "limit": I64,
            "reduce_only": I1,
            "client.present": I1,
            "client": U64,
            "instead_of": I64,
        },
        (U32, I64),
    ),
    "engine.flatten": EngineSignature({"part": F64}),
    "risk.accept": EngineSignature({"client.present": I1, "client": U64}),
    "risk.asked": EngineSignature({}),
}
"""Written once for each program, so that they are part of the handlers that call them, and the rules that a risk block doesn't have cost
nothing (`orders.py`, `risk.py`). `engine.flatten` sends an order at the market for that part of the position, to the nearest lot, halves
away from zero; nothing where that is none. `risk.judge` gives the mask of the rules broken and the price that the order counts with;
`instead_of` is the slot of an order being replaced, or -1. `risk.accept` notes an accepted order, `risk.asked` a cancel or replace (for
`rate all`)."""

OF_ENGINE = {
    "engine.cancel": EngineSignature({"id": U64}, ANSWER),
    "engine.cancel_all": EngineSignature({}),
    "engine.kill": EngineSignature({"why": I64}),
    "engine.touch": EngineSignature({"side": U8}, PRICE),
    "engine.mid": EngineSignature({}, PRICE),
    "engine.spread": EngineSignature({}, PRICE),
    "engine.microprice": EngineSignature({}, (I1, F64)),
    "engine.imbalance": EngineSignature({"levels": I64}, (F64,)),
    "engine.level": EngineSignature({"side": U8, "number": I64}, (I1, I64, I64)),
    "engine.depth_to": EngineSignature({"price": I64}, (I64,)),
    "engine.link": EngineSignature({"first": U64, "second": U64}, (I1,)),
    "orders.enter": EngineSignature(
        {
            "side": U8,
            "qty": I64,
            "limit": I64,
            "tif": U8,
            "options": U8,
            "tag": I64,
            "held_at": I64,
            "stop.present": I1,
            "stop": I64,
            "show.present": I1,
            "show": I64,
        }
    ),
    "orders.refuse": EngineSignature({"side": U8, "qty": I64, "limit.present": I1, "limit": I64, "options": U8, "mask": U32}),
    "orders.meets": EngineSignature({"side": U8, "limit.present": I1, "limit": I64, "instead_of": I64}, (I1,)),
    "orders.cancel_met": EngineSignature({"side": U8, "limit.present": I1, "limit": I64}),
    "orders.find": EngineSignature({"id": U64}, (I64,)),
    "orders.ask_to_replace": EngineSignature({"slot": I64, "qty": I64, "limit": I64, "at_market": I1}),
}
"""Compiled with the engine. `engine.level`: whether there is that level (0 is the best), its price and quantity. `engine.link`: when one
of the two orders fills or ends, the other is cancelled. The last ones serve `engine.order` and `engine.replace`: `enter` an accepted order,
whose id is the engine's `submitted`, `refuse` one; whether one `meets` own orders of the other side, and cancel these; the slot of an open
order or -1."""

OF_RUNNER = {
    "engine.begin": EngineSignature({"ts": I64}),
    "engine.run": EngineSignature({"events": Pointer(Array(EVENT, None)), "count": I64, "from": I64}, (I64,)),
    "engine.end": EngineSignature({}, (I1,)),
}
"""What the runner calls, in this order: `begin` at the time of the first event, `run` over blocks of events (80 bytes each,
`runtime.replay.events`), which gives how many of the block's events are done (fewer than `count` when outputs are to be collected first),
and `end`, again and again until it gives true (false: outputs are to be collected first). What it knows of a program beside its code, it
knows from `quantdsl.metadata.StrategyMetadata`, which elaborating the strategy makes: before `begin` it writes `settings` from it, and the
periods of timers and the kinds and sizes of bars."""
