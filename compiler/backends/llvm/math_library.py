"""exp, log, sin and their kind: which function of the module computes them, for scalars and for vectors."""

from compiler.backends.llvm.writer import FunctionWriter, Value


def call_math(w: FunctionWriter, operator: str, *arguments: Value) -> Value:
    type = arguments[0].type
    suffix = "f" if type.element == "float" else ""
    name = f"{operator}{suffix}"
    w.module.declare(name, f"{type.element} ({', '.join([type.element] * len(arguments))})")
    if not type.lanes:
        return w.call(name, type, *arguments)
    result = Value(type, "poison")
    for lane in range(type.lanes):
        result = w.insert(result, w.call(name, type.with_lanes(0), *[w.extract(a, lane) for a in arguments]), lane)
    return result
