"""Arrays of one element, written out: `[0; 64]`."""

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.constants import whole_constant
from compiler.typed_ast.conversions import fits, strong
from compiler.typed_ast.rules.placing import placed
from compiler.typed_ast.scope import CONSTANT_KINDS, Scope
from compiler.typed_ast.types import ArrayType, Size, Type, TypeVariable


def array_literal(checker: Checker, node: nodes.ListLiteral, place: ArrayType, scope: Scope) -> Type:
    """`[1, 2, 3]` where an array is wanted; how many it wants is compared where its type is required."""
    for element in node.elements:
        placed(checker, element, scope, place.element, "an element of this array")
    return ArrayType(place.element, Size(len(node.elements)))


@CORE.infers(nodes.Repeat)
def repeat(checker: Checker, node: nodes.Repeat, scope: Scope, expected: Type | None, used: bool) -> Type:
    wanted = expected.element if isinstance(expected, ArrayType) else None
    element = checker.infer(node.element, scope, wanted)
    count = whole_constant(node.count, scope)
    if not (isinstance(node.count, nodes.Name) and node.count.name in checker.frame.parameters):
        checker.infer(node.count, scope)
    inside = wanted if wanted is not None and fits(element, wanted) else strong(element)
    if count is None:
        if isinstance(node.count, nodes.Name) and node.count.name in checker.frame.parameters:
            return ArrayType(inside, TypeVariable(node.count.name))
        variable = scope.variable(node.count.name) if isinstance(node.count, nodes.Name) else None
        if variable is not None and variable.kind in CONSTANT_KINDS:
            return ArrayType(inside, Size())
        return checker.report("0301", "the number of elements is not constant", node.count.span, hint="write a number or a `const`")
    if count < 1:
        return checker.report("0301", f"an array has at least 1 element, and this has {count}", node.count.span)
    return ArrayType(inside, Size(count))
