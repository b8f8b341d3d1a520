"""Structs and tuples of numbers as inputs of compute blocks, named or seen from outside: the block gets their numbers as inputs, and its
body begins by putting the values together again."""

from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.free_names import free_names
from compiler.typed_ast.rules.abstract_types import base_of
from compiler.typed_ast.rules.parts import fields_of
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import Scalar, StructType, TupleType, Type
from compiler.typed_ast.walk import walk
from runtime.records import define, evolve


def in_numbers(checker: Checker, node: nodes.Compute, types: dict[str, Type], scope: Scope) -> nodes.Expression | None:
    """The block with numbers in place of the inputs that are made of them; None where none is. `types`: of its inputs, by name."""
    seen = {name: type_ for name in free_names(node) if (type_ := scope.variables().get(name)) is not None}
    wanted = {name: type_ for name, type_ in {**seen, **types}.items() if _is_of_numbers(checker, type_)}
    changed = {entry.name for entry in node.inputs if entry.mutable}
    if not wanted or changed & wanted.keys():
        return None
    taken = {name.name for name in walk(node) if isinstance(name, nodes.Name)} | set(scope.variables()) | types.keys()
    parts = _NumberedInputs(checker, taken)
    inputs: list[nodes.ComputeInput] = []
    lets: list[nodes.Statement] = []
    before: list[nodes.Statement] = []
    given = {entry.name: entry for entry in node.inputs}
    for name in dict.fromkeys((*given, *wanted)):
        if name not in wanted:
            inputs.append(given[name])
            continue
        span = given[name].span if name in given else node.span
        value: nodes.Expression = given[name].value if name in given else nodes.Name(name=name, span=span)
        if not isinstance(value, nodes.Name):
            before.append(_let(parts.fresh(f"{name}_whole"), value, span))
            value = nodes.Name(name=parts.last, span=span)
        lets.append(_let(name, parts.whole(name, wanted[name], value, span, inputs), span))
    body = evolve(node.body, statements=(*lets, *node.body.statements))
    block = evolve(node, inputs=tuple(inputs), body=body)
    if not before:
        return block
    return nodes.Block(statements=(*before, nodes.ExpressionStatement(value=block, span=node.span)), span=node.span)


def _is_of_numbers(checker: Checker, type_: Type, inside: bool = False) -> bool:
    match type_:
        case Scalar():
            return inside
        case StructType():
            fields = fields_of(checker, type_) if base_of(checker, type_) is None else ()  # a number with a name of its own is none
            return bool(fields) and all(_is_of_numbers(checker, part, True) for _, part in fields)
        case TupleType(elements=elements):
            return bool(elements) and all(_is_of_numbers(checker, part, True) for part in elements)
    return False


def _let(name: str, value: nodes.Expression, span: Span) -> nodes.Let:
    return nodes.Let(pattern=nodes.BindingPattern(name=name, span=span), value=value, span=span)


@define
class _NumberedInputs:
    """Makes inputs of numbers. `taken`: names that mean something already."""

    checker: Checker
    taken: set[str]
    last: str = ""

    def fresh(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        self.last = name
        return name

    def whole(self, name: str, type_: Type, value: nodes.Expression, span: Span, inputs: list[nodes.ComputeInput]) -> nodes.Expression:
        """The value, put together from inputs that are added for its numbers."""
        match type_:
            case StructType():
                fields = [
                    nodes.FieldValue(name=field, value=self._part(name, field, part, value, span, inputs), span=span)
                    for field, part in fields_of(self.checker, type_)
                ]
                return nodes.RecordLiteral(struct=nodes.Name(name=type_.name, span=span), fields=tuple(fields), span=span)
            case TupleType(elements=elements):
                numbers = [self._part(name, str(at), part, value, span, inputs) for at, part in enumerate(elements)]
                return nodes.TupleLiteral(elements=tuple(numbers), span=span)
        inputs.append(nodes.ComputeInput(name=self.fresh(name), value=value, span=span))
        return nodes.Name(name=self.last, span=span)

    def _part(
        self, name: str, field: str, type_: Type, value: nodes.Expression, span: Span, inputs: list[nodes.ComputeInput]
    ) -> nodes.Expression:
        return self.whole(f"{name}_{field}", type_, nodes.Field(value=value, name=field, span=span), span, inputs)
