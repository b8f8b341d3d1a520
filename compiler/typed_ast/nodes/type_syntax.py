"""Types as programs write them, and parameters, which have one."""

from compiler.typed_ast.nodes.bases import Expression, Node, TypeSyntax, children
from compiler.typed_ast.types import Type
from runtime.records import frozen_in_types


@frozen_in_types(kw_only=True)
class NamedTypeSyntax(TypeSyntax):
    """`i32`, `List<T>`, `list[T]`, `Self`, `void`, `m::T` (name with `::`)."""

    name: str
    arguments: tuple[TypeSyntax, ...] = children


@frozen_in_types(kw_only=True)
class Dim(Node):
    """One dim of a tensor type: `?` (value None), `?<=4096` (None and a bound), or an expression over ints and size names."""

    value: Expression | None = None
    bound: int | None = None


@frozen_in_types(kw_only=True)
class TensorTypeSyntax(TypeSyntax):
    """`tensor[M, 2*N+1, ?, f32] on "cuda:0"`. `dims` None: bare `tensor`, any rank. `dtype` None: not written."""

    dims: tuple[Dim, ...] | None = None
    dtype: TypeSyntax | None = None
    device: str | None = None


@frozen_in_types(kw_only=True)
class TupleTypeSyntax(TypeSyntax):
    elements: tuple[TypeSyntax, ...] = children


@frozen_in_types(kw_only=True)
class FunctionTypeSyntax(TypeSyntax):
    parameters: tuple[TypeSyntax, ...] = children
    result: TypeSyntax


@frozen_in_types(kw_only=True)
class OptionTypeSyntax(TypeSyntax):
    value: TypeSyntax


@frozen_in_types(kw_only=True)
class ArrayTypeSyntax(TypeSyntax):
    """`[T; N]`: N elements in place; the size is a number, a name, or a sum or product of those."""

    element: TypeSyntax
    size: Expression


@frozen_in_types(kw_only=True)
class SizeSyntax(TypeSyntax):
    """A number among type arguments: the 64 of `ring<f64, 64>`."""

    value: int


@frozen_in_types(kw_only=True)
class ConstantTypeSyntax(TypeSyntax):
    """`const int`: a parameter whose argument is known when the program is compiled."""

    value: TypeSyntax


@frozen_in_types(kw_only=True)
class KnownTypeSyntax(TypeSyntax):
    """A type that isn't written but known: what a type parameter stands for in a copy of a generic function."""

    type: Type


@frozen_in_types(kw_only=True)
class Parameter(Node):
    name: str
    annotation: TypeSyntax | None = None
    default: Expression | None = None
    mutable: bool = False


@frozen_in_types(kw_only=True)
class TypeParameter(Node):
    name: str
    bounds: tuple[TypeSyntax, ...] = children


@frozen_in_types(kw_only=True)
class RecordTypeSyntax(TypeSyntax):
    """`{ x: f32, y: f32 }` in a type alias."""

    fields: tuple[Parameter, ...] = children
