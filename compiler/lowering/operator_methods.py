"""Operators of a program's own types in kernel bodies: the methods of their traits, written out in place."""

from compiler.lowering.body import Body
from compiler.lowering.dtypes import scalar_named
from compiler.lowering.numbers import Choice, Number, Operand, Record
from compiler.lowering.walk import call
from compiler.typed_ast import nodes
from compiler.typed_ast.operator_traits import BINARY
from compiler.typed_ast.types import DType


def by_method(body: Body, node: nodes.Binary, left: Operand, right: Operand, into: DType | None = None) -> Operand | None:
    """What the method of an operator gives, where a side is a struct or enum; None where none takes them."""
    if node.operator not in BINARY or not any(isinstance(side, Record | Choice) for side in (left, right)):
        return None
    trait, name = BINARY[node.operator]
    declared = body.signature.declared
    for function in declared.methods(name).values():
        impl = declared.impl_of.get(id(function))
        of_trait = impl is not None and isinstance(impl.trait, nodes.NamedTypeSyntax) and impl.trait.name == trait
        pairs = zip(function.parameters, (left, right), strict=False)
        if of_trait and len(function.parameters) == 2 and all(_takes(p.annotation, side) for p, side in pairs):
            written = nodes.Call(function=nodes.Name(name=name, span=node.span), span=node.span)
            return call(body, function, [(None, left), (None, right)], written, into)
    return None


def _takes(written: nodes.TypeSyntax | None, operand: Operand) -> bool:
    """Whether a parameter is of the kind of an operand."""
    match operand:
        case Record(name=name) | Choice(name=name):
            return isinstance(written, nodes.NamedTypeSyntax) and written.name == name
        case Number(dtype=dtype, weak=weak):
            found = scalar_named(written) if written is not None else None
            return found is not None and (found is dtype or (weak and found is not DType.BOOL))
    return False
