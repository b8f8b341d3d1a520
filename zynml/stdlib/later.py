"""The library's names that are valid but not there yet: they say so with ZYN0109."""

from typing import Any

from compiler.typed_ast.library import CallTypes, LibraryFault, TypeFault
from compiler.typed_ast.types import Type
from zynml.stdlib.family import FunctionFamily

family = FunctionFamily()

MESSAGE, HINT = "`model` is valid, but not supported yet", "`load(path)` reads arrays from files"


def _refused(calls: CallTypes) -> Type:
    raise TypeFault("0109", MESSAGE, hint=HINT)


@family.function("model", result=_refused)
def model(path: Any) -> Any:
    """Not supported yet."""
    raise LibraryFault("0109", MESSAGE, HINT)
