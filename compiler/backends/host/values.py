"""Values of a running program: what kind each is, conversion to declared types, iteration, unpacking, indices. Tensors are
whatever is nothing else here; everything about them goes through the library's entries."""

from collections.abc import Iterable, Sequence
from typing import Any

from compiler.backends.host.layouts import NO_LAYOUTS, RecordLayouts
from compiler.backends.host.numbers import I64_MAX, I64_MIN, cast_scalar, dtype_of, loses_nothing, plain
from compiler.backends.host.record_values import RECORD_TYPES, as_declared, enum_of
from compiler.typed_ast.library import Library, LibraryFault
from compiler.typed_ast.types import (
    ANY_TENSOR,
    BOOL,
    F64,
    I64,
    STRING,
    ArrayType,
    CharType,
    DictType,
    DType,
    FutureType,
    ListType,
    OptionType,
    RangeType,
    ResultType,
    Scalar,
    SetType,
    StringType,
    StructType,
    TensorType,
    TupleType,
    Type,
    UnitType,
    UnknownType,
)
from runtime.futures import PendingValue
from runtime.records import frozen
from runtime.tensor import Tensor
from runtime.values import ElementSet, Nothing, RecordValue, copied, elements_of, is_array


@frozen
class Bounds:
    """`1..1000` behind `param n: int in`: `low` to `high`, which belongs to it when `inclusive`."""

    low: Any
    high: Any
    inclusive: bool = False


def kind_of(value: object) -> str:
    """The receiver kind under which the library lists methods."""
    if value.__class__ is Tensor:
        return "tensor"
    dtype = dtype_of(value)
    if dtype is not None:
        return "bool" if dtype is DType.BOOL else "float" if dtype.is_float else "int"
    match value:
        case PendingValue():
            return "future"
        case str():
            return "String"
        case RecordValue():
            return enum_of(value) or value.__record__.name or "record"
        case _ if is_array(value):
            return "array"
        case list():
            return "List"
        case ElementSet():
            return "HashSet"
        case dict():
            return "HashMap"
        case tuple():
            return "tuple"
        case range():
            return "range"
        case None:
            return "()"
    return "function" if callable(value) else "tensor"


def kind_of_type(type_: Type) -> str | None:
    match type_:
        case Scalar(dtype=dtype):
            return "bool" if dtype is DType.BOOL else "float" if dtype.is_float else "int"
        case StringType() | CharType():
            return "String"
        case ListType():
            return "List"
        case DictType():
            return "HashMap"
        case SetType():
            return "HashSet"
        case TensorType():
            return "tensor"
        case TupleType():
            return "tuple"
        case RangeType():
            return "range"
        case OptionType():
            return "Option"
        case ResultType():
            return "Result"
        case ArrayType():
            return "array"
    return None


def describe(value: object) -> str:
    """A value's type in a message's words."""
    dtype = dtype_of(value)
    if dtype is not None:
        return dtype.value
    kind = kind_of(value)
    return {"List": "list", "HashMap": "map", "HashSet": "set", "()": "unit"}.get(kind, kind)


def misfit(wanted: str, value: object) -> LibraryFault:
    return LibraryFault("0807", f"expected {wanted}, found {describe(value)}")


def invoke(library: Library, name: str, *arguments: Any) -> Any:
    """A library function by name, its remaining parameters at their defaults."""
    function = library.functions[name]
    if len(arguments) == len(function.parameters):
        return function.implementation(*arguments)
    rest = [() if p.variadic else p.default for p in function.parameters[len(arguments) :]]
    return function.implementation(*arguments, *rest)


# ---- conversion ------------------------------------------------------------------------------------------------------


def _is_plainly(value: Any, want: DType) -> bool:
    """Whether the value's class says that it is of the dtype: most are, and are asked often."""
    kind = value.__class__
    if want is DType.I64:
        return kind is int and I64_MIN <= value <= I64_MAX
    if want is DType.F64:
        return kind is float
    return kind is bool if want is DType.BOOL else dtype_of(value) is want


def convert(library: Library, value: Any, to: Type, weak: bool = False, layouts: RecordLayouts = NO_LAYOUTS) -> Any:
    """The value as the declared type has it, where nothing is lost; a fault where it doesn't fit. `weak`: its numbers come from
    unsuffixed literals and take the type that is asked for."""
    if to.__class__ is Scalar and _is_plainly(value, to.dtype):
        return value
    if value.__class__ is Tensor and to.__class__ is TensorType:
        return as_tensor(library, value, to)
    match to:
        case Scalar(dtype=want):
            value = item(library, value)
            have = dtype_of(value)
            if have is None:
                raise misfit(want.value, value)
            if have is want:
                return plain(value, want) if want in (DType.I64, DType.F64, DType.BOOL) else value
            from_literal = weak and have in (DType.I64, DType.F64) and (want.is_float or have.is_int)
            if not from_literal and not loses_nothing(have, want):
                raise LibraryFault("0807", f"expected {want.value}, found {have.value}", f"write `as {want.value}`")
            return cast_scalar(value, have, want)
        case StringType() | CharType():
            if not isinstance(value, str):
                raise misfit(str(to), value)
        case UnitType():
            return None
        case ListType(element=element):
            if isinstance(value, range):
                value = list(value)
            if not isinstance(value, list) or is_array(value):
                raise misfit("a list", value)
            return _all_converted(library, value, element, weak, layouts)
        case DictType(key=key, value=part):
            if not isinstance(value, dict) or isinstance(value, ElementSet):
                raise misfit("a map", value)
            return _entries_converted(library, value, key, part, weak, layouts)
        case SetType(element=element):
            if not isinstance(value, ElementSet):
                raise misfit("a set", value)
            found = [convert(library, v, element, weak, layouts) for v in value]
            return value if all(a is b for a, b in zip(found, value, strict=True)) else ElementSet(dict.fromkeys(found))
        case TupleType(elements=elements):
            if not isinstance(value, tuple) or len(value) != len(elements) or isinstance(value, RecordValue):
                raise misfit(f"a tuple {to}", value)
            return tuple(convert(library, v, t, weak, layouts) for v, t in zip(value, elements, strict=True))
        case TensorType():
            return as_tensor(library, value, to)
        case FutureType(value=inner):
            if not isinstance(value, PendingValue):
                raise misfit("a future", value)
            return value.then(lambda found: convert(library, found, inner, weak, layouts))
    if isinstance(to, RECORD_TYPES):
        return as_declared(value, to, layouts, lambda part, type_: convert(library, part, type_, weak, layouts), describe)
    return value


def _all_converted(library: Library, value: list[Any], element: Type, weak: bool, layouts: RecordLayouts) -> list[Any]:
    """The same list when no element changes: lists are shared."""
    if _are_all(value, element, layouts):
        return value
    converted = [convert(library, v, element, weak, layouts) for v in value]
    return value if all(a is b for a, b in zip(converted, value, strict=True)) else converted


def _entries_converted(
    library: Library, value: dict[Any, Any], key: Type, part: Type, weak: bool, layouts: RecordLayouts
) -> dict[Any, Any]:
    """The same map when no key and no value changes: maps are shared."""
    if _are_all(value, key, layouts) and _are_all(value.values(), part, layouts):
        return value
    keys = [convert(library, k, key, weak, layouts) for k in value]
    parts = [convert(library, v, part, weak, layouts) for v in value.values()]
    same = all(a is b for a, b in zip((*keys, *parts), (*value, *value.values()), strict=True))
    return value if same else dict(zip(keys, parts, strict=True))


_CLASSES: dict[Type, type] = {I64: int, F64: float, BOOL: bool, STRING: str}
"""Types whose values are all of a class of Python's."""


def _are_all(values: Iterable[Any], to: Type, layouts: RecordLayouts) -> bool:
    """Whether the classes of values tell that all are of a type. Said of many values much sooner than of each."""
    plain = _CLASSES.get(to)
    if plain is None and isinstance(to, StructType) and not to.arguments:
        plain = next((case.values for case in (layouts.cases(to) or {}).values()), None)
    return isinstance(to, UnknownType) or (plain is not None and set(map(type, values)) <= {plain})


def item(library: Library, value: Any) -> Any:
    """The number in a tensor without axes; everything else as it is."""
    if kind_of(value) == "tensor" and getattr(value, "shape", None) == ():
        return invoke(library, "index get", value, ())
    return value


def weak_to(value: Any, want: DType) -> Any:
    """A value that came out of unsuffixed literals, as the type that flows in."""
    have = dtype_of(value)
    if have is None:
        raise misfit(want.value, value)
    return value if have is want else cast_scalar(value, have, want)


def cast(library: Library, value: Any, to: Type) -> Any:
    """`value as T`."""
    match to:
        case Scalar(dtype=want):
            have = dtype_of(value)
            if have is not None:
                return cast_scalar(value, have, want)
            if kind_of(value) == "tensor":
                return invoke(library, "operator as", value, want.value)
            if isinstance(value, str) and len(value) == 1 and want.is_int:
                return cast_scalar(ord(value), DType.I64, want)
            found = "None" if type(value) is Nothing else describe(value)
            raise LibraryFault("0807", f"{found} does not become {want.value}")
        case TensorType(element=element):
            if value.__class__ is not Tensor:
                value = as_tensor(library, value, TensorType(element=element) if kind_of(value) != "tensor" else ANY_TENSOR)
            if isinstance(element, Scalar):
                value = invoke(library, "operator as", value, element.dtype.value)
            return checked_shape(value, to)
        case CharType():
            if dtype_of(value) in (DType.I64, DType.U8, DType.U32, DType.I32) and 0 <= int(value) < 0x110000:
                return chr(int(value))
        case StringType():
            return value if isinstance(value, str) else invoke(library, "to text", value)
    return convert(library, value, to)


def as_tensor(library: Library, value: Any, to: TensorType) -> Any:
    """Lists of numbers become tensors at a call or compute boundary; tensors stay, unless the type says where they lie."""
    if value.__class__ is Tensor:
        pass
    elif isinstance(value, list) or (dtype_of(value) is not None and to.shape.rank in (None, 0)):
        value = invoke(library, "tensor", value, to.element.dtype.value if isinstance(to.element, Scalar) else None)
    elif kind_of(value) != "tensor":
        raise misfit("a tensor", value)
    value = checked_shape(_element_type(library, value, to), to)
    return value if to.device is None else invoke(library, "to_device", value, str(to.device))


def checked_shape(value: Any, to: TensorType) -> Any:
    """The tensor, when its rank and its constant dims are as declared."""
    rank = to.shape.rank
    if rank is not None:
        shape = tuple(value.shape)
        if len(shape) != rank or not all(map(_may_be, getattr(to.shape, "dims", shape), shape)):
            raise LibraryFault("0807", f"expected {to}, found a tensor of shape {list(shape)}")
    return value


def _may_be(declared: Any, extent: int) -> bool:
    """Whether a dim that is declared so may have the extent; names may have any."""
    constant = declared if declared.__class__ is int else getattr(declared, "value", None)
    return constant is None or constant == extent


def _element_type(library: Library, value: Any, to: TensorType) -> Any:
    """The tensor with the declared element type, when its own becomes that by itself."""
    if not isinstance(to.element, Scalar) or value.dtype_name == to.element.dtype.value:
        return value
    want = to.element.dtype
    if not loses_nothing(DType(value.dtype_name), want):
        dtype = value.dtype_name
        hint = f"take it as {dtype}, then convert it: `as {want.value}`"
        raise LibraryFault("0807", f"expected a tensor of {want.value}, found one of {dtype}", hint)
    return invoke(library, "operator as", value, want.value)


# ---- parts of values -------------------------------------------------------------------------------------------------------


def iterate(library: Library, value: Any) -> Iterable[Any]:
    """What `for x in value` runs over: a tensor's first axis, a text's characters, a container's elements."""
    if is_array(value):
        return elements_of(copied(value))
    match value:
        case list() | tuple() | range() | str() | dict() if not isinstance(value, RecordValue):
            return value
    if hasattr(value, "__next__"):
        running: Iterable[Any] = value
        return running
    if kind_of(value) != "tensor" or len(value.shape) == 0:
        raise misfit("something to run over (a range, list or tensor)", value)
    return (invoke(library, "index get", value, (i,)) for i in range(value.shape[0]))


def unpack(value: Any, count: int) -> Sequence[Any]:
    """The parts of a tuple (or list) that several names take apart."""
    if not isinstance(value, (tuple, list)) or isinstance(value, RecordValue):
        raise misfit(f"a tuple of {count}", value)
    if len(value) != count:
        raise LibraryFault("0807", f"expected a tuple of {count}, found one of {len(value)}")
    return value


def unpack_list(value: Any, count: int) -> Sequence[Any]:
    """The elements of a list or array that as many names take apart."""
    if type(value) is not list and not is_array(value):
        raise LibraryFault("0807", f"expected a list of {count}, found {describe(value)}")
    if len(value) != count:
        what = "list" if type(value) is list else "array"
        raise LibraryFault("0807", f"the {what} has {len(value)} elements, and this pattern takes {count} apart")
    return elements_of(value) if is_array(value) else value


def make_range(low: Any, high: Any, step: Any = 1, inclusive: bool = False) -> range:
    for part in (low, high, step):
        dtype = dtype_of(part)
        if dtype is None or not dtype.is_int:
            raise misfit("an int in a range", part)
    low, high, step = int(low), int(high), int(step)
    if step == 0:
        raise LibraryFault("0806", "the step of a range is 0")
    return range(low, high + (1 if step > 0 else -1) if inclusive else high, step)


def truth(value: Any) -> bool:
    """A condition's value: a bool, or a bool tensor of one element."""
    if dtype_of(value) is DType.BOOL:
        return bool(value)
    if kind_of(value) == "tensor" and all(d == 1 for d in value.shape):
        only = value.contents.item()
        if dtype_of(only) is DType.BOOL:
            return bool(only)
    raise misfit("bool", value)
