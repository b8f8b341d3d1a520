"""Which types' values can be keys of maps and elements of sets."""

from compiler.typed_ast.types import ArrayType, DictType, FunctionType, ListType, Scalar, SetType, TensorType, Type

KEY_HINT = "keys are ints, bools, text, and tuples, structs and enums of those"


def key_fault(type_: Type) -> str | None:
    """Why values of a type can't be keys; None where they can, or where nothing is known of them."""
    match type_:
        case Scalar(dtype=dtype):
            return "a float may be nan, which equals nothing" if dtype.is_float else None
        case ListType() | DictType() | SetType() | TensorType() | ArrayType():
            return f"a `{type_}` may change"
        case FunctionType():
            return "functions can't be compared"
    return None
