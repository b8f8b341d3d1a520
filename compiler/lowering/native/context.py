"""What all rules share while a function is written: the names in sight, where it goes on, and how it is left.

A rule is a function registered for a class of nodes, in the tables of all languages or of one:

    @CORE.elaborates(nodes.IntLiteral)
    def number(c: FunctionContext, node: nodes.IntLiteral, place: Type | None) -> Value: ...

    @CORE.executes(nodes.While)
    def while_(c: FunctionContext, node: nodes.While) -> None: ..."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from compiler.hir.control import Call
from compiler.hir.host import Element
from compiler.hir.instruction import Effect, Instruction, Region
from compiler.hir.native_build import FunctionCode
from compiler.hir.native_expressions import Record
from compiler.hir.types import HirType, Pointer
from compiler.lowering.native.fitting import fit
from compiler.lowering.native.holding import Holding
from compiler.lowering.native.names import ConstantExpression, LentMemory, LentVariable, NameMeaning
from compiler.lowering.native.program import Elaboration, Surroundings
from compiler.lowering.native.rules import located
from compiler.lowering.native.values import Cells, InMemory, Location, ScalarValue, Text, Value
from compiler.source import NOWHERE
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.scope import Scope, Variable, VariableKind
from compiler.typed_ast.type_arguments import substituted
from compiler.typed_ast.types import UNIT, UNKNOWN, TensorType, Type
from compiler.typed_ast.yielded import Yielded
from runtime.records import frozen


class Unreachable(Exception):
    """Nothing behind the current place is reached, so that nothing is written there."""


@frozen(eq=False)
class ReductionBlock:
    """The compute block around: what its `yield`s give, and the variables in which that is combined."""

    yielded: Yielded
    totals: tuple[Location, ...]


class FunctionContext(Holding):
    """One function being written, in surroundings. `bound`: what its type parameters stand for; `names`, `sizes`: what names stand for, as
    values and as capacities; `functions`: what can be called by name; `result`: the type of its result; `leave` writes what `return` does
    with a value; `ends`: what is done with a result before the function is left; `turns`: what a block does before its statements, by its
    identity; `reassigned`: names of variables that get other tensors; `gone_over`: the tensors that the loops around go over; `wraps`:
    ints are modulo their type, as in the compute block around or that of a caller, and don't stop."""

    def __init__(self, elaboration: Elaboration, b: FunctionCode, around: Surroundings, bound: Mapping[str, Type]) -> None:
        super().__init__(b, elaboration.layouts)
        self.elaboration, self.around, self.bound = elaboration, around, bound
        self.tables = elaboration.rules.tables
        self.names, self.sizes, self.functions = around.names.inner(), Scope(around.sizes), around.functions
        self.result: Type = UNIT
        self.leave: Callable[[Value], None] = lambda value: self.b.ret()
        self.borrowed: list[LentMemory] = []
        self.block: ReductionBlock | None = None
        self.wraps = False
        self.written: dict[int, InMemory] = {}
        self.turns: dict[int, Callable[[], None]] = {}
        self.ends: Callable[[Value], None] | None = None
        self.reassigned: frozenset[str] = frozenset()
        self.gone_over: list[Value] = []

    # ---- rules ----

    def value(self, node: nodes.Expression, place: Type | None = None) -> Value:
        """The value of an expression, written here. Raises Unreachable where it never comes to one."""
        if node.type == UNKNOWN:
            node = self.elaboration.typed(node, place)
        with self.at(node):
            found: Value = self.tables.values[type(node)](self, node, place)
            if self.b.ended:
                raise Unreachable
            return found if place is None or place == UNIT else self.fit(found, place)

    def number(self, node: nodes.Expression, place: Type | None = None) -> ScalarValue:
        found = self.value(node, place)
        if isinstance(found, Text):
            raise self.not_supported("text in compiled code", "use an enum, or a number", node.span)
        assert isinstance(found, ScalarValue), f"no number: {found}"
        return found

    def whole_number(self, node: nodes.Expression) -> int | None:
        """The value of an int that is known now."""
        found = self.value(node)
        known = found.constant if isinstance(found, ScalarValue) else None
        return known if isinstance(known, int) and not isinstance(known, bool) else None

    def statement(self, node: nodes.Statement) -> None:
        with self.at(node):
            self.tables.statements[type(node)](self, node)

    def body(self, block: nodes.Block) -> None:
        """The statements of a block, for their effects."""
        if id(block) in self.turns:
            self.turns[id(block)]()
        with self.scope(), self.reaching():
            for statement in block.statements:
                self.statement(statement)
                if self.b.ended:
                    return

    def begins(self, body: nodes.Block) -> None:
        """The language's own beginning of a function."""
        if self.elaboration.rules.begins is not None:
            self.elaboration.rules.begins(self, body)

    def fit(self, value: Value, place: Type) -> Value:
        """The value as one of the type that its place has."""
        return fit(self, value, place)

    def changes_state(self, name: str) -> bool:
        """Whether a function of that name may change variables that outlive a call: those that stand in a strategy."""
        return name in self.functions and self.functions[name] is not self.elaboration.functions.get(name)

    # ---- names and types ----

    def named_constant(self, value: nodes.Expression, type: Type) -> Value:
        """The value of a constant, where only other constants are in sight."""
        names, sizes = self.names, self.sizes
        self.names, self.sizes = self.around.names, self.around.sizes
        try:
            if self.layouts.in_memory(type):
                return self.once(id(value), lambda: self.value(value, type))
            return self.value(value, type)
        finally:
            self.names, self.sizes = names, sizes

    @contextmanager
    def scope(self) -> Iterator[None]:
        before, self.names = self.names, self.names.inner()
        sizes, self.sizes = self.sizes, Scope(self.sizes)
        try:
            yield
        finally:
            self.names, self.sizes = before, sizes

    def let(self, name: str, value: Value, kind: VariableKind = VariableKind.LET) -> None:
        """A name for a value that doesn't change. Capacities may name constants and constant parameters."""
        if name == "_":
            return
        self.names.found[name] = NameMeaning(self.kept(value))
        known = value.constant if isinstance(value, ScalarValue) else None
        whole = known if isinstance(known, int) and not isinstance(known, bool) else None
        self.sizes.add(Variable(name, value.type, kind, constant=whole))

    def var(self, name: str, value: Value) -> None:
        """A variable that begins with a value."""
        if isinstance(value.type, TensorType) and name not in self.reassigned:
            self.let(name, value)
        elif name != "_":
            self.names.found[name] = NameMeaning(self.variable(value))
            self.sizes.add(Variable(name, value.type, VariableKind.MUTABLE))

    def location(self, name: str) -> Location | None:
        """Where the value of a name is kept, if it is kept somewhere."""
        found = self.names.find(name)
        if found is None or isinstance(found.held, ConstantExpression):
            return None
        if isinstance(found.held, LentVariable):
            lent = found.held
            memory = self.borrow(lent.key, lent.within or self.layouts.memory(lent.type), shared=True)
            return InMemory(lent.type, self.b.at(memory, *lent.path))
        return found.held if isinstance(found.held, Cells | InMemory) else None

    def type(self, node: nodes.Expression) -> Type:
        """The type that the checker found, with what type parameters stand for, and as a variable would get it."""
        return strong(substituted(node.type, dict(self.bound), set(self.bound)))

    def resolve(self, written: nodes.TypeSyntax) -> Type:
        """A type as written, with its sizes. Raises ZyntaxError for a size that is none."""
        type_ = self.elaboration.resolve(written, self.sizes, self.bound)
        self.elaboration.checker.diagnostics.raise_errors()
        return type_

    # ---- where code goes ----

    def once(self, key: int, write: Callable[[], Value]) -> Value:
        """What lies in memory and is always the same: written where the function begins, if nothing in it can fail."""
        if key in self.written:
            return self.written[key]
        region = Region()
        with self.b.here.inside(region, alone=True):
            found = write()
        assert isinstance(found, InMemory)
        place = InMemory(found.type, found.pointer)
        if all(_always_goes_on(op) for top in region.body for op in top.walk()):
            self.b.function.body.body[:0] = region.body
            self.written[key] = place
        else:
            self.b.here.region.body.extend(region.body)
        return place

    @contextmanager
    def at(self, node: nodes.Node) -> Iterator[None]:
        """What is written inside comes from a node."""
        builder = self.b.here
        before = builder.span
        if node.span is not NOWHERE and node.span.path != self.elaboration.rules.prelude:
            builder.span = node.span
        try:
            with located(node.span):
                yield
        finally:
            builder.span = before

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """A region of its own, which may end before its last statement."""
        with suppress(Unreachable):
            yield

    # ---- memory of callers ----

    def borrow(self, key: Any, type: HirType, shared: bool = False) -> Record:
        """The address of memory that this function's caller provides; all of a key that is shared is one. Whoever writes a function with
        such memory, and isn't called by the program itself, provides it from `borrowed`."""
        if shared:
            for one in self.borrowed:
                if one.shared and one.key == key:
                    return one.pointer
        pointer = self.b.of(self.b.builder.parameter(f"memory{len(self.borrowed)}", Pointer(type)))
        self.borrowed.append(LentMemory(key, type, shared, pointer))
        return pointer


def _always_goes_on(op: Instruction) -> bool:
    if isinstance(op, Element):
        return op.site < 0
    return not isinstance(op, Call) and not op.effects & Effect.FAULT

