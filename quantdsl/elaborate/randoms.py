"""Random numbers by counter: one function of a program for each kind that it uses."""

from compiler.hir import randoms
from compiler.hir.types import Tile
from compiler.lowering.native.calls import BoundCall
from compiler.lowering.native.context import FunctionContext
from compiler.lowering.native.values import ScalarValue, Value
from compiler.typed_ast.types import F64
from quantdsl.elaborate.rules import emits

_MAKE = {"uniform": randoms.uniform, "normal": randoms.normal}


@emits("uniform", "normal")
def drawn(c: FunctionContext, call: BoundCall) -> Value:
    program, name = c.elaboration.program, f"random.{call.callee.name}"
    counters = []
    for parameter in ("seed", "i", "j"):
        value = call[parameter]
        assert isinstance(value, ScalarValue)
        counters.append(value.value.cast("u64"))
    if not program.has(name):
        with program.function(name, dict.fromkeys(("seed", "i", "j"), Tile("u64")), [Tile("f64")], internal=True) as b:
            numbers = [number.hir for number in b.parameters]
            b.ret(b.of(_MAKE[call.callee.name](b.here, *numbers)))
    return ScalarValue(F64, c.b.call(name, *counters)[0])
