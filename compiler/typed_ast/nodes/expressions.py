"""Expressions but compute blocks."""

from enum import Enum

from compiler.source import NOWHERE, Span
from compiler.typed_ast.nodes.bases import Expression, Node, Pattern, Statement, TypeSyntax, children
from compiler.typed_ast.nodes.type_syntax import Parameter
from runtime.records import frozen_in_types


@frozen_in_types(kw_only=True)
class IntLiteral(Expression):
    """A negative one has a suffix, as `-128i8`; without one, the minus is an operator."""

    value: int
    suffix: str | None = None


@frozen_in_types(kw_only=True)
class FloatLiteral(Expression):
    """`text` is the number as written, without grouping, in languages whose decimals are exact."""

    value: float
    suffix: str | None = None
    text: str = ""


@frozen_in_types(kw_only=True)
class BoolLiteral(Expression):
    value: bool


@frozen_in_types(kw_only=True)
class StringLiteral(Expression):
    """`value` with its escapes resolved."""

    value: str


@frozen_in_types(kw_only=True)
class UnitNumber(Expression):
    """A number with a unit: `500ns`, `16KB`, `3usd`. `text` is the number as written."""

    text: str
    unit: str


@frozen_in_types(kw_only=True)
class FStringPart(Node):
    """Literal text (value None), or an expression with its Python format spec (`:>8.2f` without the colon)."""

    text: str = ""
    value: Expression | None = None
    format: str = ""


@frozen_in_types(kw_only=True)
class FString(Expression):
    parts: tuple[FStringPart, ...] = children


@frozen_in_types(kw_only=True)
class ListLiteral(Expression):
    elements: tuple[Expression, ...] = children


@frozen_in_types(kw_only=True)
class Repeat(Expression):
    """`[e; N]`: an array of N elements that are all `e`."""

    element: Expression
    count: Expression


@frozen_in_types(kw_only=True)
class TupleLiteral(Expression):
    """Also the unit value, when it has no elements."""

    elements: tuple[Expression, ...] = children


@frozen_in_types(kw_only=True)
class Entry(Node):
    key: Expression
    value: Expression


@frozen_in_types(kw_only=True)
class DictLiteral(Expression):
    entries: tuple[Entry, ...] = children


@frozen_in_types(kw_only=True)
class FieldValue(Node):
    name: str
    value: Expression


@frozen_in_types(kw_only=True)
class RecordLiteral(Expression):
    """`{label: s, score: v}`; with a `struct` name: `Point { x: 1.0 }`."""

    struct: Expression | None = None
    fields: tuple[FieldValue, ...] = children
    base: Expression | None = None


@frozen_in_types(kw_only=True)
class Comprehension(Expression):
    """`[element for names in source if condition]`; with `key` a dict's."""

    element: Expression
    key: Expression | None = None
    names: tuple[str, ...] = children
    source: Expression
    condition: Expression | None = None


@frozen_in_types(kw_only=True)
class Range(Expression):
    low: Expression
    high: Expression
    step: Expression | None = None
    inclusive: bool = False


@frozen_in_types(kw_only=True)
class Name(Expression):
    name: str


@frozen_in_types(kw_only=True)
class Path(Expression):
    """`Tensor::zeros`, `List<i32>::new`; `arguments` are the type arguments written after a segment."""

    segments: tuple[str, ...] = children
    arguments: tuple[TypeSyntax, ...] = children


@frozen_in_types(kw_only=True)
class Field(Expression):
    """`p.x`, `t.0` (name "0")."""

    value: Expression
    name: str


@frozen_in_types(kw_only=True)
class Slice(Expression):
    """`lo:hi:step` inside an index; each part may be missing."""

    low: Expression | None = None
    high: Expression | None = None
    step: Expression | None = None


@frozen_in_types(kw_only=True)
class EllipsisIndex(Expression):
    """`...` inside an index."""


@frozen_in_types(kw_only=True)
class Index(Expression):
    value: Expression
    indices: tuple[Expression, ...] = children


@frozen_in_types(kw_only=True)
class Argument(Node):
    """`name` None: positional."""

    value: Expression
    name: str | None = None


@frozen_in_types(kw_only=True)
class OperatorValue(Expression):
    """An operator where a value stands: `reduce(+)`, `@kernel(reduce, and)`."""

    operator: str


@frozen_in_types(kw_only=True)
class Call(Expression):
    """`f(a, k=b)`; a method call has a `Field` as `function`. `x |> f(a)` is built as `f(x, a)`, with `piped` set.
    `callee`: the name under which the program declares what is called; that of a method has its type, as in `Point::norm`."""

    function: Expression
    arguments: tuple[Argument, ...] = children
    type_arguments: tuple[TypeSyntax, ...] = children
    piped: bool = False
    callee: str = ""


@frozen_in_types(kw_only=True)
class Unary(Expression):
    """Operators `-`, `not` (also written `!`)."""

    operator: str
    operand: Expression


class Awaited(Enum):
    """Which of the futures behind `await` are waited for."""

    ONE = "one"
    ALL = "all"
    ANY = "any"


@frozen_in_types(kw_only=True)
class Await(Expression):
    """`await f`, `await all(fs)`, `await any(f, g)`; each with `timeout 1s` and that with `else d`. `futures` are the arguments as
    written: for `all` and `any` one list or tuple, or two futures and more."""

    futures: tuple[Expression, ...] = children
    which: Awaited = Awaited.ONE
    timeout: Expression | None = None
    otherwise: Expression | None = None


@frozen_in_types(kw_only=True)
class Binary(Expression):
    """Operators `+ - * / % @ ** << >> & == != < <= > >= in and or ??`; `||` is `or`, `&&` is `and`, `^` is `**`."""

    operator: str
    left: Expression
    right: Expression
    operator_span: Span = NOWHERE


@frozen_in_types(kw_only=True)
class Conditional(Expression):
    """`c ? a : b` and `a if c else b`."""

    condition: Expression
    then: Expression
    otherwise: Expression


@frozen_in_types(kw_only=True)
class Cast(Expression):
    value: Expression
    target: TypeSyntax


@frozen_in_types(kw_only=True)
class Propagate(Expression):
    """`e?`."""

    value: Expression


@frozen_in_types(kw_only=True)
class Lambda(Expression):
    parameters: tuple[Parameter, ...] = children
    body: Expression


@frozen_in_types(kw_only=True)
class Block(Expression):
    """Statements; the value is that of a last expression statement, else unit. `braces` False: a colon block."""

    statements: tuple[Statement, ...] = children
    braces: bool = True


@frozen_in_types(kw_only=True)
class If(Expression):
    """`elif` chains nest in `otherwise` as a Block of one If."""

    condition: Expression
    then: Block
    otherwise: Block | None = None


@frozen_in_types(kw_only=True)
class LetCondition(Expression):
    """The condition of `if let p = e { }`: whether `e` has a value that fits the pattern, whose names hold in the block."""

    pattern: Pattern
    value: Expression


@frozen_in_types(kw_only=True)
class Arm(Node):
    pattern: Pattern
    guard: Expression | None = None
    body: Expression


@frozen_in_types(kw_only=True)
class Match(Expression):
    subject: Expression
    arms: tuple[Arm, ...] = children


@frozen_in_types(kw_only=True)
class Catch(Node):
    error: TypeSyntax | None = None
    name: str | None = None
    body: Block


@frozen_in_types(kw_only=True)
class Try(Expression):
    """`try { } catch E as e { } catch _ { }`: [std], parsed."""

    body: Block
    handlers: tuple[Catch, ...] = children


@frozen_in_types(kw_only=True)
class LaterExpression(Expression):
    """Valid syntax of a construct that nothing executes yet: `feature` in words, for ZYN0109."""

    feature: str
    parts: tuple[Node, ...] = children
