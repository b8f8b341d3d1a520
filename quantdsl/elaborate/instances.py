"""Functions as they are compiled: one instance for each choice of type and constant parameters, written when it is first called."""

from collections.abc import Mapping

from attrs import Factory

from compiler.hir.types import HirType, Pointer
from compiler.typed_ast import nodes
from compiler.typed_ast.types import UNIT, Type
from quantdsl import nodes as quant
from quantdsl.elaborate.layouts import Layouts
from quantdsl.elaborate.names import LentMemory
from quantdsl.elaborate.refused import located
from runtime.records import define

Callee = nodes.Function | quant.Signal
Market = tuple[str | None, str | None]


@define(eq=False)
class Instance:
    """`name` is the function's in HIR; `bound` says what its type parameters stand for, `constants` the values of its constant parameters;
    `borrowed` is the memory that callers pass behind the arguments; `open` while it is being written, `circular` when it calls itself."""

    name: str
    callee: Callee
    bound: Mapping[str, Type]
    constants: Mapping[str, int]
    parameters: tuple[tuple[nodes.Parameter, Type], ...] = ()
    result: Type = UNIT
    borrowed: list[LentMemory] = Factory(list)
    open: bool = True
    circular: bool = False


def signature(layouts: Layouts, instance: Instance) -> dict[str, HirType]:
    """The numbers that an instance takes, by name; a result that lies in memory is written where the last one points to."""
    found: dict[str, HirType] = {}
    for parameter, type in instance.parameters:
        with located(parameter.span):
            found.update(layouts.leaves(type, parameter.name))
    if layouts.in_memory(instance.result):
        name = "result"
        while name in found:
            name += "_"
        found[name] = Pointer(layouts.memory(instance.result))
    return found


def results(layouts: Layouts, type: Type) -> list[HirType]:
    """The numbers that a function with this result gives."""
    return [] if layouts.in_memory(type) else [number for _, number in layouts.leaves(type)]
