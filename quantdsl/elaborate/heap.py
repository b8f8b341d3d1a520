"""Calls of functions and methods of what lies on the heap, which have no native form."""

from compiler.lowering.native.calls import call
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.values import Value
from compiler.typed_ast import nodes
from compiler.typed_ast.types import Type
from quantdsl.check import heap
from quantdsl.elaborate.rules import elaborates, not_in_place


@elaborates(nodes.Call)
def call_in_place(c: FunctionContext, node: nodes.Call, place: Type | None) -> Value:
    """A call that needs no heap."""
    match node.function:
        case nodes.Name(name=name) if heap.is_function(name) and not node.callee:
            raise not_in_place(node.type if heap.is_heap(node.type) else node.arguments[0].value.type, node.span)
        case nodes.Field(value=subject) if heap.is_heap(subject.type) and not node.callee:
            raise not_in_place(subject.type, node.span)
    return call(c, node, place)
