"""Functions as they are compiled: one instance for each choice of type and constant parameters, written when it is first called."""

from collections.abc import Mapping

from attrs import Factory, define

from compiler.hir.types import HirType, Pointer
from compiler.typed_ast import nodes
from compiler.typed_ast.types import I64, UNIT, Type
from quantdsl.check.scope import Variable
from quantdsl.elaborate.context import Borrowed, Callee, Context, Named
from quantdsl.elaborate.layouts import Layouts
from quantdsl.elaborate.refused import located
from quantdsl.elaborate.values import Place, Value
from quantdsl.native.build import Number as NativeNumber

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
    borrowed: list[Borrowed] = Factory(list)
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


def enter(c: Context, instance: Instance) -> None:
    """Names of the parameters, and how the function is left."""
    given = iter(tuple(c.b.parameters))
    for name, known in instance.constants.items():
        c.let(name, c.constant(known, I64), "const parameter")
    for parameter, type in instance.parameters:
        value = c.of_numbers(type, given)
        if parameter.mutable:
            c.var(parameter.name, value)
        else:
            c.names.found[parameter.name] = Named(value)
            c.sizes.add(Variable(parameter.name, type, "parameter"))
    c.result = instance.result
    to = Place(instance.result, next(given)) if c.layouts.in_memory(instance.result) else None

    def leave(value: Value) -> None:
        if to is not None:
            c.write(to, value)
            c.b.give()
        else:
            c.b.give(*c.numbers(value))

    c.leave = leave


def invoke(c: Context, instance: Instance, arguments: list[Value]) -> Value:
    """A call with one value a parameter."""
    passed: list[NativeNumber] = [number for value in arguments for number in c.numbers(value)]
    place = c.room(instance.result) if c.layouts.in_memory(instance.result) else None
    if place is not None:
        passed.append(place.pointer)
    for lent in instance.borrowed:
        passed.append(c.borrow(lent.key if lent.shared else (lent.key, object()), lent.type, lent.shared))
    if len(passed) < len(c.b.program.module.functions[instance.name].parameters):
        message = f"`{instance.callee.name}` calls itself and has memory, which is valid, but not supported yet in QuantDSL"
        raise c.refuse("0109", message, "use a loop")
    found = c.b.call(instance.name, *passed)
    return place if place is not None else c.of_numbers(instance.result, iter(found))
