"""Statements of kernel bodies: loops, branches, variables, writes. Each is lowered on its own: an error in one is reported and
the next one goes on; names that a broken statement would have bound stay silent."""

from collections.abc import Callable

from compiler.diagnostics import Label
from compiler.hir.affine import Affine
from compiler.hir.control import If as HirIf
from compiler.hir.control import While as HirWhile
from compiler.hir.instruction import Region
from compiler.hir.module import FaultSite
from compiler.lowering.arithmetic import form_of
from compiler.lowering.body import Body, Fault, fault
from compiler.lowering.expressions import (
    choose,
    evaluate,
    forbidden,
    number,
    truth,
)
from compiler.lowering.numbers import Nothing, Number, Operand, affine
from compiler.lowering.ranges import Range, loop_range
from compiler.lowering.variables import assign, declare
from compiler.lowering.words import words
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import KernelType

Inside = Callable[[], None]
_JUMPS = (nodes.Break, nodes.Continue)
_MOST_BRANCHES = 1000


def run_statements(body: Body, block: nodes.Block) -> None:
    """The block for its effects."""
    with body.scope():
        run_all(body, block.statements)


def run_all(body: Body, statements: tuple[nodes.Statement, ...]) -> None:
    for statement in statements:
        with body.spanned(statement.span):
            try:
                run(body, statement)
            except Fault as found:
                if found.diagnostic.code:
                    body.report(found.diagnostic)
                _poison(body, statement)
        if isinstance(statement, _JUMPS):
            return


def _poison(body: Body, statement: nodes.Statement) -> None:
    if isinstance(statement, nodes.Let):
        for name in _names_of(statement.pattern):
            body.bind(name, Nothing(), statement.span, "poison")


def _names_of(pattern: nodes.Pattern) -> list[str]:
    match pattern:
        case nodes.BindingPattern(name=name):
            return [name]
        case nodes.TuplePattern(elements=elements):
            return [name for element in elements for name in _names_of(element)]
        case _:
            return []


def block_value(body: Body, block: nodes.Block) -> Operand:
    """The block as an expression: the value of its last expression statement."""
    with body.scope():
        *before, last = block.statements or (None,)
        for statement in before:
            assert statement is not None
            run(body, statement)
        if isinstance(last, nodes.ExpressionStatement):
            return evaluate(body, last.value)
        if last is not None:
            run(body, last)
        return Nothing()


def run(body: Body, statement: nodes.Statement) -> None:
    match statement:
        case nodes.For():
            if body.on_for is None or not body.on_for(body, statement):
                run_for(body, statement)
        case nodes.Let():
            declare(body, statement)
        case nodes.Assign():
            assign(body, statement)
        case nodes.ExpressionStatement(value=value):
            _expression(body, value)
        case nodes.Yield():
            if body.on_yield is None or body.inlining:
                raise fault("0408", "`yield` stands outside a kernel that collects values", statement.span)
            body.on_yield(body, statement)
        case nodes.While(condition=condition, body=block):
            _while(body, condition, block)
        case nodes.Break():
            _jump(body, statement, "break")
        case nodes.Continue():
            _jump(body, statement, "continue")
        case nodes.SharedVariable():
            handler = body.extra.get("shared")
            if handler is None:
                kind = body.kind.value if body.kind else "inferred"
                raise fault(
                    "0413",
                    f"`shared var` needs a kernel of kind `custom` or `fused`: this one is {kind}",
                    statement.span,
                    hint="add `@kernel(fused)` or `@kernel(custom)` to the block",
                )
            handler(body, statement)
        case nodes.Return():
            raise forbidden(body, "`return`" if not body.inlining else "`return` inside a loop of a called function", statement)
        case nodes.LaterStatement(feature=feature):
            raise fault("0109", f"{feature} isn't supported yet in a kernel", statement.span)
        case nodes.Render():
            raise forbidden(body, "`render`", statement)
        case nodes.Declaration():
            raise forbidden(body, "a declaration", statement)
        case _:
            raise forbidden(body, "this statement", statement)


def _jump(body: Body, statement: nodes.Statement, word: str) -> None:
    if not body.extra.get("loop_depth"):
        raise fault("0402", f"`{word}` stands outside a loop", statement.span, hint="leave it out, or put it inside a `for` or `while`")
    if word == "break":
        body.build.break_()
    else:
        body.build.continue_()


# ---- loops -------------------------------------------------------------------------------------------------------------


def run_for(body: Body, node: nodes.For, clause: int = 0) -> None:
    """The loops of the statement's clauses, outermost first, then its body."""
    if clause == len(node.clauses):
        run_statements(body, node.body)
        return
    one = node.clauses[clause]
    try:
        low, high, step = loop_bounds(body, one)
    except Fault as found:
        if found.diagnostic.code:
            body.report(found.diagnostic)
        with body.scope():
            body.bind(one.names[0], Nothing(), one.span, "poison")
            run_for(body, node, clause + 1)
        return
    marks = loop_marks(body, node) if clause == 0 else {}
    enter_loop(body, one, low, high, step, lambda: run_for(body, node, clause + 1), has_jump(node.body), marks)


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
            what = "0" if constant == 0 else f"`{words(source.step)}`, which isn't constant"
            raise fault("0203", f"the step of a kernel's loop must be a constant other than 0: it is {what}", source.step.span)
        step = constant
    if source.inclusive:
        high = high + (1 if step > 0 else -1)
    return low, high, step


def _bound(body: Body, node: nodes.Expression) -> Affine:
    with body.sizing(node):
        found = number(body, node)
    if not found.dtype.is_int:
        raise fault(
            "0203", f"a loop's bound must be an int: `{words(node)}` is {found.shown}", node.span, hint=f"write `({words(node)}) as i64`"
        )
    return form_of(body, found)


def enter_loop(
    body: Body, clause: nodes.ForClause, low: Affine, high: Affine, step: int, inside: Inside, jumps: bool, marks: dict[str, object]
) -> None:
    """A loop around what `inside` emits."""
    if step == 0:
        body.extra["dynamic_loop"](body, clause, low, high, inside)
        return
    name = clause.names[0]
    with body.build.loop(name, low, high, step, (), "time", **marks) as (inner, handle):
        if handle.variable.name != name:
            handle.op.marks = (*handle.op.marks, ("written", name))
        one = loop_range(handle.variable.name, low, high, step)
        with body.at(inner), body.scope(), ranged(body, clause, one):
            if jumps:
                with body.branch(body.construct(), 0):
                    inside()
            else:
                inside()


class ranged:
    """While inside, the loop's variable is bound and its range known."""

    def __init__(self, body: Body, clause: nodes.ForClause, one: Range, form: Affine | None = None) -> None:
        self.body, self.clause, self.one, self.form = body, clause, one, form

    def __enter__(self) -> None:
        body, span = self.body, (self.clause.name_spans or (self.clause.span,))[0]
        self.mark, self.depth, self.guards = body.facts.mark(), len(body.ranges), len(body.guards)
        body.enter_range(self.one)
        body.loops.append((self.clause.names[0], self.one))
        body.bind(self.clause.names[0], affine(Affine.of(self.one.name) if self.form is None else self.form), span, "a loop variable")
        body.extra["loop_depth"] = body.extra.get("loop_depth", 0) + 1

    def __exit__(self, *_: object) -> None:
        body = self.body
        body.facts.forget(self.mark)
        del body.ranges[self.depth :]
        del body.guards[self.guards :]
        body.loops.pop()
        body.extra["loop_depth"] -= 1


_LOOP_MARKS = ("unroll", "vectorize", "parallel", "serial")


def loop_marks(body: Body, node: nodes.For) -> dict[str, object]:
    marks: dict[str, object] = {}
    for annotation in node.annotations:
        if annotation.name not in _LOOP_MARKS:
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
            case _:
                pass
    return False


def _while(body: Body, condition: nodes.Expression, block: nodes.Block) -> None:
    op = HirWhile(before=Region(), body=Region())
    mark = body.facts.mark()
    with body.at(body.build.child(op.before)), body.branch(body.construct(), 0):
        found = truth(body, condition)
        body.build.condition(found.value)
    depth = len(body.ranges)
    with body.at(body.build.child(op.body)), body.branch(body.construct(), 0, found.yes):
        body.extra["loop_depth"] = body.extra.get("loop_depth", 0) + 1
        run_statements(body, block)
        body.extra["loop_depth"] -= 1
    del body.ranges[depth:]
    body.facts.forget(mark)
    body.build.emit(op)


# ---- branches ----------------------------------------------------------------------------------------------------------


def _expression(body: Body, node: nodes.Expression) -> None:
    match node:
        case nodes.If(condition=condition, then=then, otherwise=otherwise):
            _if(body, condition, then, otherwise)
        case nodes.Block():
            run_statements(body, node)
        case nodes.Call(function=nodes.Name(name="barrier")) if body.kind in (KernelType.FUSED, KernelType.CUSTOM):
            body.extra["barrier"](body, node)
        case nodes.Call(function=nodes.Name(name="assert")) if "assert" not in body.signature.functions:
            _assert(body, node)
        case _:
            evaluate(body, node)


def _assert(body: Body, node: nodes.Call) -> None:
    """`assert(condition, "text")`: a check of each turn, as those of indices are."""
    match [argument.value for argument in node.arguments]:
        case [condition]:
            text = ""
        case [condition, nodes.StringLiteral(value=written)]:
            text = ": " + written.replace("{", "{{").replace("}", "}}")
        case _:
            hint = 'write `assert(condition, "text")`'
            raise fault("0204", "`assert` in a kernel takes a condition and a text", node.span, hint=hint)
    found = truth(body, condition)
    site = body.site(FaultSite("0808", node.span, "assertion failed" + text))
    with body.spanned(node.span):
        body.build.check(found.value, code="0808", site=site)


def _if(body: Body, condition: nodes.Expression, then: nodes.Block, otherwise: nodes.Block | None) -> None:
    found = truth(body, condition)
    construct = body.construct()
    op = HirIf(condition=found.value, otherwise=None if otherwise is None else Region())
    depth = len(body.ranges)
    for branch, (block, region, assumed) in enumerate(((then, op.then, found.yes), (otherwise, op.otherwise, found.no))):
        if block is None or region is None:
            continue
        with body.at(body.build.child(region)), body.branch(construct, branch, assumed):
            run_statements(body, block)
        del body.ranges[depth:]
    body.build.emit(op)
    if otherwise is None and then.statements and isinstance(then.statements[-1], _JUMPS):
        body.assume(found.no)


# ---- functions ---------------------------------------------------------------------------------------------------------


def function_value(body: Body, function: nodes.Function) -> Operand:
    """The body of a called function as a value; `return` may stand last on each way through it."""
    assert function.body is not None
    return _tail(body, function.body.statements, function)


def _tail(body: Body, statements: tuple[nodes.Statement, ...], function: nodes.Function) -> Operand:
    for place, statement in enumerate(statements):
        rest = statements[place + 1 :]
        match statement:
            case nodes.Return(value=value):
                return Nothing() if value is None else evaluate(body, value)
            case nodes.ExpressionStatement(value=nodes.If() as branch) if not rest or _returns(branch):
                otherwise = branch.otherwise.statements if branch.otherwise is not None else ()
                return _choose_tail(body, branch, branch.then.statements, otherwise, rest, function)
            case nodes.ExpressionStatement(value=value) if not rest and not _is_assert(value):
                return evaluate(body, value)
            case _:
                run(body, statement)
    return Nothing()


def _is_assert(value: nodes.Expression) -> bool:
    return isinstance(value, nodes.Call) and isinstance(value.function, nodes.Name) and value.function.name == "assert"


def _choose_tail(
    body: Body,
    branch: nodes.If,
    then: tuple[nodes.Statement, ...],
    otherwise: tuple[nodes.Statement, ...],
    rest: tuple[nodes.Statement, ...],
    function: nodes.Function,
) -> Operand:
    body.calls += 1
    if body.calls > _MOST_BRANCHES:
        raise fault(
            "0410",
            f"`{function.name}` returns on too many ways to be written out in place",
            branch.span,
            hint="give it one `return`, at its end",
        )

    def side(first: tuple[nodes.Statement, ...]) -> Number:
        with body.scope():
            found = _tail(body, (*first, *rest), function)
        if not isinstance(found, Number):
            raise fault(
                "0209", f"`{function.name}` gives no number on this path", branch.span, others=(Label(function.name_span, "declared here"),)
            )
        return found

    return choose(body, branch.condition, lambda: side(then), lambda: side(otherwise), branch)


def _returns(branch: nodes.If) -> bool:
    blocks = [branch.then, *([branch.otherwise] if branch.otherwise is not None else [])]
    return any(
        isinstance(statement, nodes.Return)
        or (isinstance(statement, nodes.ExpressionStatement) and isinstance(statement.value, nodes.If) and _returns(statement.value))
        for block in blocks
        for statement in block.statements
    )
