"""Names in kernel bodies: bindings, sizes, constants; and the fields of what they stand for."""

from compiler.hir.affine import Affine
from compiler.lowering import library
from compiler.lowering.arithmetic import in_sum
from compiler.lowering.bindings import Binding, BoundParts, BoundVariable
from compiler.lowering.body import Body, fault, silent
from compiler.lowering.composites import of_numbers
from compiler.lowering.numbers import Choice, Number, Operand, Record, TensorOperand, Tuple, affine, literal, typed
from compiler.lowering.records import bare_case, field_of
from compiler.lowering.suggest import nearest
from compiler.lowering.walk import evaluate, lowers
from compiler.lowering.words import dotted
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType

_CONSTANTS = {"inf": float("inf"), "nan": float("nan"), "pi": 3.141592653589793}


@lowers(nodes.Name)
def _name(body: Body, node: nodes.Name, into: DType | None) -> Operand:
    """What the name means here: a binding, a size, a constant."""
    name = node.name
    binding = body.names.lookup(name)
    if binding is not None:
        if binding.how == "poison":
            raise silent()
        value = bound_value(body, binding)
        return in_sum(body, value, into) if isinstance(value, Number) and value.dtype is not DType.BOOL else value
    size = body.names.size(name, node.span)
    if size is not None:
        return size
    if name in _CONSTANTS:
        return literal(_CONSTANTS[name])
    case = bare_case(body, node)
    if case is not None:
        return case
    raise undefined(body, name, node)


def undefined(body: Body, name: str, node: nodes.Node) -> Exception:
    have = (body.names.all() | set(body.signature.functions) | library.NAMES) - {name}
    near = nearest(name, have)
    hint = f"did you mean {near}?" if near else "a size must stand in a loop's range: `for i in 0..N`"
    return fault("0201", f"`{name}` is not defined", node.span, hint=hint)


def bound_value(body: Body, binding: Binding) -> Operand:
    """What a name stands for now."""
    match binding.value:
        case BoundVariable() as variable:
            return read(body, variable)
        case BoundParts(kind=kind, variables=variables):
            return of_numbers(kind, [read(body, variable) for variable in variables])
        case operand:
            return operand


def read(body: Body, variable: BoundVariable) -> Number:
    return typed(body.build.get(variable.slot), variable.dtype, variable.origin, variable.weak)


@lowers(nodes.Field)
def _field(body: Body, node: nodes.Field, into: DType | None) -> Operand:
    path = dotted(node)
    if path is not None:
        binding = body.names.lookup(path)
        if binding is not None:
            return bound_value(body, binding)
    owner = evaluate(body, node.value, into)
    if isinstance(owner, TensorOperand):
        if node.name == "len" and body.memories[owner.name].role == "array":
            return affine(shape_of(body, owner)[0])
        if node.name == "shape":
            return Tuple(tuple(affine(dim) for dim in shape_of(body, owner)))
        raise fault(
            "0202", f"a tensor in a kernel has no field `{node.name}`", node.span, hint="it has `shape`, `shape(d)`, `numel()` and `len(x)`"
        )
    return part_of(owner, node)


def part_of(owner: Operand, node: nodes.Field) -> Operand:
    """`t.0`, `p.x`."""
    if isinstance(owner, Tuple):
        position = int(node.name) if node.name.isdigit() else {"x": 0, "y": 1, "z": 2}.get(node.name, len(owner.elements))
        if position < len(owner.elements):
            return owner.elements[position]
        raise fault("0202", f"the tuple has {len(owner.elements)} elements, no `.{node.name}`", node.span)
    if isinstance(owner, Record | Choice):
        return field_of(owner, node)
    raise fault("0202", f"a number has no field `{node.name}`", node.span)


def shape_of(body: Body, tensor: TensorOperand) -> tuple[Affine, ...]:
    memory = body.memories[tensor.name]
    return memory.shape if memory.flat else memory.dims
