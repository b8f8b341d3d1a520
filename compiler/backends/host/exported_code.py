"""Native functions of a program as C calls them: a wrapper around each, and a function that tells what went wrong. C's `snprintf` is the
only function of the C library that is called besides those of <math.h> and of memory."""

from collections.abc import Iterator, Sequence

from compiler.backends.host.exported_header import ExportedFunction
from compiler.backends.host.exported_messages import compare_extents, declare_messages, fail, printed, write_error
from compiler.backends.host.native_faults import NO_ELEMENT
from compiler.backends.host.stopped_natively import TOO_DEEP
from compiler.backends.llvm.types import I8, I32, I64, PTR, LlvmType, memory_type, register_type
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, ModuleWriter, constant
from compiler.backends.native.compile import attributes
from compiler.backends.native.emit import emit_module, entry_name, results_struct
from compiler.backends.native.heap import has_heap, releaser
from compiler.backends.native.record import HEAP, RUN_BYTES, FaultPoint
from compiler.hir.layout import offset_of, size_of
from compiler.hir.module import HirModule, OptimizationLevel
from compiler.hir.native_expressions import OUTSIDE
from compiler.hir.types import HirType, Struct, Tile, is_float
from compiler.lowering.native.layouts import Layouts
from compiler.source import Sources, Span
from compiler.typed_ast.types import UNIT, TensorType, Type
from runtime.cpu import load

_TELL = "zyn.message"


def exported_code(
    module: HirModule, functions: Sequence[ExportedFunction], layouts: Layouts, sources: Sources, target: load.CodeTarget
) -> str:
    """Native functions for C: optimised IR for a machine."""
    level = OptimizationLevel.OLATENCY
    writer, points = emit_module(module, attributes(target, level))
    _hide_entries(writer, module)
    declare_messages(writer)
    _telling(writer, module, points, sources)
    for function in functions:
        _Wrapper(writer, module, function, layouts, sources).write()
        write_error(writer, function.name)
    return load.CompiledModule(writer.text(), target, level.value, {}).optimised


def _hidden(name: str) -> str:
    return f"zyn.entry.{name}"


def _hide_entries(writer: ModuleWriter, module: HirModule) -> None:
    """Nobody calls the entries but the wrappers."""
    names = {entry_name(function) for function in module.functions.values()}
    for function in writer.functions:
        if function.name in names:
            function.name, function.linkage = _hidden(function.name), "internal"


class _Wrapper:
    """One function with C's calling convention."""

    def __init__(self, writer: ModuleWriter, module: HirModule, one: ExportedFunction, layouts: Layouts, sources: Sources) -> None:
        self.one, self.layouts, self.module, self.sources = one, layouts, module, sources
        self.function = module.functions[one.symbol]
        parameters: list[tuple[LlvmType, str]] = []
        for number, found in enumerate(one.own.parameters):
            parameters.append((self._type(found), f"p{number}"))
            parameters += [(I64, f"p{number}.extent{axis}") for axis in range(_rank(found))]
        if one.own.result != UNIT:
            parameters.append((PTR, "result"))
        self.w = writer.function(one.name, I32, parameters, "", "")

    def _type(self, type_: Type) -> LlvmType:
        number = None if isinstance(type_, TensorType) else self.layouts.number(type_)
        if number is None:
            return PTR
        return memory_type(number.dtype)  # C's bool is a byte

    def write(self) -> None:
        w, own = self.w, self.one.own
        record = w.alloca(I8, RUN_BYTES, 16)
        results = w.alloca(I8, max(8, size_of(results_struct(self.function))), 16)
        w.store(constant(I64, 0), record, 8)
        w.store(constant(I64, 0), w.offset(record, constant(I64, 8), I8), 8)
        newest = w.offset(record, constant(I64, HEAP), I8)
        w.store(constant(I64, 0), newest, 8)
        w.store(constant(I64, (1 << 63) - 1), w.offset(record, constant(I64, HEAP + 8), I8), 8)
        passed, given = [record], iter(w.parameters)
        extents: dict[str, list[LlvmValue]] = {}
        for parameter, found in zip(own.function.parameters, own.parameters, strict=True):
            value = next(given)
            if isinstance(found, TensorType):
                extents[parameter.name] = [next(given) for _ in range(_rank(found))]
                passed += [value, *extents[parameter.name], *self._distances(extents[parameter.name])]
            else:
                passed += self._taken(found, value)
        compare_extents(w, own, extents, self.sources)
        place = w.parameters[-1] if own.result != UNIT else None
        if place is not None and self.layouts.in_memory(own.result):
            passed.append(place)
        passed.append(results)
        answer = w.value(I64, f"call i64 @{_hidden(entry_name(self.function))}({', '.join(map(str, passed))})")
        bad, good = w.label("bad"), w.label("good")
        w.branch_if(w.compare("ne", answer, constant(I64, 0)), bad, good)
        w.start(bad)
        if has_heap(self.module):
            w.call_void(releaser(w.module, 0), newest, constant(I64, 0))
        w.ret(w.call(_TELL, I32, record))
        w.start(good)
        if place is not None and not self.layouts.in_memory(own.result):
            self._given(own.result, results, place)
        w.ret(constant(I32, 0))

    def _taken(self, type_: Type, value: LlvmValue) -> list[LlvmValue]:
        """An argument as the entry takes it."""
        number = self.layouts.number(type_)
        if number is not None:
            return [_as_entry(self.w, number.dtype, value)]
        memory = self.layouts.memory(type_)
        if self.layouts.in_memory(type_):
            return [value]
        loaded: list[LlvmValue] = []
        for tile, offset in _numbers(memory):
            at = self.w.offset(value, constant(I64, offset), I8)
            type = memory_type(tile.dtype)
            loaded.append(_as_entry(self.w, tile.dtype, self.w.load(type, at, type.bytes)))
        return loaded

    def _distances(self, extents: list[LlvmValue]) -> list[LlvmValue]:
        """In elements, between neighbours along each axis of what lies without gaps."""
        distances = [constant(I64, 1)]
        for extent in reversed(extents[1:]):
            distances.insert(0, self.w.binary("mul", distances[0], extent))
        return distances

    def _given(self, actual: Type, results: LlvmValue, place: LlvmValue) -> None:
        """The numbers of a result go where C wants them, which nested structs put elsewhere."""
        struct = results_struct(self.function)
        for (name, _), (tile, offset) in zip(struct.fields, _numbers(self.layouts.memory(actual)), strict=True):
            type = memory_type(tile.dtype)
            number = self.w.load(type, self.w.offset(results, constant(I64, offset_of(struct, name)), I8), 1)
            self.w.store(number, self.w.offset(place, constant(I64, offset), I8), type.bytes)


def _rank(type_: Type) -> int:
    """How many extents come behind the address."""
    return (type_.shape.rank or 0) if isinstance(type_, TensorType) else 0


def _as_entry(w: FunctionWriter, dtype: str, value: LlvmValue) -> LlvmValue:
    """Ints are i64 there. Any byte but 0 is true."""
    if is_float(dtype):
        return value
    if dtype == "i1":
        return w.convert("zext", w.compare("ne", value, constant(value.type, 0)), "i64")
    return w.convert("zext" if dtype.startswith("u") else "sext", value, "i64")


def _numbers(memory: HirType, start: int = 0) -> Iterator[tuple[Tile, int]]:
    """The numbers of a value, and where they lie."""
    if isinstance(memory, Struct):
        for name, field in memory.fields:
            yield from _numbers(field, start + offset_of(memory, name))
        return
    assert isinstance(memory, Tile)
    yield memory, start


# ---- messages ----------------------------------------------------------------------------------------------------


def _telling(writer: ModuleWriter, module: HirModule, points: Sequence[FaultPoint], sources: Sources) -> None:
    """The function that writes the message of a record, and gives the number of its code."""
    w = writer.function(_TELL, I32, [(PTR, "record")], "internal", "cold noinline")
    record = w.parameters[0]
    point = w.convert("trunc", w.load(I64, record, 8), "i32")
    labels = [w.label("point") for _ in points]
    strange = w.label("strange")
    cases = " ".join(f"i32 {number}, label %{label}" for number, label in enumerate(labels))
    w.line(f"switch {point}, label %{strange} [ {cases} ]")
    w.terminated = True
    for found, label in zip(points, labels, strict=True):
        w.start(label)
        code, text, arguments, span = _message(w, module, found, record)
        fail(w, code, text, arguments, span, sources)
    w.start(strange)
    w.ret(constant(I32, 901))


def _message(w: FunctionWriter, module: HirModule, point: FaultPoint, record: LlvmValue) -> tuple[str, str, list[LlvmValue], Span | None]:
    """The code, the format for `printf`, its arguments, and the place in the program."""
    sites = module.functions[point.function].sites
    site = sites[point.site] if 0 <= point.site < len(sites) else None
    code, span = (site.code, site.span) if site is not None else (point.code, point.span)
    template = TOO_DEEP if site is None else NO_ELEMENT if site.message == OUTSIDE else site.message
    values = [_value(w, dtype, record, number) for number, dtype in enumerate(point.dtypes)]
    if point.undo:
        operation = "sub" if point.undo == "add" else "add"
        values[0] = _wrapped(w, w.binary(operation, values[0], values[1]), point.dtypes[0])
    dtypes = [*point.dtypes]
    if template is NO_ELEMENT:
        values.append(w.binary("sub", values[1], constant(I64, 1)))
        dtypes.append("i64")
    text, arguments = printed(w, template, dtypes, values)
    return code, text, arguments, span


def _value(w: FunctionWriter, dtype: str, record: LlvmValue, number: int) -> LlvmValue:
    at = w.offset(record, constant(I64, 16 * (number + 1)), I8)
    return w.load(register_type("f64") if is_float(dtype) else I64, at, 8)


def _wrapped(w: FunctionWriter, value: LlvmValue, dtype: str) -> LlvmValue:
    narrow = w.convert("trunc", value, f"i{dtype[1:]}") if dtype[1:] != "64" else value
    return w.convert("zext" if dtype[0] == "u" else "sext", narrow, "i64")
