"""Actions for the declarations that only ZynML has: traits, imports, settings, pipelines, and those that nothing executes yet."""

from compiler.syntax.base import present
from compiler.syntax.declarations import DeclarationActions, Result, Signature, Where, with_bounds
from compiler.typed_ast import nodes
from grammars.faults import Token
from runtime.records import evolve


class ZynmlDeclarations(DeclarationActions):
    # ---- functions ------------------------------------------------------------------------------------------------------

    def async_function(self, start: int, end: int, function: nodes.Function) -> nodes.Function:
        return evolve(function, is_async=True, span=self.span(start, end))

    def pipeline(self, start: int, end: int, signature: Signature, body: nodes.Block) -> nodes.Function:
        """A function whose calls are traced as one graph: marked with the annotation `pipeline`."""
        return self._pipeline(start, end, self.function_of(start, end, signature, None, body))

    def pipeline_with_result(self, start: int, end: int, signature: Signature, result: Result, body: nodes.Block) -> nodes.Function:
        return self._pipeline(start, end, self.function_of(start, end, signature, result, body))

    def _pipeline(self, start: int, end: int, function: nodes.Function) -> nodes.Function:
        return evolve(function, annotations=(nodes.Annotation(name="pipeline", span=self.span(start, start + len("pipeline"))),))

    # ---- traits ---------------------------------------------------------------------------------------------------------

    def trait(
        self, start: int, end: int, name: Token, generics: Where, where: Where, *members: nodes.Declaration | None
    ) -> nodes.Declaration:
        return nodes.Trait(
            name=name.text, type_parameters=with_bounds(generics, where), members=present(members), span=self.span(start, end)
        )

    def impl_trait(
        self,
        start: int,
        end: int,
        generics: Where,
        trait: nodes.TypeSyntax,
        target: nodes.TypeSyntax,
        where: Where,
        *members: nodes.Declaration | None,
    ) -> nodes.Declaration:
        return evolve(self.impl(start, end, generics, target, where, *members), trait=trait)

    def associated_type(self, start: int, end: int, name: Token, bounds: tuple[nodes.TypeSyntax, ...] | None) -> nodes.Declaration:
        target = nodes.NamedTypeSyntax(name="_", span=self.token_span(name))
        parameter = nodes.TypeParameter(name=name.text, bounds=bounds or (), span=self.token_span(name))
        return nodes.TypeAlias(name=name.text, type_parameters=(parameter,), target=target, span=self.span(start, end))

    def associated_type_value(self, start: int, end: int, name: Token, target: nodes.TypeSyntax) -> nodes.Declaration:
        return nodes.TypeAlias(name=name.text, target=target, span=self.span(start, end))

    # ---- modules and settings -------------------------------------------------------------------------------------------

    def import_module(self, start: int, end: int, module: tuple[str, ...], alias: Token | None) -> nodes.Declaration:
        return nodes.Import(form=nodes.ImportForm.MODULE, module=module, alias=alias.text if alias else None, span=self.span(start, end))

    def import_names(self, start: int, end: int, module: tuple[str, ...], *names: tuple[str, str]) -> nodes.Declaration:
        written, bound = zip(*names, strict=True)
        return nodes.Import(form=nodes.ImportForm.NAMES, module=module, names=written, bound=bound, span=self.span(start, end))

    def import_name(self, start: int, end: int, name: Token, alias: Token | None) -> tuple[str, str]:
        return name.text, (alias or name).text

    def import_everything(self, start: int, end: int, module: tuple[str, ...], _star: Token) -> nodes.Declaration:
        return nodes.Import(form=nodes.ImportForm.EVERYTHING, module=module, span=self.span(start, end))

    def config(self, start: int, end: int, *entries: nodes.FieldValue | None) -> nodes.Declaration:
        return nodes.Config(entries=present(entries), span=self.span(start, end))

    # ---- declarations that nothing executes yet --------------------------------------------------------------------------------

    def module(self, start: int, end: int, path: tuple[str, ...]) -> nodes.Declaration:
        return nodes.Module(path=path, span=self.span(start, end))

    def effect(self, start: int, end: int, name: Token, *parts: object) -> nodes.Declaration:
        return self._later(start, end, "`effect`", *parts)

    def handler(self, start: int, end: int, name: Token, *parts: object) -> nodes.Declaration:
        return self._later(start, end, "`handler`", *parts)

    def _later(self, start: int, end: int, feature: str, *parts: object) -> nodes.Declaration:
        return nodes.LaterDeclaration(
            feature=feature, parts=tuple(part for part in parts if isinstance(part, nodes.Node)), span=self.span(start, end)
        )
