"""What serves where a write's index isn't affine: which of `sort`, `shared var` and a `custom` kernel, by why it isn't."""

from compiler.lowering.body import Body
from compiler.lowering.words import words
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import KernelType


def what_serves(body: Body, target: nodes.Index, varying: nodes.Expression, node: nodes.Assign | None) -> str:
    """The hint for a write to `target`, whose index `varying` is known only as it runs."""
    if body.kind is KernelType.FUSED:
        return f"write to a `shared var` with the extents of `{words(target.value)}`, and copy it at the end"
    counter = body.names.lookup(varying.name) if isinstance(varying, nodes.Name) else None
    value = words(node.value) if node is not None else "..."
    if counter is not None and isinstance(varying, nodes.Name):
        outer = body.names.lookup(body.here.loops[0][0]) if body.here.loops else None
        if outer is not None and counter.span.start > outer.span.start:
            return f"a position that each element counts for itself is a sort: write `yield {value}` under `@kernel(sort)`"
        return f"`{varying.name}` counts across iterations: write to a `shared var` under `@kernel(fused)`, where loops run in order"
    return f"write `{words(target)} = {value}` under `@kernel(custom)`, with each loop variable from `global_idx()`"
