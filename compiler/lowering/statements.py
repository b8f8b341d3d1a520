"""Statements of kernel bodies that are neither loops nor variables: branches, jumps, `yield`, assertions, shared memory."""

from compiler.hir.control import If as HirIf
from compiler.hir.instruction import Region
from compiler.hir.module import FaultSite
from compiler.lowering import custom
from compiler.lowering.arithmetic import form_of
from compiler.lowering.body import Body, fault
from compiler.lowering.conditions import tested, truth
from compiler.lowering.patterns import match_statement
from compiler.lowering.walk import JUMPS, evaluate, executes, forbidden, number, run_block
from compiler.lowering.whole_tensor import require_equal
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.types import DType
from compiler.typed_ast.walk import walk


@executes(nodes.ExpressionStatement)
def _expression(body: Body, statement: nodes.ExpressionStatement, into: DType | None) -> None:
    match statement.value:
        case nodes.If() as branch:
            _if(body, branch, into)
        case nodes.Block() as block:
            run_block(body, block, into)
        case nodes.Match() as node:
            match_statement(body, node, lambda arm: _expression(body, nodes.ExpressionStatement(value=arm, span=arm.span), into))
        case nodes.Call(function=nodes.Name(name="barrier")) as call if body.kind is KernelType.CUSTOM:
            custom.barrier(body, call)
        case nodes.Call(function=nodes.Name(name="barrier")) if body.kind is KernelType.FUSED:
            pass  # the block's statements run one after the other
        case nodes.Call(function=nodes.Name(name="assert")) as call if "assert" not in body.signature.functions:
            _assert(body, call)
        case value:
            evaluate(body, value, into)


@executes(nodes.Yield)
def _yield(body: Body, node: nodes.Yield, into: DType | None) -> None:
    if body.on_yield is None or body.inlining:
        raise fault("0408", "`yield` stands outside a kernel that collects values", node.span)
    body.on_yield(body, node)


@executes(nodes.Break, nodes.Continue)
def _jump(body: Body, statement: nodes.Break | nodes.Continue, into: DType | None) -> None:
    word = "break" if isinstance(statement, nodes.Break) else "continue"
    if not body.here.depth:
        raise fault("0402", f"`{word}` stands outside a loop", statement.span, hint="leave it out, or put it inside a `for` or `while`")
    if word == "break":
        body.build.break_()
    else:
        body.build.continue_()


@executes(nodes.TileVariable)
def _tile(body: Body, statement: nodes.TileVariable, into: DType | None) -> None:
    custom.tile(body, statement)


@executes(nodes.SizeCheck)
def _size_check(body: Body, statement: nodes.SizeCheck, into: DType | None) -> None:
    known = {*body.names.sizes, *body.names.unsolved}
    if any(isinstance(node, nodes.Name) and node.name not in known and body.names.lookup(node.name) is None for node in walk(statement)):
        return  # a size that only this place names is what it must be
    left, right = (form_of(body, number(body, side)) for side in (statement.left, statement.right))
    require_equal(body, left, right, statement.span, statement.text)


@executes(nodes.SharedVariable)
def _shared(body: Body, statement: nodes.SharedVariable, into: DType | None) -> None:
    if body.kind not in (KernelType.CUSTOM, KernelType.FUSED):
        kind = body.kind.value if body.kind else "inferred"
        raise fault(
            "0413",
            f"`shared var` needs a kernel of kind `custom` or `fused`: this one is {kind}",
            statement.span,
            hint="add `@kernel(fused)` or `@kernel(custom)` to the block",
        )
    custom.shared(body, statement)


@executes(nodes.Return)
def _return(body: Body, statement: nodes.Return, into: DType | None) -> None:
    raise forbidden(body, "`return`" if not body.inlining else "`return` inside a loop of a called function", statement)


@executes(nodes.LaterStatement)
def _later(body: Body, statement: nodes.LaterStatement, into: DType | None) -> None:
    raise fault("0109", f"{statement.feature} isn't supported yet in a kernel", statement.span)


@executes(nodes.Render)
def _render(body: Body, statement: nodes.Render, into: DType | None) -> None:
    raise forbidden(body, "`render`", statement)


def _if(body: Body, node: nodes.If, into: DType | None) -> None:
    then, otherwise = node.then, node.otherwise
    condition, bound = tested(body, node.condition)
    construct = body.construct()
    op = HirIf(condition=condition.value, otherwise=None if otherwise is None else Region())
    depth = len(body.here.ranges)
    for branch, (block, region, assumed) in enumerate(((then, op.then, condition.yes), (otherwise, op.otherwise, condition.no))):
        if block is None or region is None:
            continue
        names = {} if branch else bound
        with body.at(body.build.child(region)), body.here.branch(construct, branch, assumed), body.names.within(names):
            run_block(body, block, into)
        del body.here.ranges[depth:]
    body.build.emit(op)
    if otherwise is None and then.statements and isinstance(then.statements[-1], JUMPS):
        body.here.assume(condition.no)


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
    checked = truth(body, condition)
    site = body.site(FaultSite("0808", node.span, "assertion failed" + text))
    with body.spanned(node.span):
        body.build.check(checked.value, code="0808", site=site)
