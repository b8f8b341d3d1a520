"""Orders and replaces as the program sends them, through its own risk block: written into each program's module."""

from collections.abc import Collection, Sequence

from compiler.hir.native_build import FunctionCode, ModuleBuilder
from compiler.hir.native_expressions import Expr, minimum, select
from compiler.hir.types import Struct, Tile
from quantdsl.engine.exchange_orders import order_at
from quantdsl.engine.interface import OF_ENGINE, OF_PROGRAM
from quantdsl.engine.layout import BUY, GTC, MARKET, POST_ONLY, REDUCE_ONLY, SELL
from quantdsl.engine.risk import RiskRules, define_risk
from runtime.replay.outputs.records import RiskRule

NEEDED = {
    "engine.order": ("orders.enter", "orders.refuse", "orders.meets", "orders.cancel_met"),
    "engine.replace": ("orders.find", "orders.ask_to_replace", "orders.meets"),
}


def program_functions(
    program: ModuleBuilder, rules: RiskRules, state: Struct, used: Collection[str] = ("engine.order", "engine.replace")
) -> None:
    """Those of `interface.OF_PROGRAM`, specialised to a risk block; of `engine.order`, `engine.replace` and `engine.flatten` the `used`
    ones. `state` has a field `risk` of type `risk_memory(rules)`. A program that passes no client ids may leave `duplicate_id` out of its
    rules. Functions that were declared before are defined; those of the engine that are needed become imports."""
    wanted = set(used) | ({"engine.order"} if "engine.flatten" in used else set())
    for name in sorted({name for one in wanted for name in NEEDED.get(one, ())}):
        if not program.has(name):
            program.imported(name, OF_ENGINE[name].whole(state), OF_ENGINE[name].results)
    judges = bool(wanted)
    names = [name for name in OF_PROGRAM if name in wanted or name == "risk.asked" or (judges and name.startswith("risk."))]
    several = len(wanted & NEEDED.keys()) > 1
    for name in names:
        declare_own(program, name, state, shared=several and name == "risk.judge")
    define_risk(program, rules, names)
    for name, write in (("engine.order", _order), ("engine.replace", _replace), ("engine.flatten", _flatten)):
        if name in wanted:
            with program.define(name) as b:
                write(b, rules)


def declare_own(program: ModuleBuilder, name: str, state: Struct, shared: bool = False) -> None:
    """Declare one of `interface.OF_PROGRAM`, if it isn't yet. The engine calls only `risk.asked`; the others stay inside the module.
    `engine.order`, and what several share, is there once."""
    if not program.has(name):
        own, engines = OF_PROGRAM[name], name == "risk.asked"
        attributes = ("noalias", "noinline") if name == "engine.order" or shared else ("noalias",)
        program.declare(name, own.whole(state), own.results, internal=not engines, attributes=attributes)


def _given(b: FunctionCode, name: str) -> dict[str, Expr]:
    return dict(zip(list(OF_PROGRAM[name].parameters), b.parameters[2:], strict=True))


def _order(b: FunctionCode, rules: RiskRules) -> None:
    """Ids count all orders, refused ones among them."""
    engine, state = b.parameters[:2]
    given = _given(b, "engine.order")
    side, qty, limited, limit = (given[name] for name in ("side", "qty", "limit.present", "limit"))
    client = given["client.present"], given["client"]
    id = engine.submitted.wrapping_add(1)
    engine.submitted = id
    options = b.const(0, "u8")
    for bit, condition in ((MARKET, ~limited), (POST_ONLY, given["post_only"]), (REDUCE_ONLY, given["reduce_only"])):
        options = options | select(condition, b.const(bit, "u8"), b.const(0, "u8"))
    judged, held_at = b.call("risk.judge", engine, state, side, qty, limited, limit, given["reduce_only"], *client, -1)
    odd = (given["stop.present"] & (given["stop"] <= 0)) | (given["show.present"] & (given["show"] < 0))
    mask = judged | select(odd, b.const(int(RiskRule.BAD_INPUT), "u32"), b.const(0, "u32"))
    good = mask == 0
    if rules.self_trade in ("cancel_resting", "cancel_both"):
        with b.when(good if rules.self_trade == "cancel_resting" else mask == int(RiskRule.SELF_TRADE)):
            b.call("orders.cancel_met", engine, state, side, limited, limit)
    with b.when(~good):
        b.call("orders.refuse", engine, state, side, qty, limited, limit, options, mask)
        b.ret(False, 0, mask)
    b.call("risk.accept", engine, state, *client)
    after = [given[name] for name in ("stop.present", "stop", "show.present", "show")]
    b.call("orders.enter", engine, state, side, qty, limit, given["tif"], options, given["tag"], held_at, *after)
    b.ret(True, id, 0)


def _replace(b: FunctionCode, rules: RiskRules) -> None:
    """What isn't given stays as it was last reported. An order that isn't open stays as it ended."""
    engine, state = b.parameters[:2]
    given = _given(b, "engine.replace")
    (slot,) = b.call("orders.find", engine, state, given["id"])
    with b.when(slot < 0):
        b.ret(True, given["id"], 0)
    order = order_at(engine, slot)
    options = order.options
    qty = select(given["qty.present"], given["qty"], order.qty)
    at_market = ~given["limit.present"] & ((options & MARKET) != 0)
    limit = select(given["limit.present"], given["limit"], order.limit)
    left = qty - order.filled
    reduce_only = (options & REDUCE_ONLY) != 0
    mask, _ = b.call(
        "risk.judge", engine, state, order.side, left, ~at_market, limit, reduce_only, b.const(False, "i1"), 0, slot
    )
    with b.when(mask != 0):
        b.ret(False, 0, mask)
    b.call("orders.ask_to_replace", engine, state, slot, qty, limit, at_market)
    b.ret(True, given["id"], 0)


def _flatten(b: FunctionCode, rules: RiskRules) -> None:
    """An order at the market that reduces. A part that is no number is an order that its risk block refuses."""
    engine, state, part = b.parameters
    held = engine.position.qty
    size = abs(held)
    nothing = part != part
    exact = size.cast("f64") * part + 0.5
    inside = (part > 0.0) & (part < 1.0)
    some_of_it = minimum(b.op("floor", select(inside, exact, 0.0)).cast("i64"), size)
    whole = (part >= 1.0) | nothing
    qty = select(whole, size, some_of_it)
    with b.when(qty == 0):
        b.ret()
    engine.bad_input = nothing | engine.bad_input
    side = select(held > 0, b.const(SELL, "u8"), b.const(BUY, "u8"))
    _ordered(b, [engine, state], side=side, qty=qty, tif=b.const(GTC, "u8"), reduce_only=b.const(True, "i1"))
    engine.bad_input = False


def _ordered(b: FunctionCode, first: Sequence[Expr], **given: Expr) -> None:
    """Other options are none, false or 0."""
    types = {name: type.dtype for name, type in OF_PROGRAM["engine.order"].parameters.items() if isinstance(type, Tile)}
    b.call("engine.order", *first, *[given[name] if name in given else b.const(0, dtype) for name, dtype in types.items()])
