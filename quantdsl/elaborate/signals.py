"""Signals: functions whose `state` is memory that each place of call has for itself."""

from compiler.hir import instruction as hir
from compiler.typed_ast import nodes
from compiler.typed_ast import types as ty
from compiler.typed_ast.types import OptionType
from quantdsl import nodes as quant
from quantdsl.check.literals import settled
from quantdsl.elaborate.calls import BoundCall, call_instance, calls
from quantdsl.elaborate.context import FunctionContext, executes
from quantdsl.elaborate.function_code import enter
from quantdsl.elaborate.instances import Instance, results, signature
from quantdsl.elaborate.names import NameMeaning
from quantdsl.elaborate.program import Elaboration, Surroundings, writes
from quantdsl.elaborate.values import InMemory, Location, Value
from quantdsl.native.types import I1, I64


class Remembering(FunctionContext):
    """A signal being written. `emitted` is where its result of this call is kept, `warm` whether it has been called often enough."""

    emitted: Location
    warm: hir.Value | None = None


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
    before = c.b.get(place)
    more = c.b.wrapping("add", before, 1)
    c.warm = c.b.ge(more, calls)
    c.b.put(place, c.b.select(c.warm, before, more))


@executes(quant.State)
def state(c: FunctionContext, node: quant.State) -> None:
    """What is remembered begins with all bytes 0; another first value is written at the first call."""
    place = c.resolve(node.annotation) if node.annotation is not None else None
    if node.value is None or (is_blank(node.value) and (place is not None or not isinstance(node.value, nodes.Repeat))):
        type = place if place is not None or node.value is None else settled(c.type(node.value))
        assert type is not None
        c.names.found[node.name] = NameMeaning(InMemory(type, c.borrow((node.name, node.span), c.layouts.memory(type))))
        return
    begun = c.borrow((node.name, node.span, "begun"), I1)
    with c.b.when(c.b.negate(c.b.get(begun))):
        first = c.value(node.value, place)
        first = c.fit(first, settled(first.type))
        kept = InMemory(first.type, c.borrow((node.name, node.span), c.layouts.memory(first.type)))
        c.write(kept, first)
        c.b.put(begun, True)
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
