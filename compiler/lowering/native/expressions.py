"""Names, fields, elements, conditions, blocks."""

from collections.abc import Mapping

from compiler.hir.native_expressions import Expr
from compiler.hir.types import is_float
from compiler.lowering.native import tensors
from compiler.lowering.native.context import FunctionContext, Unreachable
from compiler.lowering.native.names import ConstantExpression
from compiler.lowering.native.rules import CORE
from compiler.lowering.native.values import InMemory, Location, ScalarValue, Text, Value, Whole
from compiler.typed_ast import nodes
from compiler.typed_ast.type_parts import inner_types
from compiler.typed_ast.types import (
    BOOL,
    I64,
    NEVER,
    NONE,
    UNIT,
    UNKNOWN,
    ArrayType,
    EnumType,
    OptionType,
    ResultType,
    Scalar,
    Size,
    StructType,
    TensorType,
    Type,
)


@CORE.elaborates(nodes.Name)
def name(c: FunctionContext, node: nodes.Name, place: Type | None) -> Value:
    found = c.names.find(node.name)
    if found is None:
        return named_case(c, node.name, place, node)
    if isinstance(found.held, ConstantExpression):
        return c.named_constant(found.held.value, found.held.type)
    location = place_of(c, node)
    if location is not None:
        return c.read(location)
    assert isinstance(found.held, ScalarValue | Whole | Text)
    return found.held


def named_case(c: FunctionContext, name: str, place: Type | None, node: nodes.Expression) -> Value:
    """`none`, or a case without values."""
    if name == c.elaboration.rules.meaning.none:
        return Whole(NONE, ())
    type = c.type(node)
    if not isinstance(type, EnumType):
        type = place.value if isinstance(place, OptionType) else place or type
    return case(c, type, name, {})


@CORE.elaborates(nodes.Path)
def path(c: FunctionContext, node: nodes.Path, place: Type | None) -> Value:
    return case(c, c.type(node), node.segments[-1], {})


def case(c: FunctionContext, type: Type, name: str, parts: dict[str, Value]) -> Value:
    """A value of an enum."""
    tag = c.layouts.tags(type)[name]
    if c.layouts.number(type) is not None:
        return c.constant(tag, type)
    return c.make(type, {"tag": ScalarValue(UNIT, c.b.const(tag, "u8")), **{f"{name}.{part}": value for part, value in parts.items()}})


@CORE.elaborates(nodes.Field)
def field(c: FunctionContext, node: nodes.Field, place: Type | None) -> Value:
    location = place_of(c, node)
    if location is not None:
        return c.read(location)
    return field_of(c, c.value(node.value), node.name)


def field_of(c: FunctionContext, value: Value, name: str) -> Value:
    """The field of a value: a part of it, the length of an array, or what its type gives under that name."""
    if isinstance(value.type, ArrayType) and name == "len":
        return c.constant(c.layouts.size(value.type), I64)
    if not isinstance(value, ScalarValue) and not c.layouts.is_sized(value.type):
        return c.part(value, name)
    found: Value = c.tables.fields[type(value.type)](c, value, name)
    return found


@CORE.elaborates(nodes.Index)
def index(c: FunctionContext, node: nodes.Index, place: Type | None) -> Value:
    if isinstance(node.value.type, TensorType) and isinstance(node.type, TensorType):
        return tensors.part(c, c.value(node.value), [c.number(one, I64).value for one in node.indices])
    location = place_of(c, node)
    assert location is not None
    return c.read(location)


NO_INDICES: Mapping[int, Expr] = {}


def place_of(c: FunctionContext, node: nodes.Expression, indices: Mapping[int, Expr] = NO_INDICES) -> Location | None:
    """Where an expression's value is kept, if it is kept: a variable, or a part of one. Elements have a place in any case. `indices`: those
    that are computed already, by their nodes."""
    match node:
        case nodes.Name(name=name):
            location = c.location(name)
            optional = location is not None and isinstance(location.type, OptionType) and node.type != UNKNOWN
            present = optional and not isinstance(c.type(node), OptionType)
            return c.part_place(location, "value") if present and location is not None else location
        case nodes.Field(value=value, name=name):
            base = place_of(c, value, indices)
            if base is None or c.layouts.number(base.type) is not None or c.layouts.is_sized(base.type):
                return None
            return c.part_place(base, name)
        case nodes.Index(value=value, indices=many) if isinstance(value.type, TensorType):
            with c.at(node):
                at_all = [indices[id(one)] if id(one) in indices else c.number(one, I64).value for one in many]
                return tensors.element(c, c.value(value), at_all)
        case nodes.Index(value=value, indices=(at,)):
            base = place_of(c, value, indices)
            if base is None:
                held = c.value(value)
                assert isinstance(held, InMemory)
                base = held
            assert isinstance(base, InMemory)
            known = indices.get(id(node))
            return element(c, base, known if known is not None else c.number(at, I64).value, node)
    return None


def element(c: FunctionContext, base: InMemory, at: Expr, node: nodes.Expression) -> InMemory:
    """An element of an array, or of an added container."""
    added = c.layouts.added(base.type).element
    with c.at(node):
        return InMemory(element_type(base.type), added(c.layouts, c.b, base.type, base.pointer, at) if added else c.b.at(base.pointer, at))


def element_type(type: Type) -> Type:
    """The type of what an array or another container holds."""
    found = getattr(type, "element", None)
    assert isinstance(found, Type), f"`{type}` has no elements"
    return found


# ---- blocks and conditions --------------------------------------------------------------------------------------------------------


@CORE.elaborates(nodes.Block)
def block(c: FunctionContext, node: nodes.Block, place: Type | None) -> Value:
    """The statements, and the value of the last expression where one is wanted."""
    wanted = c.type(node) not in (UNIT, NEVER) and place != UNIT
    with c.scope():
        *first, last = node.statements or (None,)
        for statement in first:
            assert statement is not None
            c.statement(statement)
            if c.b.ended:
                raise Unreachable
        if isinstance(last, nodes.ExpressionStatement) and wanted:
            return c.kept(c.value(last.value, place))
        if last is not None:
            c.statement(last)
    return Whole(UNIT, ())


class JoinedBranches:
    """A value that comes from one of several branches: a variable that each of them sets."""

    def __init__(self, c: FunctionContext, node: nodes.Expression, place: Type | None) -> None:
        type = place if place is not None else c.type(node)
        self.c = c
        self.type: Type | None = None if type in (UNIT, NEVER) else type
        if self.type is not None and unsized(self.type):
            what = f"a branch that gives a `{c.layouts.rules.shown(self.type)}` whose size isn't written"
            raise c.not_supported(what, "write the type with its size", node.span)
        self.found = c.variable(c.zero(self.type)) if self.type is not None else None

    def set(self, value: nodes.Expression) -> None:
        """Writes a branch."""
        c = self.c
        with c.reaching():
            if self.found is None or self.type is None:
                c.value(value, UNIT)
            else:
                c.write(self.found, c.value(value, self.type))

    def value(self) -> Value:
        if self.found is None:
            return Whole(UNIT, ())
        found = self.c.read(self.found)
        return InMemory(found.type, found.pointer, fresh=True) if isinstance(found, InMemory) else found


def unsized(type: Type) -> bool:
    """Whether the capacity of a container is open in it; the arguments of a struct say its own."""
    return type == Size() or (not isinstance(type, StructType) and any(map(unsized, inner_types(type))))


@CORE.elaborates(nodes.If)
def if_(c: FunctionContext, node: nodes.If, place: Type | None) -> Value:
    """Names that an `if let` binds hold in its first block. Of a condition that is known now only the branch taken is written."""
    place = UNIT if node.otherwise is None else place
    outside = c.names, c.sizes
    with c.scope():
        condition = c.number(node.condition, BOOL)
        if condition.constant:
            return c.value(node.then, place)
        if condition.constant is not None:
            c.names, c.sizes = outside
            return c.value(node.otherwise, place) if node.otherwise is not None else Whole(UNIT, ())
        joined = JoinedBranches(c, node, place)
        if node.otherwise is None:
            with c.b.when(condition.value):
                joined.set(node.then)
            return joined.value()
        with c.b.when(condition.value):
            joined.set(node.then)
        c.names, c.sizes = outside
        with c.b.otherwise():
            joined.set(node.otherwise)
    return joined.value()


@CORE.elaborates(nodes.Conditional)
def conditional(c: FunctionContext, node: nodes.Conditional, place: Type | None) -> Value:
    condition = c.number(node.condition, BOOL)
    if condition.constant is not None:
        return c.value(node.then if condition.constant else node.otherwise, place)
    joined = JoinedBranches(c, node, place)
    with c.b.when(condition.value):
        joined.set(node.then)
    with c.b.otherwise():
        joined.set(node.otherwise)
    return joined.value()


@CORE.elaborates(nodes.Range)
def range_(c: FunctionContext, node: nodes.Range, place: Type | None) -> Value:
    raise c.not_supported("a range beside a `for`", "write the range where it is gone over", node.span)


@CORE.elaborates(nodes.Propagate)
def propagate(c: FunctionContext, node: nodes.Propagate, place: Type | None) -> Value:
    """`e?`: the value; without one the function is left with its none or its error."""
    found = c.value(node.value)
    optional = isinstance(found.type, OptionType)
    there = c.part(found, "present" if optional else "ok")
    assert isinstance(there, ScalarValue)
    with c.b.when(~there.value):
        if c.result == UNIT:
            c.leave(Whole(UNIT, ()))
        elif optional:
            c.leave(c.zero(c.result))
        else:
            assert isinstance(c.result, ResultType)
            error = c.fit(c.part(found, "error"), c.result.error)
            c.leave(c.make(c.result, {"ok": c.constant(False, BOOL), "error": error}))
    return c.part(found, "value")


@CORE.elaborates(nodes.Cast)
def cast(c: FunctionContext, node: nodes.Cast, place: Type | None) -> Value:
    """`x as T`: an int that T can't hold stops, or wraps where ints do; a float is cut toward zero; a float takes the nearest."""
    target = c.resolve(node.target)
    if not isinstance(target, Scalar):
        raise c.layouts.rules.not_in_place(target, node.span)
    found = c.number(node.value)
    number = c.layouts.number(target)
    assert number is not None
    if number.dtype == "i1":
        return found if found.value.dtype == "i1" else c.truth(found.value != 0)
    if is_float(number.dtype) or found.value.dtype == "i1":
        return ScalarValue(target, found.value.cast(number.dtype))
    return ScalarValue(target, found.value.cast(number.dtype) if c.wraps else found.value.narrow(number.dtype, written=True))
