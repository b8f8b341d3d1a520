"""Conditions of kernel bodies, what is known where they hold, and the values that they choose between: both computed and one selected
where that is harmless, else a branch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from compiler.hir.affine import Affine
from compiler.hir.control import If as HirIf
from compiler.hir.instruction import Effect, Region, Value
from compiler.hir.memory import GetSlot, Load
from compiler.hir.types import Tile
from compiler.lowering.arithmetic import COMPARISONS, compare, comparison_facts
from compiler.lowering.body import Body, fault
from compiler.lowering.dtypes import hir_name
from compiler.lowering.enclosing import Truth
from compiler.lowering.numbers import Number, Operand, index_value, literal, meet, typed, value_of
from compiler.lowering.walk import as_number, block_value, lowers, number
from compiler.lowering.words import words
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType

Alternative = Callable[[], Number]


def boolean(body: Body, node: nodes.Expression) -> Number:
    """A condition as a number; what is known where it holds stays with it."""
    condition = truth(body, node)
    body.here.truths[condition.value.name] = condition
    return Number(DType.BOOL, value=condition.value, origin=DType.BOOL)


def truth(body: Body, node: nodes.Expression) -> Truth:
    """A condition: a bool, or an int mask, which holds where it isn't 0. What it compares goes into no sum."""
    with body.spanned(node.span):
        match node:
            case nodes.Binary(operator=operator, left=left, right=right) if operator in COMPARISONS:
                a, b = number(body, left), number(body, right)
                yes, no = comparison_facts(body, operator, a, b)
                return Truth(compare(body, operator, a, b), yes, no)
            case nodes.Unary(operator="not", operand=operand):
                inner = truth(body, operand)
                return Truth(body.build.op("not", inner.value), inner.no, inner.yes)
            case nodes.Binary(operator="and" | "or" as operator, left=left, right=right):
                return _both(body, operator, truth(body, left), right)
            case _:
                return as_truth(body, number(body, node), node)


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


def _both(body: Body, operator: str, left: Truth, right_node: nodes.Expression) -> Truth:
    """`and`, `or`: the right side is computed only where it matters, unless computing it is harmless."""
    is_and = operator == "and"
    assumed = left.yes if is_and else left.no
    region, build = body.fresh_region()
    condition = left.value if is_and else None
    with body.at(build), body.here.branch(body.construct(), 0, assumed):
        if condition is None:
            condition = body.build.op("not", left.value)
        with _where(body, condition, len(assumed)):
            right = truth(body, right_node)
    yes = (*left.yes, *right.yes) if is_and else ()
    no = () if is_and else (*left.no, *right.no)
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
    return choose(body, node.condition, lambda: number(body, node.then, into), lambda: number(body, node.otherwise, into))


@lowers(nodes.If)
def _if(body: Body, node: nodes.If, into: DType | None) -> Operand:
    then, otherwise = node.then, node.otherwise
    if otherwise is None:
        raise fault("0203", "an `if` without `else` has no value", node.span, hint="add `else { ... }`")

    def value(block: nodes.Block) -> Number:
        return as_number(body, block_value(body, block, into), block)

    return choose(body, node.condition, lambda: value(then), lambda: value(otherwise))


def choose(body: Body, node: nodes.Expression, then: Alternative, otherwise: Alternative) -> Number:
    """The value of one of two expressions, as `node` says: both computed and one selected where that is harmless, else a branch."""
    condition = truth(body, node)
    construct = body.construct()
    regions: list[Region] = []
    numbers: list[Number] = []
    builds = []
    for branch, (assumed, alternative) in enumerate(((condition.yes, then), (condition.no, otherwise))):
        region, build = body.fresh_region()
        with body.at(build), body.here.branch(construct, branch, assumed):
            holds = condition.value if branch == 0 else build.op("not", condition.value)
            with _where(body, holds, len(assumed)):
                numbers.append(alternative())
        regions.append(region)
        builds.append(build)
    dtype, weak, origin = meet(*numbers)
    exact = dtype is DType.I64 and all(arm.form is not None for arm in numbers)
    name = "index" if exact else hir_name(dtype)
    values = []
    for arm, build in zip(numbers, builds, strict=True):
        with body.at(build):
            values.append(index_value(build, arm) if exact else value_of(build, arm, dtype))
    if all(_harmless(region) for region in regions):
        for region in regions:
            if region.body and region is regions[1]:
                _drop_unused_not(region, condition.value, values[1])
            body.build.region.body.extend(region.body)
        result = body.build.select(condition.value, values[0], values[1])
    else:
        for build, value in zip(builds, values, strict=True):
            build.yield_(value)
        result = body.build.emit(HirIf(condition=condition.value, then=regions[0], otherwise=regions[1], types=(Tile(name),))).result
    if exact:
        body.here.opaque.add(result.name)
        first, second = numbers[0].form, numbers[1].form
        assert first is not None and second is not None
        body.here.facts.cases[result.name] = ((first, condition.yes), (second, condition.no))
        return Number(DType.I64, form=Affine.of(result.name), weak=weak, origin=origin)
    return typed(result, dtype, origin, weak)


def _drop_unused_not(region: Region, condition: Value, value: Value) -> None:
    """The negated condition was made for loads; without one it is dead."""
    first = region.body[0]
    if first.name != "not" or first.operand_values != [condition] or not first.results:
        return
    used = any(first.results[0] in op.operand_values for op in region.body[1:]) or value is first.results[0]
    if not used:
        region.body.pop(0)
