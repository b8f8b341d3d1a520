"""Between Python and native functions: what a Python caller gives is taken apart into the numbers that a native function takes, and what
that gives is put together again. One place for each signature, a Python function written for it.

An array of numbers goes by its address, which native code only reads, and a result that is one is written into a new array. A tensor that
is a result lies on the heap of the run, or in the memory of an argument. An argument
whose class isn't just what the type has on Python goes to `otherwise`, which converts it or says what is wrong."""

import ast
import ctypes
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from compiler.backends.host.heap import heap_limit, heap_owner, tensor_at
from compiler.backends.host.numbers import I64_MAX, I64_MIN, scalar_class
from compiler.backends.native.facts import NativeEntry
from compiler.backends.native.record import HEAP, RUN_BYTES
from compiler.backends.native.stopping import under_way
from compiler.typed_ast.exhaustiveness import CasesOf
from compiler.typed_ast.native_tensors import extents
from compiler.typed_ast.types import (
    UNIT,
    ArrayType,
    DType,
    EnumType,
    OptionType,
    ResultType,
    Scalar,
    Size,
    StructType,
    TensorType,
    TupleType,
    Type,
)
from runtime.buffers import address as address_of
from runtime.futures import before_write
from runtime.lazy_numpy import np
from runtime.records import Factory, define
from runtime.tensor import Tensor, numpy_dtype
from runtime.values import NONE, Err, Ok, Some, case_classes

C_TYPES: Mapping[str, Any] = {"f64": ctypes.c_double, "f32": ctypes.c_float, "ptr": ctypes.c_void_p}
"""Of what entries take; ints of all widths are i64 there."""
_FORMATS = {"i1": "?", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H", "u32": "I", "u64": "Q", "f32": "f", "f64": "d"}
_SINGLE: Mapping[str, Any] = {"i64": ctypes.c_int64, "u64": ctypes.c_uint64, "f64": ctypes.c_double, "i1": ctypes.c_bool}
"""What reads a result that stands alone."""
_PLAIN = (DType.I64, DType.F64, DType.BOOL)


_FROM_BUFFER = ctypes.c_char.from_buffer
NativeRoom = tuple[int, int, Any, Any, Any]
"""What one call needs besides its arguments: the addresses of the record of failures and of where results go, both, and the heap, which is
a part of the record. Calls that run at the same time have rooms of their own."""


def room(entry: NativeEntry) -> NativeRoom:
    """Where one number is given, results are that number."""
    only = _SINGLE.get(entry.results[0][0]) if len(entry.results) == 1 else None
    record, held = (ctypes.c_char * RUN_BYTES)(), only() if only is not None else (ctypes.c_char * max(8, entry.size))()
    return ctypes.addressof(record), ctypes.addressof(held), record, held, (ctypes.c_int64 * 2).from_buffer(record, HEAP)


def native_entry(entry: NativeEntry, address: int) -> Any:
    """The C function."""
    types = [C_TYPES.get(p.dtype, ctypes.c_int64) for p in entry.parameters]
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, *types, ctypes.c_void_p)(address)


@define(eq=False)
class _Writer:
    """The text of one function, and the values that it names. `writes`: it changes elements of tensors; `sizes`: the extents that have
    names; `tensors`: the parameters that are some."""

    cases_of: CasesOf
    class_of: Callable[[str], type]
    lines: list[str] = Factory(list)
    values: dict[str, Any] = Factory(dict)
    writes: bool = False
    sizes: dict[str, str] = Factory(dict)
    tensors: dict[str, TensorType] = Factory(dict)
    _names: "count[int]" = Factory(lambda: count())

    def name(self) -> str:
        return f"v{next(self._names)}"

    def value(self, value: Any) -> str:
        """A name for a value."""
        found = next((name for name, known in self.values.items() if known is value), None)
        if found is None:
            found = f"k{len(self.values)}"
            self.values[found] = value
        return found

    def line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    # ---- into native code ----

    def take(self, type_: Type, given: str, indent: int, miss: str) -> list[str]:
        """Writes what takes a value apart; the names of its numbers. `miss`: the statement where it isn't what the type has."""
        match type_:
            case Scalar(dtype=dtype):
                return [self._number(dtype, given, indent, miss)]
            case ArrayType():
                return [self._array(type_, given, indent, miss)]
            case TensorType():
                return self._tensor(type_, given, indent, miss)
            case TupleType(elements=elements):
                cls, inside = self.value(tuple), elements
            case StructType():
                fields = (self.cases_of(type_) or {})[""]
                cls, inside = self.value(self.class_of(type_.name)), tuple(type for _, type in fields)
            case _ if type_ == UNIT:
                self.line(indent, f"if {given} is not None: {miss}")
                return []
            case _:
                return self._case(type_, given, indent, miss)
        length = f" or len({given}) != {len(inside)}" if cls == self.value(tuple) else ""
        self.line(indent, f"if {given}.__class__ is not {cls}{length}: {miss}")
        names = [self.name() for _ in inside]
        if names:
            self.line(indent, f"{', '.join(names)}, = {given}")
        return [leaf for name, type in zip(names, inside, strict=True) for leaf in self.take(type, name, indent, miss)]

    def _number(self, dtype: DType, given: str, indent: int, miss: str) -> str:
        cls = self.value(scalar_class(dtype))
        within = f" or not {I64_MIN} <= {given} <= {I64_MAX}" if dtype is DType.I64 else ""
        self.line(indent, f"if {given}.__class__ is not {cls}{within}: {miss}")
        if dtype in _PLAIN:
            return given
        name = self.name()
        self.line(indent, f"{name} = {given}.item()")
        return name

    def _array(self, type_: ArrayType, given: str, indent: int, miss: str) -> str:
        """The address of its numbers, where they lie as native code has them; `from_buffer` refuses those with gaps."""
        dtype, count = array_layout(type_)
        self.line(indent, f"if {given}.__class__ is not {self.value(np.ndarray)}: {miss}")
        self.line(indent, f"if {given}.dtype is not {self.value(dtype)} or {given}.shape != ({count},): {miss}")
        address = self.name()
        self.line(indent, f"try: {address} = {self.address(given)}")
        self.line(indent, f"except {self.value(TypeError)}: {miss}")
        if dtype.itemsize > 1:
            self.line(indent, f"if {address} & {dtype.itemsize - 1}: {miss}")
        return address

    def _tensor(self, actual: TensorType, given: str, indent: int, miss: str) -> list[str]:
        """The address of its elements, the extents, and the distances in elements; on the CPU only, and with sizes that agree."""
        assert isinstance(actual.element, Scalar)
        dtype, wanted = np.dtype(numpy_dtype(actual.element.dtype.value)), extents(actual) or ()
        array, flags = self.name(), self.name()
        self.line(indent, f"if {given}.__class__ is not {self.value(Tensor)} or {given}.remote is not None: {miss}")
        self.line(indent, f"{array} = {given}.{'array' if self.writes else 'host'}")
        self.line(indent, f"if {array}.dtype is not {self.value(dtype)} or {array}.ndim != {len(wanted)}: {miss}")
        self.line(indent, f"{flags} = {array}.flags")
        self.line(indent, f"if not {flags}.aligned{f' or not {flags}.writeable' if self.writes else ''}: {miss}")
        counts, steps = [self.name() for _ in wanted], [self.name() for _ in wanted]
        self.line(indent, f"{', '.join(counts)}, = {array}.shape")
        for there, extent in zip(counts, wanted, strict=True):
            known = self.sizes.setdefault(extent, there) if isinstance(extent, str) else there if extent is None else extent
            if known != there:
                self.line(indent, f"if {there} != {known}: {miss}")
        self.line(indent, f"{', '.join(steps)}, = {array}.strides")
        if dtype.itemsize > 1:
            uneven = " or ".join(f"{step} & {dtype.itemsize - 1}" for step in steps)
            self.line(indent, f"if {uneven}: {miss}")
            self.line(indent, "; ".join(f"{step} >>= {dtype.itemsize.bit_length() - 1}" for step in steps))
        if self.writes:
            self.line(indent, f"{self.value(before_write)}({array})")
        return [f"{self.value(address_of)}({array})", *counts, *steps]

    def address(self, array: str) -> str:
        return f"{self.value(ctypes.addressof)}({self.value(_FROM_BUFFER)}({array}))"

    def _case(self, type_: Type, given: str, indent: int, miss: str) -> list[str]:
        """A value of several cases: the number of its case, then the parts of all of them, those of the others 0."""
        classes, cases = self._classes(type_), self._parts(type_)
        tag = self.name()
        names = {name: [self.name() for _ in self._leaves(parts)] for name, parts in cases.items()}
        for number, (name, parts) in enumerate(cases.items()):
            own = classes[name]
            self.line(indent, f"{'el' if number else ''}if {given}.__class__ is {self.value(own)}:")
            self.line(indent + 1, f"{tag} = {self._tag(type_, name, number)}")
            given_parts = [self.name() for _ in parts]
            if given_parts:
                self.line(indent + 1, f"{', '.join(given_parts)}, = {given}")
            taken = [leaf for part, type in zip(given_parts, parts, strict=True) for leaf in self.take(type, part, indent + 1, miss)]
            for leaf, value in zip(names[name], taken, strict=True):
                self.line(indent + 1, f"{leaf} = {value}")
            others = [leaf for other in cases if other != name for leaf in names[other]]
            if others:
                self.line(indent + 1, f"{' = '.join(others)} = 0")
        self.line(indent, f"else: {miss}")
        return [tag, *(leaf for leaves in names.values() for leaf in leaves)]

    def _tag(self, type_: Type, name: str, number: int) -> object:
        return name in ("Some", "Ok") if isinstance(type_, OptionType | ResultType) else number

    def _classes(self, type_: Type) -> Mapping[str, Any]:
        match type_:
            case OptionType():
                return {"Some": Some, "None": type(NONE)}
            case ResultType():
                return {"Ok": Ok, "Err": Err}
        assert isinstance(type_, EnumType)
        cases = self.cases_of(type_) or {}
        made = case_classes(type_.name, tuple((name, tuple(part for part, _ in parts)) for name, parts in cases.items()))
        return dict(zip(cases, made, strict=True))

    def _parts(self, type_: Type) -> Mapping[str, tuple[Type, ...]]:
        match type_:
            case OptionType(value=value):
                return {"Some": (value,), "None": ()}
            case ResultType(value=value, error=error):
                return {"Ok": (value,), "Err": (error,)}
        return {name: tuple(type for _, type in parts) for name, parts in (self.cases_of(type_) or {}).items()}

    def _leaves(self, inside: Sequence[Type]) -> list[Type]:
        """The numbers that values of these types are."""
        found: list[Type] = []
        for type in inside:
            match type:
                case Scalar():
                    found.append(type)
                case TupleType(elements=elements):
                    found += self._leaves(elements)
                case StructType():
                    found += self._leaves([part for _, part in (self.cases_of(type) or {})[""]])
                case EnumType() | OptionType() | ResultType():
                    found.append(Scalar(DType.BOOL))
                    for parts in self._parts(type).values():
                        found += self._leaves(parts)
        return found

    # ---- out of native code ----

    def give(self, type_: Type, numbers: "list[str]") -> str:
        """The value that these numbers make; takes its numbers from the front of the list."""
        match type_:
            case Scalar(dtype=dtype):
                number = numbers.pop(0)
                return number if dtype in _PLAIN else f"{self.value(scalar_class(dtype))}({number})"
            case TensorType(element=Scalar(dtype=dtype)):
                address, *rest = (numbers.pop(0) for _ in range(1 + 2 * (type_.shape.rank or 0)))
                counts, steps = (f"({', '.join(half)},)" for half in (rest[: len(rest) // 2], rest[len(rest) // 2 :]))
                among = "".join(f"{name}, " for name, type in self.tensors.items() if _may_be(type, type_))
                held = self.value(np.dtype(numpy_dtype(dtype.value)))
                return f"{self.value(tensor_at)}({held}, {address}, {counts}, {steps}, blocks, ({among}))"
            case TupleType(elements=elements):
                return f"({''.join(self.give(element, numbers) + ', ' for element in elements)})"
            case StructType():
                fields = (self.cases_of(type_) or {})[""]
                cls = self.value(self.class_of(type_.name))
                return f"{cls}(({''.join(self.give(type, numbers) + ', ' for _, type in fields)}))"
            case OptionType(value=value):
                there = numbers.pop(0)
                return f"({self.value(Some)}(({self.give(value, numbers)},)) if {there} else {self.value(NONE)})"
            case EnumType() | ResultType():
                tag, classes = numbers.pop(0), self._classes(type_)
                made = []
                for at, (name, parts) in enumerate(self._parts(type_).items()):
                    inside = "".join(self.give(part, numbers) + ", " for part in parts)
                    made.append((self._tag(type_, name, at), f"{self.value(classes[name])}(({inside}))"))
                *first, (_, last) = made
                return "(" + "".join(f"{value} if {tag} == {known} else " for known, value in first) + f"{last})"
        assert type_ == UNIT, f"`{type_}` doesn't cross"
        return "None"


def _may_be(given: TensorType, type_: TensorType) -> bool:
    """Whether a tensor may lie in the memory of a parameter."""
    return given.element == type_.element and (given.shape.rank or 0) >= (type_.shape.rank or 0)


def array_layout(type_: ArrayType) -> tuple[Any, int]:
    """The dtype of NumPy's of an array of numbers, and how many it has."""
    assert isinstance(type_.element, Scalar) and isinstance(type_.size, Size) and type_.size.value is not None
    return np.dtype(numpy_dtype(type_.element.dtype.value)), type_.size.value


def python_function(
    names: Sequence[str],
    parameters: Sequence[Type],
    result: Type,
    entry: NativeEntry,
    call: Any,
    cases_of: CasesOf,
    class_of: Callable[[str], type],
    otherwise: Callable[..., Any],
    failed: Callable[..., Any],
    rooms: tuple[Callable[[], NativeRoom], list[NativeRoom]],
    missing: object,
    optional: int,
    long: bool,
    changing: bool,
    writes: bool = False,
    makes: bool = False,
) -> Callable[..., Any]:
    """The function that Python calls. `names` of the parameters, as callers may write them, of which the last `optional` may be left out,
    and are `missing` then; `otherwise(*arguments)` is called where an argument isn't what its type has, `failed(room, *arguments)` where
    the function stopped; `rooms`: makes one, and those that are free; `long`: it may run for long, and is stopped by a Ctrl-C; `changing`:
    it is a method that changes its first argument, which comes in a box, a list of it, in which the caller finds what it is afterwards;
    `writes`: it changes elements of tensors; `makes`: it makes tensors."""
    w = _Writer(cases_of, class_of, writes=writes)
    given = [f"a{number}" for number in range(len(names))]
    miss = f"return {w.value(otherwise)}({', '.join(given)})"
    values = given
    if changing:
        w.line(1, f"boxed = {given[0]}[0]")
        values = ["boxed", *given[1:]]
    leaves = [leaf for name, type in zip(values, parameters, strict=True) for leaf in w.take(type, name, 1, miss)]
    make, free = rooms
    w.line(1, f"try: room = {w.value(free.pop)}()")
    w.line(1, f"except {w.value(IndexError)}: room = {w.value(make)}()")
    w.line(1, "recorded, given, record, results, heap = room")
    if makes:
        w.line(1, f"heap[1] = {w.value(heap_limit)}()")
    if long:
        w.line(1, f"{w.value(under_way)}[{w.value(threading.get_ident)}()] = record")
    if isinstance(result, ArrayType):
        dtype, count = array_layout(result)
        w.line(1, f"array = {w.value(np.empty)}({count}, {w.value(dtype)})")
        leaves.append(w.address("array"))
    passed = ", ".join(["recorded", *leaves, "given"])
    again = ", ".join(["room", *given])
    w.line(1, f"if {w.value(call)}({passed}): return {w.value(failed)}({again})")
    numbers = [f"r{number}" for number in range(len(entry.results))]
    if len(numbers) == 1 and entry.results[0][0] in _SINGLE:
        w.line(1, "r0 = results.value")
    elif numbers:
        held = struct.Struct("<" + _format(entry.results))
        w.line(1, f"{', '.join(numbers)}, = {w.value(held.unpack_from)}(results)")
    if makes or any(isinstance(type, TensorType) for type in (result, *getattr(result, "elements", ()))):
        w.line(1, f"blocks = {w.value(heap_owner)}(heap)")
        w.tensors = {name: type for name, type in zip(values, parameters, strict=True) if isinstance(type, TensorType)}
    w.line(1, f"{w.value(free.append)}(room)")
    given_back = w.give(result, numbers) if not isinstance(result, ArrayType) else "array"
    if changing:
        w.line(1, f"{given[0]}[0] = {w.give(parameters[0], numbers)}")
    w.line(1, f"return {given_back}")
    left_out = f"={w.value(missing)}"
    header = f"def function({', '.join(name + left_out * (number >= len(given) - optional) for number, name in enumerate(given))}):"
    tree = ast.parse("\n".join([header, *w.lines]))
    _Renamed(dict(zip(given, names, strict=True))).visit(tree)
    namespace: dict[str, Any] = {"__builtins__": {"len": len}, **w.values}
    exec(compile(tree, "<native>", "exec", dont_inherit=True), namespace)
    made: Callable[..., Any] = namespace["function"]
    return made


def _format(results: Sequence[tuple[str, int]]) -> str:
    """How the results lie, for `struct`."""
    texts, at = [], 0
    for dtype, offset in results:
        texts.append(f"{offset - at}x" if offset > at else "")
        texts.append(_FORMATS[dtype])
        at = offset + struct.calcsize("<" + _FORMATS[dtype])
    return "".join(texts)


class _Renamed(ast.NodeTransformer):
    """Parameters get the names that callers write, which Python's grammar may have words for."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self.names.get(node.id, node.id), node.ctx), node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.copy_location(ast.arg(self.names.get(node.arg, node.arg)), node)
