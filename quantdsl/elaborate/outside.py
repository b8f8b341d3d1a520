"""Calls of `extern` functions that a program declares: functions of C, of numbers."""

from collections.abc import Mapping

from compiler.hir.types import Tile
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.types import UNIT
from quantdsl.check.resolve import resolve
from quantdsl.elaborate.context import FunctionContext
from quantdsl.elaborate.refused import not_supported
from quantdsl.elaborate.values import Value, Whole
from quantdsl.native.types import F32, F64, I32, I64, U32, U64

PASSED = (I32, I64, U32, U64, F32, F64)
"""What C and this code pass in the same way on every processor; narrower ints are widened differently."""


def call_outside(c: FunctionContext, callee: nodes.Function, values: Mapping[str, Value], span: Span) -> Value:
    """A call of a function of C with the values of its parameters; it is declared when it is first called."""
    result = resolve(c.elaboration.checker, callee.result, c.sizes) if callee.result is not None else UNIT
    taken = [(parameter.name, c.layouts.number(values[parameter.name].type)) for parameter in callee.parameters]
    given = [] if result == UNIT else [c.layouts.number(result)]
    numbers = [number for number in (*(number for _, number in taken), *given) if isinstance(number, Tile)]
    if len(numbers) < len(taken) + len(given) or any(number not in PASSED for number in numbers):
        hint = "it takes and gives ints of 32 or 64 bits, floats, prices, quantities, money and times"
        raise not_supported(f"the function `{callee.name}` of C, with other than plain numbers,", span, hint)
    program = c.elaboration.program
    if not program.has(callee.name):
        program.external(
            callee.name, {name: number for name, number in taken if number is not None}, numbers[len(taken) :], callee.effects or "none"
        )
    found = c.b.call(callee.name, *(number for name, _ in taken for number in c.numbers(values[name])))
    return c.of_numbers(result, iter(found)) if given else Whole(UNIT, ())
