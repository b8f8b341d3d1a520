"""Signals: functions whose `state` is memory that each place of call has for itself."""

from compiler.hir.native_expressions import Expr, select
from compiler.hir.native_types import I1, I64
from compiler.lowering.native.calls import BoundCall, call_instance
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.function_code import enter
from compiler.lowering.native.instances import Instance, results, signature
from compiler.lowering.native.names import NameMeaning
from compiler.lowering.native.program import Elaboration, Surroundings
from compiler.lowering.native.values import InMemory, Location, Value
from compiler.typed_ast import nodes
from compiler.typed_ast import types as ty
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.types import OptionType
from quantdsl import nodes as quant
from quantdsl.elaborate.rules import calls, executes, writes


class Remembering(FunctionContext):
    """A signal being written. `emitted` is where its result of this call is kept, `warm` whether it has been called often enough."""

    emitted: Location
    warm: Expr | None = None


@calls(quant.Signal)
def call_signal(c: FunctionContext, call: BoundCall) -> Value:
    return call_instance(c, call)


@writes(quant.Signal)
def write_signal(made: Elaboration, instance: Instance, around: Surroundings) -> None:
    """Writes the function of a signal. Its memory is what the function borrows."""
    callee = instance.callee
    assert isinstance(callee, quant.Signal)
    wanted = instance.result
    warms = any(isinstance(statement, quant.Warmup) for statement in callee.body.statements)
    if warms:
        instance.result = OptionType(wanted)
    parameters, numbers = signature(made.layouts, instance), results(made.layouts, instance.result)
    made.program.declare(instance.name, parameters, numbers, internal=True)
    with made.program.define(instance.name, callee.span) as b:
        c = Remembering(made, b, around, instance.bound)
        enter(c, instance)
        c.result, leave = wanted, c.leave
        c.emitted = c.variable(c.zero(wanted))

        def finish(value: Value) -> None:
            if warms:
                warm = c.warm if c.warm is not None else b.const(False, "i1")
                value = c.make(OptionType(wanted), {"present": c.truth(warm), "value": value})
            leave(value)

        c.leave = finish
        with c.reaching():
            c.body(callee.body)
            if not b.ended:
                finish(c.read(c.emitted))
        instance.borrowed = c.borrowed


@executes(quant.Emit)
def emit(c: FunctionContext, node: quant.Emit) -> None:
    assert isinstance(c, Remembering)
    c.write(c.emitted, c.value(node.value, c.result))


@executes(quant.Warmup)
def warmup(c: FunctionContext, node: quant.Warmup) -> None:
    """Counts the calls up to k; the result is there from the k-th on."""
    assert isinstance(c, Remembering)
    calls = c.number(node.calls, ty.I64).value
    place = c.borrow(("calls", node.span), I64)
    before = c.b.load(place)
    more = before.wrapping_add(1)
    c.warm = more >= calls
    c.b.store(place, select(c.warm, before, more))


@executes(quant.State)
def state(c: FunctionContext, node: quant.State) -> None:
    """What is remembered begins with all bytes 0; another first value is written at the first call."""
    place = c.resolve(node.annotation) if node.annotation is not None else None
    if node.value is None or (is_blank(node.value) and (place is not None or not isinstance(node.value, nodes.Repeat))):
        type = place if place is not None or node.value is None else strong(c.type(node.value))
        assert type is not None
        c.names.found[node.name] = NameMeaning(InMemory(type, c.borrow((node.name, node.span), c.layouts.memory(type))))
        return
    begun = c.borrow((node.name, node.span, "begun"), I1)
    with c.b.when(~c.b.load(begun)):
        first = c.value(node.value, place)
        first = c.fit(first, strong(first.type))
        kept = InMemory(first.type, c.borrow((node.name, node.span), c.layouts.memory(first.type)))
        c.write(kept, first)
        c.b.store(begun, True)
    c.names.found[node.name] = NameMeaning(kept)


def is_blank(node: nodes.Expression) -> bool:
    """Whether all bytes of a value are 0."""
    match node:
        case nodes.IntLiteral(value=0) | nodes.BoolLiteral(value=False) | nodes.Name(name="none"):
            return True
        case nodes.FloatLiteral() | nodes.UnitNumber():
            return float(node.text) == 0
        case nodes.Repeat(element=element):
            return is_blank(element)
    return False
