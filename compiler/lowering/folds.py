"""Reductions and scans that a function of the program combines, `reduce(def(a, b): ..., init=)`, and what `init=` starts any of them
with. What is yielded is combined one after the other, in the order of the loops around the result's axes."""

from collections.abc import Callable, Sequence
from typing import Protocol

from compiler.hir.instruction import Value
from compiler.lowering.arithmetic import kept_in
from compiler.lowering.body import Body, fault
from compiler.lowering.composites import kind_of, numbers_of, of_numbers
from compiler.lowering.flows import Flow
from compiler.lowering.loops import has_jump, loop_bounds, ranged
from compiler.lowering.numbers import Number, Operand, literal, typed, value_of
from compiler.lowering.ranges import NumberRange, loop_range
from compiler.lowering.walk import call, run_block, value
from compiler.lowering.words import words
from compiler.source import NOWHERE, Span
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType
from compiler.typed_ast.walk import walk
from runtime.records import frozen

FUNCTION = "function"
"""The operator of a reduction or scan that has a function for one."""


@frozen(eq=False)
class Combination:
    """A function of two values: what was combined before, and what comes next."""

    function: nodes.Lambda | nodes.Function
    span: Span

    @property
    def name(self) -> str:
        return self.function.name if isinstance(self.function, nodes.Function) else "the operator"


def fold_of(body: Body) -> Combination | None:
    """The function that the block gives as the operator of its kernel."""
    match body.kernel.option("op"):
        case nodes.Lambda() as function:
            return Combination(function, function.span)
        case nodes.Name(name=name, span=span) if name in body.signature.functions:
            return Combination(body.signature.functions[name], span)
        case _:
            return None


def initial(body: Body, shape: Operand) -> list[Number] | None:
    """The numbers that `init=` gives, one for each that is yielded; None where the block has none."""
    given = body.kernel.option("init")
    if not isinstance(given, nodes.Expression):
        return None
    start = value(body, given)
    numbers = numbers_of(start, given.span, "`init`")
    if len(numbers) != len(numbers_of(shape, given.span)):
        message = f"`init` is {kind_of(start)}, and what is yielded is {kind_of(shape)}"
        raise fault("0203", message, given.span, hint="write one number for each that is yielded")
    return numbers


# ---- the function ----------------------------------------------------------------------------------------------------------


def applied(body: Body, fold: Combination, shape: Operand, old: Sequence[Number], new: Sequence[Number]) -> list[Number]:
    """The numbers that the function makes of two values of one shape."""
    first, second = of_numbers(shape, old), of_numbers(shape, new)
    function = fold.function
    if isinstance(function, nodes.Lambda):
        result = _inline(body, fold, function, first, second)
    else:
        written = nodes.Call(function=nodes.Name(name=function.name, span=fold.span), span=fold.span)
        result = call(body, function, [(None, first), (None, second)], written, None)
    numbers = numbers_of(result, fold.span, f"what {fold.name} gives")
    if len(numbers) != len(old):
        message = f"{fold.name} gives {kind_of(result)}, and what is yielded is {kind_of(shape)}"
        raise fault("0203", message, fold.span, hint="what it gives must be of the kind that it takes")
    return numbers


def _inline(body: Body, fold: Combination, function: nodes.Lambda, first: Operand, second: Operand) -> Operand:
    with body.names.scope():
        for parameter, given in zip(function.parameters, (first, second), strict=True):
            body.names.bind(parameter.name, given, parameter.span, "a parameter")
        return value(body, function.body)


def survey(body: Body, fold: Combination | None, shape: Operand) -> list[DType]:
    """Joins what `init` and the function add to the types of what is yielded, and gives the types that are combined in."""
    numbers = numbers_of(shape, NOWHERE)
    flows = [body.flows.join(("yield", n), number) for n, number in enumerate(numbers)]
    for n, number in enumerate(initial(body, shape) or ()):
        flows[n] = body.flows.join(("yield", n), number)
    if fold is None:
        return [flow.dtype for flow in flows]
    known = [body.flows.before(("yield", n), flow.dtype) for n, flow in enumerate(flows)]
    kept = [kept_type(body, flow) for flow in known]
    slots = [body.build.slot(_zero(body, dtype), "old") for dtype in kept]
    old = [typed(body.build.get(slot), dtype, flow.origin) for slot, dtype, flow in zip(slots, kept, known, strict=True)]
    new = [typed(value_of(body.build, number, dtype), dtype, number.origin) for dtype, number in zip(kept, numbers, strict=True)]
    for n, number in enumerate(applied(body, fold, shape, old, new)):
        flows[n] = body.flows.join(("yield", n), number)
    return kept


def kept_type(body: Body, flow: Flow) -> DType:
    return flow.dtype if flow.dtype is DType.BOOL else kept_in(body, flow.dtype)


def _zero(body: Body, dtype: DType) -> Value:
    return value_of(body.build, literal(False) if dtype is DType.BOOL else literal(0, dtype), dtype)


def combined(
    body: Body, fold: Combination, shape: Operand, old: Sequence[Value], new: Sequence[Number], kept: Sequence[DType]
) -> list[Value]:
    """What is kept after one more value."""
    before = [typed(have, dtype, None) for have, dtype in zip(old, kept, strict=True)]
    after = [typed(value_of(body.build, number, dtype), dtype, None) for number, dtype in zip(new, kept, strict=True)]
    return [value_of(body.build, number, dtype) for number, dtype in zip(applied(body, fold, shape, before, after), kept, strict=True)]


# ---- the loops around the result's axes --------------------------------------------------------------------------------


class OpenReduction(Protocol):
    """A reduction with axes left: slots for what is combined are open while its reduced loops run, once for each of its elements."""

    entered: dict[int, NumberRange]
    opened: bool

    @property
    def left(self) -> tuple[int, ...]: ...

    def open(self, body: Body) -> None:
        """Slots, at what the reduction starts with."""

    def close(self, body: Body) -> None:
        """Stores the result."""


def yields(node: nodes.Node) -> bool:
    return any(isinstance(part, nodes.Yield) for part in walk(node))


def chain(node: nodes.For) -> tuple[list[nodes.ForClause], nodes.Block]:
    """The clauses of a perfect nest, outermost first, and its innermost block."""
    clauses = list(node.clauses)
    block = node.body
    while len(block.statements) == 1 and isinstance(block.statements[0], nodes.For):
        inner = block.statements[0]
        clauses += inner.clauses
        block = inner.body
    return clauses, block


def nest(body: Body, kept: OpenReduction, node: nodes.For) -> bool:
    """The hook on loops: those of the axes that are left stand outermost."""
    if not yields(node):
        return False
    clauses, inner = chain(node)
    first = len(kept.entered)
    axes = range(first, first + len(clauses))
    order = [axis for axis in axes if axis in kept.left] + [axis for axis in axes if axis not in kept.left]
    if order[-1] not in kept.left and any(axis > axes[-1] for axis in kept.left):
        hint = "move the statements into the innermost loop"
        raise fault("0109", "a function over an outer loop with statements before the inner loop isn't supported yet", node.span, hint=hint)
    if kept.opened and not first:
        raise fault("0109", "two nests that yield to one function isn't supported yet", node.span, hint="yield from one nest")
    _require_free(clauses, [axis - first for axis in order], node)
    _enter(body, kept, clauses, order, first, lambda: run_block(body, inner), has_jump(inner))
    return True


def _require_free(clauses: Sequence[nodes.ForClause], order: Sequence[int], node: nodes.For) -> None:
    """A loop that moves outwards has bounds that no loop around it decides."""
    for place, axis in enumerate(order):
        before = {name for other in order[:place] for name in clauses[other].names}
        around = {name for other in clauses[:axis] for name in other.names} - before
        if any(isinstance(part, nodes.Name) and part.name in around for part in walk(clauses[axis].source)):
            message = f"a function over a loop that bounds `{clauses[axis].names[0]}` isn't supported yet"
            raise fault("0109", message, clauses[axis].span, hint=f"use a rectangular nest: not `{words(clauses[axis].source)}`")


def _enter(
    body: Body,
    kept: OpenReduction,
    clauses: Sequence[nodes.ForClause],
    order: Sequence[int],
    first: int,
    inside: Callable[[], None],
    jumps: bool,
) -> None:
    if not kept.opened and all(axis in kept.entered for axis in kept.left):
        kept.open(body)
        _enter(body, kept, clauses, order, first, inside, jumps)
        kept.close(body)
        return
    if not order:
        inside()
        return
    axis, *rest = order
    clause = clauses[axis - first]
    low, high, step = loop_bounds(body, clause)
    with body.build.loop(clause.names[0], low, high, step, (), "time", **body.marks.get(clause.span, {})) as (builder, handle):
        loop = loop_range(handle.variable.name, low, high, step)
        with body.at(builder), body.names.scope(), ranged(body, clause, loop):
            kept.entered[axis] = loop
            if jumps:
                with body.here.branch(body.construct(), 0):
                    _enter(body, kept, clauses, rest, first, inside, jumps)
            else:
                _enter(body, kept, clauses, rest, first, inside, jumps)
            del kept.entered[axis]
