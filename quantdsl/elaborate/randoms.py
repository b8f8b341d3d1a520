"""Random numbers by counter: one function of a program for each kind that it uses."""

from compiler.hir import randoms
from compiler.hir.types import Tile
from compiler.typed_ast.types import F64
from quantdsl.elaborate.calls import BoundCall, emits
from quantdsl.elaborate.context import FunctionContext
from quantdsl.elaborate.values import ScalarValue, Value

_MAKE = {"uniform": randoms.uniform, "normal": randoms.normal}


@emits("uniform", "normal")
def drawn(c: FunctionContext, call: BoundCall) -> Value:
    program, name = c.elaboration.program, f"random.{call.callee.name}"
    counters = []
    for parameter in ("seed", "i", "j"):
        value = call[parameter]
        assert isinstance(value, ScalarValue)
        counters.append(c.b.cast(value.value, "u64"))
    if not program.has(name):
        with program.function(name, dict.fromkeys(("seed", "i", "j"), Tile("u64")), [Tile("f64")], internal=True) as b:
            b.give(_MAKE[call.callee.name](b.here, *b.parameters))
    return ScalarValue(F64, c.b.call(name, *counters)[0])
