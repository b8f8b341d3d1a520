"""Which functions of the library have native code: those that give the same on Python and natively to the last bit. Functions of C's
<math.h> that each library rounds as it likes (`exp`, `sin`) aren't among them."""

from compiler.typed_ast import nodes
from compiler.typed_ast.native_tensors import counts_natively
from compiler.typed_ast.types import DType, Scalar, Type

KEEPING = ("abs", "floor", "ceil")
"""Functions of a number that give one of its type."""
EXTREMES = ("min", "max")


def has_native_code(call: nodes.Call, name: str) -> bool:
    """Whether a call of a function or method of the library can be written natively: of numbers that native code has."""
    method = isinstance(call.function, nodes.Field)
    given = [call.function.value] if isinstance(call.function, nodes.Field) else []
    given += [argument.value for argument in call.arguments]
    if name == "assert":
        return not method and _plain_assertion(call)
    if counts_natively(call, name):
        return True
    types = [_native(one.type) for one in given]
    if any(found is None for found in types) or any(argument.name is not None for argument in call.arguments):
        return False
    kinds = [found.dtype for found in types if found is not None]
    if DType.BOOL in kinds:
        return False
    match name:
        case "sqrt":
            return len(kinds) == 1 and (kinds[0].is_float or kinds[0] in (DType.I64, DType.I32))
        case "isnan":
            return len(kinds) == 1 and kinds[0].is_float
        case "min" | "max":
            strong = {found.dtype for found in types if found is not None and not found.weak}
            takes = len(strong) == 1 and isinstance(call.type, Scalar) and call.type.dtype in strong
            return not method and len(kinds) > 1 and takes
    return name in KEEPING and len(kinds) == 1


def _native(found: Type) -> Scalar | None:
    fits = isinstance(found, Scalar) and (found.dtype is DType.BOOL or found.dtype.is_int or found.dtype in (DType.F32, DType.F64))
    return found if fits and isinstance(found, Scalar) else None


def _plain_assertion(call: nodes.Call) -> bool:
    arguments = call.arguments
    named = any(argument.name is not None for argument in arguments)
    return not named and 0 < len(arguments) < 3 and all(isinstance(argument.value, nodes.StringLiteral) for argument in arguments[1:])
