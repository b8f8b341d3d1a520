"""Plain instructions on LLVM values, scalar or vector alike: exactly the meanings that the HIR's core declares."""

from collections.abc import Sequence

from compiler.backends.llvm.integer_power import integer_power
from compiler.backends.llvm.math_library import call_math
from compiler.backends.llvm.maths import Maths
from compiler.backends.llvm.narrow import double_to_odd_float, from_bits, round_narrow, to_bits
from compiler.backends.llvm.remainder import remainder
from compiler.backends.llvm.types import F64, is_narrow_float, memory_type, register_type
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.hir.types import DTYPES, UNSIGNED, is_float

_INT = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "rem": "frem"}
_PREDICATES = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}


def is_unsigned(dtype: str) -> bool:
    return dtype in UNSIGNED


def rounded(w: FunctionWriter, value: LlvmValue, dtype: str) -> LlvmValue:
    """An f32 result rounded to the dtype where that is narrower."""
    return round_narrow(w, value, dtype) if is_narrow_float(dtype) else value


def binary(w: FunctionWriter, operator: str, dtype: str, a: LlvmValue, b: LlvmValue, flags: Sequence[str] = ()) -> LlvmValue:
    """`add sub mul div rem min max and or xor shl shr pow atan2`."""
    a, b = w.same_lanes(a, b)
    if is_float(dtype):
        return _float_binary(w, operator, dtype, a, b, flags)
    if operator in _INT:
        if dtype == "index" and operator in ("add", "sub", "mul"):
            return {"add": w.add, "sub": w.sub, "mul": w.mul}[operator](a, b) if a.number is not None else w.binary(operator, a, b)
        return w.binary(operator, a, b)
    unsigned = is_unsigned(dtype)
    if operator in ("min", "max"):
        if dtype == "i1":  # without its passes LLVM has no code for extremes of single bits
            return w.binary("and" if operator == "min" else "or", a, b)
        return w.intrinsic(f"{'u' if unsigned else 's'}{operator}", a, b)
    if operator in ("shl", "shr"):
        amount = w.binary("and", b, constant(b.type, DTYPES[dtype] - 1))
        return w.binary("shl" if operator == "shl" else "lshr" if unsigned else "ashr", a, amount)
    if operator == "pow":
        return integer_power(w, a, b, unsigned)
    assert operator in ("div", "rem"), operator
    return w.binary(f"{'u' if unsigned else 's'}{operator}", a, _safe_divisor(w, a, b, unsigned))


def _safe_divisor(w: FunctionWriter, a: LlvmValue, b: LlvmValue, unsigned: bool) -> LlvmValue:
    """1 in place of a divisor that would trap: 0 (a `check` has seen it), and -1 under the most negative number (which gives
    that number itself, and the remainder 0)."""
    if b.number is not None and b.number not in (0, -1):
        return b
    bad = w.compare("eq", b, constant(b.type, 0))
    if not unsigned:
        lowest = w.compare("eq", a, constant(a.type, -(1 << (a.type.bits - 1))))
        bad = w.binary("or", bad, w.binary("and", lowest, w.compare("eq", b, constant(b.type, -1))))
    return w.select(bad, constant(b.type, 1), b)


def _float_binary(w: FunctionWriter, operator: str, dtype: str, a: LlvmValue, b: LlvmValue, flags: Sequence[str]) -> LlvmValue:
    if operator in ("min", "max"):
        return _least_or_most(w, operator, a, b)
    if operator == "rem" and not w.module.c_library:
        return rounded(w, remainder(w, a, b), dtype)
    if operator == "div" and "afn" in flags and dtype != "f64" and not w.module.c_library:
        m = Maths(w, a.type)
        return rounded(w, m.mul(a, m.reciprocal(b)) if "ftz" in flags else m.about(a, b), dtype)
    if operator in _FLOAT:
        # a narrow type's rounding between operations may not be contracted away, only reordered
        kept = flags if w.module.liberties else ()
        own_flags = [flag for flag in kept if flag == "reassoc" or (flag == "contract" and not is_narrow_float(dtype))]
        result = w.binary(_FLOAT[operator], a, b, " ".join(own_flags))
        return rounded(w, result if operator == "rem" else w.with_short_nan(result, a, b), dtype)
    return rounded(w, call_math(w, operator, a, b), dtype)


def _least_or_most(w: FunctionWriter, operator: str, a: LlvmValue, b: LlvmValue) -> LlvmValue:
    """The smaller or the larger; NaN wins. One comparison takes `b` where either is NaN, so that only `a` is asked for that."""
    if w.module.backend == "NVPTX" and w.module.picks_zero and a.type.element == "double":
        return _picked(w, _PICKED.format("lt" if operator == "min" else "gt"), a, b)
    if not w.module.picks_zero or w.module.reorders:
        return w.intrinsic("minimum" if operator == "min" else "maximum", a, b)
    if not b.text.startswith("%"):
        a, b = b, a
    chosen = chosen_number(w, operator, a, b)
    if _is_number(a):
        return chosen
    # frozen, LLVM does not join the two choices: the first one is an instruction of the machine
    frozen = w.with_short_nan(w.value(chosen.type, f"freeze {chosen}"), chosen)
    return w.select(w.compare("uno", a, a), a, frozen)


def chosen_number(w: FunctionWriter, operator: str, a: LlvmValue, b: LlvmValue) -> LlvmValue:
    """The smaller or the larger of two numbers; `b` where either is NaN."""
    return w.select(w.compare("olt" if operator == "min" else "ogt", a, b), a, b)


def _picked(w: FunctionWriter, text: str, a: LlvmValue, b: LlvmValue) -> LlvmValue:
    if not a.type.lanes:
        return w.assembly(text, [F64], "d,d", [a, b], pure=True, alone=True)[0]
    result = a
    for lane in range(a.type.lanes):
        result = w.insert(result, _picked(w, text, w.extract(a, lane), w.extract(b, lane)), lane)
    return result


_PICKED = "{{ .reg .pred p, q; setp.num.f64 p, $2, $2; setp.{}u.and.f64 q, $1, $2, p; selp.f64 $0, $1, $2, q; }}"
"""As LLVM gives `minimum` of doubles 26 instructions, and takes an `and` of conditions apart. The second is asked for NaN: the first is
most often what a loop carries, and each step would wait for two comparisons."""


def _is_number(value: LlvmValue) -> bool:
    """Whether it is a constant and no NaN."""
    bits = value.text.removeprefix("splat (").removesuffix(")").rpartition(" ")[2]
    return bits.startswith("0x") and int(bits, 16) & (1 << 63) - 1 <= 0x7FF << 52


def compare(w: FunctionWriter, operator: str, dtype: str, a: LlvmValue, b: LlvmValue) -> LlvmValue:
    if is_float(dtype):
        return w.compare({"eq": "oeq", "ne": "une"}.get(operator) or "o" + operator, a, b)
    if operator in ("eq", "ne"):
        return w.compare(operator, a, b)
    return w.compare(("u" if is_unsigned(dtype) else "s") + _PREDICATES[operator], a, b)


_ROUNDINGS = {"floor": "floor", "ceil": "ceil", "round": "roundeven", "trunc": "trunc"}


def unary(w: FunctionWriter, operator: str, dtype: str, a: LlvmValue) -> LlvmValue:
    if is_float(dtype):
        return _float_unary(w, operator, dtype, a)
    zero = constant(a.type, 0)
    match operator:
        case "neg":
            return w.binary("sub", zero, a)
        case "not":
            return w.binary("xor", a, constant(a.type, -1))
        case "abs":
            return a if is_unsigned(dtype) else w.select(w.compare("slt", a, zero), w.binary("sub", zero, a), a)
        case "sign":
            positive = w.convert("zext", w.compare("ne", a, zero), a.type.element)
            return positive if is_unsigned(dtype) else w.binary("or", positive, w.binary("ashr", a, constant(a.type, a.type.bits - 1)))
        case "popcount":
            return w.intrinsic("ctpop", a)
        case "leading_zeros" | "trailing_zeros":
            name = "ctlz" if operator == "leading_zeros" else "cttz"
            return w.call(f"llvm.{name}.{a.type.suffix}", a.type, a, constant(a.type.of("i1").with_lanes(0), 0))
        case _:
            assert operator in _ROUNDINGS, f"{operator} of {dtype}"
            return a


def _float_unary(w: FunctionWriter, operator: str, dtype: str, a: LlvmValue) -> LlvmValue:
    match operator:
        case "neg":
            return w.same_number(w.value(a.type, f"fneg {a}"), a)
        case "abs":
            return w.same_number(w.intrinsic("fabs", a), a)
        case "sign":
            zero, unit = constant(a.type, 0.0), constant(a.type, 1.0)
            negative = w.select(w.compare("olt", a, zero), constant(a.type, -1.0), zero)
            known = w.select(w.compare("ogt", a, zero), unit, negative)
            return w.select(w.compare("uno", a, a), a, known)
        case "sqrt":
            return rounded(w, w.with_short_nan(w.intrinsic("sqrt", a), a), dtype)
        case "rsqrt":
            return rounded(w, w.binary("fdiv", constant(a.type, 1.0), w.intrinsic("sqrt", a)), dtype)
        case _ if operator in _ROUNDINGS:
            return w.intrinsic(_ROUNDINGS[operator], a)
        case _:
            return rounded(w, call_math(w, operator, a), dtype)


def is_nan(w: FunctionWriter, dtype: str, a: LlvmValue) -> LlvmValue:
    return w.compare("uno", a, a) if is_float(dtype) else constant(a.type.of("i1"), 0)


def fma(w: FunctionWriter, dtype: str, a: LlvmValue, b: LlvmValue, c: LlvmValue) -> LlvmValue:
    if not is_float(dtype):
        return w.binary("add", w.binary("mul", a, b), c)
    if not is_narrow_float(dtype):
        return w.with_short_nan(w.intrinsic("fma", a, b, c), a, b, c)
    # the product is exact in f64; the sum is rounded to odd, so that the last rounding is the only one
    x, y, z = (w.convert("fpext", value, "double") for value in (a, b, c))
    return rounded(w, double_to_odd_float(w, _odd_sum(w, w.binary("fmul", x, y), z)), dtype)


def _odd_sum(w: FunctionWriter, a: LlvmValue, b: LlvmValue) -> LlvmValue:
    """a + b in f64; when it isn't exact, the neighbour whose last bit is 1."""
    total = w.binary("fadd", a, b)
    moved = w.binary("fsub", total, a)
    lost = w.binary("fadd", w.binary("fsub", a, w.binary("fsub", total, moved)), w.binary("fsub", b, moved))
    bits = w.convert("bitcast", total, "i64")
    unit = constant(bits.type, 1)
    even = w.compare("eq", w.binary("and", bits, unit), constant(bits.type, 0))
    inexact = w.binary("and", even, w.compare("one", lost, constant(lost.type, 0.0)))
    # the sign of the product of the two: whether the lost part leads away from zero
    opposite = w.compare("slt", w.binary("xor", bits, w.convert("bitcast", lost, "i64")), constant(bits.type, 0))
    step = w.select(opposite, constant(bits.type, -1), unit)
    return w.convert("bitcast", w.select(inexact, w.binary("add", bits, step), bits), "double")


def cast(w: FunctionWriter, value: LlvmValue, source: str, target: str) -> LlvmValue:
    """As the HIR defines it: saturating from float to int, wrapping between ints, nearest even between floats."""
    if source == target:
        return value
    if target == "i1":
        return w.compare("une" if is_float(source) else "ne", value, constant(value.type, 0))
    element = register_type(target).element
    if is_float(source):
        return _float_to_float(w, value, source, target) if is_float(target) else _float_to_int(w, value, target)
    if is_float(target):
        convert = "uitofp" if is_unsigned(source) else "sitofp"
        if not is_narrow_float(target):
            return w.convert(convert, value, element)
        if value.type.bits == 64:
            value = _sticky(w, value, is_unsigned(source))
        return rounded(w, double_to_odd_float(w, w.convert(convert, value, "double")), target)
    have, want = value.type.bits, DTYPES[target]
    if have == want:
        return value
    return w.convert("trunc" if have > want else "zext" if is_unsigned(source) else "sext", value, element)


def _sticky(w: FunctionWriter, value: LlvmValue, unsigned: bool) -> LlvmValue:
    """A 64-bit int that f64 holds exactly and that rounds to fewer bits as `value` does: past 2**52 the last 12 bits become one."""
    low = w.binary("and", value, constant(value.type, 0xFFF))
    rest = w.convert("zext", w.compare("ne", low, constant(value.type, 0)), "i64")
    short = w.binary("or", w.binary("and", value, constant(value.type, -0x1000)), w.binary("shl", rest, constant(value.type, 12)))
    limit = constant(value.type, 1 << 52)
    if unsigned:
        small = w.compare("ult", value, limit)
    else:
        small = w.compare("ult", w.binary("add", value, limit), constant(value.type, 1 << 53))
    return w.select(small, value, short)


def _float_to_float(w: FunctionWriter, value: LlvmValue, source: str, target: str) -> LlvmValue:
    if source == "f64":
        if target == "f32":
            return w.convert("fptrunc", value, "float")
        return rounded(w, double_to_odd_float(w, value), target)
    if target == "f64":
        return w.convert("fpext", value, "double")
    return rounded(w, value, target)


def _float_to_int(w: FunctionWriter, value: LlvmValue, target: str) -> LlvmValue:
    """Not `llvm.fptosi.sat`, which x86 does lane by lane. The bounds are powers of two, exact in any float."""
    bits = DTYPES[target]
    unsigned = is_unsigned(target)
    low, high = (0, 1 << bits) if unsigned else (-(1 << (bits - 1)), 1 << (bits - 1))
    below = w.compare("ole", value, constant(value.type, -1.0)) if unsigned else w.compare("olt", value, constant(value.type, float(low)))
    above = w.compare("oge", value, constant(value.type, float(high)))
    outside = w.binary("or", w.binary("or", below, above), w.compare("uno", value, value))
    inside = w.select(outside, constant(value.type, 0.0), value)
    element = register_type(target).element
    if bits < 32:
        whole = w.convert("trunc", w.convert("fptosi", inside, "i32"), element)
    else:
        whole = w.convert("fptoui" if unsigned else "fptosi", inside, element)
    whole = w.select(above, constant(whole.type, high - 1), whole)
    return w.select(below, constant(whole.type, low), whole)


def bitcast(w: FunctionWriter, value: LlvmValue, source: str, target: str) -> LlvmValue:
    """The bits of one type as another's of the same width."""
    bits = to_memory(w, value, source)
    return from_memory(w, w.convert("bitcast", bits, memory_type(target).element), target)


def to_memory(w: FunctionWriter, value: LlvmValue, dtype: str) -> LlvmValue:
    """A register value as it is stored."""
    if dtype == "i1":
        return w.convert("zext", value, "i8")
    return to_bits(w, value, dtype) if is_narrow_float(dtype) else value


def from_memory(w: FunctionWriter, value: LlvmValue, dtype: str) -> LlvmValue:
    """A stored value as it is computed with."""
    if dtype == "i1":
        return w.compare("ne", value, constant(value.type, 0))
    return from_bits(w, value, dtype) if is_narrow_float(dtype) else value


def identity(monoid: str, dtype: str) -> int | float:
    """The element that changes nothing."""
    if monoid in ("add", "or", "xor"):
        return 0
    if monoid == "mul":
        return 1
    if monoid == "and":
        return -1
    if is_float(dtype):
        return float("inf") if monoid in ("min", "argmin") else float("-inf")
    bits = DTYPES[dtype]
    low, high = (0, (1 << bits) - 1) if is_unsigned(dtype) else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return high if monoid in ("min", "argmin") else low
