"""Actions for declarations: functions, types, traits, imports, parameters, and those that nothing executes yet."""

from attrs import evolve

from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import Visibility
from grammars.faults import Token
from zynml.actions.base import present
from zynml.actions.statements import StatementActions

_Signature = tuple[Token, tuple[nodes.TypeParameter, ...] | None, tuple[nodes.Parameter, ...] | None]
_Result = tuple[nodes.TypeSyntax, tuple[nodes.TypeParameter, ...]]
_Where = tuple[nodes.TypeParameter, ...] | None


class DeclarationActions(StatementActions):
    # ---- functions ------------------------------------------------------------------------------------------------------

    def signature(self, start: int, end: int, name: Token, generics: _Where, parameters: tuple[nodes.Parameter, ...] | None) -> _Signature:
        return name, generics, parameters

    def parameters(self, start: int, end: int, *parameters: nodes.Parameter) -> tuple[nodes.Parameter, ...]:
        return parameters

    def parameter(
        self, start: int, end: int, mutable: bool | None, name: Token, annotation: nodes.TypeSyntax | None, default: nodes.Expression | None
    ) -> nodes.Parameter:
        return nodes.Parameter(name=name.text, annotation=annotation, default=default, mutable=bool(mutable), span=self.span(start, end))

    def parameter_mut(self, start: int, end: int) -> bool:
        return True

    def function_result(self, start: int, end: int, result: nodes.TypeSyntax, where: _Where = None) -> _Result:
        return result, where or ()

    def function(self, start: int, end: int, signature: _Signature, body: nodes.Block) -> nodes.Function:
        return self._function(start, end, signature, None, body)

    def function_with_result(self, start: int, end: int, signature: _Signature, result: _Result, body: nodes.Block) -> nodes.Function:
        return self._function(start, end, signature, result, body)

    def function_declared(self, start: int, end: int, signature: _Signature, result: _Result | None = None) -> nodes.Function:
        return self._function(start, end, signature, result, None)

    def _function(self, start: int, end: int, signature: _Signature, result: _Result | None, body: nodes.Block | None) -> nodes.Function:
        name, generics, parameters = signature
        return nodes.Function(
            name=name.text,
            name_span=self.token_span(name),
            type_parameters=_with_bounds(generics, result[1] if result else None),
            parameters=parameters or (),
            result=result[0] if result else None,
            body=body,
            visibility=Visibility.PRIVATE if name.text.startswith("_") else Visibility.PUBLIC,
            span=self.span(start, end),
        )

    def async_function(self, start: int, end: int, function: nodes.Function) -> nodes.Function:
        return evolve(function, is_async=True, span=self.span(start, end))

    def extern_function(self, start: int, end: int, function: nodes.Function) -> nodes.Function:
        return evolve(function, is_extern=True, span=self.span(start, end))

    def pipeline(self, start: int, end: int, signature: _Signature, body: nodes.Block) -> nodes.Function:
        """A function whose calls are traced as one graph: marked with the annotation `pipeline`."""
        return self._pipeline(start, end, self._function(start, end, signature, None, body))

    def pipeline_with_result(self, start: int, end: int, signature: _Signature, result: _Result, body: nodes.Block) -> nodes.Function:
        return self._pipeline(start, end, self._function(start, end, signature, result, body))

    def _pipeline(self, start: int, end: int, function: nodes.Function) -> nodes.Function:
        return evolve(function, annotations=(nodes.Annotation(name="pipeline", span=self.span(start, start + len("pipeline"))),))

    # ---- types ----------------------------------------------------------------------------------------------------------

    def member_open(self, start: int, end: int) -> None:
        """The brace or colon before members."""

    def member_close(self, start: int, end: int) -> None:
        """The end of the members."""

    def struct(
        self, start: int, end: int, name: Token, generics: _Where, where: _Where, *fields: nodes.Parameter | None
    ) -> nodes.Declaration:
        return nodes.Struct(
            name=name.text, type_parameters=_with_bounds(generics, where), fields=present(fields), span=self.span(start, end)
        )

    def struct_field(
        self, start: int, end: int, name: Token, annotation: nodes.TypeSyntax, default: nodes.Expression | None
    ) -> nodes.Parameter:
        return nodes.Parameter(name=name.text, annotation=annotation, default=default, span=self.span(start, end))

    def enum(
        self, start: int, end: int, name: Token, generics: _Where, where: _Where, *variants: nodes.Variant | None
    ) -> nodes.Declaration:
        return nodes.EnumDeclaration(
            name=name.text, type_parameters=_with_bounds(generics, where), variants=present(variants), span=self.span(start, end)
        )

    def variant(self, start: int, end: int, name: Token) -> nodes.Variant:
        return nodes.Variant(name=name.text, span=self.span(start, end))

    def variant_tuple(self, start: int, end: int, name: Token, *elements: nodes.TypeSyntax) -> nodes.Variant:
        return nodes.Variant(name=name.text, elements=elements, span=self.span(start, end))

    def variant_struct(self, start: int, end: int, name: Token, *fields: nodes.Parameter | None) -> nodes.Variant:
        return nodes.Variant(name=name.text, fields=present(fields), span=self.span(start, end))

    def type_alias(self, start: int, end: int, name: Token, generics: _Where, target: nodes.TypeSyntax) -> nodes.Declaration:
        return nodes.TypeAlias(name=name.text, type_parameters=generics or (), target=target, span=self.span(start, end))

    def trait(
        self, start: int, end: int, name: Token, generics: _Where, where: _Where, *members: nodes.Declaration | None
    ) -> nodes.Declaration:
        return nodes.Trait(
            name=name.text, type_parameters=_with_bounds(generics, where), members=present(members), span=self.span(start, end)
        )

    def impl(
        self, start: int, end: int, generics: _Where, target: nodes.TypeSyntax, where: _Where, *members: nodes.Declaration | None
    ) -> nodes.Declaration:
        self._require_bodies(members)
        return nodes.Impl(
            target=target, type_parameters=_with_bounds(generics, where), members=present(members), span=self.span(start, end)
        )

    def impl_trait(
        self,
        start: int,
        end: int,
        generics: _Where,
        trait: nodes.TypeSyntax,
        target: nodes.TypeSyntax,
        where: _Where,
        *members: nodes.Declaration | None,
    ) -> nodes.Declaration:
        self._require_bodies(members)
        return nodes.Impl(
            trait=trait, target=target, type_parameters=_with_bounds(generics, where), members=present(members), span=self.span(start, end)
        )

    def _require_bodies(self, members: tuple[nodes.Declaration | None, ...]) -> None:
        for member in members:
            if member is not None:
                self.require_body(member)

    def associated_type(self, start: int, end: int, name: Token, bounds: tuple[nodes.TypeSyntax, ...] | None) -> nodes.Declaration:
        target = nodes.NamedTypeSyntax(name="_", span=self.token_span(name))
        parameter = nodes.TypeParameter(name=name.text, bounds=bounds or (), span=self.token_span(name))
        return nodes.TypeAlias(name=name.text, type_parameters=(parameter,), target=target, span=self.span(start, end))

    def associated_type_value(self, start: int, end: int, name: Token, target: nodes.TypeSyntax) -> nodes.Declaration:
        return nodes.TypeAlias(name=name.text, target=target, span=self.span(start, end))

    # ---- modules and programs -----------------------------------------------------------------------------------------------

    def dotted(self, start: int, end: int, *names: Token) -> tuple[str, ...]:
        return tuple(name.text for name in names)

    def import_module(self, start: int, end: int, module: tuple[str, ...], alias: Token | None) -> nodes.Declaration:
        return nodes.Import(form=nodes.ImportForm.MODULE, module=module, alias=alias.text if alias else None, span=self.span(start, end))

    def import_names(self, start: int, end: int, module: tuple[str, ...], *names: Token) -> nodes.Declaration:
        return nodes.Import(
            form=nodes.ImportForm.NAMES, module=module, names=tuple(name.text for name in names), span=self.span(start, end)
        )

    def import_everything(self, start: int, end: int, module: tuple[str, ...], _star: Token) -> nodes.Declaration:
        return nodes.Import(form=nodes.ImportForm.EVERYTHING, module=module, span=self.span(start, end))

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

    def config(self, start: int, end: int, *entries: nodes.FieldValue | None) -> nodes.Declaration:
        return nodes.Config(entries=present(entries), span=self.span(start, end))

    def test(self, start: int, end: int, name: Token, body: nodes.Block) -> nodes.Declaration:
        return nodes.Test(name=self.string_value(name), body=body, span=self.span(start, end))

    # ---- declarations that nothing executes yet --------------------------------------------------------------------------------

    def module(self, start: int, end: int, *_names: object) -> nodes.Declaration:
        return self._later(start, end, "the declaration `module`")

    def extern_struct(self, start: int, end: int, name: Token, *_rest: object) -> nodes.Declaration:
        return self._later(start, end, "`extern struct`")

    def opaque_type(self, start: int, end: int, name: Token, *_rest: object) -> nodes.Declaration:
        return self._later(start, end, "an opaque `type`")

    def effect(self, start: int, end: int, name: Token, *parts: object) -> nodes.Declaration:
        return self._later(start, end, "`effect`", *parts)

    def handler(self, start: int, end: int, name: Token, *parts: object) -> nodes.Declaration:
        return self._later(start, end, "`handler`", *parts)

    def abstract(self, start: int, end: int, name: Token, *parts: object) -> nodes.Declaration:
        return self._later(start, end, "`abstract`", *parts)

    def impl_abstract(self, start: int, end: int, name: Token, *parts: object) -> nodes.Declaration:
        return self._later(start, end, "`impl` of an abstract type", *parts)

    def _later(self, start: int, end: int, feature: str, *parts: object) -> nodes.Declaration:
        return nodes.LaterDeclaration(
            feature=feature, parts=tuple(part for part in parts if isinstance(part, nodes.Node)), span=self.span(start, end)
        )


def _with_bounds(generics: _Where, where: _Where) -> tuple[nodes.TypeParameter, ...]:
    """Type parameters with the bounds that a `where` adds to them."""
    extra = {parameter.name: parameter.bounds for parameter in where or ()}
    return tuple(evolve(parameter, bounds=(*parameter.bounds, *extra.get(parameter.name, ()))) for parameter in generics or ())
