"""Strategies: their handlers become the functions that the engine calls, and all that they and their signals remember one struct.

In front of that lies what the risk rules remember, then the states, then the memory of each place that calls a signal."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.layout import size_of
from compiler.hir.module import HirExecutionConstraints
from compiler.hir.native_build import FunctionCode
from compiler.hir.native_expressions import Expr
from compiler.hir.native_types import I64
from compiler.hir.types import HirType, Struct
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.names import LentMemory, LentVariable, NameMeaning, NamesInSight
from compiler.lowering.native.program import Elaboration, Surroundings
from compiler.lowering.native.values import InMemory, Whole
from compiler.source import Source
from compiler.typed_ast import nodes
from compiler.typed_ast.constants import whole_constant
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import Type
from compiler.typed_ast.walk import walk
from quantdsl import nodes as quant
from quantdsl.check.checked import CheckedQuantProgram
from quantdsl.check.declarations import RECORDS
from quantdsl.check.exact import CheckedInstrument
from quantdsl.check.program import with_library_of
from quantdsl.elaborate import begin
from quantdsl.elaborate.constants import value_of
from quantdsl.elaborate.engine_needs import HEAD, MEMORY, REJECTS, STATE, EngineNeeds, position_of
from quantdsl.elaborate.own import MarketNeeds, frame_of
from quantdsl.elaborate.rules import MARKET_BOOK, not_supported
from quantdsl.elaborate.signals import is_blank
from quantdsl.engine.interface import EVENTS, HANDLERS
from quantdsl.engine.layout import ENGINE_STATE
from quantdsl.engine.orders import program_functions
from quantdsl.engine.risk import RiskRules
from quantdsl.engine.terms import risk_rules, session_of
from quantdsl.native.values import match
from runtime.records import Factory, define

LARGEST = 1 << 30
"""Bytes of a strategy's states and signals."""
_BEFORE_CLIENT = 5
"""Parameters of `buy` before the client's id, less one: of all that send orders it has the fewest."""



@define(eq=False)
class WrittenHandler:
    """A handler that is written: its function, and the memory that it borrows."""

    node: quant.Handler | None
    function: str
    borrowed: list[LentMemory]


@define(eq=False)
class StateMemory:
    """The program's state as it grows: a field for each piece of lent memory."""

    head: Struct
    fields: dict[str, HirType] = Factory(dict)
    names: dict[object, str] = Factory(dict)

    def lend(self, one: LentMemory) -> None:
        """Room for memory that a handler borrows; what is shared is there once."""
        if one.shared and one.key in self.names:
            return
        name = ".".join(one.key) if one.shared else f"memory{len(self.fields)}"
        self.fields[name] = one.type
        self.names[one.key] = name

    @property
    def type(self) -> Struct:
        return Struct("state", ((HEAD, self.head), *(self.fields or {"unused": I64}).items()))


class StrategyWriter:
    """One strategy being written."""

    def __init__(self, checked: CheckedQuantProgram, node: quant.Strategy, source: Source | None) -> None:
        self.checked = checked = with_library_of(checked, node.instruments[0].name) if len(checked.world.instruments) > 1 else checked
        self.node = node
        self.instrument: CheckedInstrument = checked.world.instruments[node.instruments[0].name]
        declared = checked.world.declared.own[self.instrument.name]
        assert isinstance(declared, quant.Instrument)
        self.market = self.instrument.name, self.instrument.currency.name
        self.declared = declared
        self.made: Elaboration = begin(checked)
        self.around = self._surroundings()
        self.engine = EngineNeeds(self._rules(), source)
        assert isinstance(self.made.own, MarketNeeds)
        self.made.own.engine = self.engine
        self.memory = StateMemory(self.engine.head)
        self.states: dict[str, Type] = {}

    def _surroundings(self) -> Surroundings:
        """What handlers and the strategy's functions see; what the library's see is the strategy's market."""
        made, frame = self.made, frame_of(self.market, in_strategy=True)
        own = self.checked.world.declared.by_name(s for s in self.node.body.statements if isinstance(s, nodes.Function))
        for declaration in self.checked.library.values():
            made.around[id(declaration)] = Surroundings(NamesInSight(), Scope(), made.functions, frame)
        around = Surroundings(NamesInSight(made.top.names), Scope(made.top.sizes), {**made.functions, **own}, frame)
        made.around.update((id(function), around) for function in own.values())
        return around

    def _rules(self) -> RiskRules:
        named = next((s.name for s in self.node.body.statements if isinstance(s, quant.RiskNamed)), None)
        risk = self.checked.world.risks[named] if named is not None else None
        return risk_rules(risk, self.instrument, self.constant, session_of(self.declared), _names_clients(self.node))

    @contextmanager
    def _context(self, b: FunctionCode) -> Iterator[FunctionContext]:
        with self.made.seeing(self.around):
            yield FunctionContext(self.made, b, self.around, {})

    def constant(self, node: nodes.Expression) -> int | float:
        """The number of a constant expression, as its type is stored."""
        return value_of(self.made, self.around, node)

    # ---- states -----------------------------------------------------------------------------------------------------------------

    def _begin(self) -> WrittenHandler:
        """Writes the first values of the states, and enters their names: those of a `let` can't change."""
        name = "state.begin"
        with self.made.program.function(name, {}, internal=True, attributes=("noalias", "noinline")) as b, self._context(b) as c:
            for statement in self.node.body.statements:
                match statement:
                    case nodes.Constant(name=constant, annotation=written, value=value):
                        self.made.declare_constant(self.around, constant, written, value)
                    case quant.State(name=state, annotation=written, value=first):
                        self._first(c, state, written, first)
                    case nodes.Let(pattern=nodes.BindingPattern(name=variable), annotation=written, value=nodes.Expression() as value):
                        if whole_constant(value, self.around.sizes) is not None:
                            self.made.declare_constant(self.around, variable, written, value)
                        else:
                            self._first(c, variable, written, value)
                    case nodes.Let():
                        raise not_supported("this `let` in a strategy", statement.span, "write one name and its value: `let a = 3`")
            return WrittenHandler(None, name, c.borrowed)

    def _first(self, c: FunctionContext, name: str, annotation: nodes.TypeSyntax | None, value: nodes.Expression | None) -> None:
        type = c.resolve(annotation) if annotation is not None else None
        if value is not None and not (is_blank(value) and type is not None):
            first = c.value(value, type)
            first = first if type is not None else c.fit(first, strong(first.type))
            type = first.type
            c.write(InMemory(type, c.borrow((STATE, name), c.layouts.memory(type), shared=True)), first)
        assert type is not None
        self.around.names.found[name] = NameMeaning(LentVariable((STATE, name), type))
        self.states[name] = type

    # ---- handlers ---------------------------------------------------------------------------------------------------------------

    def _handler(self, node: quant.Handler, number: int) -> WrittenHandler:
        name = f"handler.{node.event}" + (f".n{number}" if number else "")
        promised = _promised([node])
        with self.made.program.function(name, {}, internal=True, constraints=promised, span=node.span) as b, self._context(b) as c:
            if node.record is not None and node.event == "book":
                c.names.found[node.record] = NameMeaning(Whole(MARKET_BOOK, ()))
            elif node.record is not None:
                engine = c.borrow(MEMORY, ENGINE_STATE, shared=True)
                record = self.checked.world.struct_of(RECORDS[node.event], self.market)
                c.names.found[node.record] = NameMeaning(InMemory(record, c.b.at(engine, node.event)))
            with c.reaching():
                c.body(node.body)
            return WrittenHandler(node, name, c.borrowed)

    def _call(self, b: FunctionCode, handler: WrittenHandler) -> None:
        engine, state, *_ = b.parameters
        lent: list[Expr] = []
        for one in handler.borrowed:
            if one.key == MEMORY:
                lent.append(engine)
            else:
                lent.append(b.at(state, HEAD if one.key == HEAD else self.memory.names[one.key]))
        b.call(handler.function, *lent)

    def _entry(self, event: str, handlers: Sequence[WrittenHandler], begin: WrittenHandler) -> None:
        """`on.trade` and its like: what the engine calls."""
        signature = HANDLERS[f"on.{event}"]
        promised = _promised([handler.node for handler in handlers if handler.node is not None])
        with self.made.program.function(f"on.{event}", signature.whole(self.memory.type), constraints=promised) as b:
            if event == "start" and begin.borrowed:
                self._call(b, begin)
            if "number" in signature.parameters and len(handlers) > 1:
                match(b, b.parameters[2], {n: partial(self._call, b, handler) for n, handler in enumerate(handlers)})
            else:
                for handler in handlers:
                    self._call(b, handler)

    # ---- the whole --------------------------------------------------------------------------------------------------------------

    def write(self) -> dict[str, list[WrittenHandler]]:
        """Writes the strategy's module; gives the handlers that the engine is to call, by event."""
        position = position_of(self.checked.world.struct_of("Position", self.market))
        self.around.names.found |= {"position": NameMeaning(position), "rejects": NameMeaning(REJECTS)}
        begin = self._begin()
        handlers: dict[str, list[WrittenHandler]] = {event: [] for event in EVENTS}
        for statement in self.node.body.statements:
            if isinstance(statement, quant.Handler):
                handlers[statement.event].append(self._handler(statement, len(handlers[statement.event])))
        for handler in (begin, *(one for several in handlers.values() for one in several)):
            for lent in handler.borrowed:
                if lent.key not in (MEMORY, HEAD):
                    self.memory.lend(lent)
        if size_of(self.memory.type) > LARGEST:
            message = f"`{self.node.name}` remembers {size_of(self.memory.type):,} bytes, and {LARGEST:,} is the most"
            raise ZyntaxError(Diagnostic("0301", message, self.node.name_span, hint="make its windows and containers smaller"))
        for event in EVENTS:
            self._entry(event, handlers[event], begin)
        program_functions(self.made.program, self.engine.rules, self.engine.head, self.engine.used)
        if begin.borrowed and not handlers["start"]:
            handlers["start"].append(begin)
        return handlers


def _names_clients(node: quant.Strategy) -> bool:
    """Whether some order may have a client id."""
    calls = (found for found in walk(node.body) if isinstance(found, nodes.Call))
    return any(argument.name == "client_id" or place > _BEFORE_CLIENT for call in calls for place, argument in enumerate(call.arguments))


def _promised(handlers: Sequence[quant.Handler]) -> HirExecutionConstraints | None:
    """What is asked of the code of handlers that stand together: a critical path if one of them is."""
    critical = any(annotation.name == "critical_path" for node in handlers for annotation in node.annotations)
    return HirExecutionConstraints(no_alloc=True, critical_path=True) if critical else None
