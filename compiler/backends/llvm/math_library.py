"""exp, log, sin and their kind: each a small function of the module, inlined where it is used, so that LLVM's vectoriser
sees arithmetic and no call. Made for scalars and for any number of lanes."""

from collections.abc import Callable

from compiler.backends.llvm import exponential, trigonometry
from compiler.backends.llvm.maths import Maths
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue

_FUNCTIONS: dict[str, Callable[..., LlvmValue]] = {
    **{name: getattr(exponential, name) for name in ("exp", "exp2", "log", "log_of_normal", "log2", "sinh", "cosh", "tanh", "pow")},
    **{name: getattr(trigonometry, name) for name in ("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "erf")},
}


def call_math(w: FunctionWriter, operator: str, *arguments: LlvmValue) -> LlvmValue:
    """The function's value, for `float`, `double`, and vectors of them."""
    type = arguments[0].type

    def make(name: str) -> None:
        parameters = [(type, word) for word in ("x", "y")[: len(arguments)]]
        function = w.module.function(name, type, parameters, "internal", "alwaysinline")
        function.ret(_FUNCTIONS[operator](Maths(function, type), *function.parameters))

    return w.call(w.module.helper(f"zyn.{operator}.{type.suffix}", make), type, *arguments)
