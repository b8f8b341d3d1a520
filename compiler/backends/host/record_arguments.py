"""What Python gives for a parameter that is, or holds, a struct, an enum, an optional, a result or an array `[T; N]`. A struct may be given
as a record, a dictionary or a tuple of its fields, an optional as None or its value, an array as one of NumPy's or a list."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from compiler.backends.host.layouts import CaseLayout, RecordLayouts
from compiler.backends.host.numbers import dtype_of, loses_nothing
from compiler.backends.host.quick_looks import Missed, QuickLooks
from compiler.backends.host.record_values import array_of, enum_of
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.typed_ast import nodes
from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import (
    ArrayType,
    EnumType,
    ListType,
    OptionType,
    ResultType,
    Scalar,
    Size,
    StructType,
    TensorType,
    TupleType,
    Type,
)
from runtime.records import Factory, frozen
from runtime.tensor import Tensor, numpy_dtype
from runtime.values import NONE, CaseValue, Nothing, Ok, RecordValue, Some, StructValue, is_number_array

Inside = Callable[[Any, Type], Any]
"""What makes a value of Python's that holds no record the value of a type."""
Convert = Callable[[Any, Type], Any]
"""Checks a value against a type. Raises LibraryFault."""

Where = tuple[str | int, ...]
"""The names of parts, and numbers of elements, that lead from a parameter to a part of it."""

REMEMBERED = 4096
"""Types with layouts of tensors that they take."""

RESULT_HINT = "`zynml.Ok(value)` and `zynml.Err(error)` make one"


@frozen(eq=False)
class RecordArguments:
    """Makes values for one parameter of a function. `passed`: types, by their identity and the layout of a tensor that they took as it
    was; `structs`: those of structs, by their identity, with their layouts. Raises ZyntaxError (0807)."""

    parameter: nodes.Parameter
    function: str
    layouts: RecordLayouts
    inside: Inside
    convert: Convert
    passed: dict[tuple[int, Hashable], Type] = Factory(dict)
    structs: dict[int, tuple[Type, CaseLayout]] = Factory(dict)

    def taker(self, to: Type) -> Callable[[Any], Any]:
        """Makes values of a type. Records of tensors that passed before cost a look at each layout."""
        looks = QuickLooks(self.layouts, self.passed)

        def take(value: Any) -> Any:
            try:
                return looks.of(to)(value)
            except Missed:
                return self.taken(value, to)

        return take

    def taken(self, value: Any, to: Type, where: Where = ()) -> Any:
        """`where`: the way to the part of the parameter that is looked at."""
        match to:
            case TensorType() if value.__class__ is Tensor:
                return self._tensor(value, to, where)
            case OptionType(value=inner):
                if enum_of(value) == "Option":
                    return NONE if type(value) is Nothing else Some((self.taken(value[0], inner, where),))
                return NONE if value is None else Some((self.taken(value, inner, where),))
            case ResultType(value=good, error=error):
                if enum_of(value) != "Result":
                    raise self._refused(value, to, RESULT_HINT, where)
                return type(value)((self.taken(value[0], good if type(value) is Ok else error, where),))
            case StructType(name=name):
                _, layout = self.structs.get(id(to)) or self.structs.setdefault(id(to), (to, (self.layouts.cases(to) or {})[name]))
                return self._struct(value, to, layout, where)
            case EnumType():
                case = (self.layouts.cases(to) or {}).get(value.__record__.name) if isinstance(value, CaseValue) else None
                if case is None or type(value) is not case.values:
                    raise self._refused(value, to, None, where)
                return self._parts(value, case, where)
            case ArrayType():
                return self._array(value, to, where)
            case TupleType(elements=elements) if value.__class__ is tuple and len(value) == len(elements):
                return tuple(self.taken(part, type_, (*where, str(n))) for n, (part, type_) in enumerate(zip(value, elements, strict=True)))
            case ListType(element=element) if value.__class__ in (list, tuple, range):
                return [self.taken(part, element, (*where, place)) for place, part in enumerate(value)]
        return self._plain(value, to, where)

    def _tensor(self, value: Tensor, to: TensorType, where: Where) -> Any:
        key = id(to), value.layout
        if key in self.passed:
            return value
        made = self._plain(value, to, where)
        if made is value and to.device is None and value.remote is not None:  # the elements of others may decide
            if len(self.passed) >= REMEMBERED:
                self.passed.clear()
            self.passed[key] = to
        return made

    def _plain(self, value: Any, to: Type, where: Where) -> Any:
        """The value where it holds no record."""
        try:
            return self.convert(self.inside(value, to), to)
        except LibraryFault as fault:
            raise self._error(f"{self._shown(where)} of `{self.function}`: {fault.message}", fault.hint) from None

    def _parts(self, values: Sequence[Any], case: CaseLayout, where: Where) -> Any:
        return case.values([self.taken(part, type_, (*where, name)) for part, (name, type_) in zip(values, case.parts, strict=True)])

    def _shown(self, where: Where) -> str:
        """The part of the parameter in a message."""
        return f"`{self.parameter.name}{''.join(f'[{step}]' if step.__class__ is int else f'.{step}' for step in where)}`"

    def _error(self, message: str, hint: str | None) -> ZyntaxError:
        return ZyntaxError(Diagnostic("0807", message, self.parameter.span, "declared here", hint=hint))

    def _refused(self, value: Any, to: Type, hint: str | None, where: Where) -> ZyntaxError:
        return self._error(f"{self._shown(where)} is {_described(value)}, and `{self.function}` takes {to}", hint)

    def _struct(self, value: Any, to: StructType, case: CaseLayout, where: Where) -> Any:
        if type(value) is case.values:
            return self._parts(value, case, where)
        names = [name for name, _ in case.parts]
        match value:
            case StructValue():
                given: Mapping[str, Any] = dict(zip(value.__record__.parts, value, strict=True))
                if value.__record__.shown != to.name.rpartition("·")[2]:
                    raise self._refused(value, to, None, where)
            case dict():
                given = value
            case tuple() if not isinstance(value, RecordValue):
                if len(value) != len(names):
                    parts = "1 part" if len(value) == 1 else f"{len(value)} parts"
                    message = f"{self._shown(where)} has {parts}, and {to} has {len(names)}"
                    raise self._error(message, f"its fields are {_listed(names)}")
                given = dict(zip(names, value, strict=True))
            case _:
                raise self._refused(value, to, f"a dictionary or a tuple of its fields becomes one: {_listed(names)}", where)
        strange = next((name for name in given if name not in names), None)
        if strange is not None:
            hint = did_you_mean(str(strange), names) or f"its fields are {_listed(names)}"
            raise self._error(f"{self._shown(where)} has `{strange}`, and {to} has no such field", hint)
        missing = [name for name in names if name not in given]
        if missing:
            raise self._error(f"{self._shown(where)} has no {_listed(missing)}, and {to} needs it", None)
        return self._parts([given[name] for name in names], case, where)

    def _array(self, value: Any, to: ArrayType, where: Where) -> Any:
        array = value.contents if isinstance(value, Tensor) else value if is_number_array(value) else None
        if array is None and not isinstance(value, list | tuple | range):
            raise self._refused(value, to, "an array of NumPy's, a list or a tuple becomes one", where)
        if array is not None and array.ndim == 0:
            raise self._refused(value, to, None, where)
        count = to.size.value if isinstance(to.size, Size) else None
        if count is not None and len(value) != count:
            message = f"{self._shown(where)} has {_counted(len(value))}, and `{self.function}` takes {to}"
            raise self._error(message, None)
        if array is None or not isinstance(to.element, Scalar):
            rows = enumerate(value if array is None else array)
            return array_of([self.taken(row, to.element, (*where, place)) for place, row in rows], to.element)
        have = dtype_of(array.dtype.type())
        if array.ndim != 1 or have is None or not loses_nothing(have, to.element.dtype):
            hint = f"`{self.parameter.name}.astype(np.{numpy_dtype(to.element.dtype.value)})` converts it" if array.ndim == 1 else None
            raise self._refused(value, to, hint, where)
        return array.astype(numpy_dtype(to.element.dtype.value))


def restored(value: Any, layouts: RecordLayouts, inside: Inside, parameter: nodes.Parameter, function: str) -> Any:
    """A record that is given where the type isn't known: its own class tells the types of its parts."""
    if not isinstance(value, RecordValue) or (parts := layouts.parts(value)) is None:
        return value
    arguments = RecordArguments(parameter, function, layouts, inside, inside)
    return type(value)(arguments.taken(part, type_) for part, (_, type_) in zip(value, parts, strict=True))


def _described(value: Any) -> str:
    match value:
        case RecordValue():
            return f"a `{value.__record__.enum or value.__record__.name}`"
        case None:
            return "None"
        case Tensor():
            return f"an array of {value.dtype} of shape {tuple(value.shape)}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _counted(elements: int) -> str:
    return "1 element" if elements == 1 else f"{elements} elements"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
