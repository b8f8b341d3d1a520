"""Lists and arrays, written out: `[1, 2, 3]`, `[0; 64]`."""

from compiler.diagnostics import Label
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.constants import whole_constant
from compiler.typed_ast.conversions import clash, fits, is_silent, join, place_of, strong
from compiler.typed_ast.requirements import require
from compiler.typed_ast.rules.placing import placed
from compiler.typed_ast.scope import CONSTANT_KINDS, Scope
from compiler.typed_ast.types import ERROR, UNKNOWN, ArrayType, ListType, Size, TensorType, Type, TypeVariable


@CORE.infers(nodes.ListLiteral)
def list_literal(checker: Checker, node: nodes.ListLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    """What its place wants, a list or an array; alone what the language says. How many elements an array must have is compared where its
    type is required."""
    place = place_of(expected)
    size = Size(len(node.elements))
    if isinstance(place, ArrayType):
        for value in node.elements:
            placed(checker, value, scope, place.element, "an element of this array")
        return ArrayType(place.element, size)
    is_list = isinstance(place, ListType | TensorType) or checker.meaning.settings.list_literal == "list"
    wanted = place.element if isinstance(place, ListType) else None
    element = _common(checker, node, scope, wanted, "list" if is_list else "array")
    if is_list:
        return ListType(element)
    if not node.elements:
        hint = "write the type: `let xs: list<f64> = []`; a ring or table begins empty: `var xs: ring<f64, 8>`"
        return checker.report("0203", "an array without elements has no type", node.span, hint=hint)
    return ArrayType(strong(element), size)


def _common(checker: Checker, node: nodes.ListLiteral, scope: Scope, wanted: Type | None, what: str) -> Type:
    """The type of all elements: `wanted`, or the first one's, where numbers meet and what isn't known better joins."""
    if wanted is not None and wanted != UNKNOWN:
        for element in node.elements:
            placed(checker, element, scope, wanted, f"an element of this {what}")
        return wanted
    common: Type | None = None
    for element in node.elements:
        nested = ListType(UNKNOWN) if what == "list" and isinstance(element, nodes.ListLiteral) else None
        actual = checker.infer(element, scope, common if common not in (None, UNKNOWN) else nested)
        met = checker.meaning.meet(common, actual) if common is not None else actual
        if met is not None:
            common = met
        elif common is not None and (is_silent(common) or is_silent(actual) or checker.kind(common).widens) and not clash(common, actual):
            common = join(common, actual)
        elif common is not None:
            first = node.elements[0]
            others = (Label(first.span, f"the first is {checker.show(checker.type_of(first))}"),)
            hint = "a tuple `(a, b)` holds values of several types"
            if not require(checker, actual, common, element.span, f"an element of this {what}", others, hint=hint):
                return ERROR
    return UNKNOWN if common is None else common


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
