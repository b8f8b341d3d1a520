"""Messages of exported functions: C's `snprintf` writes them to a buffer that each thread has for itself."""

from collections.abc import Mapping, Sequence
from string import Formatter

from compiler.backends.llvm.types import I32, I64, PTR
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, ModuleWriter, constant
from compiler.hir.types import is_float, is_wide
from compiler.source import Source, Sources, Span
from compiler.typed_ast.function_effects import FunctionEffects
from compiler.typed_ast.native_tensors import extents
from compiler.typed_ast.types import TensorType

BUFFER = 512
"""Bytes of a message, with the 0 at its end."""
_BUFFER = "zyn.message.buffer"


def declare_messages(writer: ModuleWriter) -> None:
    """The buffer of a module's messages, and what writes them."""
    writer.globals.append(f"@{_BUFFER} = internal thread_local global [{BUFFER} x i8] zeroinitializer")
    writer.declare("llvm.threadlocal.address.p0", "ptr (ptr)")
    writer.declare("snprintf", "i32 (ptr, i64, ptr, ...)")


def write_error(writer: ModuleWriter, name: str) -> None:
    """The function that gives the message."""
    told = writer.function(f"{name}_error", PTR, [], "", "")
    told.ret(_buffer(told))


def _buffer(w: FunctionWriter) -> LlvmValue:
    return w.value(PTR, f"call ptr @llvm.threadlocal.address.p0(ptr @{_BUFFER})")


def fail(w: FunctionWriter, code: str, text: str, values: Sequence[LlvmValue], span: Span | None, sources: Sources) -> None:
    """Writes a message, a format of `printf` with its values, and returns the number of the code."""
    message = _text(w.module, f"ZYN{code}: {text}{_place(span, sources)}")
    inside = ", ".join(map(str, [_buffer(w), constant(I64, BUFFER), message, *values]))
    w.line(f"call i32 (ptr, i64, ptr, ...) @snprintf({inside})")
    w.ret(constant(I32, int(code)))


def leave_if(
    w: FunctionWriter, condition: LlvmValue, code: str, text: str, values: Sequence[LlvmValue], span: Span | None, sources: Sources
) -> None:
    """Fails where the condition holds."""
    bad, good = w.label("misfit"), w.label("fits")
    w.branch_if(condition, bad, good)
    w.start(bad)
    fail(w, code, text, values, span, sources)
    w.start(good)


def compare_extents(w: FunctionWriter, own: FunctionEffects, given: Mapping[str, Sequence[LlvmValue]], sources: Sources) -> None:
    """Leaves with 0802 where an extent is below 0 or isn't what the types of the parameters say."""

    def leave(comparison: str, left: LlvmValue, right: LlvmValue, text: str, *values: LlvmValue) -> None:
        leave_if(w, w.compare(comparison, left, right), "0802", text, values, own.function.name_span, sources)

    sizes: dict[str, tuple[LlvmValue, str]] = {}
    for parameter, type_ in zip(own.function.parameters, own.parameters, strict=True):
        declared = extents(type_) if isinstance(type_, TensorType) else ()
        for axis, (want, extent) in enumerate(zip(declared or (), given.get(parameter.name, ()), strict=True)):
            where = f"axis {axis} of `{parameter.name}`"
            leave("slt", extent, constant(I64, 0), f"{where} has the extent %lld", extent)
            if isinstance(want, int):
                leave("ne", extent, constant(I64, want), f"`{want}` is {want}, but {where} has the extent %lld", extent)
            elif want is not None and want in sizes:
                known, first = sizes[want]
                leave("ne", extent, known, f"size `{want}` is %lld by {first} and %lld by {where}", known, extent)
            elif want is not None:
                sizes[want] = (extent, where)


def printed(w: FunctionWriter, template: str, dtypes: Sequence[str], values: Sequence[LlvmValue]) -> tuple[str, list[LlvmValue]]:
    """A template with places for numbers as a format of `printf` and its values. Places without a number show `?`."""
    text = ""
    arguments: list[LlvmValue] = []
    for literal, field, _, _ in Formatter().parse(template):
        text += literal.replace("%", "%%")
        if field is not None and int(field) >= len(values):
            text += "?"  # a value that this failure does not record
        elif field is not None:
            form, argument = _shown(w, dtypes[int(field)], values[int(field)])
            text += form
            arguments.append(argument)
    return text, arguments


def _shown(w: FunctionWriter, dtype: str, value: LlvmValue) -> tuple[str, LlvmValue]:
    """How `printf` writes a number. Floats have as many digits as tell them apart."""
    if is_float(dtype):
        return "%.17g" if dtype == "f64" else "%.9g", value
    if dtype == "i1":
        yes, no = (_text(w.module, word) for word in ("true", "false"))
        return "%s", w.select(w.compare("ne", value, constant(I64, 0)), yes, no)
    if is_wide(dtype):
        return "%s", _text(w.module, "a number of 128 bits")
    return "%llu" if dtype.startswith("u") else "%lld", value


def _place(span: Span | None, sources: Sources) -> str:
    if span is None:
        return ""
    source: Source | None = sources.get(span.path)
    position = "" if source is None else ":{}:{}".format(*source.line_and_column(span.start))
    return f" ({span.path}{position})".replace("%", "%%")


def _text(writer: ModuleWriter, text: str) -> LlvmValue:
    """The address of a text that ends with 0."""
    data = text.encode() + b"\0"
    name = writer.unique("zyn.text")
    inside = "".join(chr(byte) if 32 <= byte < 127 and byte not in (34, 92) else f"\\{byte:02X}" for byte in data)
    writer.globals.append(f'@{name} = private unnamed_addr constant [{len(data)} x i8] c"{inside}"')
    return LlvmValue(PTR, f"@{name}")
