"""Names in kernel bodies: bindings, sizes, constants; and the fields of what they stand for."""

from compiler.hir.affine import Affine
from compiler.lowering import library
from compiler.lowering.arithmetic import in_sum
from compiler.lowering.bindings import BoundVariable
from compiler.lowering.body import Body, fault, silent
from compiler.lowering.numbers import Number, Operand, TensorOperand, Tuple, affine, literal, typed
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
        value = read(body, binding.value) if isinstance(binding.value, BoundVariable) else binding.value
        return in_sum(body, value, into) if isinstance(value, Number) and value.dtype is not DType.BOOL else value
    size = body.names.size(name, node.span)
    if size is not None:
        return size
    if name in _CONSTANTS:
        return literal(_CONSTANTS[name])
    raise undefined(body, name, node)


def undefined(body: Body, name: str, node: nodes.Node) -> Exception:
    have = (body.names.all() | set(body.signature.functions) | library.NAMES) - {name}
    near = nearest(name, have)
    hint = f"did you mean {near}?" if near else "a size must stand in a loop's range: `for i in 0..N`"
    return fault("0201", f"`{name}` is not defined", node.span, hint=hint)


def read(body: Body, variable: BoundVariable) -> Number:
    return typed(body.build.get(variable.slot), variable.dtype, variable.origin, variable.weak)


@lowers(nodes.Field)
def _field(body: Body, node: nodes.Field, into: DType | None) -> Operand:
    path = dotted(node)
    if path is not None:
        binding = body.names.lookup(path)
        if binding is not None:
            return read(body, binding.value) if isinstance(binding.value, BoundVariable) else binding.value
    owner = evaluate(body, node.value, into)
    if isinstance(owner, TensorOperand):
        if node.name == "shape":
            return Tuple(tuple(affine(dim) for dim in shape_of(body, owner)))
        raise fault(
            "0202", f"a tensor in a kernel has no field `{node.name}`", node.span, hint="it has `shape`, `shape(d)`, `numel()` and `len(x)`"
        )
    if isinstance(owner, Tuple):
        position = int(node.name) if node.name.isdigit() else {"x": 0, "y": 1, "z": 2}.get(node.name, len(owner.elements))
        if position < len(owner.elements):
            return owner.elements[position]
        raise fault("0202", f"the tuple has {len(owner.elements)} elements, no `.{node.name}`", node.span)
    raise fault("0202", f"a number has no field `{node.name}`", node.span)


def shape_of(body: Body, tensor: TensorOperand) -> tuple[Affine, ...]:
    memory = body.memories[tensor.name]
    return memory.shape if memory.flat else memory.dims
