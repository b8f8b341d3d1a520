"""Indices that a loop surely takes outside of an array: `for i in 0..5 { s += xs[i] }` over four elements is wrong before it runs.

A turn counts where nothing in the loop can leave it out: what stands in a branch, behind something that ends the turn, or in a loop
that may not run at all, may never be reached, and is checked when the program runs."""

from collections.abc import Iterator, Mapping
from itertools import islice

from compiler.typed_ast import nodes
from compiler.typed_ast.constants import whole_constant, whole_result
from compiler.typed_ast.scope import Scope, Variable
from compiler.typed_ast.walk import walk
from runtime.records import frozen

FEW = 64
"""Turns of one loop that are looked at: all of it where it has no more, else its first ones and its last."""
COMBINED = 1 << 12
"""Turns of loops inside each other that are looked at."""
_LIMIT = 1 << 63

Values = Mapping[int, int]
"""What loop variables are in one turn, by their identity."""


@frozen
class CountedLoop:
    """A loop that runs all of its turns, and the variable that counts them; `scope` is what its range sees."""

    variable: Variable
    range: nodes.Range
    scope: Scope


def is_whole(body: nodes.Block, ends_turn: tuple[type[nodes.Node], ...]) -> bool:
    """Whether no node of the classes `ends_turn` in a loop's body ends a turn before its end."""
    return not any(isinstance(node, ends_turn) for node in walk(body))


def counted(node: nodes.While, scope: Scope) -> CountedLoop | None:
    """A `while` that counts as a `for` does: its variable begins with a number that is known, changes in one statement of the body by a
    constant, and is compared with a constant before each turn."""
    match node.condition:
        case nodes.Binary(operator="<" | "<=" | ">" | ">=" as operator, left=nodes.Name(name=name), right=right):
            variable, last = scope.variable(name), whole_constant(right, scope)
        case _:
            return None
    changes = [found for found in walk(node.body) if changed(found) == name]
    if variable is None or variable.now is None or last is None or len(changes) != 1 or changes[0] not in node.body.statements:
        return None
    step = _step(changes[0], scope)
    if not step or (step > 0) != (operator in ("<", "<=")):
        return None
    inclusive, span = operator in ("<=", ">="), node.condition.span
    low, high, by = (nodes.IntLiteral(value=value, span=span) for value in (variable.now, last, step))
    most = whole_constant(node.bound, scope) if node.bound is not None else None
    if node.bound is not None and (most is None or most * abs(step) < abs(last - variable.now) + inclusive):
        return None
    return CountedLoop(variable, nodes.Range(low=low, high=high, inclusive=inclusive, step=by, span=span), scope)


def changed(node: nodes.Node) -> str | None:
    """The variable that is assigned, or that a method may change."""
    match node:
        case nodes.Assign(target=nodes.Name(name=name)) | nodes.Call(function=nodes.Field(value=nodes.Name(name=name))):
            return name
    return None


def _step(change: nodes.Node, scope: Scope) -> int | None:
    match change:
        case nodes.Assign(operator="+", value=value):
            return whole_constant(value, scope)
        case nodes.Assign(operator="-", value=value):
            by = whole_constant(value, scope)
            return -by if by is not None else None
        case _:
            return None


def outside(index: nodes.Expression, scope: Scope, loops: tuple[CountedLoop, ...], size: int | None) -> tuple[int, str] | None:
    """A value that an index surely takes and that isn't from 0 to below `size`, and the turn in words; None where none is known."""
    for values in islice(_turns(loops, {}), COMBINED):
        value = _value(index, scope, values)
        if value is None:
            return None
        if value < 0 or (size is not None and value >= size):
            told = [f"`{loop.variable.name}` is {values[id(loop.variable)]}" for loop in loops if id(loop.variable) in values]
            return value, " and ".join(told)
    return None


def _turns(loops: tuple[CountedLoop, ...], values: Values) -> Iterator[Values]:
    """The values in the turns that are looked at; none beyond a loop whose range isn't known."""
    if not loops:
        yield values
        return
    loop, *inner = loops
    for number in _numbers(loop, values):
        yield from _turns(tuple(inner), {**values, id(loop.variable): number})


def _numbers(loop: CountedLoop, values: Values) -> list[int]:
    low, high = _value(loop.range.low, loop.scope, values), _value(loop.range.high, loop.scope, values)
    step = _value(loop.range.step, loop.scope, values) if loop.range.step is not None else 1
    if low is None or high is None or not step:
        return []
    end = high + (1 if step > 0 else -1) if loop.range.inclusive else high
    whole = range(low, end, step)
    count = max(0, -((low - end) // step))  # `len` of a range ends with the machine's ints
    return list(whole) if count <= FEW else [*(low + n * step for n in range(FEW - 1)), low + (count - 1) * step]


def _value(node: nodes.Expression, scope: Scope, values: Values) -> int | None:
    """The value of an index or bound in one turn; None where it isn't known, or has none in 64 bits."""
    found = _exact(node, scope, values)
    return found if found is not None and -_LIMIT <= found < _LIMIT else None


def _exact(node: nodes.Expression, scope: Scope, values: Values) -> int | None:
    match node:
        case nodes.IntLiteral(value=value):
            return value
        case nodes.Name(name=name):
            variable = scope.variable(name)
            if variable is None or id(variable) in values or variable.mutable:
                return values.get(id(variable)) if variable is not None else None
            if variable.whole is not None or variable.value is None:
                return variable.whole
            return _value(*variable.value, values)
        case nodes.Unary(operator="-", operand=operand):
            inner = _value(operand, scope, values)
            return None if inner is None else -inner
        case nodes.Binary(operator="+" | "-" | "*" | "/" | "%" as operator, left=left, right=right):
            a, b = _value(left, scope, values), _value(right, scope, values)
            return None if a is None or b is None or (operator in "/%" and b == 0) else whole_result(operator, a, b)
        case nodes.Call(function=nodes.Name(name="min" | "max" as name), arguments=(a, b)) if scope.variable(name) is None:
            ends = [_value(argument.value, scope, values) for argument in (a, b)]
            known = [end for end in ends if end is not None]
            return (min if name == "min" else max)(known) if len(known) == 2 else None
        case _:
            return None
