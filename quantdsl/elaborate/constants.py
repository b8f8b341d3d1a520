"""Constants whose values the compiler itself needs: what handlers are set to, limits of risk, parameters."""

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.program import Elaboration, Surroundings
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.types import UNKNOWN


def value_of(made: Elaboration, around: Surroundings, node: nodes.Expression) -> int | float:
    """The number of a constant expression, as its type is stored: where it is not plain to see, as the interpreter computes it. Raises
    ZyntaxError where it has none."""
    with made.seeing(around):
        typed = made.typed(node, None) if node.type == UNKNOWN else node
        number = made.layouts.number(strong(typed.type))
        if number is None:
            raise ZyntaxError(Diagnostic("0204", "this is no number", node.span, hint="write a number, a `const` or a `param`"))
        name = made.fresh("constant")
        with made.program.function(name, {}, [number], internal=True) as b:
            c = FunctionContext(made, b, around, {})
            found = c.number(typed)
            b.ret(found.value)
    function = made.program.module.functions.pop(name)
    if found.constant is not None:
        return found.constant
    if c.borrowed:
        raise ZyntaxError(Diagnostic("0204", "this is no constant: it remembers something", node.span, hint="write a number or a `const`"))
    from compiler.emulator.execute import finish
    from compiler.emulator.fault import KernelFault
    from compiler.emulator.translate import Translator

    try:
        (value,) = finish(Translator(function, made.program.module), {})()
    except KernelFault as fault:
        site = (made.program.module.functions.get(fault.function) or function).sites[fault.site]
        raise ZyntaxError(Diagnostic("0705", f"this constant has no value: {site.message.format(*fault.values)}", node.span)) from None
    assert isinstance(value, int | float)
    return value
