"""Actions for expressions: operators, calls, indices, containers, lambdas, `if`, `match` and `try`."""

from collections.abc import Sequence

from compiler.source import Span
from compiler.syntax.base import present
from compiler.syntax.literals import LiteralActions
from compiler.syntax.types import TypeActions
from compiler.typed_ast import nodes
from grammars.faults import Token
from runtime.records import evolve

_OPERATORS = {"||": "or", "&&": "and", "^": "**", "!": "not"}


class ExpressionActions(LiteralActions, TypeActions):
    def expression_only(self, start: int, end: int, value: nodes.Expression) -> nodes.Expression:
        return value

    # ---- operands -------------------------------------------------------------------------------------------------------

    def name(self, start: int, end: int, token: Token) -> nodes.Expression:
        return nodes.Name(name=token.text, span=self.span(start, end))

    def unit(self, start: int, end: int) -> nodes.Expression:
        return nodes.TupleLiteral(span=self.span(start, end))

    def parenthesised(self, start: int, end: int, value: nodes.Expression) -> nodes.Expression:
        return value

    def tuple_literal(self, start: int, end: int, *elements: nodes.Expression) -> nodes.Expression:
        return nodes.TupleLiteral(elements=elements, span=self.span(start, end))

    def list_literal(self, start: int, end: int, *elements: nodes.Expression | None) -> nodes.Expression:
        return nodes.ListLiteral(elements=present(elements), span=self.span(start, end))

    def repeat(self, start: int, end: int, element: nodes.Expression, count: nodes.Expression) -> nodes.Expression:
        return nodes.Repeat(element=element, count=count, span=self.span(start, end))

    def list_comprehension(
        self,
        start: int,
        end: int,
        element: nodes.Expression,
        names: list[Token],
        source: nodes.Expression,
        condition: nodes.Expression | None,
    ) -> nodes.Expression:
        return nodes.Comprehension(
            element=element, names=tuple(name.text for name in names), source=source, condition=condition, span=self.span(start, end)
        )

    def dict_comprehension(
        self,
        start: int,
        end: int,
        key: nodes.Expression,
        element: nodes.Expression,
        names: list[Token],
        source: nodes.Expression,
        condition: nodes.Expression | None,
    ) -> nodes.Expression:
        return nodes.Comprehension(
            element=element,
            key=key,
            names=tuple(name.text for name in names),
            source=source,
            condition=condition,
            span=self.span(start, end),
        )

    def entry(self, start: int, end: int, key: nodes.Expression, value: nodes.Expression) -> nodes.Entry:
        return nodes.Entry(key=key, value=value, span=self.span(start, end))

    def brace_literal(self, start: int, end: int, *entries: nodes.Entry | None) -> nodes.Expression:
        """A record when its keys are names (a computed key stands in parentheses), else a dict."""
        entries_: tuple[nodes.Entry, ...] = present(entries)
        span = self.span(start, end)
        named = [
            nodes.FieldValue(name=entry.key.name, value=entry.value, span=entry.span)
            for entry in entries_
            if isinstance(entry.key, nodes.Name) and self.text[entry.span.start - self.offset] != "("
        ]
        if entries_ and len(named) == len(entries_):
            return nodes.RecordLiteral(fields=tuple(named), span=span)
        if named:
            self.fault_at(
                "0101",
                f"the key `{named[0].name}` is a name among keys that are values",
                named[0],
                "a record's keys are names, a dict's are literals or `(e)`",
            )
        return nodes.DictLiteral(entries=entries_, span=span)

    def struct_literal(
        self, start: int, end: int, struct: nodes.Expression, *fields: nodes.FieldValue | nodes.Expression | None
    ) -> nodes.Expression:
        module = dotted_names(struct)
        if module is not None and len(module) > 1:
            struct = nodes.Path(segments=module, span=struct.span)
        if not isinstance(struct, nodes.Name | nodes.Path):
            self.fault_at("0101", f"`{self.written(struct)}` is no name of a struct", struct)
        values = [field for field in fields if isinstance(field, nodes.FieldValue)]
        base = next((field for field in fields if isinstance(field, nodes.Expression)), None)
        return nodes.RecordLiteral(struct=struct, fields=tuple(values), base=base, span=self.span(start, end))

    def field_value(self, start: int, end: int, name: Token, value: nodes.Expression) -> nodes.FieldValue:
        return nodes.FieldValue(name=name.text, value=value, span=self.span(start, end))

    def field_shorthand(self, start: int, end: int, name: Token) -> nodes.FieldValue:
        return nodes.FieldValue(name=name.text, value=self.name(start, end, name), span=self.span(start, end))

    def struct_base(self, start: int, end: int, _dots: Token, base: nodes.Expression) -> nodes.Expression:
        return base

    def extern_call(self, start: int, end: int, name: Token, arguments: tuple[nodes.Argument, ...]) -> nodes.Expression:
        function = nodes.Path(segments=("extern", name.text), span=self.span(start, name.end))
        return nodes.Call(function=function, arguments=arguments, span=self.span(start, end))

    # ---- what stands behind an operand --------------------------------------------------------------------------------------

    def call(self, start: int, end: int, function: nodes.Expression, arguments: tuple[nodes.Argument, ...]) -> nodes.Expression:
        return nodes.Call(function=function, arguments=arguments, span=self.span(start, end))

    def generic_call(
        self, start: int, end: int, function: nodes.Expression, *parts: nodes.TypeSyntax | tuple[nodes.Argument, ...]
    ) -> nodes.Expression:
        arguments = parts[-1]
        assert isinstance(arguments, tuple)
        types = [part for part in parts if isinstance(part, nodes.TypeSyntax)]
        return nodes.Call(function=function, arguments=arguments, type_arguments=tuple(types), span=self.span(start, end))

    def arguments(self, start: int, end: int, *arguments: nodes.Argument | None) -> tuple[nodes.Argument, ...]:
        return present(arguments)

    def argument(self, start: int, end: int, value: nodes.Expression) -> nodes.Argument:
        return nodes.Argument(value=value, span=self.span(start, end))

    def named_argument(self, start: int, end: int, name: Token, value: nodes.Expression) -> nodes.Argument:
        return nodes.Argument(name=name.text, value=value, span=self.span(start, end))

    def operator(self, start: int, end: int, token: Token) -> nodes.Expression:
        return nodes.OperatorValue(operator=_OPERATORS.get(token.text, token.text), span=self.span(start, end))

    def index(self, start: int, end: int, value: nodes.Expression, *indices: nodes.Expression) -> nodes.Expression:
        return nodes.Index(value=value, indices=indices, span=self.span(start, end))

    def slice(
        self, start: int, end: int, low: nodes.Expression | None, high: nodes.Expression | None, step: nodes.Expression | None = None
    ) -> nodes.Expression:
        return nodes.Slice(low=low, high=high, step=step, span=self.span(start, end))

    def ellipsis(self, start: int, end: int, _dots: Token) -> nodes.Expression:
        return nodes.EllipsisIndex(span=self.span(start, end))

    def field(self, start: int, end: int, value: nodes.Expression, name: Token) -> nodes.Expression:
        return nodes.Field(value=value, name=name.text, span=self.span(start, end))

    def path(self, start: int, end: int, left: nodes.Expression, name: Token) -> nodes.Expression:
        return self.generic_path(start, end, left, name)

    def generic_path(self, start: int, end: int, left: nodes.Expression, *parts: nodes.TypeSyntax | Token) -> nodes.Expression:
        types = [part for part in parts if isinstance(part, nodes.TypeSyntax)]
        last = parts[-1]
        assert isinstance(last, Token)
        span = self.span(start, end)
        before = dotted_names(left)
        if before is not None:
            return nodes.Path(segments=(*before, last.text), arguments=tuple(types), span=span)
        if isinstance(left, nodes.Path):
            return nodes.Path(segments=(*left.segments, last.text), arguments=(*left.arguments, *types), span=span)
        self.fault_at(
            "0101",
            f"only a name can stand before `::`, and `{self.written(left)}` is none",
            left,
            f"write `.{last.text}` for a field or method",
        )
        return nodes.Field(value=left, name=last.text, span=span)

    def generic_struct(
        self, start: int, end: int, struct: nodes.Expression, *parts: nodes.TypeSyntax | nodes.FieldValue | nodes.Expression | None
    ) -> nodes.Expression:
        types = [part for part in parts if isinstance(part, nodes.TypeSyntax)]
        segments = struct.segments if isinstance(struct, nodes.Path) else dotted_names(struct) or (self.written(struct),)
        fields = [part for part in parts if not isinstance(part, nodes.TypeSyntax)]
        return self.struct_literal(start, end, nodes.Path(segments=segments, arguments=tuple(types), span=struct.span), *fields)

    def cast(self, start: int, end: int, value: nodes.Expression, target: nodes.TypeSyntax) -> nodes.Expression:
        return nodes.Cast(value=value, target=target, span=self.span(start, end))

    def propagate(self, start: int, end: int, value: nodes.Expression) -> nodes.Expression:
        return nodes.Propagate(value=value, span=self.span(start, end))

    # ---- operators --------------------------------------------------------------------------------------------------------

    def binary(self, start: int, end: int, left: nodes.Node, operator: Token, right: nodes.Node) -> nodes.Expression:
        return nodes.Binary(
            operator=_OPERATORS.get(operator.text, operator.text),
            left=self.as_value(left),
            right=self.as_value(right),
            operator_span=self.token_span(operator),
            span=self.span(start, end),
        )

    def unary(self, start: int, end: int, operator: Token, operand: nodes.Node) -> nodes.Expression:
        if operator.text == "await":
            return self._await(self.span(start, end), self.as_value(operand))
        match operand:
            case nodes.IntLiteral(value=value, suffix=str(suffix)) if operator.text == "-":  # `-128i8`: i8 has no 128 to negate
                return nodes.IntLiteral(value=-value, suffix=suffix, span=self.span(start, end))
        return nodes.Unary(
            operator=_OPERATORS.get(operator.text, operator.text), operand=self.as_value(operand), span=self.span(start, end)
        )

    def comparison(
        self, start: int, end: int, left: nodes.Expression, operator: Token, right: nodes.Expression, *more: nodes.Expression | Token
    ) -> nodes.Expression:
        if more:
            self._report_chain(start, end, [left, operator, right, *more])
        return self.binary(start, right.span.end - self.offset, left, operator, right)

    def not_in(self, start: int, end: int, left: nodes.Expression, right: nodes.Expression) -> nodes.Expression:
        span = self.span(start, end)
        return nodes.Unary(operator="not", operand=nodes.Binary(operator="in", left=left, right=right, span=span), span=span)

    def _report_chain(self, start: int, end: int, parts: Sequence[nodes.Expression | Token]) -> None:
        def shown(part: nodes.Expression | Token) -> str:
            return part.text if isinstance(part, Token) else self.written(part)

        pairs = [" ".join(shown(part) for part in parts[at : at + 3]) for at in range(0, len(parts) - 2, 2)]
        second = parts[3]
        assert isinstance(second, Token)
        self.fault("0107", "comparisons can't be chained", start, end, f"write `{' and '.join(pairs)}`")

    def range(
        self, start: int, end: int, low: nodes.Expression, dots: Token, high: nodes.Expression, step: nodes.Expression | None = None
    ) -> nodes.Expression:
        return nodes.Range(low=low, high=high, step=step, inclusive=dots.kind == "RANGE_TO", span=self.span(start, end))

    def question(
        self, start: int, end: int, condition: nodes.Expression, then: nodes.Expression, otherwise: nodes.Expression
    ) -> nodes.Expression:
        return nodes.Conditional(condition=condition, then=then, otherwise=otherwise, span=self.span(start, end))

    def python_conditional(
        self, start: int, end: int, then: nodes.Expression, condition: nodes.Expression, otherwise: nodes.Expression
    ) -> nodes.Expression:
        return self.question(start, end, condition, then, otherwise)

    def await_timeout(
        self, start: int, end: int, future: nodes.Node, limit: nodes.Node, otherwise: nodes.Expression | None = None
    ) -> nodes.Expression:
        awaited = self._await(self.span(start, end), self.as_value(future))
        return evolve(awaited, timeout=self.as_value(limit), otherwise=otherwise)

    def _await(self, span: Span, operand: nodes.Expression) -> nodes.Await:
        """`all(...)` and `any(...)` right behind `await` say which futures are meant, not a function."""
        match operand:
            case nodes.Call(function=nodes.Name(name="all" | "any" as which), arguments=arguments, piped=False) if all(
                argument.name is None for argument in arguments
            ):
                return nodes.Await(futures=tuple(a.value for a in arguments), which=nodes.Awaited(which), span=span)
        return nodes.Await(futures=(operand,), span=span)

    def pipe(self, start: int, end: int, value: nodes.Expression, target: nodes.Expression) -> nodes.Expression:
        """`x |> f(a)` is `f(x, a)`; a name, path, method or lambda is called with `x` alone."""
        span = self.span(start, end)
        piped = nodes.Argument(value=value, span=value.span)
        match target:
            case nodes.Call():
                return evolve(target, arguments=(piped, *target.arguments), piped=True, span=span)
            case nodes.Propagate(value=nodes.Call() as call):
                return evolve(target, value=evolve(call, arguments=(piped, *call.arguments), piped=True), span=span)
            case nodes.Cast(value=nodes.Call() as call):
                return evolve(target, value=evolve(call, arguments=(piped, *call.arguments), piped=True), span=span)
            case nodes.Name() | nodes.Path() | nodes.Field() | nodes.Lambda():
                return nodes.Call(function=target, arguments=(piped,), piped=True, span=span)
        self.fault_at(
            "0101", f"expected a function after `|>`, but `{self.written(target)}` is none", target, "write a call, as in `x |> f(a)`"
        )
        return target

    def pipe_method(
        self, start: int, end: int, value: nodes.Expression, name: Token, arguments: tuple[nodes.Argument, ...] | None = None
    ) -> nodes.Expression:
        method = nodes.Field(value=value, name=name.text, span=self.span(start, name.end))
        return nodes.Call(function=method, arguments=arguments or (), span=self.span(start, end))

    # ---- lambdas, if, match, try ----------------------------------------------------------------------------------------------

    def lambda_(self, start: int, end: int, parameters: tuple[nodes.Parameter, ...] | None, body: nodes.Expression) -> nodes.Expression:
        return nodes.Lambda(parameters=parameters or (), body=body, span=self.span(start, end))

    def arrow_lambda(self, start: int, end: int, written: nodes.Expression, body: nodes.Expression) -> nodes.Expression:
        names = written.elements if isinstance(written, nodes.TupleLiteral) else (written,)
        parameters = []
        for name in names:
            if isinstance(name, nodes.Name):
                parameters.append(nodes.Parameter(name=name.name, span=name.span))
            else:
                self.fault_at(
                    "0101",
                    f"expected a parameter's name before `=>`, but `{self.written(name)}` is none",
                    name,
                    "write `(a, b) => ...`, or `def(a: T): ...` for types",
                )
        return nodes.Lambda(parameters=tuple(parameters), body=body, span=self.span(start, end))

    def if_(self, start: int, end: int, condition: nodes.Expression, then: nodes.Block, otherwise: nodes.Block | None) -> nodes.Expression:
        return nodes.If(condition=condition, then=then, otherwise=otherwise, span=self.span(start, end))

    def elif_(self, start: int, end: int, condition: nodes.Expression, then: nodes.Block, otherwise: nodes.Block | None) -> nodes.Block:
        return self.else_if(start, end, self.if_(start, end, condition, then, otherwise))

    def else_if(self, start: int, end: int, nested: nodes.Expression) -> nodes.Block:
        statement = nodes.ExpressionStatement(value=nested, span=nested.span)
        return nodes.Block(statements=(statement,), braces=False, span=nested.span)

    def if_let(
        self, start: int, end: int, pattern: nodes.Pattern, value: nodes.Expression, then: nodes.Block, otherwise: nodes.Block | None
    ) -> nodes.Expression:
        condition = nodes.LetCondition(pattern=pattern, value=value, span=pattern.span.to(value.span))
        return self.if_(start, end, condition, then, otherwise)

    def elif_let(
        self, start: int, end: int, pattern: nodes.Pattern, value: nodes.Expression, then: nodes.Block, otherwise: nodes.Block | None
    ) -> nodes.Block:
        return self.else_if(start, end, self.if_let(start, end, pattern, value, then, otherwise))

    def else_(self, start: int, end: int, block: nodes.Block) -> nodes.Block:
        return block

    def match_(self, start: int, end: int, subject: nodes.Expression, *arms: nodes.Arm) -> nodes.Expression:
        return nodes.Match(subject=subject, arms=arms, span=self.span(start, end))

    def arm(self, start: int, end: int, pattern: nodes.Pattern, guard: nodes.Expression | None, body: nodes.Expression) -> nodes.Arm:
        return nodes.Arm(pattern=pattern, guard=guard, body=body, span=self.span(start, end))

    def try_(self, start: int, end: int, body: nodes.Block, *handlers: nodes.Catch) -> nodes.Expression:
        return nodes.Try(body=body, handlers=handlers, span=self.span(start, end))

    def catch(self, start: int, end: int, error: nodes.TypeSyntax, name: Token | None, body: nodes.Block) -> nodes.Catch:
        everything = isinstance(error, nodes.NamedTypeSyntax) and error.name == "_"
        return nodes.Catch(error=None if everything else error, name=name.text if name else None, body=body, span=self.span(start, end))


def dotted_names(node: nodes.Expression) -> tuple[str, ...] | None:
    """The names of `m.Point`, whose first may be a module; None of an expression that is more than names."""
    match node:
        case nodes.Name(name=name):
            return (name,)
        case nodes.Field(value=value, name=name) if name.isidentifier():
            before = dotted_names(value)
            return None if before is None else (*before, name)
    return None
