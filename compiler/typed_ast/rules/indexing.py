"""Parts of values: fields, and elements of arrays."""

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.constants import whole_constant
from compiler.typed_ast.meaning import TypeRules
from compiler.typed_ast.requirements import report_optional, require_int
from compiler.typed_ast.rules.parts import fields_of
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.turns import outside
from compiler.typed_ast.types import ERROR, I64, UNKNOWN, ArrayType, OptionType, Size, StructType, TupleType, Type


@CORE.infers(nodes.Field)
def field(checker: Checker, node: nodes.Field, scope: Scope, expected: Type | None, used: bool) -> Type:
    if isinstance(node.value, nodes.Name) and scope.find(node.value.name) is None and node.value.name in checker.library.modules:
        return UNKNOWN
    subject = checker.infer(node.value, scope)
    if subject == ERROR:
        return ERROR
    kind = checker.kind(subject)
    fields = kind.fields(checker, subject)
    if node.name in fields:
        return fields[node.name]
    if kind.unknown_field is not None:
        return kind.unknown_field(checker, node, subject)
    if isinstance(subject, OptionType):
        return report_optional(checker, subject, node.value.span)
    known = f"it has {', '.join(f'`{known}`' for known in fields)}" if fields else None
    hint = did_you_mean(node.name, fields) or known
    return checker.report("0202", f"a `{checker.show(subject)}` has no field `{node.name}`", node.span, hint=hint)


@CORE.infers(nodes.Index)
def index(checker: Checker, node: nodes.Index, scope: Scope, expected: Type | None, used: bool) -> Type:
    subject = checker.infer(node.value, scope)
    by_trait = checker.meaning.rules.traits.index(checker, node, subject, scope, expected)
    if by_trait is not None:
        return by_trait
    rule = checker.kind(subject).index or no_element
    return rule(checker, node, subject, scope)


def no_element(checker: Checker, node: nodes.Index, subject: Type, scope: Scope) -> Type:
    indices = [checker.infer(item, scope) for item in node.indices]
    if ERROR in (subject, *indices):
        return ERROR
    if isinstance(subject, OptionType):
        return report_optional(checker, subject, node.value.span)
    return checker.report("0203", f"a `{checker.show(subject)}` has no elements `[...]`", node.span)


def element_of(checker: Checker, node: nodes.Index, subject: Type, scope: Scope, inside: Type, size: Type | None) -> Type:
    """What one index gives of elements of the type `inside`; `size`: how many lie in place, None of a list."""
    if len(node.indices) != 1:
        return no_element(checker, node, subject, scope)
    position = node.indices[0]
    type_ = checker.infer(position, scope)
    if type_ == ERROR or not require_int(checker, type_, position.span, "the index"):
        return ERROR
    if size is None or checker.frame.in_try:
        return inside
    value = whole_constant(position, scope)
    count = size.value if isinstance(size, Size) else None
    hint = f"indices go from 0 to {count - 1}" if count is not None else "indices begin with 0"
    if value is not None and (value < 0 or (count is not None and value >= count)):
        return checker.report("0705", f"the index {value} is outside of `{checker.show(subject)}`", position.span, hint=hint)
    reached = outside(position, scope, checker.frame.turns, count) if value is None else None
    if reached is not None:
        message = f"the index {reached[0]} is outside of `{checker.show(subject)}`"
        return checker.report("0705", message, position.span, label=f"where {reached[1]}", hint=hint)
    return inside


def _element_of_array(checker: Checker, node: nodes.Index, subject: ArrayType, scope: Scope) -> Type:
    return element_of(checker, node, subject, scope, subject.element, subject.size)


def _numbered(checker: Checker, type_: TupleType) -> dict[str, Type]:
    return {str(number): element for number, element in enumerate(type_.elements)}


CORE.kinds |= {
    ArrayType: TypeRules(lambda checker, found: {"len": I64}, _element_of_array, lambda checker, found, span: found.element),
    StructType: TypeRules(lambda checker, found: dict(fields_of(checker, found))),
    TupleType: TypeRules(_numbered),
}
