"""The names of a compute block that mean something outside it: what the host hands over besides the declared inputs."""

from compiler.typed_ast import nodes
from compiler.typed_ast.walk import walk


def free_names(compute: nodes.Compute) -> tuple[str, ...]:
    """Every name that the body, the annotations and the result types mention, once, in the order of their first mention. Names that
    the body itself declares may be among them: whoever asks keeps those that are visible outside."""
    found: dict[str, None] = {}
    for part in (*compute.annotations, *compute.results, compute.body):
        for node in walk(part):
            if isinstance(node, nodes.Name):
                found.setdefault(node.name)
    return tuple(found)
