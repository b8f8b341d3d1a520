"""Actions for patterns: after `case`, and to the left of `=` in `let`."""

from compiler.syntax.base import present
from compiler.syntax.literals import LiteralActions
from compiler.typed_ast import nodes
from grammars.faults import Token
from runtime.records import evolve


class PatternActions(LiteralActions):
    def binding(self, start: int, end: int, name: Token) -> nodes.Pattern:
        span = self.span(start, end)
        return nodes.WildcardPattern(span=span) if name.text == "_" else nodes.BindingPattern(name=name.text, span=span)

    def tuple_pattern(self, start: int, end: int, *elements: nodes.Pattern) -> nodes.Pattern:
        return nodes.TuplePattern(elements=elements, span=self.span(start, end))

    def list_pattern(self, start: int, end: int, *elements: nodes.Pattern) -> nodes.Pattern:
        return nodes.ListPattern(elements=elements, span=self.span(start, end))

    case_words: frozenset[str] = frozenset()
    """Names of cases that begin with a small letter."""

    def pattern_name(self, start: int, end: int, name: Token) -> nodes.Pattern:
        """Names that begin with a capital are cases (`Buy`, `None`) or constants, the others bind."""
        if name.text in self.case_words or name.text[:1].isupper():
            return nodes.VariantPattern(path=(name.text,), span=self.span(start, end))
        return self.binding(start, end, name)

    def bound_pattern(self, pattern: nodes.Pattern) -> nodes.Pattern:
        """A pattern to the left of `=` in `let`, which has one case: there every plain name binds."""
        match pattern:
            case nodes.VariantPattern(path=(name,), arguments=()) if name not in self.case_words:
                return nodes.BindingPattern(name=name, span=pattern.span)
            case nodes.TuplePattern(elements=elements):
                return evolve(pattern, elements=tuple(map(self.bound_pattern, elements)))
        return pattern

    def alternatives(self, start: int, end: int, *parts: nodes.Pattern | Token) -> nodes.Pattern:
        return nodes.AlternativePattern(
            alternatives=tuple(part for part in parts if isinstance(part, nodes.Pattern)), span=self.span(start, end)
        )

    def literal_pattern(self, start: int, end: int, value: nodes.Expression) -> nodes.Pattern:
        return nodes.LiteralPattern(value=value, span=self.span(start, end))

    def range_pattern(self, start: int, end: int, low: nodes.Expression, dots: Token, high: nodes.Expression) -> nodes.Pattern:
        span = self.span(start, end)
        return nodes.LiteralPattern(value=nodes.Range(low=low, high=high, inclusive=dots.kind == "RANGE_TO", span=span), span=span)

    def path_pattern(self, start: int, end: int, *names: Token) -> nodes.Pattern:
        return nodes.VariantPattern(path=tuple(name.text for name in names), span=self.span(start, end))

    def variant_pattern(self, start: int, end: int, *parts: Token | nodes.Pattern | None) -> nodes.Pattern:
        path = tuple(part.text for part in parts if isinstance(part, Token))
        return nodes.VariantPattern(
            path=path, arguments=tuple(part for part in parts if isinstance(part, nodes.Pattern)), span=self.span(start, end)
        )

    def group_pattern(self, start: int, end: int, *elements: nodes.Pattern | None) -> nodes.Pattern:
        elements_ = present(elements)
        if len(elements_) == 1 and "," not in self.text[elements_[0].span.end - self.offset : end]:
            only: nodes.Pattern = elements_[0]
            return only
        return nodes.TuplePattern(elements=elements_, span=self.span(start, end))

    def struct_pattern(self, start: int, end: int, *parts: Token | nodes.FieldPattern | None) -> nodes.Pattern:
        path = tuple(part.text for part in parts if isinstance(part, Token))
        return nodes.StructPattern(
            path=path, fields=tuple(part for part in parts if isinstance(part, nodes.FieldPattern)), span=self.span(start, end)
        )

    def field_pattern(self, start: int, end: int, name: Token, pattern: nodes.Pattern | None = None) -> nodes.FieldPattern:
        inner = pattern if pattern is not None else nodes.BindingPattern(name=name.text, span=self.span(start, end))
        return nodes.FieldPattern(name=name.text, pattern=inner, span=self.span(start, end))

    def rest_pattern(self, start: int, end: int, _dots: Token) -> None:
        """`..`: the fields not named match anything, as they do anyway."""

    def negative_number(self, start: int, end: int, _minus: Token, number: Token) -> nodes.Expression:
        operand = self.number(number.start, number.end, number)
        return nodes.Unary(operator="-", operand=operand, span=self.span(start, end))
