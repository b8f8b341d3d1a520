"""What Python gives for the parameters of a program's function, as their declared types have it. Numbers count as unsuffixed literals,
a tuple or range stands for a list, an array for a list of its elements. What doesn't fit is said in Python's words."""

from collections.abc import Callable
from typing import Any

from compiler.backends.host.layouts import RecordLayouts
from compiler.backends.host.numbers import dtype_of, loses_nothing, scalar_class
from compiler.backends.host.record_arguments import RecordArguments, restored
from compiler.backends.host.record_values import RECORD_TYPES
from compiler.backends.host.values import weak_to
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import INT_RANGES
from compiler.typed_ast.types import DType, ListType, Scalar, TensorType, TupleType, Type, UnknownType
from runtime.lazy_numpy import np
from runtime.records import evolve
from runtime.tensor import Tensor, is_foreign, numpy_dtype

Taker = Callable[[Any], Any]

EXACT = {DType.F64: 1 << 53, DType.F32: 1 << 24, DType.F16: 1 << 11, DType.BF16: 1 << 8, DType.F8E4M3: 1 << 4, DType.F8E5M2: 1 << 3}
"""The largest number up to which a float type holds every int."""

ORDINARY = 1 << 8
"""Python's ints up to here fit every float type that programs commonly use, and aren't looked at."""


def taken_as(parameter: nodes.Parameter, to: Type, function: str, layouts: RecordLayouts, convert: Callable[[Any, Type], Any]) -> Taker:
    """What makes a call's value the parameter's. It raises ZyntaxError (0807). `convert` checks the parts of records, by LibraryFault."""
    refuse = _Refusal(parameter, to, function)

    def inside(value: Any, type_: Type) -> Any:
        return _contained(value, type_, refuse)

    if _holds_records(to):
        arguments = RecordArguments(parameter, function, layouts, inside, convert)
        return arguments.taker(to)
    match to:
        case Scalar(dtype):
            return _number(dtype, refuse)
        case TensorType(Scalar(dtype)):
            return _tensor(dtype, refuse)
        case TensorType():
            return lambda value: list(value) if value.__class__ in (tuple, range) else _known(value)
        case ListType() | TupleType():
            return lambda value: inside(value, to)
    if isinstance(to, UnknownType):
        return lambda value: restored(_known(value), layouts, inside, parameter, function)
    return _known


def _holds_records(to: Type) -> bool:
    match to:
        case ListType(element=element):
            return _holds_records(element)
        case TupleType(elements=elements):
            return any(map(_holds_records, elements))
    return isinstance(to, RECORD_TYPES)


def _known(value: Any) -> Any:
    """The value. Raises ZyntaxError (0807) for a dictionary, which stands for a struct, where none is wanted."""
    if value.__class__ is dict:
        hint = "programs know numbers, text, arrays, lists, tuples, ranges and functions"
        raise ZyntaxError(Diagnostic("0807", "a Python dict has no counterpart", hint=hint))
    return value


class _Refusal:
    """The message about a parameter's value."""

    def __init__(self, parameter: nodes.Parameter, to: Type, function: str) -> None:
        self.parameter, self.to, self.function = parameter, to, function

    def of(self, given: str, wanted: str, hint: str | None) -> ZyntaxError:
        name = self.parameter.name
        message = f"`{name}` is {given}, and `{self.function}` takes {wanted}"
        return ZyntaxError(Diagnostic("0807", message, self.parameter.span, "declared here", hint=hint))

    def inexact(self, verb: str, number: int, dtype: DType, rounding: str) -> ZyntaxError:
        message = f"`{self.parameter.name}` {verb} {number}, which {dtype.value} can't hold exactly"
        return ZyntaxError(Diagnostic("0807", message, self.parameter.span, "declared here", hint=f"`{rounding}` rounds it"))

    def require_held(self, verb: str, number: int, dtype: DType, rounding: str) -> None:
        """Raises ZyntaxError where the type doesn't hold this int."""
        low, high = INT_RANGES.get(dtype, (number, number))
        if not low <= number <= high:
            message = f"`{self.parameter.name}` {verb} {number}, which {dtype.value} can't hold"
            hint = f"{dtype.value} holds {low} to {high}"
            raise ZyntaxError(Diagnostic("0807", message, self.parameter.span, "declared here", hint=hint))
        if dtype.is_float and not _is_exact(number, dtype):
            raise self.inexact(verb, number, dtype, rounding)


def _number(to: DType, refuse: _Refusal) -> Taker:
    make, takes_floats = scalar_class(to), to.is_float
    low, high = INT_RANGES.get(to, (-ORDINARY, ORDINARY))
    name = refuse.parameter.name

    def take(value: Any) -> Any:
        kind = value.__class__
        if kind is float:
            if takes_floats:
                return make(value)
            raise refuse.of("a float", to.value, f"`int({name})` cuts it off")
        if kind is int:
            if not low <= value <= high:
                refuse.require_held("is", value, to, f"float({name})")
            return value if to is DType.I64 else weak_to(value, to)
        have = dtype_of(value) if isinstance(value, bool | np.generic) else None
        if have is None or have is to:
            return _known(value)
        if not loses_nothing(have, to):
            given = "a bool" if have is DType.BOOL else f"{_article(str(value.dtype))} {value.dtype}"
            raise refuse.of(given, to.value, f"`{'float' if takes_floats else 'int'}({name})` converts it")
        if have.is_int and takes_floats and not _is_exact(int(value), to):
            raise refuse.inexact("is", int(value), to, f"float({name})")
        return value

    return take


def _tensor(to: DType, refuse: _Refusal) -> Taker:
    wanted = numpy_dtype(to.value)
    name = refuse.parameter.name
    converted = f"{name}.astype({'ml_dtypes' if is_foreign(wanted) else 'np'}.{wanted})"

    def take(value: Any) -> Any:
        kind = value.__class__
        if kind is Tensor:
            if value.dtype == wanted:
                return value
            have = DType(value.dtype_name)
            if not loses_nothing(have, to):
                shown = evolve(refuse.to, element=Scalar(have)) if isinstance(refuse.to, TensorType) else refuse.to
                hint = f"`{converted}` converts it; `{name}: {shown}` takes it as it is"
                raise refuse.of(f"an array of {value.dtype}", f"a tensor of {to.value}", hint)
            if have.is_int and to.is_float:
                require_exact(value.contents)
            return value
        if kind is tuple or kind is range:
            value = _listed(value)
            kind = list
        if kind is list and to.is_float and (numbers := _ints(value)) is not None:
            require_exact(numbers)
        return _known(value)

    def require_exact(array: Any) -> None:
        number = _first_inexact(array, to)
        if number is not None:
            raise refuse.inexact("holds", number, to, converted if array.dtype != object else f"np.array({name}, np.{wanted})")

    return take


def _is_exact(value: int, to: DType) -> bool:
    """Whether a float type holds this int."""
    value = abs(value)
    return value <= EXACT[to] or (value % (value & -value) == 0 and (value // (value & -value)) <= EXACT[to])


def _first_inexact(array: Any, to: DType) -> int | None:
    """The first int of an array that the float type doesn't hold; None where it holds all."""
    if array.size == 0:
        return None
    most = EXACT[to]
    if -most <= array.min() and array.max() <= most:
        return None
    beyond = array[(array > most) | (array < -most)]
    return next((int(number) for number in beyond.ravel() if not _is_exact(int(number), to)), None)


def _ints(value: list[Any]) -> Any:
    """A list of ints, in lists or not, as an array; None for another one."""
    first: Any = value
    while isinstance(first, list | tuple) and first:
        first = first[0]
    if first.__class__ is not int:
        return None
    try:
        array = np.array(value)
    except (ValueError, OverflowError):
        return None
    return array if array.dtype.kind in "iu" else None


def _listed(value: Any) -> Any:
    """The tuples and ranges in a value as lists."""
    return [_listed(element) for element in value] if isinstance(value, tuple | range | list) else value


def _contained(value: Any, to: Type, refuse: _Refusal) -> Any:
    """The value with its numbers as the type has them; the same object where nothing changes, as lists are shared."""
    match to:
        case ListType(element=element):
            if value.__class__ is tuple or value.__class__ is range:
                value = list(value)
            elif isinstance(value, Tensor) and value.shape:
                value = value.contents.tolist()
            if not isinstance(value, list):
                return _known(value)
            elements_ = [_contained(type_, element, refuse) for type_ in value]
            return value if all(new is old for new, old in zip(elements_, value, strict=True)) else elements_
        case TupleType(elements=elements) if value.__class__ is tuple and len(value) == len(elements):
            return tuple(_contained(type_, each, refuse) for type_, each in zip(value, elements, strict=True))
        case Scalar(dtype):
            if value.__class__ is int:
                refuse.require_held("holds", value, dtype, "float(...)")
                return value if dtype is DType.I64 else weak_to(value, dtype)
            if value.__class__ is float and dtype.is_float and dtype is not DType.F64:
                return weak_to(value, dtype)
    return _known(value)


def _article(word: str) -> str:
    return "an" if word[0] in "aeiou" and not word.startswith("u") else "a"
