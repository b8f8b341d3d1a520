"""Actions for the declarations that all languages have: functions, structs, enums, parameters, tests."""

from compiler.syntax.base import present
from compiler.syntax.statements import StatementActions
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import Visibility
from grammars.faults import Token
from runtime.records import evolve

Signature = tuple[Token, tuple[nodes.TypeParameter, ...] | None, tuple[nodes.Parameter, ...] | None]
Result = tuple[nodes.TypeSyntax, tuple[nodes.TypeParameter, ...]]
BoundsAlone = tuple[None, tuple[nodes.TypeParameter, ...]]
Where = tuple[nodes.TypeParameter, ...] | None


class DeclarationActions(StatementActions):
    # ---- functions ------------------------------------------------------------------------------------------------------

    def signature(self, start: int, end: int, name: Token, generics: Where, parameters: tuple[nodes.Parameter, ...] | None) -> Signature:
        return name, generics, parameters

    def parameters(self, start: int, end: int, *parameters: nodes.Parameter) -> tuple[nodes.Parameter, ...]:
        return parameters

    def parameter(
        self, start: int, end: int, mutable: bool | None, name: Token, annotation: nodes.TypeSyntax | None, default: nodes.Expression | None
    ) -> nodes.Parameter:
        return nodes.Parameter(name=name.text, annotation=annotation, default=default, mutable=bool(mutable), span=self.span(start, end))

    def parameter_mut(self, start: int, end: int) -> bool:
        return True

    def function_result(self, start: int, end: int, result: nodes.TypeSyntax, where: Where = None) -> Result:
        return result, where or ()

    def named_function_result(self, start: int, end: int, results: tuple[nodes.ComputeResult, ...]) -> Result:
        """`-> (y: T, k: U)`, which is a tuple of types, and of one the type alone; a kernel's body writes to these names."""
        written = results[0].type_syntax
        if len(results) > 1:
            opening = self.text.index("(", start, end)
            written = nodes.TupleTypeSyntax(elements=tuple(result.type_syntax for result in results), span=self.span(opening, end))
        self.result_names[written.span] = results
        return written, ()

    def function(self, start: int, end: int, signature: Signature, body: nodes.Block) -> nodes.Function:
        return self.function_of(start, end, signature, None, body)

    def function_where(
        self, start: int, end: int, signature: Signature, where: tuple[nodes.TypeParameter, ...], body: nodes.Block | None = None
    ) -> nodes.Function:
        """A function with bounds of its type parameters, and no result."""
        return self.function_of(start, end, signature, (None, where), body)

    def function_with_result(self, start: int, end: int, signature: Signature, result: Result, body: nodes.Block) -> nodes.Function:
        return self.function_of(start, end, signature, result, body)

    def function_declared(self, start: int, end: int, signature: Signature, result: Result | None = None) -> nodes.Function:
        return self.function_of(start, end, signature, result, None)

    def function_of(
        self, start: int, end: int, signature: Signature, result: Result | BoundsAlone | None, body: nodes.Block | None
    ) -> nodes.Function:
        name, generics, parameters = signature
        return nodes.Function(
            name=name.text,
            name_span=self.token_span(name),
            type_parameters=with_bounds(generics, result[1] if result else None),
            parameters=parameters or (),
            result=result[0] if result else None,
            body=body,
            visibility=Visibility.PRIVATE if name.text.startswith("_") else Visibility.PUBLIC,
            span=self.span(start, end),
        )

    def extern_function(self, start: int, end: int, function: nodes.Function) -> nodes.Function:
        return evolve(function, is_extern=True, span=self.span(start, end))

    # ---- types ----------------------------------------------------------------------------------------------------------

    def member_open(self, start: int, end: int) -> None:
        """The brace or colon before members."""

    def member_close(self, start: int, end: int) -> None:
        """The end of the members."""

    def struct(
        self, start: int, end: int, name: Token, generics: Where, where: Where, *fields: nodes.Parameter | None
    ) -> nodes.Declaration:
        return nodes.Struct(
            name=name.text, type_parameters=with_bounds(generics, where), fields=present(fields), span=self.span(start, end)
        )

    def struct_field(
        self, start: int, end: int, name: Token, annotation: nodes.TypeSyntax, default: nodes.Expression | None
    ) -> nodes.Parameter:
        return nodes.Parameter(name=name.text, annotation=annotation, default=default, span=self.span(start, end))

    def enum(self, start: int, end: int, name: Token, generics: Where, where: Where, *variants: nodes.Variant | None) -> nodes.Declaration:
        return nodes.EnumDeclaration(
            name=name.text, type_parameters=with_bounds(generics, where), variants=present(variants), span=self.span(start, end)
        )

    def variant(self, start: int, end: int, name: Token) -> nodes.Variant:
        return nodes.Variant(name=name.text, span=self.span(start, end))

    def variant_tuple(self, start: int, end: int, name: Token, *elements: nodes.TypeSyntax) -> nodes.Variant:
        return nodes.Variant(name=name.text, elements=elements, span=self.span(start, end))

    def variant_struct(self, start: int, end: int, name: Token, *fields: nodes.Parameter | None) -> nodes.Variant:
        return nodes.Variant(name=name.text, fields=present(fields), span=self.span(start, end))

    def type_alias(self, start: int, end: int, name: Token, generics: Where, target: nodes.TypeSyntax) -> nodes.Declaration:
        return nodes.TypeAlias(name=name.text, type_parameters=generics or (), target=target, span=self.span(start, end))

    def impl(
        self, start: int, end: int, generics: Where, target: nodes.TypeSyntax, where: Where, *members: nodes.Declaration | None
    ) -> nodes.Impl:
        """The type of a `self` that has none written is the one that the functions are of, whose type parameters they have."""
        self.require_bodies(members)
        parameters = with_bounds(generics, where)
        whole = [self.finished(member) if isinstance(member, nodes.Function) else member for member in present(members)]
        typed = tuple(_of_type(member, target, parameters) for member in whole)
        return nodes.Impl(target=target, type_parameters=parameters, members=typed, span=self.span(start, end))

    def require_bodies(self, members: tuple[nodes.Declaration | None, ...]) -> None:
        for member in members:
            if member is not None:
                self.require_body(member)

    # ---- modules and programs -----------------------------------------------------------------------------------------------

    def dotted(self, start: int, end: int, *names: Token) -> tuple[str, ...]:
        return tuple(name.text for name in names)

    def program_parameter(
        self,
        start: int,
        end: int,
        name: Token,
        annotation: nodes.TypeSyntax | None,
        within: nodes.Expression | None,
        default: nodes.Expression,
    ) -> nodes.Declaration:
        return nodes.ProgramParameter(name=name.text, annotation=annotation, range=within, default=default, span=self.span(start, end))

    def test(self, start: int, end: int, name: Token, body: nodes.Block) -> nodes.Declaration:
        return nodes.Test(name=self.string_value(name), body=body, span=self.span(start, end))


def _of_type(member: nodes.Declaration, target: nodes.TypeSyntax, parameters: tuple[nodes.TypeParameter, ...]) -> nodes.Declaration:
    if not isinstance(member, nodes.Function):
        return member
    first = member.parameters[:1]
    if first and first[0].name == "self" and first[0].annotation is None:
        first = (evolve(first[0], annotation=target),)
    return evolve(member, type_parameters=(*parameters, *member.type_parameters), parameters=(*first, *member.parameters[1:]))


def with_bounds(generics: Where, where: Where) -> tuple[nodes.TypeParameter, ...]:
    """Type parameters with the bounds that a `where` adds to them."""
    extra = {parameter.name: parameter.bounds for parameter in where or ()}
    return tuple(evolve(parameter, bounds=(*parameter.bounds, *extra.get(parameter.name, ()))) for parameter in generics or ())
