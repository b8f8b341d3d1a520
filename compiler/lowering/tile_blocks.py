"""Blocks whose tiles are written out as loops over elements before they are lowered."""

from collections.abc import Mapping
from typing import Any, TypeVar

from compiler.lowering.body import Fault
from compiler.lowering.kernel import Signature
from compiler.lowering.stored_tiles import StoredTiles
from compiler.lowering.tile_shapes import FUNCTIONS, NodeBuilder, TileShapes, is_tiled
from compiler.lowering.tiles import TileWriting
from compiler.typed_ast import nodes
from compiler.typed_ast.walk import walk
from runtime.records import evolve, fields_of

Some = TypeVar("Some", bound=nodes.Node)


def written_out(compute: nodes.Compute, signature: Signature) -> nodes.Compute:
    """The block with its tiles as loops; itself where it has none. Raises `Fault` (0109, 0203, 0301) for what isn't supported or makes no
    sense."""
    own = _own_names(compute, signature).intersection(FUNCTIONS)
    if own:
        # a name of another spelling is no tile function here; the program's own name comes back when the tiles are written out
        apart = {name: f"{name} " for name in own}
        hidden = _written_out(evolve(compute, body=_calls_renamed(compute.body, apart)), signature)
        return evolve(hidden, body=_calls_renamed(hidden.body, {new: old for old, new in apart.items()}))
    return _written_out(compute, signature)


def _own_names(compute: nodes.Compute, signature: Signature) -> set[str]:
    """What the program calls so itself."""
    names = {*signature.functions, *(tensor.name for tensor in signature.tensors), *(scalar.name for scalar in signature.scalars)}
    return names | {node.name for node in walk(compute.body) if isinstance(node, nodes.BindingPattern)}


def _calls_renamed(node: Some, names: Mapping[str, str]) -> Some:
    """The node with calls of functions under other names."""

    def new(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(new, value))
        return _calls_renamed(value, names) if isinstance(value, nodes.Node) else value

    changes = {attribute.name: new(getattr(node, attribute.name)) for attribute in fields_of(type(node)) if attribute.name != "type"}
    if isinstance(node, nodes.Call) and isinstance(node.function, nodes.Name) and node.function.name in names:
        changes["function"] = evolve(node.function, name=names[node.function.name])
    return evolve(node, **changes)


def _written_out(compute: nodes.Compute, signature: Signature) -> nodes.Compute:
    """The same for a block whose tile functions all mean the library's."""
    if not any(_is_of_tiles(node) for node in walk(compute.body)):
        return compute
    taken = {node.name for node in walk(compute) if isinstance(node, nodes.Name | nodes.BindingPattern)}
    try:
        shapes = _shapes(compute, signature)
        return _checked(compute, TileWriting(shapes, shapes.build, set(taken)).block(compute.body, {}), shapes)
    except Fault as unfit:
        if unfit.diagnostic.code != "0109":
            raise
    shapes = _shapes(compute, signature)
    results = tuple(result.name or "out" for result in compute.results) or ("out",)
    return _checked(compute, StoredTiles(shapes, shapes.build, taken, results=results).block(compute.body, {}), shapes)


def _shapes(compute: nodes.Compute, signature: Signature) -> TileShapes:
    ranks = {
        result.name or "out": len(result.type_syntax.dims)
        for result in compute.results
        if isinstance(result.type_syntax, nodes.TensorTypeSyntax) and result.type_syntax.dims is not None
    }
    return TileShapes({tensor.name: tensor.dims for tensor in signature.tensors}, NodeBuilder(), ranks)


def _checked(compute: nodes.Compute, body: nodes.Block, shapes: TileShapes) -> nodes.Compute:
    """The block, which begins with the checks of extents that are known when it is launched."""
    own = {name for node in walk(compute.body) if isinstance(node, nodes.ForClause) for name in node.names}
    own |= {node.name for node in walk(compute.body) if isinstance(node, nodes.BindingPattern)}
    checks = [check for check in shapes.checks if not any(isinstance(node, nodes.Name) and node.name in own for node in walk(check))]
    return evolve(compute, body=evolve(body, statements=(*checks, *body.statements)))


def _is_of_tiles(node: nodes.Node) -> bool:
    match node:
        case nodes.Index() | nodes.Binary(operator="@"):
            return is_tiled(node)
        case nodes.Call(function=nodes.Name(name=name)):
            return name in FUNCTIONS
        case _:
            return False
