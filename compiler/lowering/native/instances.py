"""Functions as they are compiled: one instance for each choice of type and constant parameters, written when it is first called."""

from collections.abc import Mapping

from compiler.hir import native_types as native
from compiler.hir.types import HirType, Pointer
from compiler.lowering.native.layouts import Layouts
from compiler.lowering.native.names import LentMemory
from compiler.lowering.native.rules import located
from compiler.typed_ast import nodes
from compiler.typed_ast.declarations import CallableDeclaration
from compiler.typed_ast.types import UNIT, TupleType, Type
from runtime.records import Factory, define


@define(eq=False)
class Instance:
    """`name` is the function's in HIR; `bound` says what its type parameters stand for, `constants` the values of its constant parameters;
    `wraps`: it is called from a compute block, where ints wrap; `borrowed` is the memory that callers pass behind the arguments; `open`
    while it is being written, `circular` when it calls itself. `receiver`: the type of a `self` that it changes, and gives behind its
    result."""

    name: str
    callee: CallableDeclaration
    bound: Mapping[str, Type]
    constants: Mapping[str, int]
    wraps: bool = False
    parameters: tuple[tuple[nodes.Parameter, Type], ...] = ()
    result: Type = UNIT
    receiver: Type | None = None
    borrowed: list[LentMemory] = Factory(list)
    open: bool = True
    circular: bool = False

    @property
    def gives(self) -> Type:
        """What its function gives: the result, and the receiver behind it."""
        if self.receiver is None:
            return self.result
        return self.receiver if self.result == UNIT else TupleType((self.result, self.receiver))


def signature(layouts: Layouts, instance: Instance) -> dict[str, HirType]:
    """The numbers that an instance takes, by name; a result that lies in memory is written where the last one points to."""
    found: dict[str, HirType] = {}
    for parameter, type in instance.parameters:
        with located(parameter.span):
            found.update(layouts.leaves(type, parameter.name))
    if layouts.in_memory(instance.gives):
        name = "result"
        while name in found:
            name += "_"
        found[name] = Pointer(layouts.memory(instance.gives))
    return found


def results(layouts: Layouts, type: Type) -> list[HirType]:
    """The numbers that a function with this result gives; of what lies in memory that isn't the caller's, the address."""
    leaves = [] if layouts.in_memory(type) else [number for _, number in layouts.leaves(type)]
    return [native.I64 if isinstance(number, Pointer) else number for number in leaves]
