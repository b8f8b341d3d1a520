"""Loops over numbers in code that runs on Python, and the functions that can go on with them natively, from one of their turns on: what a
loop reads becomes parameters, what it assigns the result."""

from collections.abc import Iterator

from compiler.typed_ast import nodes
from compiler.typed_ast.bound_names import bindings, bound_names
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.free_names import names_from_outside
from compiler.typed_ast.specialise import SIGN
from compiler.typed_ast.types import I64, DType, Scalar, TupleType, Type
from compiler.typed_ast.walk import parts, walk
from runtime.records import evolve, frozen

FROM, LAST = f"from{SIGN}", f"last{SIGN}"
"""Parameters of a loop that counts: the number that it goes on with, and the last one."""

_NATIVE = (
    nodes.Name, nodes.IntLiteral, nodes.FloatLiteral, nodes.BoolLiteral, nodes.Binary, nodes.Unary, nodes.Conditional,
    nodes.Call, nodes.Argument, nodes.Cast, nodes.TypeSyntax, nodes.ExpressionStatement, nodes.Let, nodes.BindingPattern, nodes.Assign,
    nodes.If, nodes.Block, nodes.While, nodes.For, nodes.ForClause, nodes.Range, nodes.Break, nodes.Continue,
)  # fmt: skip
_NUMBERS = frozenset(DType) - {DType.F16, DType.BF16}


@frozen
class HotLoop:
    """A loop, and the `function` that goes on with it. `taken`: the variables that it takes; `left`: those that it assigns, in the order of
    its results; `counts`: it takes FROM and LAST before all others."""

    function: nodes.Function
    taken: tuple[str, ...]
    left: tuple[str, ...]
    counts: bool


def with_hot_loops(program: nodes.Program) -> tuple[nodes.Program, dict[int, HotLoop]]:
    """The program with these functions, and the loops by the identities of their nodes. `program` has its types, and no errors."""
    if any(isinstance(node, nodes.Await) or (isinstance(node, nodes.Function) and node.is_async) for node in walk(program)):
        return program, {}  # what runs beside a loop may look at its variables
    bound = bound_names(program)
    found: dict[int, HotLoop] = {}
    for statement in program.statements:
        for loop in _loops(statement):
            hot = _hot(loop, f"loop{SIGN}{len(found) + 1}", bound)
            if hot is not None:
                found[id(loop)] = hot
    if not found:
        return program, found
    return evolve(program, statements=(*(hot.function for hot in found.values()), *program.statements)), found


def _loops(statement: nodes.Statement) -> Iterator[nodes.While | nodes.For]:
    """Those that Python runs. Behind a `try` a program could see variables as they were when something failed; a function of numbers alone
    is native as a whole."""
    waiting: list[nodes.Node] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, nodes.Try | nodes.Compute | nodes.Lambda):
            continue
        if isinstance(node, nodes.Function) and (node.type_parameters or node.body is None or _is_native(node.body)):
            continue
        if isinstance(node, nodes.While | nodes.For):
            yield node
        waiting += parts(node)


def _is_native(body: nodes.Block) -> bool:
    return all(isinstance(node, (*_NATIVE, nodes.Return)) for node in walk(body)) and not any(
        isinstance(node, nodes.Call) and not node.callee and isinstance(node.function, nodes.Name) and node.function.name in _SHOWING
        for node in walk(body)
    )


_SHOWING = ("print", "println", "eprint", "eprintln")


def _hot(loop: nodes.While | nodes.For, name: str, bound: frozenset[str]) -> HotLoop | None:
    """None for a loop that does more than to compute numbers, or whose numbers have no known types."""
    rest = _rest(loop)
    inside = list(walk(loop))
    if rest is None or not all(isinstance(node, _NATIVE) for node in inside):
        return None
    if any(isinstance(node, nodes.Let) and node.value is None for node in inside):
        return None
    called = [node.function for node in inside if isinstance(node, nodes.Call)]
    if any(not isinstance(one, nodes.Name) or one.name in bound or one.name in _SHOWING for one in called):
        return None
    calls = {id(one) for one in called}
    outside = set(names_from_outside(loop))
    free = [node for node in inside if isinstance(node, nodes.Name) and id(node) not in calls and node.name in outside]
    if outside & set(bindings(inside)):
        return None
    types: dict[str, Type] = {}
    for node in free:
        type_ = strong(node.type)
        if types.setdefault(node.name, type_) != type_ or not isinstance(type_, Scalar) or type_.dtype not in _NUMBERS:
            return None
    targets = {node.target.name for node in inside if isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Name)}
    if any(isinstance(node, nodes.Assign) and not isinstance(node.target, nodes.Name) for node in inside):
        return None
    left = tuple(name for name in types if name in targets)
    if not left:
        return None
    counts = isinstance(loop, nodes.For)
    return HotLoop(_function(name, rest, types, left, counts), tuple(types), left, counts)


def _rest(loop: nodes.While | nodes.For) -> nodes.While | nodes.For | None:
    """What is left of a loop at one of its turns; None where that isn't a loop of the same kind."""
    if isinstance(loop, nodes.While):
        return evolve(loop) if loop.bound is None else None
    first, *others = loop.clauses
    if loop.annotations or len(first.names) != 1 or not all(isinstance(clause.source, nodes.Range) for clause in loop.clauses):
        return None
    source = first.source
    assert isinstance(source, nodes.Range)
    if source.step is not None and not (isinstance(source.step, nodes.IntLiteral) and source.step.value > 0):
        return None
    low, high = (nodes.Name(name=name, type=I64, span=source.span) for name in (FROM, LAST))
    if any(strong(bound.type) != I64 for bound in (source.low, source.high)):
        return None
    return evolve(loop, clauses=(evolve(first, source=evolve(source, low=low, high=high, inclusive=True)), *others))


def _function(
    name: str, rest: nodes.While | nodes.For, types: dict[str, Type], left: tuple[str, ...], counts: bool
) -> nodes.Function:
    span = rest.span
    own = {FROM: I64, LAST: I64} if counts else {}
    parameters = tuple(
        nodes.Parameter(name=each, annotation=_syntax(type_), mutable=each in left, span=span) for each, type_ in {**own, **types}.items()
    )
    values: list[nodes.Expression] = [nodes.Name(name=each, type=types[each], span=span) for each in left]
    value, result = values[0], _syntax(types[left[0]])
    if len(left) > 1:
        value = nodes.TupleLiteral(elements=tuple(values), type=TupleType(tuple(types[each] for each in left)), span=span)
        result = nodes.TupleTypeSyntax(elements=tuple(_syntax(types[each]) for each in left))
    body = nodes.Block(statements=(rest, nodes.ExpressionStatement(value=value, span=span)), type=value.type, span=span)
    return nodes.Function(name=name, name_span=span, parameters=parameters, result=result, body=body, span=span)


def _syntax(type_: Type) -> nodes.TypeSyntax:
    assert isinstance(type_, Scalar)
    return nodes.NamedTypeSyntax(name=type_.dtype.value)
