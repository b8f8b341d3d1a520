"""The nodes of the tree. Fields only: what a program says, where it says it (`span`), and, after the checker, the type of
each expression (`type`). The parser's actions build them; the checker returns the tree anew with its types filled in."""

from enum import Enum

from attrs import field, frozen

from compiler.source import NOWHERE, Span
from compiler.typed_ast.kernel import CompileTarget, ExecutionConstraints, KernelMetadata, Visibility
from compiler.typed_ast.types import UNKNOWN, Type
from runtime.tuples import as_tuple

_tuple = field(default=(), converter=as_tuple)


@frozen(kw_only=True)
class Node:
    span: Span = NOWHERE


# ---- types as written ----------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class TypeSyntax(Node):
    """A type as the program writes it; the checker resolves it to a `Type`."""


@frozen(kw_only=True)
class NamedTypeSyntax(TypeSyntax):
    """`i32`, `List<T>`, `list[T]`, `Self`, `void`, `m::T` (name with `::`)."""

    name: str
    arguments: tuple[TypeSyntax, ...] = _tuple


@frozen(kw_only=True)
class Dim(Node):
    """One dim of a tensor type: `?` (value None), `?<=4096` (None and a bound), or an expression over ints and size names."""

    value: "Expression | None" = None
    bound: int | None = None


@frozen(kw_only=True)
class TensorTypeSyntax(TypeSyntax):
    """`tensor[M, 2*N+1, ?, f32] on "cuda:0"`. `dims` None: bare `tensor`, any rank. `dtype` None: not written."""

    dims: tuple[Dim, ...] | None = None
    dtype: TypeSyntax | None = None
    device: str | None = None


@frozen(kw_only=True)
class TupleTypeSyntax(TypeSyntax):
    elements: tuple[TypeSyntax, ...] = _tuple


@frozen(kw_only=True)
class FunctionTypeSyntax(TypeSyntax):
    parameters: tuple[TypeSyntax, ...] = _tuple
    result: TypeSyntax


@frozen(kw_only=True)
class OptionTypeSyntax(TypeSyntax):
    value: TypeSyntax


@frozen(kw_only=True)
class ArrayTypeSyntax(TypeSyntax):
    """`[T; N]`: N elements in place; the size is a number, a name, or a sum or product of those."""

    element: TypeSyntax
    size: "Expression"


@frozen(kw_only=True)
class SizeSyntax(TypeSyntax):
    """A number among type arguments: the 64 of `ring<f64, 64>`."""

    value: int


@frozen(kw_only=True)
class ConstantTypeSyntax(TypeSyntax):
    """`const int`: a parameter whose argument is known when the program is compiled."""

    value: TypeSyntax


@frozen(kw_only=True)
class RecordTypeSyntax(TypeSyntax):
    """`{ x: f32, y: f32 }` in a type alias."""

    fields: "tuple[Parameter, ...]" = _tuple


# ---- expressions -----------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Expression(Node):
    type: Type = UNKNOWN


@frozen(kw_only=True)
class IntLiteral(Expression):
    value: int
    suffix: str | None = None


@frozen(kw_only=True)
class FloatLiteral(Expression):
    """`text` is the number as written, without grouping, in languages whose decimals are exact."""

    value: float
    suffix: str | None = None
    text: str = ""


@frozen(kw_only=True)
class BoolLiteral(Expression):
    value: bool


@frozen(kw_only=True)
class StringLiteral(Expression):
    """`value` with its escapes resolved."""

    value: str


@frozen(kw_only=True)
class UnitNumber(Expression):
    """A number with a unit: `500ns`, `16KB`, `3usd`. `text` is the number as written."""

    text: str
    unit: str


@frozen(kw_only=True)
class FStringPart(Node):
    """Literal text (value None), or an expression with its Python format spec (`:>8.2f` without the colon)."""

    text: str = ""
    value: Expression | None = None
    format: str = ""


@frozen(kw_only=True)
class FString(Expression):
    parts: tuple[FStringPart, ...] = _tuple


@frozen(kw_only=True)
class ListLiteral(Expression):
    elements: tuple[Expression, ...] = _tuple


@frozen(kw_only=True)
class Repeat(Expression):
    """`[e; N]`: an array of N elements that are all `e`."""

    element: Expression
    count: Expression


@frozen(kw_only=True)
class TupleLiteral(Expression):
    """Also the unit value, when it has no elements."""

    elements: tuple[Expression, ...] = _tuple


@frozen(kw_only=True)
class Entry(Node):
    key: Expression
    value: Expression


@frozen(kw_only=True)
class DictLiteral(Expression):
    entries: tuple[Entry, ...] = _tuple


@frozen(kw_only=True)
class FieldValue(Node):
    name: str
    value: Expression


@frozen(kw_only=True)
class RecordLiteral(Expression):
    """`{label: s, score: v}`; with a `struct` name: `Point { x: 1.0 }`."""

    struct: Expression | None = None
    fields: tuple[FieldValue, ...] = _tuple
    base: Expression | None = None


@frozen(kw_only=True)
class Comprehension(Expression):
    """`[element for names in source if condition]`; with `key` a dict's."""

    element: Expression
    key: Expression | None = None
    names: tuple[str, ...] = _tuple
    source: Expression
    condition: Expression | None = None


@frozen(kw_only=True)
class Range(Expression):
    low: Expression
    high: Expression
    step: Expression | None = None
    inclusive: bool = False


@frozen(kw_only=True)
class Name(Expression):
    name: str


@frozen(kw_only=True)
class Path(Expression):
    """`Tensor::zeros`, `List<i32>::new`; `arguments` are the type arguments written after a segment."""

    segments: tuple[str, ...] = _tuple
    arguments: tuple[TypeSyntax, ...] = _tuple


@frozen(kw_only=True)
class Field(Expression):
    """`p.x`, `t.0` (name "0")."""

    value: Expression
    name: str


@frozen(kw_only=True)
class Slice(Expression):
    """`lo:hi:step` inside an index; each part may be missing."""

    low: Expression | None = None
    high: Expression | None = None
    step: Expression | None = None


@frozen(kw_only=True)
class EllipsisIndex(Expression):
    """`...` inside an index."""


@frozen(kw_only=True)
class Index(Expression):
    value: Expression
    indices: tuple[Expression, ...] = _tuple


@frozen(kw_only=True)
class Argument(Node):
    """`name` None: positional."""

    value: Expression
    name: str | None = None


@frozen(kw_only=True)
class OperatorValue(Expression):
    """An operator where a value stands: `reduce(+)`, `@kernel(reduce, and)`."""

    operator: str


@frozen(kw_only=True)
class Call(Expression):
    """`f(a, k=b)`; a method call has a `Field` as `function`. `x |> f(a)` is built as `f(x, a)`, with `piped` set."""

    function: Expression
    arguments: tuple[Argument, ...] = _tuple
    type_arguments: tuple[TypeSyntax, ...] = _tuple
    piped: bool = False


@frozen(kw_only=True)
class Unary(Expression):
    """Operators `-`, `not` (also written `!`)."""

    operator: str
    operand: Expression


class Awaited(Enum):
    """Which of the futures behind `await` are waited for."""

    ONE = "one"
    ALL = "all"
    ANY = "any"


@frozen(kw_only=True)
class Await(Expression):
    """`await f`, `await all(fs)`, `await any(f, g)`; each with `timeout 1s` and that with `else d`. `futures` are the arguments as
    written: for `all` and `any` one list or tuple, or two futures and more."""

    futures: tuple[Expression, ...] = _tuple
    which: Awaited = Awaited.ONE
    timeout: Expression | None = None
    otherwise: Expression | None = None


@frozen(kw_only=True)
class Binary(Expression):
    """Operators `+ - * / % @ ** << >> & == != < <= > >= in and or ??`; `||` is `or`, `&&` is `and`, `^` is `**`."""

    operator: str
    left: Expression
    right: Expression
    operator_span: Span = NOWHERE


@frozen(kw_only=True)
class Conditional(Expression):
    """`c ? a : b` and `a if c else b`."""

    condition: Expression
    then: Expression
    otherwise: Expression


@frozen(kw_only=True)
class Cast(Expression):
    value: Expression
    target: TypeSyntax


@frozen(kw_only=True)
class Propagate(Expression):
    """`e?`."""

    value: Expression


@frozen(kw_only=True)
class Lambda(Expression):
    parameters: "tuple[Parameter, ...]" = _tuple
    body: Expression


@frozen(kw_only=True)
class Block(Expression):
    """Statements; the value is that of a last expression statement, else unit. `braces` False: a colon block."""

    statements: "tuple[Statement, ...]" = _tuple
    braces: bool = True


@frozen(kw_only=True)
class If(Expression):
    """`elif` chains nest in `otherwise` as a Block of one If."""

    condition: Expression
    then: Block
    otherwise: Block | None = None


@frozen(kw_only=True)
class LetCondition(Expression):
    """The condition of `if let p = e { }`: whether `e` has a value that fits the pattern, whose names hold in the block."""

    pattern: "Pattern"
    value: Expression


@frozen(kw_only=True)
class Pattern(Node):
    """What stands after `case`."""


@frozen(kw_only=True)
class WildcardPattern(Pattern):
    pass


@frozen(kw_only=True)
class BindingPattern(Pattern):
    name: str


@frozen(kw_only=True)
class LiteralPattern(Pattern):
    """A literal, a range, or a path to a constant."""

    value: Expression


@frozen(kw_only=True)
class VariantPattern(Pattern):
    """`Some(v)`, `None`, `None()`, `Color::Red`."""

    path: tuple[str, ...] = _tuple
    arguments: tuple[Pattern, ...] = _tuple


@frozen(kw_only=True)
class TuplePattern(Pattern):
    elements: tuple[Pattern, ...] = _tuple


@frozen(kw_only=True)
class FieldPattern(Node):
    name: str
    pattern: Pattern


@frozen(kw_only=True)
class StructPattern(Pattern):
    path: tuple[str, ...] = _tuple
    fields: tuple[FieldPattern, ...] = _tuple


@frozen(kw_only=True)
class AlternativePattern(Pattern):
    alternatives: tuple[Pattern, ...] = _tuple


@frozen(kw_only=True)
class Arm(Node):
    pattern: Pattern
    guard: Expression | None = None
    body: Expression


@frozen(kw_only=True)
class Match(Expression):
    subject: Expression
    arms: tuple[Arm, ...] = _tuple


@frozen(kw_only=True)
class Try(Expression):
    """`try { } catch E as e { } catch _ { }`: [std], parsed."""

    body: Block
    handlers: "tuple[Catch, ...]" = _tuple


@frozen(kw_only=True)
class Catch(Node):
    error: TypeSyntax | None = None
    name: str | None = None
    body: Block


@frozen(kw_only=True)
class Annotation(Node):
    """`@name`, `@name(arguments)`, `@kernel reduce(+)` (the word after `@kernel` is its first argument, built as
    `Call(Name("reduce"), ...)` or `Name`)."""

    name: str
    arguments: tuple[Argument, ...] = _tuple


@frozen(kw_only=True)
class ComputeInput(Node):
    """`x`, `w.proj` (name "w.proj"), `a = e`, `mut d`."""

    name: str
    value: Expression
    mutable: bool = False


@frozen(kw_only=True)
class ComputeResult(Node):
    """`-> T` (name None) or one of `-> (y: T, k: U)`."""

    name: str | None = None
    type_syntax: TypeSyntax


@frozen(kw_only=True)
class Compute(Expression):
    """`compute(inputs) annotations -> results { body }`. Annotations first in the body are collected here too; those before a
    `for` inside are on that `For` (a leading `@workgroup` etc. belongs to the block). `kernel` is filled by the checker."""

    inputs: tuple[ComputeInput, ...] = _tuple
    annotations: tuple[Annotation, ...] = _tuple
    results: tuple[ComputeResult, ...] = _tuple
    body: Block
    kernel: KernelMetadata | None = None


@frozen(kw_only=True)
class LaterExpression(Expression):
    """Valid syntax of a construct that nothing executes yet: `feature` in words, for ZYN0109."""

    feature: str
    parts: tuple[Node, ...] = _tuple


# ---- statements ------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Statement(Node):
    pass


@frozen(kw_only=True)
class ExpressionStatement(Statement):
    value: Expression


@frozen(kw_only=True)
class Let(Statement):
    """`let x = e`, `x: T = e`, `let mut x`, `mut x`, `var x`, `let (a, _, c) = t` (the pattern is a TuplePattern)."""

    pattern: Pattern
    annotation: TypeSyntax | None = None
    value: Expression | None = None
    mutable: bool = False


@frozen(kw_only=True)
class Assign(Statement):
    """`operator` None for `=`, else `+` for `+=` and so on. `target` is a Name, Field, Index or TupleLiteral of those."""

    target: Expression
    operator: str | None = None
    value: Expression


@frozen(kw_only=True)
class While(Statement):
    """`while c { }`, `while c max n { }`: a fault of the program when it would run more often than `bound` times."""

    condition: Expression
    body: Block
    bound: Expression | None = None


@frozen(kw_only=True)
class ForClause(Node):
    """`names in source`; several names unpack a tuple (`i, v in enumerate(xs)`)."""

    names: tuple[str, ...] = _tuple
    name_spans: tuple[Span, ...] = _tuple
    source: Expression


@frozen(kw_only=True)
class For(Statement):
    """`for i in 0..M, j in 0..N` has two clauses: a nest. `annotations`: `@unroll(4)`, `@parallel`... before the `for`."""

    clauses: tuple[ForClause, ...] = _tuple
    body: Block
    annotations: tuple[Annotation, ...] = _tuple


@frozen(kw_only=True)
class Break(Statement):
    pass


@frozen(kw_only=True)
class Continue(Statement):
    pass


@frozen(kw_only=True)
class Return(Statement):
    value: Expression | None = None


@frozen(kw_only=True)
class Throw(Statement):
    value: Expression


@frozen(kw_only=True)
class Yield(Statement):
    """`yield e` in a compute body."""

    value: Expression


@frozen(kw_only=True)
class SharedVariable(Statement):
    """`shared var buf[F, f32]`."""

    name: str
    dims: tuple[Expression, ...] = _tuple
    dtype: TypeSyntax | None = None


@frozen(kw_only=True)
class Render(Statement):
    """`render e { title: "Loss" }`, `render chart(e) {...}`: `form` is "chart", "histogram"... or "" for by value."""

    value: Expression
    form: str = ""
    options: tuple[FieldValue, ...] = _tuple


@frozen(kw_only=True)
class LaterStatement(Statement):
    """Valid syntax of a construct that nothing executes yet."""

    feature: str
    parts: tuple[Node, ...] = _tuple


# ---- declarations ----------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Declaration(Statement):
    pass


@frozen(kw_only=True)
class Parameter(Node):
    name: str
    annotation: TypeSyntax | None = None
    default: Expression | None = None
    mutable: bool = False


@frozen(kw_only=True)
class TypeParameter(Node):
    name: str
    bounds: tuple[TypeSyntax, ...] = _tuple


@frozen(kw_only=True)
class Function(Declaration):
    """`def f(a: T, k: int = 3): R { }`. `body` None only for traits and `extern`. `effects` are those that an `extern` one declares, None
    where it says nothing of them."""

    name: str
    name_span: Span = NOWHERE
    type_parameters: tuple[TypeParameter, ...] = _tuple
    parameters: tuple[Parameter, ...] = _tuple
    result: TypeSyntax | None = None
    body: Block | None = None
    annotations: tuple[Annotation, ...] = _tuple
    is_async: bool = False
    is_extern: bool = False
    effects: tuple[str, ...] | None = None
    visibility: Visibility = Visibility.PUBLIC
    kernel_metadata: KernelMetadata | None = None
    execution_constraints: ExecutionConstraints | None = None
    compile_target: CompileTarget = CompileTarget.CPU


@frozen(kw_only=True)
class Variant(Node):
    name: str
    elements: tuple[TypeSyntax, ...] = _tuple
    fields: tuple[Parameter, ...] = _tuple


@frozen(kw_only=True)
class Struct(Declaration):
    name: str
    type_parameters: tuple[TypeParameter, ...] = _tuple
    fields: tuple[Parameter, ...] = _tuple
    annotations: tuple[Annotation, ...] = _tuple


@frozen(kw_only=True)
class EnumDeclaration(Declaration):
    name: str
    type_parameters: tuple[TypeParameter, ...] = _tuple
    variants: tuple[Variant, ...] = _tuple
    annotations: tuple[Annotation, ...] = _tuple


@frozen(kw_only=True)
class TypeAlias(Declaration):
    name: str
    type_parameters: tuple[TypeParameter, ...] = _tuple
    target: TypeSyntax


@frozen(kw_only=True)
class Trait(Declaration):
    name: str
    type_parameters: tuple[TypeParameter, ...] = _tuple
    members: tuple[Declaration, ...] = _tuple


@frozen(kw_only=True)
class Impl(Declaration):
    """`impl Trait for T { }` or `impl T { }` (trait None)."""

    trait: TypeSyntax | None = None
    target: TypeSyntax
    type_parameters: tuple[TypeParameter, ...] = _tuple
    members: tuple[Declaration, ...] = _tuple


class ImportForm(Enum):
    MODULE = "module"
    NAMES = "names"
    EVERYTHING = "everything"


@frozen(kw_only=True)
class Import(Declaration):
    """`import a.b as T` (MODULE), `from a.b import f, g` (NAMES), `from m import *` (EVERYTHING)."""

    form: ImportForm
    module: tuple[str, ...] = _tuple
    alias: str | None = None
    names: tuple[str, ...] = _tuple


@frozen(kw_only=True)
class Module(Declaration):
    """`module a.b`: the name under which others know this file."""

    path: tuple[str, ...] = _tuple


@frozen(kw_only=True)
class Constant(Declaration):
    """`const CLIP: T = e`, a value known when the program is compiled."""

    name: str
    annotation: TypeSyntax | None = None
    value: Expression


@frozen(kw_only=True)
class ProgramParameter(Declaration):
    """`param n: int in 1..1000 = 30`."""

    name: str
    annotation: TypeSyntax | None = None
    range: Expression | None = None
    default: Expression


@frozen(kw_only=True)
class Config(Declaration):
    entries: tuple[FieldValue, ...] = _tuple


@frozen(kw_only=True)
class Test(Declaration):
    name: str
    body: Block


@frozen(kw_only=True)
class LaterDeclaration(Declaration):
    """Valid syntax of a declaration that nothing executes yet (effect, handler, abstract, stream...)."""

    feature: str
    parts: tuple[Node, ...] = _tuple


@frozen(kw_only=True)
class Program(Node):
    """One file: declarations and statements in the order written."""

    path: str
    statements: tuple[Statement, ...] = _tuple
