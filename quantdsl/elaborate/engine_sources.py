"""The parts of the engine that are written in QuantDSL, `quantdsl/engine/*.qdsl`: checked as a program is, and written into the engine's
module as functions that the others call, `account.fill` of `account.qdsl`.

Their variables are the fields of the engine's memory, whose structs and constants are those of `layout.py`. Each function takes the
engine's memory and the program's first. Failures have no place there: they speak of the data, not of the program."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from compiler.hir.native_build import ModuleBuilder
from compiler.hir.native_expressions import Expr, Record, muldiv
from compiler.hir.types import Array, HirType, Struct, Tile
from compiler.lowering.native.calls import BoundCall
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.names import LentVariable, NameMeaning
from compiler.lowering.native.values import ScalarValue, Text, Value, Whole
from compiler.syntax.parse import parse_with
from compiler.typed_ast import nodes
from compiler.typed_ast.types import I64, UNIT, StructType
from quantdsl.actions import QuantActions
from quantdsl.check.program import check_program
from quantdsl.elaborate import begin
from quantdsl.elaborate.engine_needs import MEMORY
from quantdsl.elaborate.rounding import DOWN, NEAREST, UP
from quantdsl.elaborate.rules import RULES, emits
from quantdsl.engine import layout
from quantdsl.engine.interface import OF_ENGINE, OPAQUE
from quantdsl.engine.layout import COLLECTED, ENGINE_STATE, SLAB
from quantdsl.engine.outputs import collect

_FOLDER = Path(layout.__file__).parent
_PROGRAM = "program"
"""The key of the program's memory."""
_LENT: dict[str, dict[object, HirType]] = {
    "reports": {MEMORY: ENGINE_STATE},
    "account": {MEMORY: ENGINE_STATE},
    "orders": {MEMORY: ENGINE_STATE, _PROGRAM: OPAQUE},
}
"""The memory that the functions of each file take."""
_NUMBERS = {"i1": "bool", "i64": "int"}
_CONSTANTS = {
    "u8": "BUY FIFO ACTIVE REDUCING KILLED MARKET PENDING PART_FILLED FILLED ACKED TRADED ENDED CHANGED NEW CANCEL REPLACE",
    "int": "LOTS NS_OF_DAY OPEN REPORTS REQUESTS RESERVED",
}
"""Of `layout.py`, with their types."""
_ROUNDINGS = {NEAREST: "nearest_even", DOWN: "floor", UP: "ceil"}


def _name(of_layout: str) -> str:
    """What a struct of `layout.py` is called here: `OutPnl`."""
    return "".join(word.capitalize() for word in of_layout.split("_"))


_STATE = _name(ENGINE_STATE.name)
_TABLES = {_name(struct.name): table for table, struct in COLLECTED.items()}


def define_source(program: ModuleBuilder, file: str) -> None:
    """Writes all functions of a file. Those of `interface.py` are called by programs, too."""
    own = _parsed(_text_of(file))
    written = [f.name for f in own if isinstance(f, nodes.Function)]
    names = {name: f"engine.{name}" if f"engine.{name}" in OF_ENGINE else f"{file}.{name}" for name in written}
    checked = check_program(nodes.Program(path=RULES.prelude, statements=(*_shared(), *own)), memory=_STATE)
    checked.diagnostics.raise_errors()
    made = begin(checked)
    made.program, made.hir_names, made.lent = program, names, _LENT[file]
    made.exported = frozenset(id(made.functions[name]) for name, of in names.items() if of in OF_ENGINE)
    for name, type in made.layouts.parts(StructType(_STATE)):
        made.top.names.found[name] = NameMeaning(LentVariable(MEMORY, type, ENGINE_STATE, (name,)))
    for name in names:
        made.instance(made.functions[name])


@cache
def _shared() -> tuple[nodes.Statement, ...]:
    """What all files see."""
    return _parsed("\n".join((*_structs(), *_constants(), _text_of("inside"))))


def _text_of(file: str) -> str:
    return (_FOLDER / f"{file}.qdsl").read_text(encoding="utf-8")


def _parsed(text: str) -> tuple[nodes.Statement, ...]:
    program = parse_with(QuantActions(RULES.prelude, text), "program")
    assert isinstance(program, nodes.Program)
    return program.statements


def _constants() -> Iterator[str]:
    for type, names in _CONSTANTS.items():
        yield from (f"const {name}: {type} = {getattr(layout, name)}" for name in names.split())


def _structs() -> list[str]:
    """Declarations of the structs of the engine's memory. One whose name another has is called after its field, too."""
    found: dict[str, Struct] = {}
    texts: list[str] = []

    def written(type: HirType, field: str) -> str | None:
        match type:
            case Tile(dtype=dtype):
                return _NUMBERS.get(dtype, dtype if dtype != "i128" else None)
            case Array(element=element, count=count):
                return f"[{written(element, field)}; {count}]"
            case Struct(name="optional", fields=(_, (_, value))):
                return f"{written(value, field)}?"
            case Struct(name=name):
                name = _name(name) if found.get(_name(name), type) == type else _name(f"{field}_{name}")
                if name not in found:
                    found[name] = type
                    fields = ((part, written(of, part)) for part, of in type.fields)
                    texts.append(f"struct {name} {{ {', '.join(f'{part}: {of}' for part, of in fields if of is not None)} }}")
                return name
        raise AssertionError(f"{type} in the engine's memory")

    written(ENGINE_STATE, "")
    return texts


# ---- what only these can call ----------------------------------------------------------------------------------------------------------


def _numbers(call: BoundCall) -> list[ScalarValue]:
    return [value for value in call.values.values() if isinstance(value, ScalarValue)]


@emits("muldiv", "quotient")
def _divided(c: FunctionContext, call: BoundCall) -> Value:
    *numbers, mode = _numbers(call)
    assert isinstance(mode.constant, int)
    first, *others = (number.value for number in numbers)
    divide: Callable[..., Expr] = muldiv if call.callee.name == "muldiv" else Expr.quotient
    return ScalarValue(I64, divide(first, *others, _ROUNDINGS[mode.constant]))


@emits("require")
def _require(c: FunctionContext, call: BoundCall) -> Value:
    code, text = call["code"], call["text"]
    assert isinstance(code, Text) and isinstance(text, Text)
    condition, *numbers = (number.value for number in _numbers(call)[: len(call.node.arguments) - 2])
    c.b.require(condition, *numbers, code=code.text, message=text.text)
    return Whole(UNIT, ())


@emits("collect")
def _collect(c: FunctionContext, call: BoundCall) -> Value:
    record = call["record"]
    assert isinstance(record.type, StructType)
    names = (name for name, _ in c.layouts.parts(record.type))
    fields = dict(zip(names, c.numbers(record), strict=True))
    collect(c.b, _engine(c), _TABLES[record.type.name], **fields)
    return Whole(UNIT, ())


def _engine(c: FunctionContext) -> Record:
    return c.borrow(MEMORY, ENGINE_STATE, shared=True)


@emits("take_slot")
def _take_slot(c: FunctionContext, call: BoundCall) -> Value:
    return ScalarValue(I64, SLAB.take(c.b, _engine(c).slots))


@emits("give_back", "add_to_notional", "note_asked")
def _changed(c: FunctionContext, call: BoundCall) -> Value:
    engine, given = _engine(c), [number.value for number in _numbers(call)]
    match call.callee.name:
        case "give_back":
            SLAB.give_back(c.b, engine.slots, given[0])
        case "add_to_notional":
            lots, price = (number.cast("i128") for number in given)
            engine.open_notional = engine.open_notional.wrapping_add(lots.wrapping_mul(price))
        case "note_asked":
            c.b.call("risk.asked", engine, c.borrow(_PROGRAM, OPAQUE, shared=True))
    return Whole(UNIT, ())
