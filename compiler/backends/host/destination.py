"""Where the value of a block goes."""

from compiler.typed_ast.types import UNKNOWN, Type
from runtime.records import frozen


@frozen
class Destination:
    """Where the value of a block goes: nowhere, to the caller, or to a temporary."""

    store: str | None = None
    to_caller: bool = False
    to: Type = UNKNOWN


DISCARD = Destination()
