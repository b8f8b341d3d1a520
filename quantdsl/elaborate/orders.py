"""Orders, and what else a strategy's code does: cancels, kills, counts, logs."""

from compiler.hir.core import Bitcast
from compiler.hir.native_build import FunctionCode
from compiler.hir.native_expressions import Expr, Number, any_of
from compiler.hir.native_types import I64, U32
from compiler.hir.types import Pointer
from compiler.lowering.native.calls import BoundCall
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.values import InMemory, Text, Value, Whole
from compiler.typed_ast import nodes
from compiler.typed_ast.types import UNIT, OptionType
from quantdsl import types as qt
from quantdsl.elaborate.engine_calls import ask, engine_needs, memory
from quantdsl.elaborate.engine_needs import REJECTS
from quantdsl.elaborate.market import number, result
from quantdsl.elaborate.rules import MARKET_BOOK, emits, not_supported
from quantdsl.elaborate.shapes import Shapes
from quantdsl.engine.layout import BUY, ENGINE_STATE, OUT_LOG, SELL
from quantdsl.engine.outputs import place_of_log
from quantdsl.metadata import LogSite, StateShape

_SENT = ("qty", "limit", "tif", "post_only", "reduce_only", "tag", "client_id", "stop", "show")
"""Parameters of `order` behind the side, in the order of `engine.order`."""
_WORDS = dict(OUT_LOG.fields)["words"].count  # type: ignore[attr-defined]
NOTHING = Whole(UNIT, ())


@emits("order", "buy", "sell")
def order(c: FunctionContext, call: BoundCall) -> Value:
    fixed = {"buy": BUY, "sell": SELL}.get(call.callee.name)
    side = number(call["side"]) if fixed is None else c.b.const(fixed, "u8")
    return _judged(c, call, "engine.order", [side, *_numbers(c, call, _SENT)])


@emits("replace")
def replace(c: FunctionContext, call: BoundCall) -> Value:
    return _judged(c, call, "engine.replace", _numbers(c, call, ("id", "qty", "limit")))


@emits("cancel")
def cancel(c: FunctionContext, call: BoundCall) -> Value:
    return result(c, call, *ask(c, "engine.cancel", number(call["id"])))


@emits("cancel_all")
def cancel_all(c: FunctionContext, call: BoundCall) -> Value:
    ask(c, "engine.cancel_all")
    return NOTHING


@emits("flatten")
def flatten(c: FunctionContext, call: BoundCall) -> Value:
    ask(c, "engine.flatten", number(call["part"]))
    return NOTHING


@emits("oco")
def oco(c: FunctionContext, call: BoundCall) -> Value:
    return result(c, call, *ask(c, "engine.link", number(call["a"]), number(call["b"])))


@emits("kill")
def kill(c: FunctionContext, call: BoundCall) -> Value:
    """The text is known by its number, from 1."""
    why, texts = call["why"], engine_needs(c).kill_texts
    if not isinstance(why, Text):
        raise not_supported("`kill` with a text that is computed", call.node.span, 'write the text: `kill("too much")`')
    if why.text not in texts:
        texts.append(why.text)
    ask(c, "engine.kill", texts.index(why.text) + 1)
    return NOTHING


def _numbers(c: FunctionContext, call: BoundCall, names: tuple[str, ...]) -> list[Expr]:
    return [one for name in names for one in c.numbers(call[name])]


def _judged(c: FunctionContext, call: BoundCall, function: str, given: list[Expr]) -> Value:
    """An order whose numbers are absent though they were computed is no order at the market: its risk block refuses it."""
    missing = [~next(c.numbers(call[name])) for name in ("qty", "limit", "stop", "show") if _may_be_none(call, name)]
    engine = memory(c)
    if missing:
        engine.bad_input = any_of(*missing)
    answer = ask(c, function, *given)
    if missing:
        engine.bad_input = False
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
        parameters = {"counts": counter.pointer.hir.type, "why": U32}
        with program.function("rejects.count", parameters, internal=True, attributes=("noalias", "noinline")) as b:
            _count(b)
    c.b.call("rejects.count", counter.pointer, number(call["why"]))
    return NOTHING


def _count(b: FunctionCode) -> None:
    counts, why = b.parameters
    mask = why.cast("i64")
    with b.loop(0, len(qt.RULES)) as rule:
        broken = (mask >> rule) & 1
        counts.unchecked[rule] = counts.unchecked[rule].wrapping_add(broken)


@emits("log_ring")
def log_ring(c: FunctionContext, call: BoundCall) -> Value:
    engine, record = memory(c), call["record"]
    site = len(engine_needs(c).logs)
    words: list[Expr] = []
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
    engine_needs(c).logs.append(LogSite(_line(c, call), shape))
    c.b.call(_logger(c, len(words)), engine, site, *words)
    return NOTHING


def _logger(c: FunctionContext, count: int) -> str:
    """A function of the program that logs so many numbers."""
    program, name = c.elaboration.program, f"log.{count}"
    if not program.has(name):
        parameters = {"engine": Pointer(ENGINE_STATE), "site": U32, **{f"word{at}": I64 for at in range(count)}}
        with program.function(name, parameters, internal=True, attributes=("noalias", "noinline")) as b:
            engine, site, *words = b.parameters
            place = place_of_log(b, engine)
            for at, word in enumerate(words):
                place.words.unchecked[at] = word
            fields: dict[str, Number] = {"ts": engine.now, "row": engine.row, "site": site, "count": count}
            for field, value in fields.items():
                place[field] = value
    return name


def _line(c: FunctionContext, call: BoundCall) -> int:
    source = engine_needs(c).source
    return 0 if source is None else source.line_and_column(call.node.span.start)[0]


def _word(b: FunctionCode, value: Expr) -> Expr:
    """The bits of a number in 64."""
    dtype = value.dtype
    if dtype == "f64":
        return b.emit(Bitcast(value=value.hir, to="i64"))
    if dtype == "f32":
        return b.emit(Bitcast(value=value.hir, to="i32")).cast("i64")
    return value.cast("i64") if dtype != "i64" else value
