"""The parts of the engine that are written in QuantDSL, `quantdsl/engine/*.qdsl`: checked as a program is, and written into the engine's
module as functions that the others call, `account.fill` of `account.qdsl`.

Their variables are the fields of the engine's memory, whose structs and constants are those of `layout.py`. Each function takes the
engine's memory and the program's first. Failures have no place there: they speak of the data, not of the program."""

from collections.abc import Iterator
from pathlib import Path

from compiler.hir.native_build import ModuleBuilder
from compiler.hir.native_expressions import muldiv
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
from quantdsl.engine.layout import COLLECTED, ENGINE_STATE
from quantdsl.engine.outputs import collect

_FOLDER = Path(layout.__file__).parent
_PROGRAM = "program"
"""The key of the program's memory."""
_NUMBERS = {"i1": "bool", "i64": "int"}
_CONSTANTS = {"u8": ("BUY", "FIFO", "ACTIVE", "REDUCING", "KILLED"), "int": ("LOTS", "NS_OF_DAY")}
"""Of `layout.py`, with their types."""
_ROUNDINGS = {NEAREST: "nearest_even", DOWN: "floor", UP: "ceil"}


def _name(of_layout: str) -> str:
    """What a struct of `layout.py` is called here: `OutPnl`."""
    return "".join(word.capitalize() for word in of_layout.split("_"))


_STATE = _name(ENGINE_STATE.name)
_TABLES = {_name(struct.name): table for table, struct in COLLECTED.items()}


def define_sources(program: ModuleBuilder) -> None:
    """Writes all their functions."""
    shared = "\n".join((*_structs(), *_constants(), (_FOLDER / "inside.qdsl").read_text(encoding="utf-8")))
    names: dict[str, str] = {}
    statements = list(_parsed(shared))
    for file in (_FOLDER / "account.qdsl",):
        own = _parsed(file.read_text(encoding="utf-8"))
        names |= {f.name: f"{file.stem}.{f.name}" for f in own if isinstance(f, nodes.Function)}
        statements += own
    checked = check_program(nodes.Program(path=RULES.prelude, statements=tuple(statements)), memory=_STATE)
    checked.diagnostics.raise_errors()
    made = begin(checked)
    made.program, made.hir_names, made.lent = program, names, {MEMORY: ENGINE_STATE, _PROGRAM: OPAQUE}
    made.exported = frozenset(id(made.functions[name]) for name, of in names.items() if of in OF_ENGINE)
    for name, type in made.layouts.parts(StructType(_STATE)):
        made.top.names.found[name] = NameMeaning(LentVariable(MEMORY, type, ENGINE_STATE, (name,)))
    for name in names:
        made.instance(made.functions[name])


def _parsed(text: str) -> tuple[nodes.Statement, ...]:
    program = parse_with(QuantActions(RULES.prelude, text), "program")
    assert isinstance(program, nodes.Program)
    return program.statements


def _constants() -> Iterator[str]:
    for type, names in _CONSTANTS.items():
        yield from (f"const {name}: {type} = {getattr(layout, name)}" for name in names)


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


# ---- what only these can call -----------------------------------------------------------------------------------------------------------


def _number(call: BoundCall, name: str) -> ScalarValue:
    value = call[name]
    assert isinstance(value, ScalarValue)
    return value


def _text(call: BoundCall, name: str) -> str:
    value = call[name]
    assert isinstance(value, Text)
    return value.text


def _rounding(call: BoundCall) -> str:
    mode = _number(call, "round").constant
    assert isinstance(mode, int)
    return _ROUNDINGS[mode]


@emits("muldiv")
def _muldiv(c: FunctionContext, call: BoundCall) -> Value:
    a, b, divisor = (_number(call, name).value for name in "abc")
    return ScalarValue(I64, muldiv(a, b, divisor, _rounding(call)))


@emits("quotient")
def _quotient(c: FunctionContext, call: BoundCall) -> Value:
    return ScalarValue(I64, _number(call, "a").value.quotient(_number(call, "b").value, _rounding(call)))


@emits("require")
def _require(c: FunctionContext, call: BoundCall) -> Value:
    condition, *numbers = (_number(call, name).value for name in ("condition", *"abc"))
    given = numbers[: len(call.node.arguments) - 3]
    c.b.require(condition, *given, code=_text(call, "code"), message=_text(call, "text"))
    return Whole(UNIT, ())


@emits("collect")
def _collect(c: FunctionContext, call: BoundCall) -> Value:
    record = call["record"]
    assert isinstance(record, Whole) and isinstance(record.type, StructType)
    names = (name for name, _ in c.layouts.parts(record.type))
    fields = dict(zip(names, c.numbers(record), strict=True))
    collect(c.b, c.borrow(MEMORY, ENGINE_STATE, shared=True), _TABLES[record.type.name], **fields)
    return Whole(UNIT, ())
