"""One index over all elements: `out[i] = a[i] + b[i]` with tensors of rank n. Such tensors are taken as one long row; the result of an
elementwise block takes their shape."""

from collections.abc import Iterable, Mapping

from compiler.diagnostics import Diagnostic, Diagnostics, Label
from compiler.hir.affine import Affine
from compiler.lowering.kernel import Equation, Signature, TensorInput
from compiler.lowering.sizes import Sizes, dim_form
from compiler.lowering.words import dotted
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.walk import walk

_KINDS = (KernelType.ELEMENTWISE, KernelType.CUSTOM)


def flat_tensors(compute: nodes.Compute, signature: Signature, kind: KernelType | None, results: Iterable[str]) -> dict[str, Span]:
    """Inputs of rank 2 and more that the body only ever gives one index, and where it first does. A block whose kind is inferred runs flat
    when it gives its result one index too and yields nothing."""
    if kind not in (*_KINDS, None):
        return {}
    counts: dict[str, set[int]] = {}
    first: dict[str, Span] = {}
    for node in walk(compute.body):
        if isinstance(node, nodes.Yield) and kind is None:
            return {}
        if isinstance(node, nodes.Index) and (name := dotted(node.value)) is not None:
            counts.setdefault(name, set()).add(len(node.indices))
            first.setdefault(name, node.span)
    if kind is not KernelType.CUSTOM and any(counts.get(name, {1}) != {1} for name in results):
        return {}
    ranks = {tensor.name: tensor.rank for tensor in signature.tensors}
    flat = {name: first[name] for name, rank in ranks.items() if rank >= 2 and counts.get(name) == {1}}
    if kind is None and any(counts.get(name, {1}) != {1} and rank >= 2 for name, rank in ranks.items()):
        return {}
    return flat


def row_form(tensor: TensorInput) -> Affine:
    """The number of elements as a launch form."""
    total = 1
    for dim in tensor.dims:
        if not isinstance(dim, int):
            return Affine.of(f"{tensor.name}.numel")
        total *= dim
    return Affine((), total)


def common_shape(sizes: Sizes, flat: Mapping[str, Span], diagnostics: Diagnostics) -> tuple[Affine, ...] | None:
    """The one shape of all flat tensors as launch forms; that they agree is checked now or at launch. None where ranks differ."""
    tensors = [tensor for tensor in sizes.signature.tensors if tensor.name in flat]
    if not tensors:
        return None
    first, *others = tensors
    shape = tuple(dim_form(first, axis) for axis in range(first.rank))
    for other in others:
        if other.rank != first.rank:
            return None
        for axis in range(first.rank):
            have, want = dim_form(other, axis), shape[axis]
            if have == want:
                continue
            labels = (Label(flat[first.name], f"`{first.name}` is indexed here"),)
            if have.value is not None and want.value is not None:
                diagnostics.add(
                    Diagnostic(
                        "0301",
                        f"`{first.name}` and `{other.name}` run flat under one index, but axis {axis} has {want} and {have} elements",
                        flat[other.name],
                        "",
                        labels,
                        hint="index each with one loop an axis",
                    )
                )
                continue
            sizes.equations.append(
                Equation(
                    want,
                    have,
                    "==",
                    Diagnostic(
                        "0802",
                        f"`{first.name}` and `{other.name}` run flat under one index, but axis {axis} has {{left}} and {{right}} elements",
                        flat[other.name],
                        "",
                        labels,
                        hint="index each with one loop an axis",
                    ),
                )
            )
    return shape
