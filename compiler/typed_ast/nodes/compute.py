"""Annotations and compute blocks."""

from compiler.source import Span
from compiler.typed_ast.kernel import KernelMetadata
from compiler.typed_ast.nodes.bases import Expression, Node, TypeSyntax, children
from compiler.typed_ast.nodes.expressions import Argument, Block
from runtime.records import frozen_in_types


@frozen_in_types(kw_only=True)
class Annotation(Node):
    """`@name`, `@name(arguments)`, `@kernel reduce(+)` (the word after `@kernel` is its first argument, built as
    `Call(Name("reduce"), ...)` or `Name`)."""

    name: str
    arguments: tuple[Argument, ...] = children


@frozen_in_types(kw_only=True)
class ComputeInput(Node):
    """`x`, `w.proj` (name "w.proj"), `a = e`, `mut d`."""

    name: str
    value: Expression
    mutable: bool = False


@frozen_in_types(kw_only=True)
class ComputeResult(Node):
    """`-> T` (name None) or one of `-> (y: T, k: U)`."""

    name: str | None = None
    type_syntax: TypeSyntax


@frozen_in_types(kw_only=True)
class Compute(Expression):
    """`compute(inputs) annotations -> results { body }`. Annotations first in the body are collected here too; those before a
    `for` inside are on that `For` (a leading `@workgroup` etc. belongs to the block). `kernel` is filled by the checker.
    `inlined_at`: of a copy of a function's block, the call that it stands for; all that a copy takes are inputs, and other names in it are
    sizes."""

    inputs: tuple[ComputeInput, ...] = children
    annotations: tuple[Annotation, ...] = children
    results: tuple[ComputeResult, ...] = children
    body: Block
    kernel: KernelMetadata | None = None
    inlined_at: Span | None = None
