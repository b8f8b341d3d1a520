"""Actions for programs, blocks, plain statements, annotations and compute blocks."""

from compiler.source import Span
from compiler.syntax.base import AnnotationLine, present
from compiler.syntax.expressions import ExpressionActions
from compiler.syntax.patterns import PatternActions
from compiler.typed_ast import nodes
from grammars.faults import Token

OF_COMPUTE = frozenset(
    [
        "kernel",
        "device",
        "workgroup",
        "grid",
        "shared",
        "tile",
        "broadcast",
        "async",
        "tensor_cores",
        "pipeline",
        "warps",
        "registers",
        "cluster",
        "precision",
        "deterministic",
        "name",
        "trace",
        "shape",
    ]
)


def is_of_compute(annotation: nodes.Annotation) -> bool:
    """Whether it speaks of a compute block: `@parallel(data)` does, and `@parallel` of the loop behind it."""
    match annotation:
        case nodes.Annotation(name="parallel", arguments=(nodes.Argument(name=None, value=nodes.Name()), *_)):
            return True
        case _:
            return annotation.name in OF_COMPUTE


class StatementActions(ExpressionActions, PatternActions):
    def program(self, start: int, end: int, statements: list[nodes.Statement]) -> nodes.Program:
        program = nodes.Program(path=self.file, statements=self._attached(statements), span=self.span(0, len(self.text)))
        for results in self.result_names.values():
            hint = "leave the names out, or put `@kernel(...)` before the function"
            self.fault_at("0402", "only the results of a kernel have names", results[0], hint)
        return program

    def statements(self, start: int, end: int, *statements: nodes.Statement | None) -> list[nodes.Statement]:
        return list(present(statements))

    def brace_block(self, start: int, end: int, statements: list[nodes.Statement]) -> nodes.Block:
        span = self.span(start, end)
        return nodes.Block(statements=self._attached(statements, span), braces=True, span=span)

    def colon_block(self, start: int, end: int, statements: list[nodes.Statement]) -> nodes.Block:
        span = self.span(start, end)
        return nodes.Block(statements=self._attached(statements, span), braces=False, span=span)

    def line_block(self, start: int, end: int, statement: nodes.Statement) -> nodes.Block:
        return self.colon_block(start, end, [statement])

    def empty_block(self, start: int, end: int) -> nodes.Block:
        return nodes.Block(braces=False, span=self.span(start, end))

    # ---- annotations ----------------------------------------------------------------------------------------------------

    def annotation(self, start: int, end: int, name: Token, arguments: tuple[nodes.Argument, ...] | None = None) -> nodes.Annotation:
        return nodes.Annotation(name=name.text, arguments=arguments or (), span=self.span(start, end))

    def kernel_annotation(self, start: int, end: int, kind: Token, arguments: tuple[nodes.Argument, ...] | None = None) -> nodes.Annotation:
        """`@kernel reduce(+)` as `@kernel(reduce, +)`."""
        first = nodes.Argument(value=self.name(kind.start, kind.end, kind), span=self.token_span(kind))
        return nodes.Annotation(name="kernel", arguments=(first, *(arguments or ())), span=self.span(start, end))

    def annotation_statement(self, start: int, end: int, annotation: nodes.Annotation) -> nodes.Statement:
        return AnnotationLine((annotation,), self.span(start, end))

    def annotated(self, start: int, end: int, annotation: nodes.Annotation, statement: nodes.Statement) -> nodes.Statement:
        if isinstance(statement, AnnotationLine):
            return AnnotationLine((annotation, *statement.annotations), self.span(start, end))
        self._require_annotatable((annotation,), statement)
        return self.with_annotations(statement, (annotation,))

    def _attached(self, statements: list[nodes.Statement], block: Span | None = None) -> tuple[nodes.Statement, ...]:
        """The statements of a block, with annotations that stand on lines of their own handed to the statement behind them."""
        attached: list[nodes.Statement] = []
        pending: tuple[nodes.Annotation, ...] = ()
        for statement in statements:
            if isinstance(statement, AnnotationLine):
                pending += statement.annotations
                continue
            self.require_body(statement)
            if pending:
                self._require_annotatable(pending, statement, None if attached else block)
                statement = self.with_annotations(statement, pending)
                pending = ()
            attached.append(self.finished(statement) if isinstance(statement, nodes.Function) else statement)
        if pending:
            self._misplaced(pending[0], "nothing follows it")
        return tuple(attached)

    def require_body(self, statement: nodes.Statement) -> None:
        """Only the functions of traits and `extern` ones leave their body out."""
        match statement:
            case nodes.Function(body=None, is_extern=False, name=name):
                end = statement.span.end - self.offset
                hint = "end the line with `:` and indent the body below it, or write the body in `{ }`"
                self.fault("0101", f"expected a block: `{name}` has no body", end, end + 1, hint)

    def _require_annotatable(
        self, annotations: tuple[nodes.Annotation, ...], statement: nodes.Statement, head_of: Span | None = None
    ) -> None:
        if not self.can_be_annotated(statement):
            self._misplaced(annotations[0], f"what follows is {_kind_of(statement)}")
            if head_of is not None and all(is_of_compute(annotation) for annotation in annotations):
                self.misplaced_heads[head_of] = (annotations, self.faults[-1])

    def _misplaced(self, annotation: nodes.Annotation, why: str) -> None:
        if is_of_compute(annotation):
            hint = "write it after the `)` of `compute(...)`, or first in its body"
        else:
            hint = "write it before a `def`, `struct`, `enum` or `for`"
        self.fault_at("0402", f"the annotation `@{annotation.name}` is misplaced: {why}", annotation, hint)

    # ---- plain statements --------------------------------------------------------------------------------------------------

    def expression_statement(self, start: int, end: int, value: nodes.Expression) -> nodes.Statement:
        return nodes.ExpressionStatement(value=value, span=self.span(start, end))

    def assign(self, start: int, end: int, target: nodes.Expression, value: nodes.Expression) -> nodes.Statement:
        self._require_target(target)
        return nodes.Assign(target=target, value=value, span=self.span(start, end))

    def assign_operator(self, start: int, end: int, target: nodes.Expression, operator: Token, value: nodes.Expression) -> nodes.Statement:
        self._require_target(target)
        symbol = operator.text[:-1]
        return nodes.Assign(target=target, operator="**" if symbol == "^" else symbol, value=value, span=self.span(start, end))

    def _require_target(self, target: nodes.Expression) -> None:
        match target:
            case nodes.Name() | nodes.Field() | nodes.Index():
                return
            case nodes.TupleLiteral(elements=elements) if elements:
                for element in elements:
                    self._require_target(element)
            case _:
                self.fault_at(
                    "0101",
                    f"`{self.written(target)}` can't be assigned to",
                    target,
                    "assign to a name, a field `p.f` or an element `a[i]`; `==` compares",
                )

    def typed_let(self, start: int, end: int, name: Token, annotation: nodes.TypeSyntax, value: nodes.Expression) -> nodes.Statement:
        pattern = self.binding(name.start, name.end, name)
        return nodes.Let(pattern=self.bound_pattern(pattern), annotation=annotation, value=value, span=self.span(start, end))

    def let(
        self, start: int, end: int, pattern: nodes.Pattern, annotation: nodes.TypeSyntax | None, value: nodes.Expression
    ) -> nodes.Statement:
        return nodes.Let(pattern=self.bound_pattern(pattern), annotation=annotation, value=value, span=self.span(start, end))

    def let_mut(
        self, start: int, end: int, pattern: nodes.Pattern, annotation: nodes.TypeSyntax | None, value: nodes.Expression | None
    ) -> nodes.Statement:
        return nodes.Let(pattern=self.bound_pattern(pattern), annotation=annotation, value=value, mutable=True, span=self.span(start, end))

    def while_loop(self, start: int, end: int, condition: nodes.Expression, body: nodes.Block) -> nodes.Statement:
        return nodes.While(condition=condition, body=body, span=self.span(start, end))

    def for_loop(self, start: int, end: int, clauses: tuple[nodes.ForClause, ...], body: nodes.Block) -> nodes.Statement:
        return nodes.For(clauses=clauses, body=body, span=self.span(start, end))

    def for_clauses(self, start: int, end: int, *clauses: nodes.ForClause) -> tuple[nodes.ForClause, ...]:
        return clauses

    def for_clause(self, start: int, end: int, names: list[Token], source: nodes.Expression) -> nodes.ForClause:
        return nodes.ForClause(
            names=tuple(name.text for name in names),
            name_spans=tuple(self.token_span(name) for name in names),
            source=source,
            span=self.span(start, end),
        )

    def for_names(self, start: int, end: int, *names: Token) -> list[Token]:
        return list(names)

    def return_(self, start: int, end: int, value: nodes.Expression | None) -> nodes.Statement:
        return nodes.Return(value=value, span=self.span(start, end))

    def break_(self, start: int, end: int) -> nodes.Statement:
        return nodes.Break(span=self.span(start, end))

    def continue_(self, start: int, end: int) -> nodes.Statement:
        return nodes.Continue(span=self.span(start, end))

    def throw(self, start: int, end: int, value: nodes.Expression) -> nodes.Statement:
        return nodes.Throw(value=value, span=self.span(start, end))

    def yield_(self, start: int, end: int, value: nodes.Expression) -> nodes.Statement:
        return nodes.Yield(value=value, span=self.span(start, end))

    def shared_variable(self, start: int, end: int, name: Token, *items: nodes.Node) -> nodes.Statement:
        dims, dtype = self.size_expressions(list(present(items)))
        return nodes.SharedVariable(name=name.text, dims=dims, dtype=dtype, span=self.span(start, end))

    # ---- compute ----------------------------------------------------------------------------------------------------------

    def compute(
        self,
        start: int,
        end: int,
        *parts: nodes.ComputeInput | nodes.Annotation | tuple[nodes.ComputeResult, ...] | list[nodes.Statement] | None,
    ) -> nodes.Expression:
        statements = parts[-1]
        assert isinstance(statements, ComputeBody)
        results = [part for part in parts if isinstance(part, tuple)]
        if len(results) > 1:
            self.fault_at("0101", "the results of this `compute` are stated twice", results[1][0], "keep one `->`")
        inside, rest = self._leading_annotations(statements.statements)
        return nodes.Compute(
            inputs=tuple(part for part in parts if isinstance(part, nodes.ComputeInput)),
            annotations=(*(part for part in parts if isinstance(part, nodes.Annotation)), *inside),
            results=results[0] if results else (),
            body=nodes.Block(statements=self._attached(rest), braces=statements.braces, span=statements.span),
            span=self.span(start, end),
        )

    def _leading_annotations(self, statements: list[nodes.Statement]) -> tuple[list[nodes.Annotation], list[nodes.Statement]]:
        """The annotations first in a body that speak of the whole compute block, and the statements without them."""
        leading: list[nodes.Annotation] = []
        rest: list[nodes.Statement] = []
        for number, statement in enumerate(statements):
            if isinstance(statement, AnnotationLine):
                leading += (a for a in statement.annotations if is_of_compute(a))
                others = tuple(a for a in statement.annotations if not is_of_compute(a))
                rest += (AnnotationLine(others, statement.span),) if others else ()
                continue
            if isinstance(statement, nodes.For) and statement.annotations:
                leading += (a for a in statement.annotations if is_of_compute(a))
                own = tuple(a for a in statement.annotations if not is_of_compute(a))
                statement = nodes.For(clauses=statement.clauses, body=statement.body, annotations=own, span=statement.span)
            rest += (statement, *statements[number + 1 :])
            break
        return leading, rest

    def compute_brace(self, start: int, end: int, statements: list[nodes.Statement]) -> "ComputeBody":
        return ComputeBody(statements, True, self.span(start, end))

    def compute_colon(self, start: int, end: int, statements: list[nodes.Statement]) -> "ComputeBody":
        return ComputeBody(statements, False, self.span(start, end))

    def compute_empty(self, start: int, end: int) -> "ComputeBody":
        return ComputeBody([], False, self.span(start, end))

    def input(self, start: int, end: int, value: nodes.Expression) -> nodes.ComputeInput:
        return nodes.ComputeInput(name=self._input_name(value), value=value, span=self.span(start, end))

    def input_mut(self, start: int, end: int, value: nodes.Expression) -> nodes.ComputeInput:
        return nodes.ComputeInput(name=self._input_name(value), value=value, mutable=True, span=self.span(start, end))

    def input_named(self, start: int, end: int, name: Token, value: nodes.Expression) -> nodes.ComputeInput:
        return nodes.ComputeInput(name=name.text, value=value, span=self.span(start, end))

    def _input_name(self, value: nodes.Expression) -> str:
        words: list[str] = []
        inner = value
        while isinstance(inner, nodes.Field):
            words.append(inner.name)
            inner = inner.value
        if not isinstance(inner, nodes.Name):
            shown = self.written(value)
            self.fault_at("0101", f"the input `{shown}` of `compute` has no name", value, f"name it: `x = {shown}`")
            return "_"
        return ".".join([inner.name, *reversed(words)])

    def result_type(self, start: int, end: int, written: nodes.TypeSyntax) -> tuple[nodes.ComputeResult, ...]:
        elements = written.elements if isinstance(written, nodes.TupleTypeSyntax) else (written,)
        return tuple(nodes.ComputeResult(type_syntax=element, span=element.span) for element in elements)

    def result_list(self, start: int, end: int, results: tuple[nodes.ComputeResult, ...]) -> tuple[nodes.ComputeResult, ...]:
        return results

    def named_results(self, start: int, end: int, *results: nodes.ComputeResult) -> tuple[nodes.ComputeResult, ...]:
        return results

    def named_result(self, start: int, end: int, name: Token, written: nodes.TypeSyntax) -> nodes.ComputeResult:
        return nodes.ComputeResult(name=name.text, type_syntax=written, span=self.span(start, end))


class ComputeBody:
    """The statements of a compute block before its annotations are taken out."""

    def __init__(self, statements: list[nodes.Statement], braces: bool, span: Span) -> None:
        self.statements = statements
        self.braces = braces
        self.span = span


def _kind_of(statement: nodes.Statement) -> str:
    match statement:
        case nodes.Let():
            return "a `let`"
        case nodes.Assign():
            return "an assignment"
        case nodes.Declaration():
            return "a declaration that takes none"
    return "no declaration and no loop"
