"""Calls of `extern` functions that a program declares: functions of C, of numbers."""

from collections.abc import Mapping

from compiler.hir.native_types import F32, F64, I32, I64, U32, U64
from compiler.hir.types import Tile
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.values import Value, Whole
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.types import UNIT

PASSED = (I32, I64, U32, U64, F32, F64)
"""What C and this code pass in the same way on every processor; narrower ints are widened differently."""


def call_outside(c: FunctionContext, callee: nodes.Function, values: Mapping[str, Value], span: Span) -> Value:
    """A call of a function of C with the values of its parameters; it is declared when it is first called."""
    result = c.elaboration.resolve(callee.result, c.sizes) if callee.result is not None else UNIT
    taken = [(parameter.name, c.layouts.number(values[parameter.name].type)) for parameter in callee.parameters]
    given = [] if result == UNIT else [c.layouts.number(result)]
    numbers = [number for number in (*(number for _, number in taken), *given) if isinstance(number, Tile)]
    if len(numbers) < len(taken) + len(given) or any(number not in PASSED for number in numbers):
        hint = f"it takes and gives {c.elaboration.rules.passed_to_c}"
        raise c.not_supported(f"the function `{callee.name}` of C, with other than plain numbers,", hint, span)
    program = c.elaboration.program
    if not program.has(callee.name):
        program.external(
            callee.name, {name: number for name, number in taken if number is not None}, numbers[len(taken) :], callee.effects or "none"
        )
    found = c.b.call(callee.name, *(number for name, _ in taken for number in c.numbers(values[name])))
    return c.of_numbers(result, iter(found)) if given else Whole(UNIT, ())
