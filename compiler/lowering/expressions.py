"""Literals, operators, casts and tuples of kernel bodies."""

from compiler.lowering.arithmetic import COMPARISONS, binary, bits, negate
from compiler.lowering.body import Body, fault
from compiler.lowering.conditions import boolean
from compiler.lowering.dtypes import ALIASES, scalar_named
from compiler.lowering.numbers import Number, Operand, Tuple, literal, typed, value_of
from compiler.lowering.operator_methods import by_method
from compiler.lowering.patterns import defaulted
from compiler.lowering.walk import as_number, evaluate, forbidden, lowers, not_in_kernel, number, value
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType


@lowers(nodes.IntLiteral, nodes.FloatLiteral)
def _number(body: Body, node: nodes.IntLiteral | nodes.FloatLiteral, into: DType | None) -> Operand:
    if node.suffix is None:
        return literal(node.value)
    dtype = ALIASES.get(node.suffix)
    if dtype is None:
        raise fault("0106", f"unknown suffix `{node.suffix}`", node.span, hint="known: " + ", ".join(d.value for d in DType))
    return literal(float(node.value) if dtype.is_float else node.value, dtype)


@lowers(nodes.BoolLiteral)
def _bool(body: Body, node: nodes.BoolLiteral, into: DType | None) -> Operand:
    return literal(node.value)


@lowers(nodes.TupleLiteral)
def _tuple(body: Body, node: nodes.TupleLiteral, into: DType | None) -> Operand:
    return Tuple(tuple(evaluate(body, element, into) for element in node.elements))


@lowers(nodes.Unary)
def _unary(body: Body, node: nodes.Unary, into: DType | None) -> Operand:
    match node.operator:
        case "-":
            return negate(body, number(body, node.operand, into))
        case "not":
            return boolean(body, node)
        case _:
            raise not_in_kernel(body, node)


@lowers(nodes.Binary)
def _binary(body: Body, node: nodes.Binary, into: DType | None) -> Operand:
    operator = node.operator
    if operator in ("and", "or") or operator in COMPARISONS:
        return boolean(body, node)
    if operator == "??":
        return defaulted(body, node, into)
    if operator == "in":
        raise forbidden(body, "`in`", node)
    first, second = value(body, node.left, into), value(body, node.right, into)
    own = by_method(body, node, first, second, into)
    if own is not None:
        return own
    left, right = as_number(body, first, node.left), as_number(body, second, node.right)
    if operator == "@":
        raise fault(
            "0109",
            "`@` of tiles isn't supported yet in a kernel",
            node.operator_span,
            hint="write the sum as a loop: `s += A[i, k] * B[k, j]`",
        )
    if operator in ("&", "<<", ">>"):
        return bits(body, {"&": "and", "<<": "shl", ">>": "shr"}[operator], left, right, node)
    return binary(body, operator, left, right, node)


@lowers(nodes.Cast)
def _cast(body: Body, node: nodes.Cast, into: DType | None) -> Operand:
    """The number in a type of its own; the class of `out` follows it."""
    value, target = number(body, node.value, into), node.target
    dtype = scalar_named(target)
    if dtype is None:
        raise fault("0203", "a kernel casts to number types only", target.span, hint="one of " + ", ".join(d.value for d in DType))
    if value.literal is not None and value.value is None and (dtype.is_float or isinstance(value.literal, int)):
        return literal(float(value.literal) if dtype.is_float else bool(value.literal) if dtype is DType.BOOL else value.literal, dtype)
    if dtype is DType.I64 and value.form is not None:
        return Number(DType.I64, form=value.form, origin=DType.I64)
    return typed(value_of(body.build, value, dtype), dtype, dtype)
