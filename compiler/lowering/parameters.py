"""Which parameters a finished function needs."""

from compiler.hir.instruction import Value
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem
from compiler.lowering.kernel import (
    KernelArgument,
    ResultArgument,
    StrideArgument,
)


def used_parameters(function: HirFunction, parameters: list[tuple[Value, KernelArgument]]) -> list[tuple[Value, KernelArgument]]:
    """Parameters that the function mentions; results always."""
    values: set[int] = set()
    names: set[str] = set()
    for op in function.body.body:
        for inner in op.walk():
            values.update(id(value) for value in inner.operand_values)
            names.update(inner.symbols)
    used = [
        (value, argument)
        for value, argument in parameters
        if id(value) in values or value.name in names or isinstance(argument, (ResultArgument, StrideArgument))
    ]
    strides = {name for value, _ in used if isinstance(value.type, Mem) for form in value.type.strides or () for name in form.names}
    return [(v, a) for v, a in used if not isinstance(a, StrideArgument) or v.name in strides or v.name in names]


def index_names(function: HirFunction, values: list[Value]) -> set[str]:
    names: set[str] = set()
    for op in function.body.body:
        for inner in op.walk():
            names.update(inner.symbols)
            names.update(name for value in inner.results if isinstance(value.type, Mem) for dim in value.type.dims for name in dim.names)
    for value in values:
        if isinstance(value.type, Mem):
            names.update(name for dim in value.type.dims for name in dim.names)
    return names
