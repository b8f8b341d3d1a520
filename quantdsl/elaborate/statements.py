"""Variables, assignments, loops, results."""

from compiler.hir import instruction as hir
from compiler.typed_ast import nodes
from compiler.typed_ast.types import BOOL, I64, UNIT, Type
from quantdsl import types as qt
from quantdsl.check.fits import shown
from quantdsl.check.literals import settled
from quantdsl.elaborate import patterns
from quantdsl.elaborate.changes import changes, root_of
from quantdsl.elaborate.context import FunctionContext, executes
from quantdsl.elaborate.expressions import place_of
from quantdsl.elaborate.operators import combined
from quantdsl.elaborate.refused import not_supported
from quantdsl.elaborate.values import InMemory, Location, ScalarValue, Whole


@executes(nodes.ExpressionStatement)
def expression_statement(c: FunctionContext, node: nodes.ExpressionStatement) -> None:
    c.value(node.value, UNIT)


@executes(nodes.Constant)
def constant(c: FunctionContext, node: nodes.Constant) -> None:
    value = c.value(node.value, c.resolve(node.annotation) if node.annotation is not None else None)
    c.let(node.name, c.fit(value, settled(value.type)), "const")


@executes(nodes.Let)
def let(c: FunctionContext, node: nodes.Let) -> None:
    place = c.resolve(node.annotation) if node.annotation is not None else None
    if node.value is None:
        assert place is not None
        patterns.bind(c, node.pattern, c.zero(place), changes=True)
        return
    value = c.value(node.value, place)
    if place is None:
        value = c.fit(value, settled(value.type))
    patterns.bind(c, node.pattern, value, changes=node.mutable)


@executes(nodes.Assign)
def assign(c: FunctionContext, node: nodes.Assign) -> None:
    match node.target:
        case nodes.Name(name="_") if node.operator is None:
            c.value(node.value)
        case nodes.TupleLiteral(elements=targets):
            value = c.kept(c.value(node.value))
            for n, target in enumerate(targets):
                location = target_of(c, target)
                c.write(location, c.fit(c.part(value, str(n)), location.type))
        case target if node.operator is None:
            value = c.value(node.value, location_type(c, target))
            c.write(target_of(c, target), value)
        case target:
            location = target_of(c, target)
            before, other = c.read(location), c.value(node.value)
            assert isinstance(before, ScalarValue) and isinstance(other, ScalarValue)
            result = combined(c, node.operator, before, other, location.type)
            c.write(location, c.fit(result, location.type))


def target_of(c: FunctionContext, target: nodes.Expression) -> Location:
    with c.at(target):
        location = place_of(c, target)
    assert location is not None, "what is assigned to is kept somewhere"
    return location


def location_type(c: FunctionContext, target: nodes.Expression) -> Type:
    """The type of what is assigned to, with its sizes where it is a variable."""
    found = c.names.find(target.name) if isinstance(target, nodes.Name) else None
    return found.held.type if found is not None else c.type(target)


# ---- loops --------------------------------------------------------------------------------------------------------------------------


@executes(nodes.While)
def while_(c: FunctionContext, node: nodes.While) -> None:
    """With `max n` the condition may hold n times; when it holds once more the program stops."""
    bound = c.number(node.bound, I64).value if node.bound is not None else None
    rounds = c.b.variable(c.b.const(0, "i64")) if bound is not None else None
    with c.b.repeat(), c.reaching():
        condition = c.number(node.condition, BOOL).value
        with c.b.when(c.b.negate(condition)):
            c.b.leave()
        if rounds is not None and bound is not None:
            with c.at(node.condition):
                message = "the condition still holds after `max` {0} rounds"
                c.b.require(c.b.lt(c.b.now(rounds), bound), bound, code="0808", message=message)
            c.b.set(rounds, c.b.wrapping("add", c.b.now(rounds), 1))
        c.body(node.body)


@executes(nodes.For)
def for_(c: FunctionContext, node: nodes.For) -> None:
    with c.scope():
        _clauses(c, list(node.clauses), node.body)


def _clauses(c: FunctionContext, clauses: list[nodes.ForClause], body: nodes.Block) -> None:
    if not clauses:
        c.body(body)
        return
    clause, *others = clauses
    if isinstance(clause.source, nodes.Range):
        _counted(c, clause, clause.source, others, body)
        return
    held = c.value(clause.source)
    if not isinstance(held, InMemory) or not isinstance(held.type, qt.Container):
        raise not_supported(f"a `for` over a `{shown(held.type)}`", clause.source.span, "go over a range, an array or a ring")
    root = root_of(clause.source)
    held = c.own(held) if root is not None and changes(c, body, root) else held
    assert isinstance(held.type, qt.Container)
    ring = c.layouts.ring(held.type) if held.type.kind == "ring" else None
    count = ring.count(c.b, held.pointer) if ring else c.b.const(c.layouts.size(held.type), "i64")
    with c.b.loop(0, count) as i, c.reaching():
        place = ring.slot(c.b, held.pointer, i) if ring else c.b.at(held.pointer, i, proved=True)
        element = c.read(InMemory(held.type.elements[0], place))
        with c.scope():
            if len(clause.names) == 1:
                c.let(clause.names[0], element)
            else:
                for n, name in enumerate(clause.names):
                    c.let(name, c.part(element, str(n)))
            _clauses(c, others, body)


def _counted(c: FunctionContext, clause: nodes.ForClause, source: nodes.Range, others: list[nodes.ForClause], body: nodes.Block) -> None:
    """`for i in low..high step s`: as many rounds as there are numbers from low on, s apart, before high."""
    low, high = c.number(source.low, I64), c.number(source.high, I64)
    step = c.number(source.step, I64) if source.step is not None else c.constant(1, I64)
    if step.constant == 1 and not source.inclusive:
        loop = c.b.loop(low.value, high.value)
    else:
        with c.at(source):
            loop = c.b.loop(0, rounds(c, low.value, high.value, step, source.inclusive))
    with loop as i, c.reaching(), c.scope():
        if step.constant != 1 or source.inclusive:
            i = c.b.wrapping("add", low.value, c.b.wrapping("mul", i, step.value))
        c.let(clause.names[0], ScalarValue(I64, i))
        _clauses(c, others, body)


def rounds(c: FunctionContext, low: hir.Value, high: hir.Value, step: ScalarValue, inclusive: bool) -> hir.Value:
    """How many numbers a range has. A step of 0, and more numbers than 64 bits count, stop."""
    b = c.b
    if step.constant is None or step.constant == 0:
        b.require(b.ne(step.value, 0), code="0806", message="a range with a step of 0")
    up = b.gt(step.value, 0)
    first, last = b.cast(low, "i128"), b.cast(high, "i128")
    distance = b.select(up, b.wrapping("sub", last, first), b.wrapping("sub", first, last))
    stride = b.select(up, step.value, b.wrapping("sub", 0, step.value))
    stride = b.cast(b.select(b.eq(step.value, 0), b.const(1, "i64"), stride), "u64")
    there = b.ge(distance, 0) if inclusive else b.gt(distance, 0)
    reach = b.select(there, distance if inclusive else b.wrapping("sub", distance, 1), b.const(0, "i128"))
    whole = b.quotient(b.cast(reach, "u128"), stride, "floor")
    return b.select(there, b.wrapping("add", b.narrow(whole, "i64"), 1), 0)


@executes(nodes.Break)
def break_(c: FunctionContext, node: nodes.Break) -> None:
    c.b.leave()


@executes(nodes.Continue)
def continue_(c: FunctionContext, node: nodes.Continue) -> None:
    c.b.again()


@executes(nodes.Return)
def return_(c: FunctionContext, node: nodes.Return) -> None:
    c.leave(c.value(node.value, c.result) if node.value is not None else Whole(UNIT, ()))


@executes(nodes.Throw, nodes.LaterStatement, nodes.Render)
def later(c: FunctionContext, node: nodes.Statement) -> None:
    raise not_supported("this statement", node.span, "return a `Result`")
