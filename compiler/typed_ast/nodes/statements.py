"""Statements but declarations."""

from compiler.source import Span
from compiler.typed_ast.nodes.bases import Expression, Node, Pattern, Statement, TypeSyntax, children
from compiler.typed_ast.nodes.compute import Annotation
from compiler.typed_ast.nodes.expressions import Block, FieldValue
from runtime.records import frozen_in_types


@frozen_in_types(kw_only=True)
class ExpressionStatement(Statement):
    value: Expression


@frozen_in_types(kw_only=True)
class Let(Statement):
    """`let x = e`, `x: T = e`, `let mut x`, `mut x`, `var x`, `let (a, _, c) = t` (the pattern is a TuplePattern)."""

    pattern: Pattern
    annotation: TypeSyntax | None = None
    value: Expression | None = None
    mutable: bool = False


@frozen_in_types(kw_only=True)
class Assign(Statement):
    """`operator` None for `=`, else `+` for `+=` and so on. `target` is a Name, Field, Index or TupleLiteral of those."""

    target: Expression
    operator: str | None = None
    value: Expression


@frozen_in_types(kw_only=True)
class While(Statement):
    """`while c { }`, `while c max n { }`: a fault of the program when it would run more often than `bound` times."""

    condition: Expression
    body: Block
    bound: Expression | None = None


@frozen_in_types(kw_only=True)
class ForClause(Node):
    """`names in source`; several names unpack a tuple (`i, v in enumerate(xs)`)."""

    names: tuple[str, ...] = children
    name_spans: tuple[Span, ...] = children
    source: Expression


@frozen_in_types(kw_only=True)
class For(Statement):
    """`for i in 0..M, j in 0..N` has two clauses: a nest. `annotations`: `@unroll(4)`, `@parallel`... before the `for`."""

    clauses: tuple[ForClause, ...] = children
    body: Block
    annotations: tuple[Annotation, ...] = children


@frozen_in_types(kw_only=True)
class Break(Statement):
    pass


@frozen_in_types(kw_only=True)
class Continue(Statement):
    pass


@frozen_in_types(kw_only=True)
class Return(Statement):
    value: Expression | None = None


@frozen_in_types(kw_only=True)
class Throw(Statement):
    value: Expression


@frozen_in_types(kw_only=True)
class Yield(Statement):
    """`yield e` in a compute body."""

    value: Expression


@frozen_in_types(kw_only=True)
class SharedVariable(Statement):
    """`shared var buf[F, f32]`."""

    name: str
    dims: tuple[Expression, ...] = children
    dtype: TypeSyntax | None = None


@frozen_in_types(kw_only=True)
class TileVariable(SharedVariable):
    """The memory of a tile that a variable holds, of the type that flows in. No program writes it: lowering does."""


@frozen_in_types(kw_only=True)
class SizeCheck(Statement):
    """Two extents in `text` that must be one. No program writes it: lowering does."""

    left: Expression
    right: Expression
    text: str


@frozen_in_types(kw_only=True)
class Render(Statement):
    """`render e { title: "Loss" }`, `render chart(e) {...}`: `form` is "chart", "histogram"... or "" for by value."""

    value: Expression
    form: str = ""
    options: tuple[FieldValue, ...] = children


@frozen_in_types(kw_only=True)
class LaterStatement(Statement):
    """Valid syntax of a construct that nothing executes yet."""

    feature: str
    parts: tuple[Node, ...] = children


@frozen_in_types(kw_only=True)
class Inlined(Statement):
    """Statements as written, and the same with calls of functions inlined. These run; those do if anything goes wrong. Names that the
    written ones declare are known behind it, and none else."""

    written: tuple[Statement, ...] = children
    statements: tuple[Statement, ...] = children
