"""Variables, assignments, loops, results."""

from collections.abc import Mapping

from compiler.hir.native_expressions import Expr, select
from compiler.lowering.native import patterns
from compiler.lowering.native.changes import changes, root_of
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.expressions import NO_INDICES, element_type, place_of
from compiler.lowering.native.operators import combined
from compiler.lowering.native.rules import CORE
from compiler.lowering.native.values import InMemory, Location, ScalarValue, Value, Whole
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.endless_loops import is_endless
from compiler.typed_ast.scope import VariableKind
from compiler.typed_ast.types import BOOL, I64, UNIT, ArrayType, TensorType, Type


@CORE.executes(nodes.ExpressionStatement)
def expression_statement(c: FunctionContext, node: nodes.ExpressionStatement) -> None:
    c.value(node.value, UNIT)


@CORE.executes(nodes.Constant)
def constant(c: FunctionContext, node: nodes.Constant) -> None:
    value = c.value(node.value, c.resolve(node.annotation) if node.annotation is not None else None)
    c.let(node.name, c.fit(value, strong(value.type)), VariableKind.CONSTANT)


@CORE.executes(nodes.Let)
def let(c: FunctionContext, node: nodes.Let) -> None:
    place = c.resolve(node.annotation) if node.annotation is not None else None
    if node.value is None:
        assert place is not None
        patterns.bind(c, node.pattern, c.zero(place), changes=True)
        return
    value = c.value(node.value, place)
    if place is None:
        value = c.fit(value, strong(value.type))
    patterns.bind(c, node.pattern, value, changes=node.mutable)


@CORE.executes(nodes.Assign)
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
            indices = indices_of(c, target)
            value = c.value(node.value, location_type(c, target))
            c.write(target_of(c, target, indices), value)
        case target:
            location = target_of(c, target)
            before, other = c.read(location), c.value(node.value)
            assert isinstance(before, ScalarValue) and isinstance(other, ScalarValue)
            result = combined(c, node.operator, before, other, location.type)
            c.write(location, c.fit(result, location.type))


def indices_of(c: FunctionContext, target: nodes.Expression) -> dict[int, Expr]:
    """The indices of what is assigned to, by their nodes: they are computed before the value, and looked at when it is stored."""
    match target:
        case nodes.Field(value=value):
            return indices_of(c, value)
        case nodes.Index(value=value, indices=many) if isinstance(value.type, TensorType):
            return {id(one): c.number(one, I64).value for one in many}
        case nodes.Index(value=value, indices=(at,)):
            return {**indices_of(c, value), id(target): c.number(at, I64).value}
    return {}


def target_of(c: FunctionContext, target: nodes.Expression, indices: Mapping[int, Expr] = NO_INDICES) -> Location:
    with c.at(target):
        location = place_of(c, target, indices)
    assert location is not None, "what is assigned to is kept somewhere"
    return location


def location_type(c: FunctionContext, target: nodes.Expression) -> Type:
    """The type of what is assigned to, with its sizes where it is a variable."""
    found = c.names.find(target.name) if isinstance(target, nodes.Name) else None
    return found.held.type if found is not None else c.type(target)


# ---- loops --------------------------------------------------------------------------------------------------------------------------


@CORE.executes(nodes.While)
def while_(c: FunctionContext, node: nodes.While) -> None:
    """With `max n` the condition may hold n times; when it holds once more the program stops."""
    bound = c.number(node.bound, I64).value if node.bound is not None else None
    rounds = c.b.variable(0) if bound is not None else None
    with c.b.repeat(), c.reaching():
        condition = c.number(node.condition, BOOL).value
        with c.b.when(~condition):
            c.b.break_()
        if rounds is not None and bound is not None:
            with c.at(node.condition):
                message = "the condition still holds after `max` {0} rounds"
                c.b.require(rounds.value < bound, bound, code="0808", message=message)
            rounds.value = rounds.value.wrapping_add(1)
        c.body(node.body)
    if is_endless(node):
        c.leave(c.zero(c.result) if c.result != UNIT else Whole(UNIT, ()))  # never reached


@CORE.executes(nodes.For)
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
    gone_over = c.tables.gone_over.get(type(held.type))
    if gone_over is not None:
        count, element_at = gone_over(c, held)
        with c.b.loop(0, count) as i, c.reaching(), c.scope():
            _bind(c, clause, element_at(i))
            _clauses(c, others, body)
        return
    added = c.layouts.added(held.type)
    if not isinstance(held, InMemory) or not (isinstance(held.type, ArrayType) or added.element):
        what = f"a `for` over a `{c.layouts.rules.shown(held.type)}`"
        raise c.not_supported(what, "go over a range, an array or a ring", clause.source.span)
    root = root_of(clause.source)
    held = c.own(held) if root is not None and changes(c, body, root) else held
    count = added.count(c.layouts, c.b, held.type, held.pointer) if added.count else c.b.const(c.layouts.size(held.type), "i64")
    with c.b.loop(0, count) as i, c.reaching():
        at = added.element(c.layouts, c.b, held.type, held.pointer, i) if added.element else c.b.at(held.pointer, i, proved=True)
        element = c.read(InMemory(element_type(held.type), at))
        with c.scope():
            _bind(c, clause, element)
            _clauses(c, others, body)


def _bind(c: FunctionContext, clause: nodes.ForClause, element: Value) -> None:
    """The names of a clause, for one element."""
    if len(clause.names) == 1:
        c.let(clause.names[0], element)
        return
    for n, name in enumerate(clause.names):
        c.let(name, c.part(element, str(n)))


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
            i = low.value.wrapping_add(i.wrapping_mul(step.value))
        c.let(clause.names[0], ScalarValue(I64, i))
        _clauses(c, others, body)


def rounds(c: FunctionContext, low: Expr, high: Expr, step: ScalarValue, inclusive: bool) -> Expr:
    """How many numbers a range has. A step of 0, and more numbers than 64 bits count, stop."""
    b = c.b
    if step.constant is None or step.constant == 0:
        b.require(step.value != 0, code="0806", message="a range with a step of 0")
    up = step.value > 0
    first, last = low.cast("i128"), high.cast("i128")
    distance = select(up, last.wrapping_sub(first), first.wrapping_sub(last))
    stride = select(up, step.value, step.value.wrapping_neg())
    stride = select(step.value == 0, b.const(1, "i64"), stride).cast("u64")
    there = distance >= 0 if inclusive else distance > 0
    reach = select(there, distance if inclusive else distance.wrapping_sub(1), b.const(0, "i128"))
    whole = reach.cast("u128").quotient(stride, "floor")
    return select(there, whole.narrow("i64").wrapping_add(1), 0)


@CORE.executes(nodes.Break)
def break_(c: FunctionContext, node: nodes.Break) -> None:
    c.b.break_()


@CORE.executes(nodes.Continue)
def continue_(c: FunctionContext, node: nodes.Continue) -> None:
    c.b.continue_()


@CORE.executes(nodes.Return)
def return_(c: FunctionContext, node: nodes.Return) -> None:
    c.leave(c.value(node.value, c.result) if node.value is not None else Whole(UNIT, ()))
