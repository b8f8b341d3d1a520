"""Which tensors native functions take and make, and what their sizes are called: those of known dtype and rank whose extents are numbers,
names or open."""

from collections.abc import Iterator, Mapping, Sequence

from compiler.typed_ast import nodes
from compiler.typed_ast.types import UNKNOWN, DType, DynamicShape, Scalar, StaticShape, SymbolicShape, TensorType, TupleType, Type
from compiler.typed_ast.walk import walk

MOST_AXES = 8
MOST_AXES_MADE = 4
LONGEST_LIST = 1024
"""Numbers of a tensor that is written out."""
COUNTS = ("numel", "size", "len", "ndim", "rank")
"""Functions of a tensor that give an int, besides `shape` of an axis."""

Extent = int | str | None
"""A number, the name of a size, or open."""


def extents(type_: TensorType) -> tuple[Extent, ...] | None:
    """The extents of a tensor type, None where its rank isn't known or one of them is computed (`2*N + 1`)."""
    match type_.shape:
        case StaticShape(dims=dims):
            return tuple(dims)
        case DynamicShape(dynamic_rank=rank, max_dims=None) if rank is not None:
            return (None,) * rank
        case SymbolicShape(dims=dims):
            given: list[Extent] = []
            for dim in dims:
                if dim is None:
                    given.append(None)
                elif not dim.terms:
                    given.append(dim.constant)
                elif dim.name is not None:
                    given.append(dim.name)
                else:
                    return None
            return tuple(given)
    return None


def tensor_refused(type_: TensorType) -> str | None:
    """What keeps a tensor out of native code, in words; None where native code reads and writes its elements."""
    given = extents(type_)
    if type_.device is not None:
        return f"a tensor on {type_.device}"
    if not isinstance(type_.element, Scalar) or not _native(type_.element.dtype):
        return "a tensor whose elements are no native numbers"
    if given is None or not 0 < len(given) <= MOST_AXES:
        return "a tensor whose axes aren't known"
    return None


def _native(dtype: DType) -> bool:
    return dtype is DType.BOOL or dtype.is_int or dtype in (DType.F32, DType.F64)


def same_elements(one: Type, other: Type) -> bool:
    """Whether two types are of tensors with elements and axes alike, so that one stands where the other is wanted."""
    if not isinstance(one, TensorType) or not isinstance(other, TensorType):
        return False
    return one.element == other.element and one.shape.rank == other.shape.rank is not None


def sizes(parameters: Sequence[Type]) -> Iterator[str]:
    """The names of sizes in the types of parameters, as often as they stand there."""
    for found in parameters:
        if isinstance(found, TensorType):
            yield from (extent for extent in extents(found) or () if isinstance(extent, str))


def checks_sizes(parameters: Sequence[Type]) -> bool:
    """Whether a call has to compare extents: with a number, or with each other."""
    names = list(sizes(parameters))
    fixed = any(isinstance(e, int) for found in parameters if isinstance(found, TensorType) for e in extents(found) or ())
    return fixed or len(set(names)) < len(names)


def counts_natively(call: nodes.Call, name: str) -> bool:
    """Whether a call asks a tensor for an extent or a count that native code knows: `x.shape(0)`, `x.numel()`, `len(x)`."""
    given = [argument.value for argument in call.arguments]
    if any(argument.name is not None for argument in call.arguments):
        return False
    if isinstance(call.function, nodes.Field):
        subject = call.function.value
    elif given:
        subject, *given = given
    else:
        return False
    if not isinstance(subject, nodes.Name) or not isinstance(subject.type, TensorType) or tensor_refused(subject.type) is not None:
        return False
    if name == "shape":
        rank = subject.type.shape.rank or 0
        return len(given) == 1 and isinstance(given[0], nodes.IntLiteral) and 0 <= given[0].value < rank
    return name in COUNTS and not given


def shape_of(node: nodes.Index) -> nodes.Name | None:
    """The `x` of `x.shape()[1]`, where native code knows its extents."""
    match node:
        case nodes.Index(
            value=nodes.Call(function=nodes.Field(name="shape", value=nodes.Name() as subject), arguments=(), callee=""),
            indices=(nodes.IntLiteral(value=axis),),
        ):
            type_ = subject.type
            if isinstance(type_, TensorType) and tensor_refused(type_) is None and axis < (type_.shape.rank or 0):
                return subject
    return None


def row_type(type_: TensorType, axes: int) -> TensorType:
    """The type of what so many indices leave of a tensor, with open extents."""
    return TensorType(type_.element, DynamicShape((type_.shape.rank or 0) - axes))


def enumerated_tensor(node: nodes.Node) -> nodes.Expression | None:
    """The `x` of `enumerate(x)`, where it is a tensor that native code goes over."""
    match node:
        case nodes.Call(function=nodes.Name(name="enumerate"), arguments=(nodes.Argument(name=None, value=given),), callee=""):
            return given if isinstance(given.type, TensorType) and tensor_refused(given.type) is None else None
    return None


# ---- tensors that are made --------------------------------------------------------------------------------------------------


def _forms(base: str, names: Sequence[str], ranked: bool = True) -> dict[str, str]:
    ranks = ("", "_1d", "_2d", "_3d") if ranked else ("",)
    return {f"{form}{rank}": base for name in names for form in (name, f"Tensor::{name}", f"tensor_{name}") for rank in ranks}


_CREATIONS: Mapping[str, str] = {
    **{form: name for base in ("zeros", "ones", "full") for form, name in _forms(base, (base,)).items()},
    **_forms("eye", ("eye",), False),
    **_forms("arange", ("arange", "arange_1d"), False),
    **_forms("linspace", ("linspace",), False),
    **_forms("tensor", ("from_array",)),
    **dict.fromkeys(("tensor", "tensor_1d", "tensor_2d", "tensor_3d", "Tensor::new"), "tensor"),
    "tensor_clone": "clone",
}
"""Functions of the library that make tensors, by all their names."""
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "full": ("shape", "value"),
    "eye": ("rows", "columns"),
    "arange": ("start", "stop", "step"),
    "linspace": ("start", "stop", "count"),
    "tensor": ("values",),
}


def creation(call: nodes.Call) -> str | None:
    """What a call of the library makes: `zeros`, `ones`, `full`, `eye`, `arange`, `linspace`, a `tensor` of lists, or a `clone`."""
    match call.function:
        case nodes.Name(name=name):
            return _CREATIONS.get(name)
        case nodes.Path(segments=segments):
            return _CREATIONS.get("::".join(segments))
        case nodes.Field(name="clone" | "contiguous", value=subject) if isinstance(subject.type, TensorType):
            return "clone"
    return None


def numbers_given(call: nodes.Call) -> list[nodes.Expression]:
    """The numbers that a tensor is made of: its extents, or its elements, or both, in the order in which they are computed."""
    given = [argument.value for argument in call.arguments if argument.name not in ("dtype", "device")]
    match creation(call):
        case "clone":
            return [call.function.value] if isinstance(call.function, nodes.Field) else given
        case "zeros" | "ones":
            return _extents(given[0]) if len(given) == 1 else given
        case "full":
            return [*_extents(given[0]), *given[1:]]
        case "tensor":
            return _inside(given[0])
    return given


def _extents(written: nodes.Expression) -> list[nodes.Expression]:
    return list(written.elements) if isinstance(written, nodes.ListLiteral | nodes.TupleLiteral) else [written]


def _inside(written: nodes.Expression) -> list[nodes.Expression]:
    """The numbers in nested lists."""
    return [one for row in written.elements for one in _inside(row)] if isinstance(written, nodes.ListLiteral) else [written]


def lengths(call: nodes.Call) -> list[int]:
    """Of nested lists, which have as many at each depth."""
    found: list[int] = []
    written = call.arguments[0].value
    while isinstance(written, nodes.ListLiteral) and written.elements:
        found.append(len(written.elements))
        written = written.elements[0]
    return found


def not_made(call: nodes.Call) -> str | None:
    """What keeps a tensor that a call of the library makes out of native code, in words; None where native code makes it."""
    name, found = creation(call), call.type
    if not isinstance(found, TensorType):
        return "a tensor whose type isn't known"
    refused = tensor_refused(found)
    if refused is not None:
        return refused
    if any(argument.name == "device" for argument in call.arguments):
        return "a tensor on a device that is named"
    if (found.shape.rank or 0) > MOST_AXES_MADE:
        return f"a tensor of more than {MOST_AXES_MADE} axes"
    named = [argument.name for argument in call.arguments if argument.name not in (None, "dtype")]
    own = _PARAMETERS.get(name or "", ())
    order = [argument.name for argument in call.arguments if argument.name not in ("dtype",)]
    given = numbers_given(call)
    words = "a tensor by arguments that native code doesn't take"
    if name == "clone":
        return None if len(given) == 1 and not named else words
    if any(order.index(one) >= len(own) or own[order.index(one)] != one for one in named):
        return words
    types = [one.type for one in given]
    if not all(isinstance(one, Scalar) and _native(one.dtype) for one in types):
        return words
    numbers = [one for one in types if isinstance(one, Scalar)]
    assert isinstance(found.element, Scalar)
    rank, to = found.shape.rank or 0, found.element.dtype
    ints = [one.dtype.is_int for one in numbers]
    plain = DType.BOOL not in [one.dtype for one in numbers]
    takes = {
        "zeros": all(ints) and len(given) == rank,
        "ones": all(ints) and len(given) == rank,
        "full": all(ints[:-1]) and len(given) == rank + 1 and _becomes(given[-1], to),
        "eye": all(ints) and 0 < len(given) < 3,
        "arange": plain and 0 < len(given) < 4 and (to.is_float or (to is DType.I64 and all(ints))),
        "linspace": plain and len(given) == 3 and ints[-1] and to.is_float,
        "tensor": 0 < len(given) <= LONGEST_LIST and len(lengths(call)) == rank and all(_becomes(one, to) for one in given),
    }
    return None if takes[name or ""] else words


def _becomes(number: nodes.Expression, to: DType) -> bool:
    """Whether a number becomes an element without a check."""
    type_ = number.type
    assert isinstance(type_, Scalar)
    if to.is_float and type_.dtype is not DType.BOOL:
        return True
    literal = isinstance(number, nodes.IntLiteral) and to.is_int and number.value < 1 << (to.bits - to.is_signed)
    return type_.dtype is to or literal


def makes_tensors(node: nodes.Node) -> bool:
    """Whether code may make tensors, by itself or by a function that it calls."""
    calls = [one for one in walk(node) if isinstance(one, nodes.Call)]
    return any(_holds_tensors(one.type) or (one.type == UNKNOWN and one.callee != "") for one in calls)


def _holds_tensors(type_: Type) -> bool:
    return isinstance(type_, TensorType) or (isinstance(type_, TupleType) and any(map(_holds_tensors, type_.elements)))


def reassigned(node: nodes.Node) -> frozenset[str]:
    """Names of the variables that code assigns as a whole."""
    found: set[str] = set()
    for one in walk(node):
        if isinstance(one, nodes.Assign):
            targets = one.target.elements if isinstance(one.target, nodes.TupleLiteral) else (one.target,)
            found |= {target.name for target in targets if isinstance(target, nodes.Name)}
    return frozenset(found)
