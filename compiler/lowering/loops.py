"""Loops of kernel bodies: `for` over ranges of ints, `while`, and what is known of their variables inside."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from compiler.hir.affine import Affine
from compiler.hir.control import While as HirWhile
from compiler.hir.instruction import Region
from compiler.lowering import arrays
from compiler.lowering.arithmetic import form_of
from compiler.lowering.body import Body, Fault, fault
from compiler.lowering.conditions import truth
from compiler.lowering.elements import array_named
from compiler.lowering.numbers import TensorOperand, affine, index_value
from compiler.lowering.ranges import NumberRange, loop_range
from compiler.lowering.walk import executes, number, run_block
from compiler.lowering.words import words
from compiler.typed_ast import nodes
from compiler.typed_ast.annotations import same
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.types import DType
from compiler.typed_ast.walk import walk
from runtime.records import evolve

Inside = Callable[[], None]


@executes(nodes.For)
def _for(body: Body, node: nodes.For, into: DType | None) -> None:
    for loop in (part for part in walk(node) if isinstance(part, nodes.For)):
        for position, clause in enumerate(loop.clauses if loop.annotations else ()):
            body.marks[clause.span] = _loop_marks(body, loop, position)
    node = _over_elements(body, node)
    if body.on_for is None or not body.on_for(body, node):
        _clauses(body, _bounded_by_one(body, node), 0, into)


def _over_elements(body: Body, node: nodes.For) -> nodes.For:
    """`for v in a` of an array as `for v_at in 0..4` around `let v = a[v_at]`; `a` as it is when the loop begins."""
    match node.clauses:
        case (nodes.ForClause(names=(name,), source=nodes.Name(name=owner) as source) as clause,):
            array = array_named(body, owner)
            if array is None or len(array.dims) != 1:
                return node
            used = {part.name for part in walk(node) if isinstance(part, nodes.Name)}
            at = next(found for number in count() if (found := f"{name}_at{number or ''}") not in used)
            whole, span = f"{name} of", clause.span
            body.names.bind(whole, arrays.copied(body, TensorOperand(array.name), source.span), source.span, "a `let`")
            element = nodes.Index(value=nodes.Name(name=whole, span=source.span), indices=(nodes.Name(name=at, span=span),), span=span)
            taken = nodes.Let(pattern=nodes.BindingPattern(name=name, span=span), value=element, span=span)
            ends = (nodes.IntLiteral(value=end, suffix=None, span=source.span) for end in (0, array.dims[0].value or 0))
            low, high = ends
            over = evolve(clause, names=(at,), source=nodes.Range(low=low, high=high, step=None, inclusive=False, span=source.span))
            return evolve(node, clauses=(over,), body=evolve(node.body, statements=(taken, *node.body.statements)))
    return node


def _bounded_by_one(body: Body, node: nodes.For) -> nodes.For:
    """`for q in i..min(i + 4, N)` as `for q in i..i + 4` with `if q < N` around its body: a range with one affine end."""
    last = node.clauses[-1]
    match last:
        case nodes.ForClause(
            names=(name,),
            source=nodes.Range(
                low=low,
                high=nodes.Call(
                    function=nodes.Name(name="min"), arguments=(nodes.Argument(name=None, value=a), nodes.Argument(name=None, value=b))
                ) as high,
                step=None,
                inclusive=inclusive,
            ) as source,
        ) if body.kind is not KernelType.CUSTOM and "min" not in body.signature.functions and body.names.lookup("min") is None:
            moved = [isinstance(end, nodes.Binary) and end.operator == "+" and same(end.left, low) for end in (a, b)]
            if not any(moved):
                return node
            bound, limit = (a, b) if moved[0] else (b, a)
            span = high.span
            variable = nodes.Name(name=name, span=span)
            condition = nodes.Binary(operator="<=" if inclusive else "<", left=variable, right=limit, span=span, operator_span=span)
            guarded = nodes.ExpressionStatement(value=nodes.If(condition=condition, then=node.body, span=span), span=node.body.span)
            clause = evolve(last, source=evolve(source, high=bound))
            return evolve(node, clauses=(*node.clauses[:-1], clause), body=evolve(node.body, statements=(guarded,)))
    return node


def _clauses(body: Body, node: nodes.For, clause: int, into: DType | None) -> None:
    """The loops of the statement's clauses from this one on, outermost first, then its body."""
    if clause == len(node.clauses):
        run_block(body, node.body, into)
        return
    each = node.clauses[clause]
    try:
        low, high, step = loop_bounds(body, each)
    except Fault as error:
        if error.diagnostic.code:
            body.report(error.diagnostic)
        with body.names.scope():
            body.names.poison(each.names[0], each.span)
            _clauses(body, node, clause + 1, into)
        return
    _enter_loop(body, each, low, high, step, lambda: _clauses(body, node, clause + 1, into), has_jump(node.body))


def loop_bounds(body: Body, clause: nodes.ForClause) -> tuple[Affine, Affine, int]:
    """Low, high (exclusive) and step of a loop's range."""
    source = clause.source
    if not isinstance(source, nodes.Range) or len(clause.names) != 1:
        raise fault(
            "0410",
            f"a kernel loops over ranges of ints, not over `{words(source)}`",
            source.span,
            hint=f"write `for {clause.names[0]} in 0..N`",
        )
    low, high = _bound(body, source.low), _bound(body, source.high)
    step = 1
    if source.step is not None:
        constant = number(body, source.step).constant
        if body.kind is KernelType.CUSTOM and constant is None:
            return low, high, 0
        if constant is None or constant == 0:
            words_ = "0" if constant == 0 else f"`{words(source.step)}`, which isn't constant"
            raise fault("0203", f"the step of a kernel's loop must be a constant other than 0: it is {words_}", source.step.span)
        step = constant
    if source.inclusive:
        high = high + (1 if step > 0 else -1)
    return low, high, step


def _bound(body: Body, node: nodes.Expression) -> Affine:
    with body.here.sizing(node):
        bound = number(body, node)
    if not bound.dtype.is_int:
        raise fault(
            "0203", f"a loop's bound must be an int: `{words(node)}` is {bound.shown}", node.span, hint=f"write `({words(node)}) as i64`"
        )
    return form_of(body, bound)


def _enter_loop(body: Body, clause: nodes.ForClause, low: Affine, high: Affine, step: int, inside: Inside, jumps: bool) -> None:
    """A loop around what `inside` emits."""
    if step == 0:
        _strided_loop(body, clause, low, high, inside)
        return
    name = clause.names[0]
    with body.build.loop(name, low, high, step, (), "time", **body.marks.get(clause.span, {})) as (inner, handle):
        if handle.variable.name != name:
            handle.op.marks = (*handle.op.marks, ("written", name))
        range_ = loop_range(handle.variable.name, low, high, step)
        with body.at(inner), body.names.scope(), ranged(body, clause, range_):
            if jumps:
                with body.here.branch(body.construct(), 0):
                    inside()
            else:
                inside()


@contextmanager
def ranged(body: Body, clause: nodes.ForClause, range_: NumberRange, form: Affine | None = None) -> Iterator[None]:
    """While inside, the loop's variable is bound and its range known."""
    span = (clause.name_spans or (clause.span,))[0]
    mark, depth, guards = body.here.facts.mark(), len(body.here.ranges), len(body.here.guards)
    body.here.enter_range(range_)
    body.here.loops.append((clause.names[0], range_))
    body.names.bind(clause.names[0], affine(Affine.of(range_.name) if form is None else form), span, "a loop variable")
    body.here.depth += 1
    try:
        yield
    finally:
        body.here.facts.forget(mark)
        del body.here.ranges[depth:]
        del body.here.guards[guards:]
        body.here.loops.pop()
        body.here.depth -= 1


def _loop_marks(body: Body, node: nodes.For, clause: int) -> dict[str, object]:
    """What the statement's annotations say of the loop of one of its clauses: all of them are serial or parallel, the innermost is written
    out or made of vectors."""
    marks: dict[str, object] = {}
    for annotation in node.annotations:
        if annotation.name in ("unroll", "vectorize") and clause != len(node.clauses) - 1:
            continue
        constant = number(body, annotation.arguments[0].value).constant if annotation.arguments else None
        marks[annotation.name] = constant if constant is not None else True
    return marks


def has_jump(block: nodes.Block) -> bool:
    """Whether a `break` or `continue` of the loop around the block stands in it."""
    for statement in block.statements:
        match statement:
            case nodes.Break() | nodes.Continue():
                return True
            case nodes.ExpressionStatement(value=nodes.If() as branch):
                if has_jump(branch.then) or (branch.otherwise is not None and has_jump(branch.otherwise)):
                    return True
            case nodes.ExpressionStatement(value=nodes.Block() as inner):
                if has_jump(inner):
                    return True
            case nodes.ExpressionStatement(value=nodes.Match(arms=arms)):
                if any(isinstance(arm.body, nodes.Block) and has_jump(arm.body) for arm in arms):
                    return True
            case _:
                pass
    return False


def _strided_loop(body: Body, clause: nodes.ForClause, low: Affine, high: Affine, inside: Inside) -> None:
    """`for p in lo..hi step s` with s from the grid: a loop over q, p = lo + q * s."""
    source = clause.source
    assert isinstance(source, nodes.Range) and source.step is not None
    build = body.build
    unit = build.const(1, "index")
    step = build.op("max", index_value(build, number(body, source.step)), unit)
    reach = build.add(build.sub(build.index(high), build.index(low)), build.sub(step, unit))
    if source.inclusive:
        reach = build.add(reach, unit)
    count = build.op("div", build.op("max", reach, build.const(0, "index")), step)
    body.here.opaque.add(count.name)
    with build.loop("turn", 0, count.name, strided=True) as (inner, handle):
        turns = loop_range(handle.variable.name, Affine(), Affine.of(count.name), 1)
        with body.at(inner), body.names.scope(), body.here.branch(body.construct(), 0):
            position = inner.add(build.index(low), inner.mul(inner.index(handle.variable.name), step))
            body.here.opaque.add(position.name)
            form = Affine.of(position.name)
            with ranged(body, clause, turns, form):
                body.here.assume((form - low, high - 1 - form))
                inside()


@executes(nodes.While)
def _while(body: Body, node: nodes.While, into: DType | None) -> None:
    op = HirWhile(before=Region(), body=Region())
    mark = body.here.facts.mark()
    with body.at(body.build.child(op.before)), body.here.branch(body.construct(), 0):
        condition = truth(body, node.condition)
        body.build.condition(condition.value)
    depth = len(body.here.ranges)
    with body.at(body.build.child(op.body)), body.here.branch(body.construct(), 0, condition.yes):
        body.here.depth += 1
        run_block(body, node.body, into)
        body.here.depth -= 1
    del body.here.ranges[depth:]
    body.here.facts.forget(mark)
    body.build.emit(op)
