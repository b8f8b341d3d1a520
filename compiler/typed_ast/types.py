"""Types as values: scalars, text, containers, tensors with shape and placement, and the GPU's own kinds."""

from enum import Enum, IntEnum

from runtime.records import field, frozen
from runtime.tuples import as_tuple


@frozen
class Type:
    """Base of all types. Two types are the same when they are equal."""

    def may_be(self, other: "Type") -> bool:
        """Whether one of the two says less than the other and so stands for it, as a size that isn't known yet does for any."""
        return False

    @property
    def is_ordered(self) -> bool:
        """Whether a type beside numbers has values that `<` compares."""
        return False


class DType(Enum):
    """Scalar number types; the value is the name in a program."""

    BOOL = "bool"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    F8E4M3 = "f8e4m3"
    F8E5M2 = "f8e5m2"
    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"

    @property
    def is_float(self) -> bool:
        return self.value.startswith(("f", "bf"))

    @property
    def is_byte_float(self) -> bool:
        return self in (DType.F8E4M3, DType.F8E5M2)

    @property
    def is_int(self) -> bool:
        return self.value[0] in "iu"

    @property
    def is_signed(self) -> bool:
        return not self.value.startswith("u") and self is not DType.BOOL

    @property
    def bits(self) -> int:
        return 8 if self is DType.BOOL or self.is_byte_float else int(self.value.lstrip("iubf"))

    @property
    def bytes(self) -> int:
        return self.bits // 8


@frozen
class Scalar(Type):
    """A number or bool. `weak` marks an unsuffixed literal, which takes the other operand's type."""

    dtype: DType
    weak: bool = False

    def __str__(self) -> str:
        return self.dtype.value


@frozen
class StringType(Type):
    def __str__(self) -> str:
        return "String"


@frozen
class CharType(Type):
    def __str__(self) -> str:
        return "char"


@frozen
class UnitType(Type):
    def __str__(self) -> str:
        return "()"


@frozen
class NeverType(Type):
    """The type of an expression that does not return (`return`, `break`)."""

    def __str__(self) -> str:
        return "never"


@frozen
class UnknownType(Type):
    """Not known before the program runs: the parameter of a generic function, a file's content."""

    def __str__(self) -> str:
        return "?"


@frozen
class ErrorType(Type):
    """The type of an expression that is in error already: whatever is done with it raises no second message."""

    def __str__(self) -> str:
        return "error"


@frozen
class RangeType(Type):
    def __str__(self) -> str:
        return "range"


@frozen
class ListType(Type):
    element: Type

    def __str__(self) -> str:
        return f"List<{self.element}>"


@frozen
class SetType(Type):
    element: Type

    def __str__(self) -> str:
        return f"HashSet<{self.element}>"


@frozen
class DictType(Type):
    key: Type
    value: Type

    def __str__(self) -> str:
        return f"HashMap<{self.key}, {self.value}>"


@frozen
class TupleType(Type):
    elements: tuple[Type, ...] = field(converter=as_tuple)

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.elements))})"


@frozen
class OptionType(Type):
    value: Type

    def __str__(self) -> str:
        return f"Option<{self.value}>"


@frozen
class ResultType(Type):
    value: Type
    error: Type

    def __str__(self) -> str:
        return f"Result<{self.value}, {self.error}>"


@frozen
class FunctionType(Type):
    parameters: tuple[Type, ...] = field(converter=as_tuple)
    result: Type = UnknownType()

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parameters))}) => {self.result}"


@frozen
class FutureType(Type):
    value: Type

    def __str__(self) -> str:
        return f"Future<{self.value}>"


@frozen
class DeclaredType(Type):
    """A type of the program by its name, with what its type parameters stand for. What it is made of stands in its declaration."""

    name: str
    arguments: tuple[Type, ...] = field(default=(), converter=as_tuple)

    def __str__(self) -> str:
        if self.name.startswith("{"):  # a record without a struct
            named = zip(self.name[1:-1].split(", "), self.arguments, strict=False)
            return "{" + ", ".join(f"{name}: {found}" for name, found in named) + "}"
        return self.name + (f"<{', '.join(map(str, self.arguments))}>" if self.arguments else "")


@frozen
class StructType(DeclaredType):
    pass


@frozen
class EnumType(DeclaredType):
    pass


@frozen
class TypeVariable(Type):
    """A type parameter inside its declaration; one of a size stands for a number. `bound`: "Ordered" or "Number", as it is declared."""

    name: str
    bound: str | None = field(default=None, eq=False)

    def __str__(self) -> str:
        return self.name


@frozen
class Size(Type):
    """A number among type arguments; None: known when the program is compiled, but not here."""

    value: int | None = None

    def may_be(self, other: Type) -> bool:
        return other == Size() or self == Size()

    def __str__(self) -> str:
        return "_" if self.value is None else str(self.value)


@frozen
class ArrayType(Type):
    """`[T; N]`: elements in place. `size` is a Size or a TypeVariable."""

    element: Type
    size: Type

    def __str__(self) -> str:
        return f"[{self.element}; {self.size}]"


@frozen
class NoneType(Type):
    """The type of `none`, which every optional takes."""

    def __str__(self) -> str:
        return "none"


# ---- devices -----------------------------------------------------------------------------------------------------


class DeviceKind(Enum):
    CPU = "cpu"
    CUDA = "cuda"
    ROCM = "rocm"
    METAL = "metal"
    VULKAN = "vulkan"
    EMULATOR = "emulator"
    AUTO = "auto"


@frozen
class DeviceTarget:
    """Where a kernel runs or a tensor lies. `index` numbers devices of a kind; `compute_capability` narrows CUDA; `emulated`: the
    machine that the emulator is."""

    kind: DeviceKind
    index: int = 0
    compute_capability: tuple[int, int] | None = None
    emulated: str = ""

    def __str__(self) -> str:
        if self.emulated:
            return f"{self.kind.value}:{self.emulated}"
        if self.kind in (DeviceKind.CPU, DeviceKind.EMULATOR, DeviceKind.AUTO):
            return str(self.kind.value)
        return f"{self.kind.value}:{self.index}"


CPU = DeviceTarget(DeviceKind.CPU)
AUTO = DeviceTarget(DeviceKind.AUTO)


class AddressSpace(IntEnum):
    """The numbers are LLVM's for NVPTX."""

    GENERIC = 0
    GLOBAL = 1
    SHARED = 3
    CONSTANT = 4
    LOCAL = 5


# ---- tensors -----------------------------------------------------------------------------------------------------


@frozen
class Quotient:
    """An affine form of size names over a number above 0, rounded down: what `(N + 31) / 32` is among the terms of a dim."""

    numerator: "ShapeExpr"
    divisor: int

    def __str__(self) -> str:
        text = str(self.numerator)
        return f"{text} / {self.divisor}" if text.isidentifier() else f"({text}) / {self.divisor}"


@frozen
class ShapeExpr:
    """An affine form of size names and of quotients of such forms: the sum of `coefficient * term` plus `constant` (`2*N + 1`)."""

    terms: tuple[tuple[str | Quotient, int], ...] = field(default=(), converter=as_tuple)
    constant: int = 0

    @staticmethod
    def of(value: "int | str | Quotient | ShapeExpr") -> "ShapeExpr":
        if isinstance(value, ShapeExpr):
            return value
        return ShapeExpr((), value) if isinstance(value, int) else ShapeExpr(((value, 1),))

    def __add__(self, other: "int | str | Quotient | ShapeExpr") -> "ShapeExpr":
        other = ShapeExpr.of(other)
        total = dict(self.terms)
        for name, coefficient in other.terms:
            total[name] = total.get(name, 0) + coefficient
        return ShapeExpr(tuple(sorted(((n, c) for n, c in total.items() if c), key=str)), self.constant + other.constant)

    def times(self, factor: int) -> "ShapeExpr":
        return ShapeExpr(tuple((n, c * factor) for n, c in self.terms if c * factor), self.constant * factor)

    def over(self, divisor: int) -> "ShapeExpr":
        """The form over a number above 0, rounded down: what the number divides is divided."""
        whole = ShapeExpr(tuple((n, c // divisor) for n, c in self.terms if c % divisor == 0), self.constant // divisor)
        left = ShapeExpr(tuple((n, c) for n, c in self.terms if c % divisor), self.constant % divisor)
        return whole + ShapeExpr.of(Quotient(left, divisor)) if left.terms else whole

    @property
    def value(self) -> int | None:
        """The number, when no name is left."""
        return None if self.terms else self.constant

    @property
    def names(self) -> tuple[str, ...]:
        """The sizes of the form, in the order of its terms."""
        inner = [(term,) if isinstance(term, str) else term.numerator.names for term, _ in self.terms]
        return tuple(dict.fromkeys(name for names in inner for name in names))

    @property
    def name(self) -> str | None:
        """The size that the form is, where it is one."""
        ((term, coefficient), *others) = self.terms or ((None, 0),)
        return term if isinstance(term, str) and coefficient == 1 and not others and not self.constant else None

    def __str__(self) -> str:
        parts = [_times(str(term) if isinstance(term, str) or c == 1 else f"({term})", c) for term, c in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts).replace("+ -", "- ")


def _times(term: str, coefficient: int) -> str:
    return term if coefficient == 1 else f"-{term}" if coefficient == -1 else f"{coefficient}*{term}"


@frozen
class TensorShape:
    """Base of the three kinds of shape."""

    @property
    def rank(self) -> int | None:
        raise AssertionError("every kind of shape answers this")


@frozen
class StaticShape(TensorShape):
    dims: tuple[int, ...] = field(converter=as_tuple)

    @property
    def rank(self) -> int:
        return len(self.dims)

    def __str__(self) -> str:
        return ", ".join(map(str, self.dims))


@frozen
class DynamicShape(TensorShape):
    """`dynamic_rank` None: any rank. `max_dims` gives a bound per dim, None where there is none."""

    dynamic_rank: int | None = None
    max_dims: tuple[int | None, ...] | None = None

    @property
    def rank(self) -> int | None:
        return self.dynamic_rank

    def __str__(self) -> str:
        if self.dynamic_rank is None:
            return "..."
        bounds = self.max_dims or (None,) * self.dynamic_rank
        return ", ".join("?" if b is None else f"?<={b}" for b in bounds)


@frozen
class SymbolicShape(TensorShape):
    """Each dim an affine form of size names; None is an unknown dim (`?`) among known ones."""

    dims: tuple[ShapeExpr | None, ...] = field(converter=as_tuple)

    @property
    def rank(self) -> int:
        return len(self.dims)

    def __str__(self) -> str:
        return ", ".join("?" if d is None else str(d) for d in self.dims)


@frozen
class TensorType(Type):
    """A dense tensor. `element` is Unknown when the dtype is only known at run time. `device` None: wherever it is."""

    element: Type = Scalar(DType.F32)
    shape: TensorShape = DynamicShape()
    device: DeviceTarget | None = None

    def __str__(self) -> str:
        place = f' on "{self.device}"' if self.device else ""
        if self.shape.rank is None:
            return "tensor" + place
        inside = str(self.shape)
        return f"tensor[{inside + ', ' if inside else ''}{self.element}]{place}"


@frozen
class DevicePointer(Type):
    pointee: Type
    address_space: AddressSpace = AddressSpace.GENERIC


@frozen
class SharedArray(Type):
    """Block-local memory; `dims` are its extents (the seed's `size` is their product)."""

    element: Type
    dims: tuple[int | ShapeExpr, ...] = field(converter=as_tuple)

    @property
    def size(self) -> int | None:
        product = 1
        for dim in self.dims:
            value = dim if isinstance(dim, int) else dim.value
            if value is None:
                return None
            product *= value
        return product


@frozen
class WarpValue(Type):
    """One value per lane of a warp."""

    element: Type


UNKNOWN = UnknownType()
ERROR = ErrorType()
UNIT = UnitType()
NEVER = NeverType()
STRING = StringType()
CHAR = CharType()
RANGE = RangeType()
NONE = NoneType()
BOOL = Scalar(DType.BOOL)
I64 = Scalar(DType.I64)
F64 = Scalar(DType.F64)
F32 = Scalar(DType.F32)
WEAK_INT = Scalar(DType.I64, weak=True)
WEAK_FLOAT = Scalar(DType.F64, weak=True)
ANY_TENSOR = TensorType(UNKNOWN, DynamicShape())
