"""Which functions of the library have native code: those of numbers, which give the same on Python and natively to the last bit."""

from collections.abc import Sequence

from compiler.typed_ast import nodes
from compiler.typed_ast.native_tensors import counts_natively
from compiler.typed_ast.types import DType, OptionType, ResultType, Scalar, Type

FROM_C = ("exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf")
"""Functions of C's <math.h> that Python calls, too."""
REAL = ("sqrt", "rsqrt", *FROM_C, "sigmoid", "gelu", "silu")
"""Functions of a number that give a float."""
KEEPING = ("abs", "sign", "relu", "floor", "ceil", "round", "trunc")
"""Functions of a number that give one of its type."""
TESTS = ("isnan", "isinf", "isfinite")
EXTREMES = ("min", "max")
COUNTS = ("popcount", "clz", "ctz")
"""How many bits of an int are 1, or stand above or below those: i32."""
BITS = ("bit_and", "bit_or", "bit_xor")
MOST_TOLD = 4
"""Numbers that a message tells."""
OPTIONALS = ("is_some", "is_none", "is_ok", "is_err", "unwrap", "unwrap_or")


def has_native_code(call: nodes.Call, name: str) -> bool:
    """Whether a call of a function or method of the library can be written natively: of numbers that native code has."""
    method = isinstance(call.function, nodes.Field)
    given = [call.function.value] if isinstance(call.function, nodes.Field) else []
    given += [argument.value for argument in call.arguments]
    if name in ("assert", "panic"):
        return not method and _plain_assertion(call, 0 if name == "panic" else 1)
    if counts_natively(call, name):
        return True
    if any(argument.name is not None for argument in call.arguments):
        return False
    if method and isinstance(given[0].type, OptionType | ResultType):
        return _of_optional(given[0].type, name)
    types = [_native(one.type) for one in given]
    numbers = [found for found in types if found is not None]
    if len(numbers) < len(types):
        return False
    if name == "where" and not method and len(numbers) == 3:
        return not numbers[0].dtype.is_float and _agree(call, numbers[1:])
    if any(found.dtype is DType.BOOL for found in numbers):
        return False
    match name:
        case "min" | "max":
            return not method and len(numbers) > 1 and _agree(call, numbers)
        case "clamp" | "clip":
            return len(numbers) == 3 and _agree(call, numbers)
        case "fma":
            return len(numbers) == 3 and numbers[0].dtype.is_float and _agree(call, numbers)
        case "pow" | "atan2":
            return len(numbers) == 2 and isinstance(call.type, Scalar) and call.type.dtype.is_float
        case "bit_and" | "bit_or" | "bit_xor":
            return len(numbers) == 2 and _agree(call, numbers)
    if name in COUNTS:
        return len(numbers) == 1 and numbers[0].dtype.is_int
    return name in (*REAL, *KEEPING, *TESTS) and len(numbers) == 1


def _agree(call: nodes.Call, numbers: Sequence[Scalar]) -> bool:
    """Whether all numbers but unsuffixed ones are of the type of the result."""
    strong = {found.dtype for found in numbers if not found.weak}
    return len(strong) == 1 and isinstance(call.type, Scalar) and call.type.dtype in strong


def _of_optional(found: OptionType | ResultType, name: str) -> bool:
    """`unwrap` of a result says what its error is: a number can be told."""
    if name == "unwrap" and isinstance(found, ResultType):
        return _native(found.error) is not None
    return name in OPTIONALS


def _native(type_: Type) -> Scalar | None:
    fits = isinstance(type_, Scalar) and (type_.dtype is DType.BOOL or type_.dtype.is_int or type_.dtype in (DType.F32, DType.F64))
    return type_ if fits and isinstance(type_, Scalar) else None


def _plain_assertion(call: nodes.Call, at: int) -> bool:
    """`at`: where the text stands."""
    arguments = call.arguments
    named = any(argument.name is not None for argument in arguments)
    return not named and 0 < len(arguments) < at + 2 and all(message_numbers(one.value) is not None for one in arguments[at:])


def message_numbers(text: nodes.Expression) -> list[nodes.Expression] | None:
    """The numbers in a message that native code can tell: a text that is written out, or an f-string with few numbers, as they are printed.
    None where it is another one."""
    if isinstance(text, nodes.StringLiteral):
        return []
    if not isinstance(text, nodes.FString):
        return None
    holes = [part for part in text.parts if part.value is not None]
    types = [part.value.type for part in holes if part.value is not None]
    told = all(isinstance(one, Scalar) and (one.dtype.is_int or one.dtype in (DType.F64, DType.BOOL)) for one in types)
    plain = told and len(holes) <= MOST_TOLD and not any(part.format for part in holes)
    return [part.value for part in holes if part.value is not None] if plain else None
