"""The remainder of floats where there is no C library: exact, by division of integers, eleven bits of the quotient a step."""

from compiler.backends.llvm.maths import Maths
from compiler.backends.llvm.types import F64, I64
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant


def remainder(w: FunctionWriter, a: LlvmValue, b: LlvmValue) -> LlvmValue:
    """a less the multiple of b that leaves less than b, with a's sign. f32 goes through f64, where it is exact."""
    if a.type.lanes:
        results = a
        for lane in range(a.type.lanes):
            results = w.insert(results, remainder(w, w.extract(a, lane), w.extract(b, lane)), lane)
        return results
    x, y = (w.convert("fpext", value, "double") if value.type != F64 else value for value in (a, b))
    result = w.call(w.module.helper("zyn.remainder", lambda name: _make(w, name)), F64, x, y)
    return w.convert("fptrunc", result, "float") if a.type != F64 else result


def _make(outer: FunctionWriter, name: str) -> None:
    w = outer.module.function(name, F64, [(F64, "x"), (F64, "y")], "internal", "noinline")
    m = Maths(w, F64)
    x, y = w.parameters
    size, by = m.abs(x), m.abs(y)
    infinite = m.number(float("inf"))
    undefined = m.either(m.either(m.is_("uno", x, y), m.is_("oeq", size, infinite)), m.is_("oeq", by, 0.0))
    with w.when(undefined):
        w.ret(m.number(float("nan")))
    with w.when(m.is_("olt", size, by)):
        w.ret(x)
    (mx, ex), (my, ey) = _parts(m, size), _parts(m, by)
    first = w.binary("urem", mx, my)
    head, body, done = w.label("head"), w.label("body"), w.label("done")
    w.start(w.label("enter"))
    before, difference = w.block, w.binary("sub", ex, ey)
    w.start(head)
    rest = w.phi(I64, [(first, before), ("%rest.next", body)])
    left = w.phi(I64, [(difference, before), ("%left.next", body)])
    w.branch_if(w.compare("sgt", left, constant(I64, 0)), body, done)
    w.start(body)
    step = w.intrinsic("smin", left, constant(I64, 11))
    w.line(f"%rest.next = urem {w.binary('shl', rest, step)}, {my.text}")
    w.line(f"%left.next = sub {left}, {step.text}")
    w.branch(head)
    w.start(done)
    result = m.scale(w.convert("uitofp", rest, "double"), w.binary("sub", ey, constant(I64, 1075)))
    w.ret(m.sign_of(result, x))


def _parts(m: Maths, size: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
    """Mantissa and exponent of a size: mantissa * 2**(exponent - 1075)."""
    w = m.w
    bits = m.bits(size)
    exponent = w.binary("lshr", bits, constant(I64, 52))
    fraction = w.binary("and", bits, constant(I64, (1 << 52) - 1))
    normal = w.compare("ne", exponent, constant(I64, 0))
    mantissa = w.select(normal, w.binary("or", fraction, constant(I64, 1 << 52)), fraction)
    return mantissa, w.select(normal, exponent, constant(I64, 1))
