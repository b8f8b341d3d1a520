"""The walk over a body: the tables that say which rule lowers which expression and which statement, and how rules reach each other
through them. The rules stand in the files that are named after what they lower."""

from collections.abc import Callable, Sequence
from typing import Any

from compiler.hir.affine import Affine
from compiler.lowering.body import Body, Fault, fault
from compiler.lowering.indices import load
from compiler.lowering.numbers import Choice, Nothing, Number, Operand, Record, TensorOperand, Tuple
from compiler.lowering.words import words
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType

ExpressionRule = Callable[[Body, Any, DType | None], Operand]
StatementRule = Callable[[Body, Any, DType | None], None]

Arguments = Sequence[tuple[str | None, Operand]]
"""Values of arguments, each with the name it is given by."""
CallRule = Callable[[Body, Any, Arguments, nodes.Call, DType | None], Operand]

EXPRESSIONS: dict[type[nodes.Node], ExpressionRule] = {}
STATEMENTS: dict[type[nodes.Node], StatementRule] = {}
CALLS: dict[type[nodes.Node], CallRule] = {}

JUMPS = (nodes.Break, nodes.Continue)


def lowers(*classes: type[nodes.Node]) -> Callable[[ExpressionRule], ExpressionRule]:
    """Makes the function the rule for these expressions: `(body, node, into) -> operand`."""

    def register(rule: ExpressionRule) -> ExpressionRule:
        EXPRESSIONS.update(dict.fromkeys(classes, rule))
        return rule

    return register


def executes(*classes: type[nodes.Node]) -> Callable[[StatementRule], StatementRule]:
    """Makes the function the rule for these statements: `(body, node, into) -> None`."""

    def register(rule: StatementRule) -> StatementRule:
        STATEMENTS.update(dict.fromkeys(classes, rule))
        return rule

    return register


def calls(declared: type[nodes.Node]) -> Callable[[CallRule], CallRule]:
    """Makes the function the rule for calls of what is declared so: `(body, declaration, arguments, call, into) -> operand`."""

    def register(rule: CallRule) -> CallRule:
        CALLS[declared] = rule
        return rule

    return register


# ---- expressions -------------------------------------------------------------------------------------------------------


def evaluate(body: Body, node: nodes.Expression, into: DType | None = None) -> Operand:
    """What the expression is. `into`: the type of the sum that it goes into, in which narrower numbers are computed; None: into none."""
    rule = EXPRESSIONS.get(type(node))
    if rule is None:
        raise not_in_kernel(body, node)
    with body.spanned(node.span):
        return rule(body, node, into)


def call(body: Body, function: nodes.Function, arguments: Arguments, node: nodes.Call, into: DType | None = None) -> Operand:
    """What a function of the program gives for these values."""
    return CALLS[type(function)](body, function, arguments, node, into)


def number(body: Body, node: nodes.Expression, into: DType | None = None) -> Number:
    """The expression as a number; anything else is an error."""
    return as_number(body, _one(body, node, into), node)


def value(body: Body, node: nodes.Expression, into: DType | None = None) -> Operand:
    """The expression as a number, or as a tuple, struct or enum of numbers; anything else is an error."""
    return as_value(body, _one(body, node, into), node)


def _one(body: Body, node: nodes.Expression, into: DType | None) -> Operand:
    operand = evaluate(body, node, into)
    if isinstance(operand, TensorOperand) and body.here.element is not None:
        element = _element(body, operand, body.here.element, node, into)
        return operand if element is None else element
    return operand


def as_value(body: Body, operand: Operand, node: nodes.Expression) -> Operand:
    """What an expression has come to as a value of numbers; anything else is an error."""
    composite = isinstance(operand, Record | Choice) or (isinstance(operand, Tuple) and not operand.counts)
    whole = isinstance(operand, TensorOperand) and body.memories[operand.name].role == "array"
    return operand if composite or whole else as_number(body, operand, node)


def as_number(body: Body, operand: Operand, node: nodes.Expression) -> Number:
    """What an expression has come to as a number; anything else is an error."""
    if isinstance(operand, Number):
        return operand
    if isinstance(operand, Tuple) and operand.counts and isinstance(operand.elements[0], Number):
        return operand.elements[0]
    if isinstance(operand, TensorOperand):
        memory = body.memories[operand.name]
        rank, hint = len(memory.dims), f"index it: `{words(node)}[{', '.join('ijklmn'[: len(memory.dims)])}]`"
        if memory.role == "array":
            hint = "bind it to a name, and index that" if isinstance(node, nodes.ListLiteral | nodes.Repeat) else hint
            raise fault("0203", f"`{words(node)}` is an array where a number is needed", node.span, "a whole array", hint)
        raise fault(
            "0203",
            f"`{words(node)}` is a tensor of {rank} {'axis' if rank == 1 else 'axes'} where a number is needed",
            node.span,
            "a whole tensor",
            hint,
        )
    kind = "a tuple" if isinstance(operand, Tuple) else f"a `{operand.name}`" if isinstance(operand, Record | Choice) else "no value"
    raise fault("0203", f"`{words(node)}` is {kind} where a number is needed", node.span)


def _element(body: Body, tensor: TensorOperand, index: tuple[Affine, ...], node: nodes.Expression, into: DType | None) -> Number | None:
    """A whole tensor where a number is needed: its element at the index of the nest around, axes aligned from the last."""
    memory = body.memories[tensor.name]
    if len(memory.dims) > len(index):
        return None
    own = index[len(index) - len(memory.dims) :]
    forms = tuple(Affine() if dim.value == 1 else form for form, dim in zip(own, memory.dims, strict=True))
    return load(body, memory, forms, node, (), into)


# ---- statements --------------------------------------------------------------------------------------------------------


def run(body: Body, statement: nodes.Statement, into: DType | None = None) -> None:
    """One statement; of a block that is a value, `into` is the sum that the value goes into."""
    rule = STATEMENTS.get(type(statement))
    if rule is None:
        raise forbidden(body, "a declaration" if isinstance(statement, nodes.Declaration) else "this statement", statement)
    rule(body, statement, into)


def run_all(body: Body, statements: tuple[nodes.Statement, ...], into: DType | None = None) -> None:
    """Statements one after the other: an error in one is reported, and the next one goes on; names that a broken statement would have
    bound stay silent."""
    for statement in statements:
        with body.spanned(statement.span):
            try:
                run(body, statement, into)
            except Fault as error:
                if error.diagnostic.code:
                    body.report(error.diagnostic)
                if isinstance(statement, nodes.Let):
                    for name in _names_of(statement.pattern):
                        body.names.poison(name, statement.span)
        if isinstance(statement, JUMPS):
            return


def _names_of(pattern: nodes.Pattern) -> list[str]:
    match pattern:
        case nodes.BindingPattern(name=name):
            return [name]
        case nodes.TuplePattern(elements=elements):
            return [name for element in elements for name in _names_of(element)]
        case _:
            return []


def run_block(body: Body, block: nodes.Block, into: DType | None = None) -> None:
    """The block for its effects."""
    with body.names.scope():
        run_all(body, block.statements, into)


@lowers(nodes.Block)
def block_value(body: Body, block: nodes.Block, into: DType | None = None) -> Operand:
    """The block as an expression: the value of its last expression statement."""
    with body.names.scope():
        *before, last = block.statements or (None,)
        for statement in before:
            assert statement is not None
            run(body, statement, into)
        if isinstance(last, nodes.ExpressionStatement):
            return evaluate(body, last.value, into)
        if last is not None:
            run(body, last, into)
        return Nothing()


# ---- what kernels don't know -------------------------------------------------------------------------------------------

_CONSTRUCTS: tuple[tuple[type[nodes.Node] | tuple[type[nodes.Node], ...], str], ...] = (
    ((nodes.StringLiteral, nodes.FString), "a string"),
    (nodes.Comprehension, "a list"),
    (nodes.DictLiteral, "a map"),
    (nodes.Lambda, "a lambda"),
    (nodes.Range, "a range as a value"),
    (nodes.UnitNumber, "a number with a unit"),
    (nodes.Compute, "a `compute` block inside a kernel"),
    ((nodes.Try, nodes.Propagate), "an error handler"),
    (nodes.Path, "a name with `::`"),
    (nodes.Await, "`await`"),
    (nodes.Stream, "a stream"),
)


def not_in_kernel(body: Body, node: nodes.Node) -> Exception:
    """0410: what the construct is, and through which calls it was reached."""
    construct = next((text for kinds, text in _CONSTRUCTS if isinstance(node, kinds)), "this construct")
    if isinstance(node, nodes.LaterExpression):
        construct = node.feature
    return forbidden(body, construct, node)


def forbidden(body: Body, construct: str, node: nodes.Node) -> Exception:
    chain = " -> ".join(f"`{name}`" for name, _ in body.inlining)
    notes = (f"reached through {chain}",) if chain else ()
    return fault(
        "0410", f"{construct} can't stand in a kernel", node.span, hint="compute it before the block and pass the numbers in", notes=notes
    )
