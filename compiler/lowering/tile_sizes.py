"""What slices say of sizes: `x[q:q+64]` with `q in 0..S step 64` says that S is the extent of x there. The last tile may hang over it."""

from collections.abc import Iterator, Mapping

from compiler.hir.affine import Affine
from compiler.lowering.kernel import Signature
from compiler.lowering.words import words
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.walk import parts
from runtime.records import fields_of, frozen

Dims = Mapping[str, tuple[object, ...]]
"""Extents of the inputs: a number or a name where the program has one."""


@frozen
class SliceOfInput:
    """A slice's axis: the tiles that `loop` goes through end where the input `tensor` ends along `axis`, at the number `end`, which is an
    affine form of names."""

    tensor: str
    axis: int
    end: Affine
    source: str
    span: Span


def extent_of(dims: Dims, name: str, axis: int, span: Span) -> nodes.Expression:
    """The extent of an input along an axis."""
    known = dims[name][axis] if axis < len(dims[name]) else None
    if isinstance(known, str):
        return nodes.Name(name=known, span=span)
    if isinstance(known, int):
        return nodes.IntLiteral(value=known, span=span)
    shape = nodes.Field(value=nodes.Name(name=name, span=span), name="shape", span=span)
    return nodes.Index(value=shape, indices=(nodes.IntLiteral(value=axis, span=span),), span=span)


def slices_of_inputs(body: nodes.Block, signature: Signature) -> tuple[SliceOfInput, ...]:
    """The slices of inputs that a loop moves up to its high end, in the order of the text."""
    return tuple(_slices(body, {tensor.name: tensor.dims for tensor in signature.tensors}, {}))


def _slices(node: nodes.Node, dims: Dims, ends: Mapping[str, Affine | None]) -> Iterator[SliceOfInput]:
    """`ends`: the loop variables around the node, with the form that each stays below."""
    match node:
        case nodes.For(clauses=clauses, body=body):
            inner = dict(ends)
            for clause in clauses:
                yield from _slices(clause.source, dims, ends)
                inner.update(dict.fromkeys(clause.names))
                match clause:
                    case nodes.ForClause(names=[name], source=nodes.Range(high=high, inclusive=False)):
                        inner[name] = affine_of(high)
                    case _:
                        pass
            yield from _slices(body, dims, inner)
            return
        case nodes.Index(value=nodes.Name(name=tensor), indices=indices) if tensor in dims:
            for axis, index in enumerate(indices):
                match index:
                    case nodes.Slice(low=nodes.Expression() as low, high=nodes.Expression()):
                        end = _end(affine_of(low), ends)
                        if end is not None:
                            yield SliceOfInput(tensor, axis, end, words(node), node.span)
                    case _:
                        pass
        case _:
            pass
    for part in parts(node):
        yield from _slices(part, dims, ends)


def _end(low: Affine | None, ends: Mapping[str, Affine | None]) -> Affine | None:
    """Where the tiles end that begin at `low`; None where no single loop moves them."""
    moving = [name for name in low.names if name in ends] if low is not None else []
    if low is None or len(moving) != 1:
        return None
    (name,) = moving
    high = ends[name]
    if high is None or low.coefficient(name) <= 0 or any(other in ends for other in high.names):
        return None
    return low.substitute({name: high})


def affine_of(node: nodes.Expression) -> Affine | None:
    """An expression of names and numbers as an affine form; None where it is none."""
    match node:
        case nodes.IntLiteral(value=value):
            return Affine.of(value)
        case nodes.Name(name=name):
            return Affine.of(name)
        case nodes.Binary(operator="+" | "-" | "*" | "/" as operator, left=left, right=right):
            a, b = affine_of(left), affine_of(right)
            if a is None or b is None:
                return None
            match operator:
                case "+":
                    return a + b
                case "-":
                    return a - b
                case "*" if a.value is not None:
                    return b * a.value
                case "*" if b.value is not None:
                    return a * b.value
                case "/" if b.value is not None and b.value > 0:
                    return a.floordiv(b.value)
                case _:
                    return None
        case _:
            return None


def same_text(first: nodes.Node, other: nodes.Node) -> bool:
    """Whether both are the same text."""
    if type(first) is not type(other):
        return False
    a, b = ([(field.name, getattr(node, field.name)) for field in fields_of(type(node))] for node in (first, other))
    for (name, x), (_, y) in zip(a, b, strict=True):
        if name in ("span", "operator_span", "type"):
            continue
        if isinstance(x, nodes.Node) and isinstance(y, nodes.Node):
            if not same_text(x, y):
                return False
        elif isinstance(x, tuple) and isinstance(y, tuple) and len(x) == len(y):
            pairs = zip(x, y, strict=True)
            if not all(same_text(p, q) if isinstance(p, nodes.Node) and isinstance(q, nodes.Node) else p == q for p, q in pairs):
                return False
        elif x != y:
            return False
    return True

