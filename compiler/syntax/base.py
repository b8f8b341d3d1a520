"""What all actions share: the text they read, the spans they give, the faults they note."""

from collections.abc import Iterable
from typing import Any, ClassVar

from compiler.source import Span
from compiler.typed_ast import nodes
from grammars.faults import Fault, Token
from grammars.grammar import Grammar
from runtime.records import evolve


class Actions:
    """`text` is what is being parsed; `offset` is where it stands in the file (not 0 inside an f-string). `annotatable` are the nodes
    that take annotations. What only some functions may have waits for them: `result_names` by the type of their
    result, `misplaced_heads` (annotations of a compute block first in another block, and the fault that was noted) by that block."""

    grammar: ClassVar[Grammar]
    annotatable: ClassVar[tuple[type[nodes.Statement], ...]] = (nodes.Function, nodes.Struct, nodes.EnumDeclaration, nodes.For)

    def __init__(self, file: str, text: str, offset: int = 0, units: frozenset[str] = frozenset()) -> None:
        self.file = file
        self.text = text
        self.offset = offset
        self.units = units
        self.faults: list[Fault] = []
        self.result_names: dict[Span, tuple[nodes.ComputeResult, ...]] = {}
        self.misplaced_heads: dict[Span, tuple[tuple[nodes.Annotation, ...], Fault]] = {}

    def span(self, start: int, end: int) -> Span:
        return Span(self.file, start + self.offset, end + self.offset)

    def token_span(self, token: Token) -> Span:
        return self.span(token.start, token.end)

    def fault(self, code: str, message: str, start: int, end: int, hint: str | None = None, label: str = "") -> None:
        """Note a fault at local offsets."""
        self.faults.append(Fault(code, message, start, end, label, (), hint))

    def fault_at(self, code: str, message: str, node: nodes.Node, hint: str | None = None) -> None:
        """Note a fault at a node."""
        self.fault(code, message, node.span.start - self.offset, node.span.end - self.offset, hint)

    def can_be_annotated(self, statement: nodes.Statement) -> bool:
        return isinstance(statement, (*self.annotatable, nodes.LaterDeclaration))

    def with_annotations(self, statement: nodes.Statement, annotations: tuple[nodes.Annotation, ...]) -> nodes.Statement:
        """The statement with annotations put before those it has."""
        if isinstance(statement, self.annotatable):
            span = annotations[0].span.to(statement.span) if annotations else statement.span
            annotated: Any = statement
            statement = evolve(annotated, annotations=(*annotations, *annotated.annotations), span=span)
        return statement

    def finished(self, function: nodes.Function) -> nodes.Function:
        """The function once it has all its annotations; a language may make another one of it."""
        return function

    def written(self, node: nodes.Node) -> str:
        """A node as the program writes it, on one line."""
        return " ".join(self.text[node.span.start - self.offset : node.span.end - self.offset].split())


class AnnotationLine(nodes.Statement):
    """Annotations that stand alone in a block, until the block hands them to what they belong to. Never in a finished tree."""

    annotations: tuple[nodes.Annotation, ...]

    def __init__(self, annotations: tuple[nodes.Annotation, ...], span: Span) -> None:
        object.__setattr__(self, "annotations", annotations)
        object.__setattr__(self, "span", span)


def present(values: Iterable[Any]) -> tuple[Any, ...]:
    """The values without the Nones of absent optional parts."""
    return tuple(value for value in values if value is not None)
