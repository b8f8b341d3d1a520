"""Actions for numbers with a suffix, and for abstract types, whose values are written so."""

import re
from fractions import Fraction

from compiler.source import Span
from compiler.syntax.declarations import DeclarationActions, Where, with_bounds
from compiler.typed_ast import nodes
from compiler.typed_ast.units import BYTES
from grammars.faults import Token
from runtime.records import evolve

ANY_SUFFIX = ""
"""Among a text's units: modules that it imports may have more."""
_OF_LIBRARY: dict[str, nodes.TypeSyntax] = {
    "Tensor": nodes.TensorTypeSyntax(),
    "String": nodes.NamedTypeSyntax(name="String"),
    "List": nodes.NamedTypeSyntax(name="List"),
    "HashMap": nodes.NamedTypeSyntax(name="HashMap"),
    "HashSet": nodes.NamedTypeSyntax(name="HashSet"),
}
_SUFFIX = re.compile(r"[A-Za-z_]\w*")


class UnitActions(DeclarationActions):
    def __init__(self, file: str, text: str, offset: int = 0, units: frozenset[str] = frozenset()) -> None:
        super().__init__(file, text, offset, units)
        self._impls: dict[Span, nodes.Impl] = {}
        self._fields: dict[str, nodes.Parameter] = {}

    def is_unit(self, suffix: str) -> bool:
        return ANY_SUFFIX in self.units or super().is_unit(suffix)

    def number(self, start: int, end: int, token: Token) -> nodes.Expression:
        """Sizes are ints: `16KB` is 16384."""
        found = super().number(start, end, token)
        if not isinstance(found, nodes.UnitNumber) or found.unit not in BYTES or found.unit in self.units:
            return found
        size = Fraction(found.text) * BYTES[found.unit]
        if size.denominator != 1:
            self.fault("0106", f"`{token.text}` is no whole number of bytes", start, end)
        elif size >= 1 << 64:
            self.fault("0106", f"`{token.text}` does not fit in 64 bits", start, end)
        return nodes.IntLiteral(value=int(size), span=found.span)

    # ---- abstract types ---------------------------------------------------------------------------------------------

    def abstract(self, start: int, end: int, name: Token, *parts: object) -> nodes.Declaration:
        """A struct of one field. The functions among its members are those of an `impl`."""
        generics, base, *others = parts if isinstance(parts[1], nodes.TypeSyntax) else (None, *parts)
        assert isinstance(base, nodes.TypeSyntax)
        parameters = generics if isinstance(generics, tuple) else ()
        suffixes = self._suffixes(next((part for part in others if isinstance(part, nodes.Expression)), None))
        fields = [part for part in others if isinstance(part, nodes.Parameter)]
        for more in fields[1:]:
            self.fault_at("0210", "an abstract type has one field", more, "declare a `struct` for values of several parts")
        if fields and fields[0].default is not None:
            self.fault_at("0109", "the field of an abstract type has no default", fields[0].default, "leave it out")
        field = fields[0] if fields else nodes.Parameter(name="value", annotation=base, span=base.span)
        struct = nodes.Struct(
            name=name.text, type_parameters=parameters, fields=(field,), suffixes=suffixes, span=self.span(start, end)
        )
        members = tuple(part for part in others if isinstance(part, nodes.Declaration))
        if members:
            self._impls[struct.span] = self.impl_abstract(start, end, name, base, *members)
        return struct

    def extern_struct(self, start: int, end: int, name: Token, generics: Where = None) -> nodes.Declaration:
        """A type whose values come from elsewhere."""
        parameters = with_bounds(generics, None)
        return nodes.Struct(name=name.text, type_parameters=parameters, opaque=True, span=self.span(start, end))

    opaque_type = extern_struct

    def with_annotations(self, statement: nodes.Statement, annotations: tuple[nodes.Annotation, ...]) -> nodes.Statement:
        """`@opaque("$Tensor") type T` gives a type of the library another name, where it has one of that name."""
        if isinstance(statement, nodes.Struct) and statement.opaque:
            match annotations:
                case (nodes.Annotation(name="opaque", arguments=(nodes.Argument(value=nodes.StringLiteral(value=text)),)),):
                    known = _OF_LIBRARY.get(text.removeprefix("$"))
                    if known is None:
                        return statement
                    return nodes.TypeAlias(name=statement.name, target=evolve(known, span=statement.span), span=statement.span)
            self.fault_at("0401", "an opaque type has the annotation `@opaque`", annotations[0], 'write `@opaque("$Name") type Name`')
            return statement
        return super().with_annotations(statement, annotations)

    def statements(self, start: int, end: int, *statements: nodes.Statement | None) -> list[nodes.Statement]:
        """Behind an abstract type stand the functions among its members."""
        found = [self._with_field(one) for one in super().statements(start, end, *statements)]
        return [one for each in found for one in (each, self._impls.get(each.span)) if one is not None] if self._impls else found

    def _with_field(self, statement: nodes.Statement) -> nodes.Statement:
        """An abstract type with the field that its `impl` names."""
        if isinstance(statement, nodes.Struct) and statement.suffixes is not None and statement.name in self._fields:
            return evolve(statement, fields=(self._fields[statement.name],))
        return statement

    def impl_abstract(self, start: int, end: int, name: Token, base: nodes.Node, *parts: object) -> nodes.Impl:
        """As `impl Money { }`; a field among the members is that of the declaration. What stands in the brackets is what that says."""
        target = nodes.NamedTypeSyntax(name=name.text, span=self.token_span(name))
        members = tuple(part for part in parts if isinstance(part, nodes.Declaration))
        field = next((part for part in parts if isinstance(part, nodes.Parameter)), None)
        if field is not None:
            self._fields[name.text] = field
        return self.impl(start, end, None, target, None, *members)

    def _suffixes(self, written: nodes.Expression | None) -> tuple[str, ...]:
        """`Suffixes("usd, cents")`."""
        match written:
            case None:
                return ()
            case nodes.Call(
                function=nodes.Name(name="Suffixes"), arguments=(nodes.Argument(name=None, value=nodes.StringLiteral(value=text)),)
            ):
                words = tuple(word.strip() for word in text.split(","))
                if all(_SUFFIX.fullmatch(word) for word in words):
                    return words
        self.fault_at("0101", "behind `with` stand the suffixes of numbers", written, 'write `with Suffixes("usd, cents")`')
        return ()

