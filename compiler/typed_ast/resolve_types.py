"""Types as written to types as values. Needs to know nothing of the program but the type names that it declares."""

import re
from collections.abc import Callable

from compiler.diagnostics import Diagnostic
from compiler.source import Span
from compiler.typed_ast.conversions import DTYPE_NAMES
from compiler.typed_ast.declarations import Declarations
from compiler.typed_ast.nodes import (
    Binary,
    Dim,
    Expression,
    Function,
    FunctionTypeSyntax,
    IntLiteral,
    Name,
    NamedTypeSyntax,
    OptionTypeSyntax,
    RecordTypeSyntax,
    TensorTypeSyntax,
    TupleTypeSyntax,
    TypeAlias,
    TypeSyntax,
    Unary,
)
from compiler.typed_ast.shapes import shape_of
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import (
    ANY_TENSOR,
    CHAR,
    ERROR,
    F32,
    RANGE,
    STRING,
    UNIT,
    UNKNOWN,
    DeviceKind,
    DeviceTarget,
    DynamicShape,
    FunctionType,
    FutureType,
    ListType,
    Scalar,
    ShapeExpr,
    TensorType,
    TupleType,
    Type,
)
from runtime.records import define

_PLAIN: dict[str, Type] = {
    "String": STRING,
    "string": STRING,
    "str": STRING,
    "text": STRING,
    "char": CHAR,
    "void": UNIT,
    "tensor": ANY_TENSOR,
    "Tensor": ANY_TENSOR,
    "range": RANGE,
    "any": UNKNOWN,
    **{name: Scalar(dtype) for name, dtype in DTYPE_NAMES.items()},
}
_LATER = {
    "Option": ("`Option`", "return a tuple `(found, value)`"),
    "Result": ("`Result`", "return a tuple `(ok, value)`"),
    "HashMap": ("`HashMap`", "use a list of tuples"),
    "dict": ("`dict`", "use a list of tuples"),
    "HashSet": ("`HashSet`", "use a list"),
    "set": ("`set`", "use a list"),
    "Self": ("`Self`", "use functions over tuples, lists and tensors"),
    "Duration": ("`Duration`", "use an i64 of nanoseconds"),
    "i128": ("`i128`", "use i64"),
    "u128": ("`u128`", "use u64"),
}
_MAX_ALIAS_DEPTH = 64
_DTYPE_LIKE = re.compile(r"(bf|[fiu])[0-9]{2,3}")


def not_supported(what: str, span: Span, hint: str) -> Diagnostic:
    """ZYN0109: valid, but nothing executes it yet."""
    return Diagnostic("0109", f"{what} is valid, but not supported yet", span, hint=hint)


@define(eq=False)
class TypeResolver:
    """Names of structs, enums and traits, and of `parameters`, the type parameters in sight, are no types yet (reported where they are
    declared). `size` gives the extent that a name in a dim stands for; by default every name is a symbolic size."""

    report: Callable[[Diagnostic], object]
    declarations: Declarations[Function]
    parameters: frozenset[str] = frozenset()
    open_names: bool = False
    """True when a declaration may bring types that are not known: an undefined one may be such."""
    _depth: int = 0

    def resolve(self, syntax: TypeSyntax, size: Callable[[str, Span], ShapeExpr | None] | None = None) -> Type:
        match syntax:
            case NamedTypeSyntax():
                return self._named(syntax, size)
            case TensorTypeSyntax():
                return self._tensor(syntax, size)
            case TupleTypeSyntax(elements=elements):
                return TupleType(tuple(self.resolve(e, size) for e in elements)) if elements else UNIT
            case FunctionTypeSyntax(parameters=parameters, result=result):
                return FunctionType(tuple(self.resolve(p, size) for p in parameters), self.resolve(result, size))
            case OptionTypeSyntax():
                return self._later("`Option`", syntax.span, "return a tuple `(found, value)`")
            case RecordTypeSyntax():
                return self._later("a record type", syntax.span, "use a tuple")
        return UNKNOWN

    def is_later(self, name: str) -> bool:
        """Whether a name stands for a declaration that nothing executes yet."""
        alias = self.declarations.aliases.get(name)
        return name in self.parameters or self.declarations.is_type_or_case(name) or (alias is not None and bool(alias.type_parameters))

    def _later(self, what: str, span: Span, hint: str) -> Type:
        self.report(not_supported(what, span, hint))
        return ERROR

    def _named(self, syntax: NamedTypeSyntax, size: Callable[[str, Span], ShapeExpr | None] | None) -> Type:
        name = syntax.name
        alias = self.declarations.aliases.get(name)
        if alias is not None and not alias.type_parameters:
            return self._alias(alias, syntax, size)
        if self.is_later(name):
            return ERROR
        if name in ("List", "list"):
            if len(syntax.arguments) > 1:
                self.report(Diagnostic("0204", f"`{name}` takes 1 type argument, but {len(syntax.arguments)} are given", syntax.span))
                return ERROR
            return ListType(self.resolve(syntax.arguments[0], size) if syntax.arguments else UNKNOWN)
        if name == "Future":
            if len(syntax.arguments) != 1:
                given = f"{len(syntax.arguments)} are" if syntax.arguments else "none is"
                message = f"`Future` takes 1 type argument, but {given} given"
                self.report(Diagnostic("0204", message, syntax.span, hint="write what its value is: `Future<tensor>`"))
                return ERROR
            return FutureType(self.resolve(syntax.arguments[0], size))
        if name in _LATER:
            what, hint = _LATER[name]
            return self._later(what, syntax.span, hint)
        plain = _PLAIN.get(name)
        if plain is not None:
            if syntax.arguments:
                self.report(Diagnostic("0204", f"`{name}` takes no type arguments", syntax.span))
                return ERROR
            return plain
        if self.open_names:
            return UNKNOWN
        declared = self.declarations
        own = (*declared.aliases, *declared.structs, *declared.enums, *declared.cases, *declared.traits, *self.parameters)
        known = [*_PLAIN, *own, "List", "list", "Future"]
        self.report(Diagnostic("0201", f"there is no type `{name}`", syntax.span, "not found", hint=did_you_mean(name, known)))
        return ERROR

    def _alias(self, alias: TypeAlias, syntax: NamedTypeSyntax, size: Callable[[str, Span], ShapeExpr | None] | None) -> Type:
        if self._depth >= _MAX_ALIAS_DEPTH:
            self.report(Diagnostic("0203", f"type `{alias.name}` is defined by itself", syntax.span))
            return ERROR
        self._depth += 1
        try:
            return self.resolve(alias.target, size)
        finally:
            self._depth -= 1

    def _tensor(self, syntax: TensorTypeSyntax, size: Callable[[str, Span], ShapeExpr | None] | None) -> Type:
        device = self.device(syntax.device, syntax.span) if syntax.device is not None else None
        if syntax.dtype is not None:
            element = self.resolve(syntax.dtype, size)
            if not isinstance(element, Scalar) and element not in (ERROR, UNKNOWN):
                self.report(
                    Diagnostic(
                        "0203", f"the elements of a tensor are numbers or bools, not {element}", syntax.dtype.span, f"this is {element}"
                    )
                )
                return ERROR
            if element == ERROR:
                return ERROR
        else:
            element = F32 if syntax.dims is not None else UNKNOWN
        if syntax.dims is None:
            return TensorType(element, DynamicShape(), device)
        if syntax.dtype is None and syntax.dims and _looks_like_dtype(syntax.dims[-1]):
            name = syntax.dims[-1].value
            assert isinstance(name, Name)
            self.report(
                Diagnostic("0201", f"there is no type `{name.name}`", name.span, "not found", hint=did_you_mean(name.name, DTYPE_NAMES))
            )
            return ERROR
        dims = tuple(self._dim(dim, size) for dim in syntax.dims)
        if any(d.bound is not None for d in syntax.dims) and all(d is None for d in dims):
            return TensorType(element, DynamicShape(len(dims), tuple(d.bound for d in syntax.dims)), device)
        return TensorType(element, shape_of(dims), device)

    def _dim(self, dim: Dim, size: Callable[[str, Span], ShapeExpr | None] | None) -> ShapeExpr | None:
        if dim.value is None:
            return None
        if isinstance(dim.value, Name) and dim.value.name in _PLAIN:
            message = f"the elements of a tensor are numbers or bools, not {_PLAIN[dim.value.name]}"
            self.report(Diagnostic("0203", message, dim.value.span))
            return None
        form = affine(dim.value, size)
        if form is None and not _is_plain(dim.value):
            self.report(
                Diagnostic(
                    "0203",
                    "a dim is a number, a size name, `?`, or an affine form of sizes such as `2*N+1`",
                    dim.value.span,
                    hint="write `?` for an extent that is only known when the program runs",
                )
            )
        if form is not None and form.value is not None and form.value < 0:
            self.report(Diagnostic("0203", f"a dim is at least 0, but this one is {form.value}", dim.value.span))
            return None
        return form

    def device(self, text: str, span: Span) -> DeviceTarget | None:
        found = parse_device(text, span)
        if isinstance(found, Diagnostic):
            self.report(found)
            return None
        return found


def _looks_like_dtype(dim: Dim) -> bool:
    """A last dim such as `f33` is no size: a dtype was meant."""
    return isinstance(dim.value, Name) and _DTYPE_LIKE.fullmatch(dim.value.name) is not None


def _is_plain(value: Expression) -> bool:
    """True of a form that is affine in its shape, so that a missing extent comes from a name whose value is not known."""
    match value:
        case IntLiteral() | Name():
            return True
        case Unary(operator="-", operand=operand):
            return _is_plain(operand)
        case Binary(operator="+" | "-" | "*", left=left, right=right):
            return _is_plain(left) and _is_plain(right)
    return False


def affine(value: Expression, size: Callable[[str, Span], ShapeExpr | None] | None = None) -> ShapeExpr | None:
    """An expression over ints and size names as an affine form; None when it isn't one or a name has no known extent."""
    match value:
        case IntLiteral(value=number):
            return ShapeExpr((), number)
        case Name(name=name):
            return ShapeExpr.of(name) if size is None else size(name, value.span)
        case Unary(operator="-", operand=operand):
            inner = affine(operand, size)
            return None if inner is None else inner.times(-1)
        case Binary(operator=operator, left=left, right=right) if operator in ("+", "-", "*"):
            a, b = affine(left, size), affine(right, size)
            if a is None or b is None:
                return None
            if operator == "+":
                return a + b
            if operator == "-":
                return a + b.times(-1)
            if a.value is not None:
                return b.times(a.value)
            if b.value is not None:
                return a.times(b.value)
    return None


def parse_device(text: str, span: Span) -> DeviceTarget | Diagnostic:
    """`"cpu"`, `"cuda"`, `"cuda:1"`, `"emulator"`, `"emulator:sm_90a"`, `"auto"`; anything else is ZYN0501. Whether the device exists is
    asked when the program runs."""
    kind, colon, index = text.partition(":")
    if kind in ("rocm", "metal", "vulkan"):
        return Diagnostic(
            "0501", f"device `{text}` is not supported yet", span, hint='supported are "cpu", "cuda" and "auto", which picks what is there'
        )
    if not colon and kind in ("cpu", "emulator", "auto"):
        return DeviceTarget(DeviceKind(kind))
    if kind == "emulator" and index.isidentifier() and index.isascii():
        return DeviceTarget(DeviceKind.EMULATOR, emulated=index)
    if kind == "cuda" and (not colon or (index.isascii() and index.isdigit() and len(index) < 4)):
        return DeviceTarget(DeviceKind.CUDA, int(index) if colon else 0)
    near = "did you mean `cuda`?" if kind == "gpu" else did_you_mean(text, ("cuda", "auto", "emulator"))
    return Diagnostic(
        "0501",
        f"there is no device `{text}`",
        span,
        hint=near or 'devices are "cpu", "cuda", "cuda:1", "emulator" and "auto", which picks what is there',
    )
