"""`value as T` where T is made of parts: what a file holds (maps, lists, numbers, text) becomes lists, maps, tuples, structs, enums,
optionals, results and arrays of the program. What doesn't fit is said with its place inside of the value."""

from collections.abc import Callable, Iterable
from typing import Any

from compiler.backends.host.layouts import CaseLayout, RecordLayouts
from compiler.backends.host.numbers import dtype_of
from compiler.backends.host.record_values import array_of, enum_of
from compiler.backends.host.values import as_tensor, cast, convert, item, kind_of, misfit
from compiler.typed_ast.library import Library, LibraryFault
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import (
    ArrayType,
    DictType,
    DType,
    EnumType,
    ListType,
    OptionType,
    ResultType,
    Scalar,
    SetType,
    Size,
    StructType,
    TensorType,
    TupleType,
    Type,
    UnknownType,
)
from runtime.records import frozen
from runtime.values import NONE, ElementSet, Err, Nothing, Ok, RecordValue, Some, is_array

MADE_OF_PARTS = (ListType, DictType, SetType, TupleType, StructType, EnumType, OptionType, ResultType, ArrayType)


class _Unfit(Exception):
    """A part that doesn't fit. `steps` lead to it, from the inside out."""

    def __init__(self, fault: LibraryFault) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.steps: list[str] = []


@frozen(eq=False)
class Fitting:
    """Conversions of one program. All of them raise LibraryFault (0807)."""

    library: Library
    layouts: RecordLayouts

    def cast(self, value: Any, to: Type) -> Any:
        """`value as T`."""
        return self.fitted(value, to) if isinstance(to, MADE_OF_PARTS) else cast(self.library, value, to)

    def fitted(self, value: Any, to: Type) -> Any:
        """The value as the type has it; a fault names the place of the part that doesn't fit."""
        try:
            return self._fitted(value, to)
        except _Unfit as unfit:
            fault = unfit.fault
            where = "".join(reversed(unfit.steps)).removeprefix(".")
            message = f"at `{where}`: {fault.message}" if where else fault.message
            raise LibraryFault("0807", message, fault.hint) from None

    def _fitted(self, value: Any, to: Type) -> Any:
        try:
            return self._made(value, to)
        except LibraryFault as fault:
            raise _Unfit(fault) from None

    def _each(self, values: Iterable[Any], to: Type) -> list[Any]:
        made = []
        for value in values:
            try:
                made.append(self._fitted(value, to))
            except _Unfit as unfit:
                unfit.steps.append(f"[{len(made)}]")
                raise
        return made

    def _part(self, name: str, value: Any, to: Type) -> Any:
        try:
            return self._fitted(value, to)
        except _Unfit as unfit:
            unfit.steps.append(f".{name}" if name.isidentifier() else f'["{name}"]')
            raise

    def _made(self, value: Any, to: Type) -> Any:
        if type(value) is Nothing and not isinstance(to, OptionType | UnknownType):
            raise LibraryFault("0807", f"expected {to}, found None", f"`{to}?` takes None, too")
        match to:
            case Scalar(dtype=dtype):
                return self._number(value, dtype)
            case TensorType():
                return as_tensor(self.library, value, to)
            case ListType(element=element):
                return _same(value, self._each(_sequence(value, "a list"), element))
            case SetType(element=element):
                found = self._each(value if isinstance(value, ElementSet) else _sequence(value, "a set"), element)
                return ElementSet(dict.fromkeys(found))
            case TupleType(elements=elements):
                return self._tuple(value, to, elements)
            case ArrayType(element=element):
                return self._array(value, to, element)
            case DictType(key=key, value=part):
                if not _is_map(value):
                    raise misfit("a map", value)
                made = {self._key(name, key): self._part(str(name), found, part) for name, found in value.items()}
                return value if all(made.get(name) is found for name, found in value.items()) else made
            case OptionType(value=inner):
                if enum_of(value) == "Option":
                    return value if value == NONE else Some((self._fitted(value[0], inner),))
                return NONE if value is None else Some((self._fitted(value, inner),))
            case ResultType(value=good, error=error) if _is_map(value):
                return self._case(value, to, {"Ok": (Ok, good), "Err": (Err, error)})
            case StructType(name=name) if _is_map(value):
                return self._struct(value, to, (self.layouts.cases(to) or {})[name])
            case EnumType() if _is_map(value) or isinstance(value, str):
                return self._enum(value, to)
        return convert(self.library, value, to, True, self.layouts)

    def _number(self, value: Any, want: DType) -> Any:
        value = item(self.library, value)
        have = dtype_of(value)
        if have is not None and have.is_float and want.is_int:
            raise LibraryFault("0807", f"expected {want.value}, found the {have.value} {value}")
        if have is None or (have is DType.BOOL) != (want is DType.BOOL):
            raise misfit(want.value, value)
        return convert(self.library, value, Scalar(want), True, self.layouts)

    def _key(self, name: Any, to: Type) -> Any:
        """A key of a map: text in a file may spell an int."""
        if isinstance(name, str) and isinstance(to, Scalar) and to.dtype.is_int:
            try:
                name = int(name)
            except ValueError:
                raise LibraryFault("0807", f'expected keys of {to}, found "{name}"') from None
        return self._made(name, to)

    def _tuple(self, value: Any, to: Type, elements: tuple[Type, ...]) -> Any:
        given = _sequence(value, f"a tuple {to}")
        if len(given) != len(elements):
            raise LibraryFault("0807", f"expected {to}, found {len(given)} elements")
        return tuple(self._each_of(given, elements))

    def _each_of(self, given: Any, types: tuple[Type, ...]) -> Iterable[Any]:
        for place, (value, to) in enumerate(zip(given, types, strict=True)):
            try:
                yield self._fitted(value, to)
            except _Unfit as unfit:
                unfit.steps.append(f".{place}")
                raise

    def _array(self, value: Any, to: ArrayType, element: Type) -> Any:
        if is_array(value):
            return convert(self.library, value, to, True, self.layouts)
        given = _sequence(value, str(to))
        count = to.size.value if isinstance(to.size, Size) else None
        if not given or (count is not None and len(given) != count):
            raise LibraryFault("0807", f"expected {to}, found {len(given)} elements")
        return array_of(self._each(given, element), element)

    def _struct(self, value: dict[Any, Any], to: StructType, case: CaseLayout) -> Any:
        """Entries by the names of fields; those that no field has are left out. What isn't there is the field's default, or none."""
        written = {field.name: field.default for field in self.layouts.declared.structs[to.name].fields}
        return case.values(self._field(value, to, name, type_, written.get(name)) for name, type_ in case.parts)

    def _field(self, value: dict[Any, Any], to: Type, name: str, type_: Type, default: Any) -> Any:
        if name in value:
            return self._part(name, value[name], type_)
        from compiler.typed_ast.constants import constant

        known = constant(default) if default is not None else None
        if known is not None:
            return self._part(name, known, type_)
        if isinstance(type_, OptionType):
            return NONE
        given = [key for key in value if isinstance(key, str)]
        hint = did_you_mean(name, given) or ("it has " + ", ".join(f"`{key}`" for key in given[:12]) if given else None)
        raise LibraryFault("0807", f"there is no `{name}`, which {to} needs", hint)

    def _enum(self, value: Any, to: Type) -> Any:
        """A case by its name, with its parts behind it: `"Empty"`, `{"Circle": 2.0}`, `{"Pair": [1, 2]}`, `{"Box": {"w": 1.0}}`."""
        cases = self.layouts.cases(to) or {}
        if isinstance(value, str):
            case = _named(value, cases, to)
            if case.parts:
                raise LibraryFault("0807", f"the case `{value}` of {to} has values, and here is its name alone")
            return self.layouts.value(case)
        name, inside = _only(value, to)
        case = _named(name, cases, to)
        types = tuple(type_ for _, type_ in case.parts)
        names = [part for part, _ in case.parts]
        if case.parts and not case.parts[0][0].isdecimal():
            if not _is_map(inside):
                raise misfit(f"the values of `{name}` by their names", inside)
            missing = next((part for part in names if part not in inside), None)
            if missing is not None:
                raise LibraryFault("0807", f"there is no `{missing}`, which `{name}` of {to} needs")
            return case.values(self._part(part, inside[part], type_) for part, type_ in case.parts)
        given = [inside] if len(types) == 1 else _sequence(inside, f"the {len(types)} values of `{name}`")
        if len(given) != len(types):
            raise LibraryFault("0807", f"the case `{name}` of {to} has {len(types)} values, and here are {len(given)}")
        return case.values(self._each_of(given, types)) if len(types) != 1 else case.values((self._part(name, inside, types[0]),))

    def _case(self, value: dict[Any, Any], to: Type, cases: dict[str, tuple[Callable[[tuple[Any]], Any], Type]]) -> Any:
        name, inside = _only(value, to)
        make, type_ = _named(name, cases, to)
        return make((self._part(name, inside, type_),))


def _named(name: Any, cases: Any, to: Type) -> Any:
    if name not in cases:
        hint = (did_you_mean(name, cases) if isinstance(name, str) else None) or "its cases are " + ", ".join(f"`{case}`" for case in cases)
        raise LibraryFault("0807", f'{to} has no case "{name}"', hint)
    return cases[name]


def _only(value: dict[Any, Any], to: Type) -> tuple[Any, Any]:
    if len(value) != 1:
        raise LibraryFault("0807", f"expected {to}, a map of one case's name, found one of {len(value)} entries")
    return next(iter(value.items()))


def _is_map(value: Any) -> bool:
    return isinstance(value, dict) and not isinstance(value, ElementSet)


def _sequence(value: Any, wanted: str) -> Any:
    if isinstance(value, list | tuple | range) and not isinstance(value, RecordValue):
        return value
    if is_array(value) or kind_of(value) != "tensor" or not getattr(value, "shape", ()):
        raise misfit(wanted, value)
    return value.contents.tolist()


def _same(value: Any, made: list[Any]) -> Any:
    """The list itself where no element changes: lists are shared."""
    return value if type(value) is list and all(new is old for new, old in zip(made, value, strict=True)) else made


@frozen(eq=False)
class ConversionTarget:
    """What a library function that makes values of the type behind its `as` is given: the type, and what fits a value to it."""

    type: Type
    fitting: Fitting

    def fitted(self, value: Any) -> Any:
        return self.fitting.fitted(value, self.type)

    def fields(self, of: StructType) -> tuple[tuple[str, Type], ...]:
        """A struct's fields by name, with their types."""
        return self.fitting.layouts.fields(of)
