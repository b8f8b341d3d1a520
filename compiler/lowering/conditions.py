"""Conditions of kernel bodies, what is known where they hold, and the values that they choose between: both computed and one selected
where that is harmless, else a branch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from compiler.hir.affine import Affine
from compiler.hir.control import If as HirIf
from compiler.hir.instruction import Effect, Region, Value
from compiler.hir.memory import GetSlot, Load
from compiler.hir.types import Tile
from compiler.lowering import arrays
from compiler.lowering.arithmetic import COMPARISONS, compare, comparison_facts
from compiler.lowering.bindings import Scope
from compiler.lowering.body import Body, fault
from compiler.lowering.composites import alike, kind_of, numbers_of, of_numbers
from compiler.lowering.dtypes import hir_name
from compiler.lowering.enclosing import Truth
from compiler.lowering.numbers import Number, Operand, index_value, literal, meet, typed, value_of
from compiler.lowering.operator_methods import by_method
from compiler.lowering.walk import as_number, as_value, block_value, lowers, number, value
from compiler.lowering.words import words
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType

Alternative = Callable[[], Operand]


def boolean(body: Body, node: nodes.Expression) -> Number:
    """A condition as a number; what is known where it holds stays with it."""
    return as_number_of(body, truth(body, node))


def as_number_of(body: Body, condition: Truth) -> Number:
    body.here.truths[condition.value.name] = condition
    return Number(DType.BOOL, value=condition.value, origin=DType.BOOL)


def truth(body: Body, node: nodes.Expression) -> Truth:
    """A condition: a bool, or an int mask, which holds where it isn't 0. What it compares goes into no sum."""
    with body.spanned(node.span):
        match node:
            case nodes.Binary(operator=operator, left=left, right=right) if operator in COMPARISONS:
                first, second = (arrays.apart(body, value(body, side), side) for side in (left, right))
                own = _by_method(body, node, first, second)
                if own is not None:
                    return as_truth(body, own, node)
                if operator in ("==", "!="):
                    return _equality(body, operator, first, second, node)
                a, b = as_number(body, first, left), as_number(body, second, right)
                yes, no = comparison_facts(body, operator, a, b)
                return Truth(compare(body, operator, a, b), yes, no)
            case nodes.Unary(operator="not", operand=operand):
                inner = truth(body, operand)
                return Truth(body.build.op("not", inner.value), inner.no, inner.yes)
            case nodes.Binary(operator="and" | "or" as operator, left=left, right=right):
                return both(body, operator, truth(body, left), lambda: truth(body, right))
            case _:
                return as_truth(body, number(body, node), node)


def _by_method(body: Body, node: nodes.Binary, left: Operand, right: Operand) -> Number | None:
    """What the method of a comparison says; None where the program's types have none."""
    if isinstance(left, Number) and isinstance(right, Number):
        return None
    own = by_method(body, node, left, right, DType.BOOL)
    return None if own is None else as_number(body, own, node)


def _equality(body: Body, operator: str, left: Operand, right: Operand, node: nodes.Binary) -> Truth:
    """`==` and `!=`: of tuples, structs and enums all numbers are compared."""
    if isinstance(left, Number) and isinstance(right, Number):
        yes, no = comparison_facts(body, operator, left, right)
        return Truth(compare(body, operator, left, right), yes, no)
    if kind_of(left) != kind_of(right):
        message = f"`{operator}` compares values of one kind, and these are {kind_of(left)} and {kind_of(right)}"
        raise fault("0208", message, node.operator_span)
    first, second = alike(left, right, node.span)
    pairs = zip(numbers_of(first, node.span), numbers_of(second, node.span), strict=True)
    result = body.build.const(True, "i1")
    for a, b in pairs:
        result = body.build.op("and", result, compare(body, "==", a, b))
    return Truth(result if operator == "==" else body.build.op("not", result))


def as_truth(body: Body, operand: Number, node: nodes.Expression) -> Truth:
    if operand.dtype is DType.BOOL:
        value = value_of(body.build, operand)
        return body.here.truths.get(value.name) or Truth(value)
    if operand.dtype.is_float:
        raise fault(
            "0203",
            f"a condition must be bool or an int mask: `{words(node)}` is {operand.shown}",
            node.span,
            hint=f"compare it: `{words(node)} != 0.0`",
        )
    zero = literal(0)
    yes, no = comparison_facts(body, "!=", operand, zero)
    return Truth(compare(body, "!=", operand, zero), yes, no)


def both(body: Body, operator: str, left: Truth, make_right: Callable[[], Truth]) -> Truth:
    """`and`, `or`: the right side is computed only where it matters, unless computing it is harmless."""
    is_and = operator == "and"
    assumed = left.yes if is_and else left.no
    region, build = body.fresh_region()
    condition = left.value if is_and else None
    with body.at(build), body.here.branch(body.construct(), 0, assumed):
        if condition is None:
            condition = body.build.op("not", left.value)
        mark = body.here.facts.mark()
        with _where(body, condition, len(assumed)):
            right = make_right()
        named = tuple(body.here.facts.known[mark:])  # what the right side names, such as quotients
    yes = (*left.yes, *named, *right.yes) if is_and else ()
    no = () if is_and else (*left.no, *named, *right.no)
    if _harmless(region):
        body.build.region.body.extend(region.body)
        return Truth(body.build.op(operator, left.value, right.value), yes, no)
    with body.at(build):
        build.yield_(right.value)
    other, other_build = body.fresh_region()
    with body.at(other_build):
        other_build.yield_(other_build.const(not is_and, "i1"))
    then, otherwise = (region, other) if is_and else (other, region)
    op = HirIf(condition=left.value, then=then, otherwise=otherwise, types=(Tile("i1"),))
    return Truth(body.build.emit(op).result, yes, no)


@contextmanager
def _where(body: Body, condition: Value, assumed: int) -> Iterator[None]:
    """While inside: loads that only this condition makes safe carry it."""
    position, before = body.here, body.here.where
    mark = position.facts.mark() - assumed
    if before is not None:
        mark, outer = before
        condition = body.build.op("and", outer, condition)
    position.where = (max(0, mark), condition)
    try:
        yield
    finally:
        position.where = before


def _harmless(region: Region) -> bool:
    """Whether computing this needlessly changes nothing: no writes, no checks, no control flow."""
    return all(op.effects is Effect.PURE or isinstance(op, (Load, GetSlot)) for op in region.body) and not any(
        op.regions for op in region.body
    )


# ---- choices -----------------------------------------------------------------------------------------------------------


@lowers(nodes.Conditional)
def _conditional(body: Body, node: nodes.Conditional, into: DType | None) -> Operand:
    return choose(body, node.condition, lambda: value(body, node.then, into), lambda: value(body, node.otherwise, into))


@lowers(nodes.If)
def _if(body: Body, node: nodes.If, into: DType | None) -> Operand:
    then, otherwise = node.then, node.otherwise
    if otherwise is None:
        raise fault("0203", "an `if` without `else` has no value", node.span, hint="add `else { ... }`")

    def of(block: nodes.Block) -> Operand:
        return as_value(body, block_value(body, block, into), block)

    return choose(body, node.condition, lambda: of(then), lambda: of(otherwise))


def tested(body: Body, node: nodes.Expression) -> tuple[Truth, Scope]:
    """A condition, and the names that its patterns bind where it holds."""
    with body.names.scope():
        return truth(body, node), body.names.scopes[-1]


def choose(body: Body, node: nodes.Expression, then: Alternative, otherwise: Alternative) -> Operand:
    """The value of one of two expressions, as `node` says."""
    condition, bound = tested(body, node)

    def inside() -> Operand:
        with body.names.within(bound):
            return then()

    return chosen(body, condition, inside, otherwise, node)


def chosen(body: Body, condition: Truth, then: Alternative, otherwise: Alternative, node: nodes.Expression) -> Operand:
    """The value of one of two expressions: both computed and one selected where that is harmless, else a branch."""
    construct = body.construct()
    regions: list[Region] = []
    operands: list[Operand] = []
    shape: tuple[int, ...] | None = None
    builds = []
    for branch, (assumed, alternative) in enumerate(((condition.yes, then), (condition.no, otherwise))):
        region, build = body.fresh_region()
        with body.at(build), body.here.branch(construct, branch, assumed):
            holds = condition.value if branch == 0 else build.op("not", condition.value)
            with _where(body, holds, len(assumed)):
                operand = alternative()
                if arrays.is_array(operand, body):
                    shape = arrays.extents_of(body.memories[operand.name])
                    operand = arrays.parts_of(body, operand, node)
                operands.append(operand)
        regions.append(region)
        builds.append(build)
    first, second = alike(operands[0], operands[1], node.span)
    pairs = list(zip(*(numbers_of(operand, node.span, "what is chosen") for operand in (first, second)), strict=True))
    meetings = [meet(*pair) for pair in pairs]
    exact = [dtype is DType.I64 and all(arm.form is not None for arm in pair) for pair, (dtype, _, _) in zip(pairs, meetings, strict=True)]
    names = ["index" if is_exact else hir_name(dtype) for is_exact, (dtype, _, _) in zip(exact, meetings, strict=True)]
    values: list[list[Value]] = []
    for arm, build in enumerate(builds):
        with body.at(build):
            values.append([
                index_value(build, pair[arm]) if is_exact else value_of(build, pair[arm], dtype)
                for pair, is_exact, (dtype, _, _) in zip(pairs, exact, meetings, strict=True)
            ])
    if all(_harmless(region) for region in regions):
        for region in regions:
            if region.body and region is regions[1]:
                _drop_unused_not(region, condition.value, values[1])
            body.build.region.body.extend(region.body)
        results = [body.build.select(condition.value, a, b) for a, b in zip(*values, strict=True)]
    else:
        for build, given in zip(builds, values, strict=True):
            build.yield_(*given)
        types = tuple(Tile(name) for name in names)
        results = list(body.build.emit(HirIf(condition=condition.value, then=regions[0], otherwise=regions[1], types=types)).results)
    numbers = [
        _selected(body, condition, result, pair, meeting, is_exact)
        for result, pair, meeting, is_exact in zip(results, pairs, meetings, exact, strict=True)
    ]
    return of_numbers(first, numbers) if shape is None else arrays.of_parts(body, shape, numbers, node.span)


def _selected(
    body: Body, condition: Truth, result: Value, pair: tuple[Number, Number], meeting: tuple[DType, bool, DType | None], exact: bool
) -> Number:
    dtype, weak, origin = meeting
    if not exact:
        return typed(result, dtype, origin, weak)
    body.here.opaque.add(result.name)
    first, second = (arm.form for arm in pair)
    assert first is not None and second is not None
    body.here.facts.cases[result.name] = ((first, condition.yes), (second, condition.no))
    return Number(DType.I64, form=Affine.of(result.name), weak=weak, origin=origin)


def _drop_unused_not(region: Region, condition: Value, values: list[Value]) -> None:
    """The negated condition was made for loads; without one it is dead."""
    first = region.body[0]
    if first.name != "not" or first.operand_values != [condition] or not first.results:
        return
    used = any(first.results[0] in op.operand_values for op in region.body[1:]) or first.results[0] in values
    if not used:
        region.body.pop(0)
