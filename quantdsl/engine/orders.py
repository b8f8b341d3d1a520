"""Orders and replaces as the program sends them, through its own risk block: written into each program's module."""

from collections.abc import Collection, Sequence

from compiler.hir.instruction import Value
from compiler.hir.types import Struct, Tile
from quantdsl.engine.interface import OF_ENGINE, OF_PROGRAM
from quantdsl.engine.layout import BUY, GTC, MARKET, POST_ONLY, REDUCE_ONLY, SELL
from quantdsl.engine.open_orders import order_at
from quantdsl.engine.risk import RiskRules, define_risk
from quantdsl.native.build import FunctionCode, ModuleBuilder
from runtime.replay.outputs.records import RiskRule

NEEDED = {
    "desk.order": ("orders.enter", "orders.refuse", "orders.meets", "orders.cancel_met"),
    "desk.replace": ("orders.find", "orders.ask_to_replace", "orders.meets"),
}


def program_functions(
    program: ModuleBuilder, rules: RiskRules, state: Struct, used: Collection[str] = ("desk.order", "desk.replace")
) -> None:
    """Those of `interface.OF_PROGRAM`, specialised to a risk block; of `desk.order`, `desk.replace` and `desk.flatten` the `used` ones.
    `state` has a field `risk` of type `risk_memory(rules)`. A program that passes no client ids may leave `duplicate_id` out of its rules.
    Functions that were declared before are defined; those of the engine that are needed become imports."""
    wanted = set(used) | ({"desk.order"} if "desk.flatten" in used else set())
    for name in sorted({name for one in wanted for name in NEEDED.get(one, ())}):
        if not program.has(name):
            program.imported(name, OF_ENGINE[name].whole(state), OF_ENGINE[name].results)
    judges = bool(wanted)
    names = [name for name in OF_PROGRAM if name in wanted or name == "risk.asked" or (judges and name.startswith("risk."))]
    several = len(wanted & NEEDED.keys()) > 1
    for name in names:
        declare_own(program, name, state, shared=several and name == "risk.judge")
    define_risk(program, rules, names)
    for name, write in (("desk.order", _order), ("desk.replace", _replace), ("desk.flatten", _flatten)):
        if name in wanted:
            with program.define(name) as b:
                write(b, rules)


def declare_own(program: ModuleBuilder, name: str, state: Struct, shared: bool = False) -> None:
    """Declare one of `interface.OF_PROGRAM`, if it isn't yet. The engine calls only `risk.asked`; the others stay inside the module.
    `desk.order`, and what several share, is there once."""
    if not program.has(name):
        own, engines = OF_PROGRAM[name], name == "risk.asked"
        attributes = ("noalias", "noinline") if name == "desk.order" or shared else ("noalias",)
        program.declare(name, own.whole(state), own.results, internal=not engines, attributes=attributes)


def _given(b: FunctionCode, name: str) -> dict[str, Value]:
    return dict(zip(list(OF_PROGRAM[name].parameters), b.parameters[2:], strict=True))


def _order(b: FunctionCode, rules: RiskRules) -> None:
    """Ids count all orders, refused ones among them."""
    desk, state = b.parameters[:2]
    given = _given(b, "desk.order")
    side, qty, limited, limit = (given[name] for name in ("side", "qty", "limit.present", "limit"))
    client = given["client.present"], given["client"]
    id = b.wrapping("add", b.get(desk, "submitted"), 1)
    b.put(desk, "submitted", id)
    options = b.const(0, "u8")
    for bit, condition in ((MARKET, b.negate(limited)), (POST_ONLY, given["post_only"]), (REDUCE_ONLY, given["reduce_only"])):
        options = b.wrapping("or", options, b.select(condition, b.const(bit, "u8"), b.const(0, "u8")))
    judged, held_at = b.call("risk.judge", desk, state, side, qty, limited, limit, given["reduce_only"], *client, -1)
    odd = b.either(b.both(given["stop.present"], b.le(given["stop"], 0)), b.both(given["show.present"], b.lt(given["show"], 0)))
    mask = b.wrapping("or", judged, b.select(odd, b.const(int(RiskRule.BAD_INPUT), "u32"), b.const(0, "u32")))
    good = b.eq(mask, 0)
    if rules.self_trade in ("cancel_resting", "cancel_both"):
        with b.when(good if rules.self_trade == "cancel_resting" else b.eq(mask, int(RiskRule.SELF_TRADE))):
            b.call("orders.cancel_met", desk, state, side, limited, limit)
    with b.when(b.negate(good)):
        b.call("orders.refuse", desk, state, side, qty, limited, limit, options, mask)
        b.give(False, 0, mask)
    b.call("risk.accept", desk, state, *client)
    after = [given[name] for name in ("stop.present", "stop", "show.present", "show")]
    b.call("orders.enter", desk, state, side, qty, limit, given["tif"], options, given["tag"], held_at, *after)
    b.give(True, id, 0)


def _replace(b: FunctionCode, rules: RiskRules) -> None:
    """What isn't given stays as it was last reported. An order that isn't open stays as it ended."""
    desk, state = b.parameters[:2]
    given = _given(b, "desk.replace")
    (slot,) = b.call("orders.find", desk, state, given["id"])
    with b.when(b.lt(slot, 0)):
        b.give(True, given["id"], 0)
    order = order_at(b, desk, slot)
    options = b.get(order, "options")
    qty = b.select(given["qty.present"], given["qty"], b.get(order, "qty"))
    at_market = b.both(b.negate(given["limit.present"]), b.ne(b.wrapping("and", options, MARKET), 0))
    limit = b.select(given["limit.present"], given["limit"], b.get(order, "limit"))
    left = b.sub(qty, b.get(order, "filled"))
    reduce_only = b.ne(b.wrapping("and", options, REDUCE_ONLY), 0)
    mask, _ = b.call(
        "risk.judge", desk, state, b.get(order, "side"), left, b.negate(at_market), limit, reduce_only, b.const(False, "i1"), 0, slot
    )
    with b.when(b.ne(mask, 0)):
        b.give(False, 0, mask)
    b.call("orders.ask_to_replace", desk, state, slot, qty, limit, at_market)
    b.give(True, given["id"], 0)


def _flatten(b: FunctionCode, rules: RiskRules) -> None:
    """An order at the market that reduces. A part that is no number is an order that its risk block refuses."""
    desk, state, part = b.parameters
    held = b.get(desk, "position", "qty")
    size = b.magnitude(held)
    nothing = b.ne(part, part)
    exact = b.add(b.mul(b.cast(size, "f64"), part), 0.5)
    inside = b.both(b.gt(part, 0.0), b.lt(part, 1.0))
    some_of_it = b.smaller(b.cast(b.here.op("floor", b.select(inside, exact, 0.0)), "i64"), size)
    whole = b.either(b.ge(part, 1.0), nothing)
    qty = b.select(whole, size, some_of_it)
    with b.when(b.eq(qty, 0)):
        b.give()
    b.put(desk, "bad_input", b.either(nothing, b.get(desk, "bad_input")))
    side = b.select(b.gt(held, 0), b.const(SELL, "u8"), b.const(BUY, "u8"))
    _ordered(b, [desk, state], side=side, qty=qty, tif=b.const(GTC, "u8"), reduce_only=b.const(True, "i1"))
    b.put(desk, "bad_input", False)


def _ordered(b: FunctionCode, first: Sequence[Value], **given: Value) -> None:
    """Other options are none, false or 0."""
    types = {name: type.dtype for name, type in OF_PROGRAM["desk.order"].parameters.items() if isinstance(type, Tile)}
    b.call("desk.order", *first, *[given.get(name) or b.const(0, dtype) for name, dtype in types.items()])
