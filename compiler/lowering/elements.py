"""Elements of tensors and tuples where a body indexes them, and how `@broadcast` reads indices."""

from compiler.diagnostics import Diagnostic, Label
from compiler.hir.affine import Affine
from compiler.lowering.body import Body, Memory, fault
from compiler.lowering.indices import index_forms, load
from compiler.lowering.kernel import Equation
from compiler.lowering.numbers import Number, Operand, TensorOperand, Tuple, integer
from compiler.lowering.walk import evaluate, lowers, number
from compiler.lowering.words import words
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType


@lowers(nodes.Index)
def _index(body: Body, node: nodes.Index, into: DType | None) -> Operand:
    if any(isinstance(index, (nodes.Slice, nodes.EllipsisIndex)) for index in node.indices):
        raise fault(
            "0109",
            f"the slice `{words(node)}` isn't supported yet in a kernel",
            node.span,
            hint="loop over the elements: `for t in 0..64: ... x[q + t]`",
        )
    node = elements_joined(body, node)
    owner = evaluate(body, node.value)
    if isinstance(owner, Tuple):
        position = number(body, node.indices[0]).constant if len(node.indices) == 1 else None
        if position is None or not -len(owner.elements) <= position < len(owner.elements):
            rank = len(owner.elements)
            raise fault("0307", f"`{words(node)}` needs one constant from 0 to {rank - 1}", node.span, f"{rank} elements")
        return owner.elements[position]
    if not isinstance(owner, TensorOperand):
        raise _not_indexable(body, node)
    memory = body.memories[owner.name]
    if memory.open:
        memory.settle_rank(len(node.indices))
    indices = indices_of(body, node)
    broadcast = dict(body.kernel.broadcast)
    if memory.name in broadcast:
        indices = _broadcast(body, memory, broadcast[memory.name], indices, node)
    forms = index_forms(body, memory, indices, node)
    return load(body, memory, forms, node, tuple(index.span for _, index in indices), into)


def array_named(body: Body, name: str) -> Memory | None:
    """The array that a name means; None where it means anything else."""
    binding = body.names.lookup(name)
    operand = binding.value if binding is not None else None
    if not isinstance(operand, TensorOperand) or operand.name not in body.memories:
        return None
    memory = body.memories[operand.name]
    return memory if memory.role == "array" else None


def elements_joined(body: Body, node: nodes.Index) -> nodes.Index:
    """`a[i][j]` of an array of arrays as `a[i, j]`."""
    root: nodes.Expression = node
    indices: list[nodes.Expression] = []
    while isinstance(root, nodes.Index):
        indices[:0] = root.indices
        root = root.value
    if root is node.value or not isinstance(root, nodes.Name):
        return node
    binding = body.names.lookup(root.name)
    if binding is None or (binding.how != "poison" and array_named(body, root.name) is None):
        return node
    return nodes.Index(value=root, indices=tuple(indices), span=node.span)


def indices_of(body: Body, node: nodes.Index) -> list[tuple[Number, nodes.Expression]]:
    """Where an element stands, which goes into no sum."""
    return [(number(body, index), index) for index in node.indices]


def _broadcast(
    body: Body, memory: Memory, axes: tuple[int, ...], indices: list[tuple[Number, nodes.Expression]], node: nodes.Expression
) -> list[tuple[Number, nodes.Expression]]:
    """`@broadcast(v, axis=1)`: `v` varies along these axes of `out` only. Its indices are those of `out`, or those of its own axes."""
    rank, given = len(memory.dims), len(indices)
    _require_axes(body, memory, axes, node)
    if rank == given == len(axes):
        return indices
    given_axes = sorted(axis % given for axis in axes if -given <= axis < given)
    if rank == given:
        unit = Affine((), 1)
        for axis in range(rank):
            if axis not in given_axes and body.final and memory.dims[axis] != unit:
                message = f"`{memory.name}` is broadcast along axis {axis}, where it has {{left}} elements and not 1"
                said = Diagnostic("0802", message, node.span, hint=f"leave `{memory.name}` out of `@broadcast`, or give it 1 element there")
                body.equations.append(Equation(memory.dims[axis], unit, "==", said))
        return [index if axis in given_axes else (integer(0), index[1]) for axis, index in enumerate(indices)]
    return [indices[axis] for axis in given_axes] if len(given_axes) == rank else indices


def _require_axes(body: Body, memory: Memory, axes: tuple[int, ...], node: nodes.Expression) -> None:
    """Refuse axes that no result has; ranks of results are known in the last walk."""
    ranks = [len(body.memories[name].dims) for name in body.results if name in body.memories] if body.final else []
    rank = max(ranks, default=None)
    outside = next((axis for axis in axes if rank is not None and not -rank <= axis < rank), None)
    if outside is not None and rank is not None:
        result = body.results[ranks.index(rank)]
        raise fault(
            "0307",
            f"`@broadcast` puts `{memory.name}` along axis {outside} of `{result}`, which has {rank} {'axis' if rank == 1 else 'axes'}",
            node.span,
            hint=f"valid: {-rank} to {rank - 1}",
        )


def _not_indexable(body: Body, node: nodes.Index) -> Exception:
    others: tuple[Label, ...] = ()
    if isinstance(node.value, nodes.Name):
        binding = body.names.lookup(node.value.name)
        if binding is not None:
            others = (Label(binding.span, f"{binding.how} here"),)
    return fault(
        "0304", f"`{words(node.value)}` is a number and takes no index", node.span, hint=f"write `{words(node.value)}`", others=others
    )
