"""Orders, and what else a strategy's code does: cancels, kills, counts, logs."""

from compiler.hir import instruction as hir
from compiler.hir.core import Bitcast, dtype_of
from compiler.hir.types import Pointer
from compiler.typed_ast import nodes
from compiler.typed_ast.types import UNIT, OptionType
from quantdsl import types as qt
from quantdsl.elaborate.calls import BoundCall, emits
from quantdsl.elaborate.context import FunctionContext
from quantdsl.elaborate.desk import REJECTS
from quantdsl.elaborate.engine_calls import ask, desk_of, memory
from quantdsl.elaborate.layouts import MARKET_BOOK
from quantdsl.elaborate.market import number, result
from quantdsl.elaborate.refused import not_supported
from quantdsl.elaborate.shapes import Shapes
from quantdsl.elaborate.values import InMemory, Text, Value, Whole
from quantdsl.engine.layout import BUY, DESK, OUT_LOG, SELL
from quantdsl.engine.outputs import place_of_log
from quantdsl.facts import LogSite, StateShape
from quantdsl.native.build import FunctionCode, Number
from quantdsl.native.types import I64, U32

_SENT = ("qty", "limit", "tif", "post_only", "reduce_only", "tag", "client_id", "stop", "show")
"""Parameters of `order` behind the side, in the order of `desk.order`."""
_WORDS = dict(OUT_LOG.fields)["words"].count  # type: ignore[attr-defined]
NOTHING = Whole(UNIT, ())


@emits("order", "buy", "sell")
def order(c: FunctionContext, call: BoundCall) -> Value:
    fixed = {"buy": BUY, "sell": SELL}.get(call.callee.name)
    side = number(call["side"]) if fixed is None else c.b.const(fixed, "u8")
    return _judged(c, call, "desk.order", [side, *_numbers(c, call, _SENT)])


@emits("replace")
def replace(c: FunctionContext, call: BoundCall) -> Value:
    return _judged(c, call, "desk.replace", _numbers(c, call, ("id", "qty", "limit")))


@emits("cancel")
def cancel(c: FunctionContext, call: BoundCall) -> Value:
    return result(c, call, *ask(c, "desk.cancel", number(call["id"])))


@emits("cancel_all")
def cancel_all(c: FunctionContext, call: BoundCall) -> Value:
    ask(c, "desk.cancel_all")
    return NOTHING


@emits("flatten")
def flatten(c: FunctionContext, call: BoundCall) -> Value:
    ask(c, "desk.flatten", number(call["part"]))
    return NOTHING


@emits("oco")
def oco(c: FunctionContext, call: BoundCall) -> Value:
    return result(c, call, *ask(c, "desk.link", number(call["a"]), number(call["b"])))


@emits("kill")
def kill(c: FunctionContext, call: BoundCall) -> Value:
    """The text is known by its number, from 1."""
    why, texts = call["why"], desk_of(c).kill_texts
    if not isinstance(why, Text):
        raise not_supported("`kill` with a text that is computed", call.node.span, 'write the text: `kill("too much")`')
    if why.text not in texts:
        texts.append(why.text)
    ask(c, "desk.kill", texts.index(why.text) + 1)
    return NOTHING


def _numbers(c: FunctionContext, call: BoundCall, names: tuple[str, ...]) -> list[hir.Value]:
    return [one for name in names for one in c.numbers(call[name])]


def _judged(c: FunctionContext, call: BoundCall, function: str, given: list[hir.Value]) -> Value:
    """An order whose numbers are absent though they were computed is no order at the market: its risk block refuses it."""
    missing = [c.b.negate(next(c.numbers(call[name]))) for name in ("qty", "limit", "stop", "show") if _may_be_none(call, name)]
    desk = memory(c)
    if missing:
        c.b.put(desk, "bad_input", c.b.either(*missing))
    answer = ask(c, function, *given)
    if missing:
        c.b.put(desk, "bad_input", False)
    return result(c, call, *answer)


def _may_be_none(call: BoundCall, name: str) -> bool:
    """Whether a parameter was given a value that may be none, other than `none` itself."""
    free = [parameter.name for parameter in call.callee.parameters]
    for place, argument in enumerate(call.node.arguments):
        if (argument.name or free[place]) == name:
            literal = isinstance(argument.value, nodes.Name) and argument.value.name == "none"
            return isinstance(argument.value.type, OptionType) and not literal
    return False


# ---- counts and the log -----------------------------------------------------------------------------------------------------------


@emits("count")
def count(c: FunctionContext, call: BoundCall) -> Value:
    counter = call["counter"]
    if not isinstance(counter, InMemory) or counter.type != REJECTS.type:
        raise c.refuse("0203", "`count` counts into `rejects`", "write `count(rejects, why)`")
    program = c.elaboration.program
    if not program.has("rejects.count"):
        parameters = {"counts": counter.pointer.type, "why": U32}
        with program.function("rejects.count", parameters, internal=True, attributes=("noalias", "noinline")) as b:
            _count(b)
    c.b.call("rejects.count", counter.pointer, number(call["why"]))
    return NOTHING


def _count(b: FunctionCode) -> None:
    counts, why = b.parameters
    mask = b.cast(why, "i64")
    with b.loop(0, len(qt.RULES)) as rule:
        broken = b.wrapping("and", b.wrapping("shr", mask, rule), 1)
        b.put(counts, rule, b.wrapping("add", b.get(counts, rule, proved=True), broken), proved=True)


@emits("log_ring")
def log_ring(c: FunctionContext, call: BoundCall) -> Value:
    desk, record = memory(c), call["record"]
    site = len(desk_of(c).logs)
    words: list[hir.Value] = []
    if isinstance(record, Text):
        shape = StateShape(record.text, "text", 0, 0)
    elif c.layouts.in_memory(record.type) or record.type == MARKET_BOOK:
        raise not_supported("a container in the log", call.node.span, "log its elements, or their number")
    else:
        words = [_word(c.b, one) for one in c.numbers(record)]
        shape = Shapes(c.layouts, words=True).of(record.type)
    if len(words) > _WORDS:
        message = f"a record of {len(words)} numbers in the log"
        raise not_supported(message, call.node.span, f"log up to {_WORDS} at once")
    desk_of(c).logs.append(LogSite(_line(c, call), shape))
    c.b.call(_logger(c, len(words)), desk, site, *words)
    return NOTHING


def _logger(c: FunctionContext, count: int) -> str:
    """A function of the program that logs so many numbers."""
    program, name = c.elaboration.program, f"log.{count}"
    if not program.has(name):
        parameters = {"desk": Pointer(DESK), "site": U32, **{f"word{at}": I64 for at in range(count)}}
        with program.function(name, parameters, internal=True, attributes=("noalias", "noinline")) as b:
            desk, site, *words = b.parameters
            place = place_of_log(b, desk)
            for at, word in enumerate(words):
                b.put(place, "words", at, word, proved=True)
            fields: dict[str, Number] = {"ts": b.get(desk, "now"), "row": b.get(desk, "row"), "site": site, "count": count}
            for field, value in fields.items():
                b.put(place, field, value)
    return name


def _line(c: FunctionContext, call: BoundCall) -> int:
    source = desk_of(c).source
    return 0 if source is None else source.line_and_column(call.node.span.start)[0]


def _word(b: FunctionCode, value: hir.Value) -> hir.Value:
    """The bits of a number in 64."""
    dtype = dtype_of(value)
    if dtype == "f64":
        return b.here.emit(Bitcast(value=value, to="i64")).result
    if dtype == "f32":
        return b.cast(b.here.emit(Bitcast(value=value, to="i32")).result, "i64")
    return b.cast(value, "i64") if dtype != "i64" else value
