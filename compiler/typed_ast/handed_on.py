"""Compute blocks whose value a later block reads before anything else looks at it: what may become part of that block's kernel. Read off
the tree of a program alone; whether it is worth it, fields decide."""

from collections.abc import Iterator, Sequence

from compiler.typed_ast import nodes
from compiler.typed_ast.free_names import captured_names, names_from_outside
from compiler.typed_ast.types import Scalar
from compiler.typed_ast.walk import parts, walk
from runtime.records import frozen

QUIET_CALLS = frozenset(
    {"shape", "numel", "rank", "len", "float", "int", "sqrt", "abs", "floor", "ceil", "round", "exp", "log", "pow", "min", "max"}
)
"""Calls that only look at their arguments."""

_DECLARATIONS = (
    nodes.Function, nodes.Struct, nodes.EnumDeclaration, nodes.TypeAlias, nodes.Trait, nodes.Impl, nodes.Module, nodes.Constant, nodes.Test
)  # fmt: skip


@frozen
class HandedOn:
    """A block whose value goes by `name`: `readers` are the blocks that read it, each with its input's name, in the order of the text;
    `seen`: something else looks at it, too, after the first of them. Without readers, `reason` says in words why it is kept."""

    block: nodes.Compute
    name: str
    readers: tuple[tuple[nodes.Compute, str], ...] = ()
    seen: bool = False
    reason: str = ""


def handed_on(program: nodes.Program, alone: bool = True) -> list[HandedOn]:
    """Every block whose value gets a name that later blocks read, in the order of the text. `alone`: no other file reads the variables of
    the program's top. What runs beside other code is left out."""
    own = frozenset(s.name for s in program.statements if isinstance(s, nodes.Function))
    found: list[HandedOn] = []
    if alone:
        found += _in_list(statements_of_top(program), own, shared_names(program))
    for statement in program.statements:
        for block in _blocks(statement):
            found += _in_list(block.statements, own)
    return found


def statements_of_top(program: nodes.Program) -> list[nodes.Statement]:
    """What a program does when it starts."""
    return [s for s in program.statements if not isinstance(s, _DECLARATIONS)]


def shared_names(program: nodes.Program) -> frozenset[str]:
    """Names of variables that functions don't have of their own: such of the program's top may be read at any time."""
    functions = (node for node in walk(program) if isinstance(node, nodes.Function | nodes.Lambda | nodes.Test))
    return frozenset(name for function in functions for name in names_from_outside(function))


def chained(
    statements: Sequence[nodes.Statement],
    later: Sequence[nodes.Statement] = (),
    own: frozenset[str] = frozenset(),
    shared: frozenset[str] = frozenset(),
) -> bool:
    """Whether a block of a function that was inlined makes or reads what is handed on. `own`: the program's functions; `shared`: names
    that others read."""
    found = (one for one in _in_list([*statements, *later], own, shared) if one.readers)
    return any(block.inlined_at is not None for one in found for block in (one.block, *(reader for reader, _ in one.readers)))


def _blocks(node: nodes.Node) -> Iterator[nodes.Block]:
    """The blocks of host code below."""
    waiting: list[nodes.Node] = [node]
    while waiting:
        current = waiting.pop()
        match current:
            case nodes.Function(is_async=True):
                continue
            case nodes.Compute(inputs=inputs):
                waiting += reversed([entry.value for entry in inputs])
                continue
            case nodes.Block():
                yield current
        waiting += reversed(list(parts(current)))


def deferred_blocks(program: nodes.Program, alone: bool = True) -> tuple[dict[int, int], frozenset[int]]:
    """The identities of blocks that wait for their readers, each with the number of these, 0 where something else looks at the value, too;
    and those of the readers."""
    waiting = [one for one in handed_on(program, alone) if one.readers]
    readers = frozenset(id(reader) for one in waiting for reader, _ in one.readers)
    return {id(one.block): 0 if one.seen else len(one.readers) for one in waiting}, readers


def _flat(statements: Sequence[nodes.Statement]) -> Iterator[nodes.Statement]:
    for statement in statements:
        if isinstance(statement, nodes.Inlined):
            yield from statement.statements
        else:
            yield statement


def _in_list(
    statements: Sequence[nodes.Statement], own: frozenset[str], shared: frozenset[str] = frozenset()
) -> Iterator[HandedOn]:
    statements = list(_flat(statements))
    for place, statement in enumerate(statements):
        named = _named_block(statement)
        if named is None:
            continue
        name, block = named
        later = _until_shadowed(statements[place + 1 :], name)
        readers = [number for number, one in enumerate(later) if _mentions(one, name)]
        if not any(_block_of(later[number]) is not None for number in readers):
            continue
        if name in shared:
            yield HandedOn(block, name, reason=f"functions may read `{name}`")
        else:
            yield _judged(block, name, later, readers, own)


def _judged(
    block: nodes.Compute, name: str, later: Sequence[nodes.Statement], places: Sequence[int], own: frozenset[str]
) -> HandedOn:
    """`places`: of the statements that mention the name."""

    def kept(reason: str) -> HandedOn:
        return HandedOn(block, name, reason=reason)

    first = _block_of(later[places[0]])
    if first is None:
        return kept(f"`{name}` is used {len(places)} times" if len(places) > 1 else f"`{name}` is used by more than a block")
    between = next((one for one in later[: places[0]] if not _is_quiet(one, own)), None)
    if between is not None:
        return kept("between the two stands what may change what they read")
    if not stands_alone(block) or not stands_alone(first):
        return kept("one of the blocks updates what it is given, or is `@async`")
    if _input(first, name) is None:
        return kept(f"the block takes `{name}` more than once")
    blocks = [_block_of(later[place]) for place in places]
    readers = [
        (one, taken) for one in blocks if one is not None and stands_alone(one) and (taken := _input(one, name)) is not None
    ]
    return HandedOn(block, name, tuple(readers), seen=len(readers) < len(places))


def _input(reader: nodes.Compute, name: str) -> str | None:
    """What the block calls the value that it takes once, and as it is; None where it does otherwise."""
    inputs = [entry for entry in reader.inputs if _mentions(entry.value, name)]
    captured = name in captured_names(reader)
    if len(inputs) + captured != 1 or (inputs and not isinstance(inputs[0].value, nodes.Name)):
        return None
    return inputs[0].name if inputs else name


def _named_block(statement: nodes.Statement) -> tuple[str, nodes.Compute] | None:
    match statement:
        case nodes.Let(pattern=nodes.BindingPattern(name=name), annotation=None, value=nodes.Compute() as block, mutable=False):
            return name, block
        case _:
            return None


def _block_of(statement: nodes.Statement) -> nodes.Compute | None:
    """The block that is all of the statement's value."""
    match statement:
        case nodes.Let(annotation=None, value=nodes.Compute() as block) | nodes.Return(value=nodes.Compute() as block):
            return block
        case nodes.ExpressionStatement(value=nodes.Compute() as block):
            return block
        case _:
            return None


def stands_alone(block: nodes.Compute) -> bool:
    return not any(entry.mutable for entry in block.inputs) and not (block.kernel is not None and block.kernel.is_async)


def _until_shadowed(statements: Sequence[nodes.Statement], name: str) -> Sequence[nodes.Statement]:
    """The statements in which the name means what it means before them."""
    for place, statement in enumerate(statements):
        if isinstance(statement, nodes.Let) and name in _bound(statement):
            return statements[: place + 1]
    return statements


def _bound(statement: nodes.Let) -> set[str]:
    return {node.name for node in walk(statement.pattern) if isinstance(node, nodes.BindingPattern)}


def _mentions(node: nodes.Node, name: str) -> bool:
    """Whether the name stands anywhere below; that of an input which is given something else doesn't count."""
    if isinstance(node, nodes.Compute | nodes.Let | nodes.Return | nodes.ExpressionStatement):
        block = node if isinstance(node, nodes.Compute) else _block_of(node)
        if block is not None:
            return name in captured_names(block) or any(_mentions(entry.value, name) for entry in block.inputs)
    return any(isinstance(inner, nodes.Name) and inner.name == name for inner in walk(node))


def _is_quiet(statement: nodes.Statement, own: frozenset[str]) -> bool:
    """Whether the statement changes nothing that a block could read."""
    if not isinstance(statement, nodes.Let) or statement.mutable or statement.value is None:
        return False
    if isinstance(statement.value, nodes.Compute):
        return stands_alone(statement.value) and all(is_quiet_value(entry.value, own) for entry in statement.value.inputs)
    return is_quiet_value(statement.value, own)


def is_quiet_value(value: nodes.Expression, own: frozenset[str]) -> bool:
    """Whether evaluating it changes nothing, wherever it stands. `own`: the program's functions."""
    return all(_is_quiet_node(node, own) for node in walk(value))


def _is_quiet_node(node: nodes.Node, own: frozenset[str]) -> bool:
    match node:
        case nodes.Call(function=nodes.Name(name=name) | nodes.Field(name=name)):
            return name in QUIET_CALLS and name not in own
        case nodes.Call() | nodes.Compute() | nodes.Lambda() | nodes.Await() | nodes.If() | nodes.Block() | nodes.Statement():
            return False
        case nodes.Binary(operator="&"):
            return all(isinstance(side.type, Scalar) for side in (node.left, node.right))
        case nodes.Propagate() | nodes.Try() | nodes.Stream() | nodes.LaterExpression() | nodes.Match() | nodes.Comprehension():
            return False
        case _:
            return True
