"""How C sees exported functions: the types of their parameters and results, and the header that declares them.

Numbers go by value, structs and arrays by their address, tensors by that of their first element, with their extents behind it. The result
is written where the last parameter points, and what the function returns is 0, or the number of the error's code."""

import re
from collections.abc import Mapping, Sequence

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.lowering.native.layouts import Layouts
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.function_effects import FunctionEffects
from compiler.typed_ast.types import UNIT, ArrayType, Scalar, StructType, TensorType, Type
from runtime.records import frozen

C_NAMES: Mapping[str, str] = {"f32": "float", "f64": "double", "bool": "bool"} | {
    f"{sign}{bits}": f"{'u' if sign == 'u' else ''}int{bits}_t" for sign in "iu" for bits in (8, 16, 32, 64)
}
# fmt: off
TAKEN = frozenset((
    "alignas", "alignof", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "const", "constexpr", "continue", "default",
    "delete", "do", "double", "else", "enum", "explicit", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int",
    "long", "mutable", "namespace", "new", "nullptr", "operator", "private", "protected", "public", "register", "restrict", "return",
    "short", "signed", "sizeof", "static", "static_assert", "struct", "switch", "template", "this", "thread_local", "throw", "true",
    "try", "typedef", "typeid", "typename", "typeof", "union", "unsigned", "using", "virtual", "void", "volatile", "while", "and", "or",
    "not", "xor", "bitand", "bitor", "compl", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t",
))
# fmt: on
"""Words of C and of C++ that can't be names."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
WORKS = "numbers of up to 64 bits, bool, structs, and arrays of known size can be parameters and results, tensors of numbers parameters"


@frozen
class ExportedFunction:
    """`name`: what it is called in C; `symbol`: in HIR."""

    name: str
    symbol: str
    own: FunctionEffects


@frozen
class ExportedKernel:
    """A function that is one compute block. `parameters`: as the header declares them; `modules`: optimised IR, in which `internal` are
    the symbols that nobody else sees."""

    name: str
    own: FunctionEffects
    parameters: tuple[str, ...]
    modules: tuple[str, ...]
    internal: tuple[str, ...]


def refused(message: str, span: Span | None, hint: str) -> ZyntaxError:
    return ZyntaxError(Diagnostic("0109", message, span, hint=hint))


def require_types(own: FunctionEffects, layouts: Layouts) -> None:
    """Refuses a function whose parameters or result C has no form for. Raises ZyntaxError."""
    for parameter, found in zip(own.function.parameters, own.parameters, strict=True):
        if not is_tensor_of_numbers(found):
            _require(own, found, layouts, parameter.span)
    if own.result != UNIT:
        _require(own, own.result, layouts, own.function.span)
    require_names(own)


def require_names(own: FunctionEffects) -> None:
    """Refuses parameters that C can't call so. Raises ZyntaxError."""
    for parameter in own.function.parameters:
        _require_name(own, parameter.name, parameter.span)
    names = {parameter.name for parameter in own.function.parameters}
    for parameter, found in zip(own.function.parameters, own.parameters, strict=True):
        both = names & set(extent_names(parameter.name, found)) if isinstance(found, TensorType) else ()
        if both:
            message = f"`{own.name}` can't be exported: `{min(both)}` is the name of an extent of `{parameter.name}` in C"
            raise refused(message, parameter.span, "rename the parameter")


def is_tensor_of_numbers(type_: Type) -> bool:
    return isinstance(type_, TensorType) and isinstance(type_.element, Scalar) and type_.element.dtype.value in C_NAMES


def extent_names(name: str, type_: TensorType) -> list[str]:
    """What the extents of a tensor are called in C."""
    return [f"{name}_extent{axis}" for axis in range(type_.shape.rank or 0)]


def _require(own: FunctionEffects, type_: Type, layouts: Layouts, span: Span) -> None:
    match type_:
        case Scalar(dtype=dtype) if dtype.value in C_NAMES:
            return
        case ArrayType(element=element) if layouts.size(type_) > 0:
            _require(own, element, layouts, span)
        case StructType(arguments=()) if layouts.parts(type_) and _is_name(type_.name):
            for name, part in layouts.parts(type_):
                _require_name(own, name, span)
                _require(own, part, layouts, span)
        case _:
            raise refused(f"`{own.name}` can't be exported: C has no form for `{type_}`", span, WORKS)


def _require_name(own: FunctionEffects, name: str, span: Span) -> None:
    if not _NAME.fullmatch(name):
        raise refused(f"`{own.name}` can't be exported: `{name}` is no name in C", span, "names in C begin with a letter, and are of ASCII")


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and text not in TAKEN


def c_names(written: Sequence[str]) -> list[str]:
    """Names as C may have them beside each other: words of C get `_` behind them, as does `result`, which the place of the result is
    called."""
    names: list[str] = []
    for name in written:
        own = name
        while own in TAKEN or own == "result" or (own != name and own in written):
            own += "_"
        names.append(own)
    return names


def is_name(text: str) -> bool:
    """Whether C may have a function of this name."""
    return _is_name(text)


def header(title: str, exported: Sequence[ExportedFunction | ExportedKernel], layouts: Layouts) -> str:
    """The text of the header."""
    guard = "ZYNTAX_" + "_".join(function.name for function in exported).upper() + "_H"
    structs: dict[str, str] = {}
    declared = [line for function in exported for line in _declared(function, structs, layouts)]
    for function in exported:
        if function.name in structs:
            message = f"the function `{function.name}` and a struct have one name, which C can't have"
            raise refused(message, function.own.function.span, "rename it")
    return "\n".join(
        [
            f"/* {title}, made by `zyntax export`. Functions return 0, or the number of an error's code (`zyntax explain 806`); then",
            "   `*result` isn't to be read, and NAME_error() is the message, until the next failure in the same thread. `result` must not",
            "   overlap an argument. */",
            *(_TENSORS if any(isinstance(type_, TensorType) for function in exported for type_ in function.own.parameters) else ()),
            *(_KERNELS if any(isinstance(function, ExportedKernel) for function in exported) else ()),
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            "#include <stdbool.h>",
            "#include <stdint.h>",
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            *structs.values(),
            *declared,
            "",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "",
            "#endif",
            "",
        ]
    )


_TENSORS = (
    "/* A tensor is the address of its first element, then its extents. Its elements follow each other without gaps, those of the last",
    "   axis first. Extents that don't fit the function's types are error 802. */",
)


_KERNELS = (
    "/* A result that is a tensor is written to memory of the caller, whose extents are compared with those that it has. What a function",
    "   changes in its arguments is undefined after an error. */",
)


def _declared(one: ExportedFunction | ExportedKernel, structs: dict[str, str], layouts: Layouts) -> list[str]:
    if isinstance(one, ExportedKernel):
        written = [*one.parameters]
    else:
        written = _parameters(one, structs, layouts)
    return [f"int32_t {one.name}({', '.join(written) or 'void'});", f"const char *{one.name}_error(void);"]


def passed(parameter: nodes.Parameter, type_: Type, name: str) -> list[str]:
    """A parameter that is a number or a tensor of numbers, as C declares it."""
    element = type_.element if isinstance(type_, TensorType) else type_
    assert isinstance(element, Scalar)
    if not isinstance(type_, TensorType):
        return [f"{C_NAMES[element.dtype.value]} {name}"]
    first = f"{'' if parameter.mutable else 'const '}{C_NAMES[element.dtype.value]} *{name}"
    return [first, *(f"int64_t {extent}" for extent in extent_names(name, type_))]


def _parameters(one: ExportedFunction, structs: dict[str, str], layouts: Layouts) -> list[str]:
    own = one.own
    names = c_names([parameter.name for parameter in own.function.parameters])
    written: list[str] = []
    for name, type_, parameter in zip(names, own.parameters, own.function.parameters, strict=True):
        if isinstance(type_, TensorType):
            written += passed(parameter, type_, name)
        else:
            written.append(_parameter(type_, name, structs, layouts))
    if isinstance(own.result, ArrayType):
        written.append(_variable(own.result, "result", structs, layouts))
    elif own.result != UNIT:
        written.append(_variable(own.result, "*result", structs, layouts))
    return written


def _parameter(type_: Type, name: str, structs: dict[str, str], layouts: Layouts) -> str:
    match type_:
        case Scalar():
            return _variable(type_, name, structs, layouts)
        case ArrayType(element=ArrayType()):  # which C doesn't convert to one of constants
            return _variable(type_, name, structs, layouts)
        case ArrayType():
            return f"const {_variable(type_, name, structs, layouts)}"
    return f"const {_variable(type_, f'*{name}', structs, layouts)}"


def _variable(found: Type, name: str, structs: dict[str, str], layouts: Layouts) -> str:
    match found:
        case Scalar(dtype=dtype):
            return f"{C_NAMES[dtype.value]} {name}"
        case ArrayType(element=element):
            return _variable(element, f"{name}[{layouts.size(found)}]", structs, layouts)
    assert isinstance(found, StructType)
    if found.name not in structs:
        parts = layouts.parts(found)
        names = c_names([field for field, _ in parts])
        fields = [f"    {_variable(part, field, structs, layouts)};" for field, (_, part) in zip(names, parts, strict=True)]
        structs[found.name] = "\n".join([f"typedef struct {found.name} {{", *fields, f"}} {found.name};", ""])
    return f"struct {found.name} {name}"
