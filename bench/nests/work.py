"""What the loops of a nest take at least, counted in its text: issue slots of vectors, with those that widen and round narrow floats."""

import ast
import math
from collections.abc import Mapping, Sequence

from bench.nests.form import BenchNest, number_of, slots

WIDENED = {"f16": 2, "bf16": 1}
ROUNDED = {"f16": 2, "bf16": 3}
"""Issue slots, against one of a fused product, that turn an element into f32 and back: `vcvtph2ps` and `vcvtps2ph`, or two and six plain
instructions, for which there are twice as many units."""


def slots_of(nest: BenchNest) -> float:
    """Issue slots for all elements: those that the nest states, else those of its text; none where data decide how long its loops are."""
    computed = nest.operations / 2 or _of_statements(nest.tree.body, nest.sizes)
    return computed + (_of_conversions(nest) if computed else 0.0)


def _of_conversions(nest: BenchNest) -> float:
    """Narrow floats become wide and narrow again, each element that is needed once; those that are only compared or moved do not."""
    if not any(isinstance(node, ast.BinOp | ast.AugAssign) for node in ast.walk(_Elements().visit(nest.tree))):
        return 0.0
    read = sum(math.prod(nest.shape(one.dims)) * WIDENED.get(one.dtype, 0) for one in nest.operands.values())
    written = math.prod(nest.shape(nest.result_dims)) * ROUNDED.get(nest.result_dtype, 0)
    return (read + written) * min(1.0, nest.bytes / nest.operand_bytes)


def _of_statements(statements: Sequence[ast.stmt], known: Mapping[str, float]) -> float:
    """`known`: sizes, and the middle of what variables of loops around take."""
    count = 0.0
    for statement in statements:
        match statement:
            case ast.For(target=ast.Name(id=name), iter=ast.Call(args=bounds), body=body) if not _are_data(bounds):
                low, high = (number_of(ast.unparse(bound), known) for bound in ([ast.Constant(0), *bounds] if len(bounds) == 1 else bounds))
                count += (high - low) * _of_statements(body, {**known, name: (low + high - 1) / 2})
            case ast.If(body=body):
                count += _of_statements(body, known)
            case ast.AugAssign(target=target, op=operator, value=value):
                count += _of_value(ast.BinOp(target, operator, value))
            case ast.Assign(value=value) | ast.AnnAssign(annotation=ast.Name(id="total" | "let"), value=ast.expr() as value):
                count += _of_value(value)
    return count


def _are_data(bounds: Sequence[ast.expr]) -> bool:
    return any(isinstance(node, ast.Subscript) for bound in bounds for node in ast.walk(bound))


def _of_value(value: ast.expr) -> int:
    return slots(ast.unparse(_Elements().visit(ast.parse(ast.unparse(value)))))


class _Elements(ast.NodeTransformer):
    """Takes the indices out: finding a place costs nothing."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return ast.Name("element", ast.Load())
