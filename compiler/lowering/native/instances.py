"""Functions as they are compiled: one instance for each choice of type and constant parameters, written when it is first called."""

from collections.abc import Mapping
from typing import Protocol

from attrs import Factory

from compiler.hir.types import HirType, Pointer
from compiler.lowering.native.layouts import Layouts
from compiler.lowering.native.names import LentMemory
from compiler.lowering.native.rules import located
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.types import UNIT, Type
from runtime.records import define


class NativeCallee(Protocol):
    """A declaration whose instances become functions."""

    @property
    def name(self) -> str: ...
    @property
    def type_parameters(self) -> tuple[nodes.TypeParameter, ...]: ...
    @property
    def parameters(self) -> tuple[nodes.Parameter, ...]: ...
    @property
    def result(self) -> nodes.TypeSyntax | None: ...
    @property
    def span(self) -> Span: ...
    @property
    def name_span(self) -> Span: ...


@define(eq=False)
class Instance:
    """`name` is the function's in HIR; `bound` says what its type parameters stand for, `constants` the values of its constant parameters;
    `wraps`: it is called from a compute block, where ints wrap; `borrowed` is the memory that callers pass behind the arguments; `open`
    while it is being written, `circular` when it calls itself."""

    name: str
    callee: NativeCallee
    bound: Mapping[str, Type]
    constants: Mapping[str, int]
    wraps: bool = False
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
