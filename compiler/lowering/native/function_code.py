"""Functions of a program: how one is written, and how its instances are entered, left and called."""

from compiler.hir.native_expressions import Number as NativeNumber
from compiler.hir.types import Pointer
from compiler.lowering.native.changes import changes
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.instances import Instance, results, signature
from compiler.lowering.native.names import LentMemory, NameMeaning
from compiler.lowering.native.program import Elaboration, Surroundings
from compiler.lowering.native.rules import CORE
from compiler.lowering.native.tensors import named_sizes, with_declared_extents
from compiler.lowering.native.values import InMemory, Value, Whole
from compiler.typed_ast import nodes
from compiler.typed_ast.scope import Variable, VariableKind
from compiler.typed_ast.types import I64, UNIT, TensorType


@CORE.writes(nodes.Function)
def write_function(elaboration: Elaboration, made: Instance, around: Surroundings) -> None:
    callee = made.callee
    assert isinstance(callee, nodes.Function) and callee.body is not None
    internal = id(callee) not in elaboration.exported
    lent = {str(key): Pointer(type) for key, type in elaboration.lent.items()}
    parameters, numbers = {**lent, **signature(elaboration.layouts, made)}, results(elaboration.layouts, made.gives)
    # tensors may be views of the same memory
    apart = () if any(isinstance(type, TensorType) for _, type in made.parameters) else ("noalias",)
    elaboration.program.declare(made.name, parameters, numbers, internal=internal, attributes=apart)
    span = callee.span if callee.span.path != elaboration.rules.prelude else None
    with elaboration.program.define(made.name, span) as b:
        c = FunctionContext(elaboration, b, around, made.bound)
        c.wraps = made.wraps
        c.borrowed += [LentMemory(key, type, True, at) for (key, type), at in zip(elaboration.lent.items(), b.parameters, strict=False)]
        c.begins(callee.body)
        enter(c, made)
        with c.reaching():
            if made.result == UNIT:
                c.body(callee.body)
                if (made.receiver is not None or c.ends is not None) and not b.ended:
                    c.leave(Whole(UNIT, ()))
            else:
                c.leave(c.value(callee.body, made.result))
        made.borrowed = c.borrowed


def enter(c: FunctionContext, instance: Instance) -> None:
    """Names of the parameters, and how the function is left."""
    given = iter(tuple(c.b.parameters)[len(c.elaboration.lent) :])
    for name, known in instance.constants.items():
        c.let(name, c.constant(known, I64), VariableKind.CONSTANT_PARAMETER)
    body = getattr(instance.callee, "body", None) if c.elaboration.rules.parameters_change else None
    for parameter, type in instance.parameters:
        value = c.of_numbers(type, given)
        if isinstance(type, TensorType) and parameter.annotation is not None:
            value = with_declared_extents(c, c.elaboration.checker.resolver.resolve(parameter.annotation), value)
        if parameter.mutable or (body is not None and changes(c, body, parameter.name)):
            c.var(parameter.name, value)
        else:
            c.names.found[parameter.name] = NameMeaning(value)
            c.sizes.add(Variable(parameter.name, type, VariableKind.PARAMETER))
        if isinstance(type, TensorType) and parameter.annotation is not None:
            # a body sees its sizes as ints, and the types that they stand in as open
            for name, size in named_sizes(c.elaboration.checker.resolver.resolve(parameter.annotation), value).items():
                c.let(name, size)
    c.result = instance.result
    to = InMemory(instance.gives, next(given)) if c.layouts.in_memory(instance.gives) else None

    def leave(value: Value) -> None:
        if instance.receiver is not None:
            location = c.location("self")
            assert location is not None
            left = c.read(location)
            value = left if instance.result == UNIT else c.make(instance.gives, {"0": value, "1": left})
        if to is not None:
            c.write(to, value)
            if c.ends is not None:
                c.ends(value)
            c.b.ret()
        else:
            numbers = list(c.carried(value))
            if c.ends is not None:
                c.ends(value)
            c.b.ret(*numbers)

    c.leave = leave


def invoke(c: FunctionContext, instance: Instance, arguments: list[Value]) -> Value:
    """A call with one value a parameter; what it gives, with the receiver that it changes."""
    first = c.elaboration.lent
    passed: list[NativeNumber] = [c.borrow(key, type, shared=True) for key, type in first.items()]
    passed += [number for value in arguments for number in c.numbers(value)]
    place = c.room(instance.gives) if c.layouts.in_memory(instance.gives) else None
    if place is not None:
        passed.append(place.pointer)
    for lent in instance.borrowed[len(first) :]:
        passed.append(c.borrow(lent.key if lent.shared else (lent.key, object()), lent.type, lent.shared))
    if len(passed) < len(c.b.program.module.functions[instance.name].parameters):
        raise c.not_supported(f"`{instance.callee.name}` calls itself and has memory, which", "use a loop")
    found = c.b.call(instance.name, *passed)
    return place if place is not None else c.of_numbers(instance.gives, iter(found))
