"""The static type of a lowered block's value, for the checker."""

from compiler.lowering.kernel import (
    LoweredKernel,
)
from compiler.lowering.result_plan import ResultPlan
from compiler.lowering.sizes import dim_form
from compiler.typed_ast.types import Scalar, ShapeExpr, StaticShape, SymbolicShape, TensorShape, TensorType, TupleType, Type


def outcome_type(lowered: LoweredKernel) -> Type:
    """The static type of the block's value: extents as far as they are numbers or declared sizes."""
    parts: list[Type] = []
    grouped: dict[int, list[Type]] = {}
    order: list[Type | int] = []
    for result in lowered.plan.results:
        type_: Type = Scalar(result.dtype) if result.scalar else TensorType(Scalar(result.dtype), _shape(lowered, result))
        if result.group == 0:
            order.append(type_)
            continue
        if result.group not in grouped:
            order.append(result.group)
        grouped.setdefault(result.group, []).append(type_)
    parts = [TupleType(grouped[entry]) if isinstance(entry, int) else entry for entry in order]
    return parts[0] if len(parts) == 1 else TupleType(parts)


def without_extents(type_: Type) -> Type:
    """The type where no extent is known."""
    match type_:
        case TupleType(elements):
            return TupleType(tuple(map(without_extents, elements)))
        case TensorType(element, shape) if shape.rank is not None:
            return TensorType(element, SymbolicShape((None,) * shape.rank))
        case _:
            return type_


def _shape(lowered: LoweredKernel, result: ResultPlan) -> TensorShape:
    solved = {rule.name: rule.form for rule in lowered.plan.sizes}
    facts = {f"{t.name}.{axis}": dim_form(t, axis) for t in lowered.signature.tensors for axis in range(t.rank)}
    declared = {dim for tensor in lowered.signature.tensors for dim in tensor.dims if isinstance(dim, str)}
    undeclared = {name: form for name, form in solved.items() if name not in declared}
    dims: list[ShapeExpr | None] = []
    for dim in result.dims:
        for _ in range(len(undeclared) + 2):
            dim = dim.substitute(undeclared).substitute({name: form for name, form in facts.items() if str(form) != name})
        plain = all(isinstance(symbol, str) and symbol in declared for symbol, _ in dim.terms)
        dims.append(ShapeExpr(tuple((str(symbol), c) for symbol, c in dim.terms), dim.constant) if plain else None)
    numbers = [dim.value if dim is not None else None for dim in dims]
    if all(number is not None for number in numbers):
        return StaticShape(tuple(number or 0 for number in numbers))
    return SymbolicShape(dims)
