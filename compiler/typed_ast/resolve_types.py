"""Types as written to types as values. Needs to know nothing of the program but the type names that it declares."""

import re
from collections.abc import Callable, Mapping

from compiler.diagnostics import Diagnostic
from compiler.source import Span
from compiler.typed_ast.constants import constant, whole_constant
from compiler.typed_ast.conversions import DTYPE_NAMES
from compiler.typed_ast.declarations import Declarations
from compiler.typed_ast.keys import KEY_HINT, key_fault
from compiler.typed_ast.nodes import (
    ArrayTypeSyntax,
    Binary,
    BindingPattern,
    Dim,
    Expression,
    Function,
    FunctionTypeSyntax,
    IntLiteral,
    KnownTypeSyntax,
    Let,
    Name,
    NamedTypeSyntax,
    OptionTypeSyntax,
    Program,
    RecordTypeSyntax,
    TensorTypeSyntax,
    TupleTypeSyntax,
    TypeAlias,
    TypeSyntax,
    Unary,
)
from compiler.typed_ast.scope import Scope, Variable
from compiler.typed_ast.shapes import shape_of
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import (
    ANY_TENSOR,
    CHAR,
    ERROR,
    F32,
    I64,
    RANGE,
    STRING,
    UNIT,
    UNKNOWN,
    ArrayType,
    DeviceKind,
    DeviceTarget,
    DictType,
    DType,
    DynamicShape,
    EnumType,
    FunctionType,
    FutureType,
    ListType,
    OptionType,
    ResultType,
    Scalar,
    SetType,
    ShapeExpr,
    Size,
    StructType,
    TensorType,
    TupleType,
    Type,
)
from runtime.records import Factory, define, evolve

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
    "Image": TensorType(Scalar(DType.U8), DynamicShape()),
    **{name: Scalar(dtype) for name, dtype in DTYPE_NAMES.items()},
}
_LATER = {
    "Duration": ("`Duration`", "use an i64 of nanoseconds"),
    "i128": ("`i128`", "use i64"),
    "u128": ("`u128`", "use u64"),
}
_MAX_ALIAS_DEPTH = 64
_MAX_ELEMENTS = 1 << 24
_WRAPPERS = {"Option": 1, "Result": 2, "List": 1, "list": 1, "HashMap": 2, "dict": 2, "HashSet": 1, "set": 1}
"""The types with arguments, and how many."""
_DTYPE_LIKE = re.compile(r"(bf|[fiu])[0-9]{2,3}")


def not_supported(what: str, span: Span, hint: str) -> Diagnostic:
    """ZYN0109: valid, but nothing executes it yet."""
    return Diagnostic("0109", f"{what} is valid, but not supported yet", span, hint=hint)


@define(eq=False)
class TypeResolver:
    """`size` gives the extent that a name in a dim stands for; by default every name is a symbolic size. `bound`: what type parameters in
    sight stand for; `numbers`: the whole numbers that names at the program's top stand for."""

    report: Callable[[Diagnostic], object]
    declarations: Declarations[Function]
    bound: Mapping[str, Type] = Factory(dict)
    numbers: Mapping[str, int] = Factory(dict)
    open_names: bool = False
    """True when a declaration may bring types that are not known: an undefined one may be such."""
    _depth: int = 0

    def resolve(self, syntax: TypeSyntax, size: Callable[[str, Span], ShapeExpr | None] | None = None) -> Type:
        match syntax:
            case NamedTypeSyntax():
                return self._named(syntax, size)
            case KnownTypeSyntax(type=known):
                return known
            case TensorTypeSyntax():
                return self._tensor(syntax, size)
            case TupleTypeSyntax(elements=elements):
                return TupleType(tuple(self.resolve(e, size) for e in elements)) if elements else UNIT
            case FunctionTypeSyntax(parameters=parameters, result=result):
                return FunctionType(tuple(self.resolve(p, size) for p in parameters), self.resolve(result, size))
            case OptionTypeSyntax(value=value):
                return OptionType(self.resolve(value, size))
            case ArrayTypeSyntax():
                return self._array(syntax, size)
            case RecordTypeSyntax():
                return self._later("a record type", syntax.span, "use a tuple")
        return UNKNOWN

    def within(self, bound: Mapping[str, Type]) -> "TypeResolver":
        """As in a field of a struct whose type parameters stand for these types."""
        return evolve(self, bound=bound) if bound else self

    def _later(self, what: str, span: Span, hint: str) -> Type:
        self.report(not_supported(what, span, hint))
        return ERROR

    def _named(self, syntax: NamedTypeSyntax, size: Callable[[str, Span], ShapeExpr | None] | None) -> Type:
        name = syntax.name
        if name in self.bound and not syntax.arguments:
            return self.bound[name]
        alias = self.declarations.aliases.get(name)
        if alias is not None:
            return self._alias(alias, syntax, size)
        declared = self._declared(syntax, size)
        if declared is not None:
            return declared
        if name in _WRAPPERS:
            return self._wrapper(syntax, size)
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
        if self.open_names or name.partition("::")[0] in self.bound:
            return UNKNOWN
        if name in self.declarations.traits:
            message = f"`{name}` is a trait, and no type: values have the types that implement it"
            self.report(Diagnostic("0203", message, syntax.span, hint=f"write a type parameter: `def f<T: {name}>(x: T)`"))
            return ERROR
        own = self.declarations
        known = [*_PLAIN, *own.aliases, *own.structs, *own.enums, *self.bound, *_WRAPPERS, "Future"]
        self.report(Diagnostic("0201", f"there is no type `{name}`", syntax.span, "not found", hint=did_you_mean(name, known)))
        return ERROR

    def _declared(self, syntax: NamedTypeSyntax, size: Callable[[str, Span], ShapeExpr | None] | None) -> Type | None:
        """A struct or an enum of the program."""
        name = syntax.name
        declared = self.declarations.structs.get(name) or self.declarations.enums.get(name)
        if declared is None:
            return None
        if len(syntax.arguments) != len(declared.type_parameters):
            return self._wrong_count(syntax, len(declared.type_parameters))
        arguments = tuple(self.resolve(argument, size) for argument in syntax.arguments)
        return StructType(name, arguments) if name in self.declarations.structs else EnumType(name, arguments)

    def _wrapper(self, syntax: NamedTypeSyntax, size: Callable[[str, Span], ShapeExpr | None] | None) -> Type:
        """`Option<T>`, `Result<T, E>`, `List<T>`; a list, map or set that doesn't say its elements may have any."""
        name, arguments = syntax.name, [self.resolve(argument, size) for argument in syntax.arguments]
        if not arguments and name not in ("Option", "Result"):
            arguments = [UNKNOWN] * _WRAPPERS[name]
        if len(arguments) != _WRAPPERS[name]:
            return self._wrong_count(syntax, _WRAPPERS[name])
        match name:
            case "Result":
                return ResultType(*arguments)
            case "Option":
                return OptionType(arguments[0])
            case "List" | "list":
                return ListType(arguments[0])
        if (fault := key_fault(arguments[0])) is not None:
            message = f"a key is compared as a whole: {fault}"
            self.report(Diagnostic("0203", message, syntax.arguments[0].span, hint=KEY_HINT))
            return ERROR
        return SetType(arguments[0]) if name in ("HashSet", "set") else DictType(*arguments)

    def _wrong_count(self, syntax: NamedTypeSyntax, wanted: int) -> Type:
        given = len(syntax.arguments)
        takes = "no type arguments" if wanted == 0 else f"{wanted} type argument{'' if wanted == 1 else 's'}"
        are = "none is" if given == 0 else f"{given} {'is' if given == 1 else 'are'}"
        message = f"`{syntax.name}` takes {takes}" + ("" if wanted == 0 else f", but {are} given")
        self.report(Diagnostic("0204", message, syntax.span))
        return ERROR

    def _array(self, syntax: ArrayTypeSyntax, size: Callable[[str, Span], ShapeExpr | None] | None) -> Type:
        """`[T; N]`, where N is known now: a number, or a name at the program's top that stands for one."""
        element = self.resolve(syntax.element, size)
        names = {variable: Variable(variable, I64, constant=number) for variable, number in self.numbers.items()}
        count = constant(syntax.size, Scope(entries={**names}))
        if type(count) is not int:
            hint = "write a number, or a `let` of one at the program's top"
            self.report(Diagnostic("0301", "the number of elements is not constant", syntax.size.span, hint=hint))
            return ERROR
        if not 1 <= count <= _MAX_ELEMENTS:
            message = f"an array has 1 to {_MAX_ELEMENTS} elements, and this has {count}"
            self.report(Diagnostic("0301", message, syntax.size.span, hint="a list or a tensor has any number of them"))
            return ERROR
        return ArrayType(element, Size(count))

    def _alias(self, alias: TypeAlias, syntax: NamedTypeSyntax, size: Callable[[str, Span], ShapeExpr | None] | None) -> Type:
        if self._depth >= _MAX_ALIAS_DEPTH:
            self.report(Diagnostic("0203", f"type `{alias.name}` is defined by itself", syntax.span))
            return ERROR
        if len(syntax.arguments) != len(alias.type_parameters):
            return self._wrong_count(syntax, len(alias.type_parameters))
        arguments = [self.resolve(argument, size) for argument in syntax.arguments]
        bound = dict(zip((parameter.name for parameter in alias.type_parameters), arguments, strict=True))
        return evolve(self, bound=bound, depth=self._depth + 1).resolve(alias.target, size)

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
                    "a dim is a number, a size name, `?`, or a form of sizes such as `2*N+1` or `(N+31)/32`",
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


def top_numbers(program: Program) -> dict[str, int]:
    """The whole numbers that names at a program's top stand for: each by one `let`, from literals and the names before."""
    found: dict[str, int] = {}
    again: set[str] = set()
    scope = Scope()
    for statement in program.statements:
        match statement:
            case Let(pattern=BindingPattern(name=name), value=Expression() as value, mutable=False):
                number = whole_constant(value, scope)
                if name in found:
                    again.add(name)
                if number is not None:
                    found[name] = number
                    scope.entries[name] = Variable(name, I64, constant=number)
    return {name: number for name, number in found.items() if name not in again}


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
        case Binary(operator="/", left=left, right=IntLiteral(value=number)) if number > 0:
            return _is_plain(left)
    return False


def affine(value: Expression, size: Callable[[str, Span], ShapeExpr | None] | None = None) -> ShapeExpr | None:
    """An expression over ints and size names as a form of them; None when it isn't one or a name has no known extent."""
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
        case Binary(operator="/", left=left, right=right):
            a, b = affine(left, size), affine(right, size)
            if a is not None and b is not None and b.value is not None and b.value > 0:
                return a.over(b.value)
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
