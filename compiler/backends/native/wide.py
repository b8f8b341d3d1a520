"""Quotients rounded as asked, of 128 bits too, without calls of a compiler's library; and 128-bit ints as floats."""

from compiler.backends.llvm.arithmetic import is_unsigned
from compiler.backends.llvm.types import F64, I1, I64, vector
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, ModuleWriter, constant
from compiler.backends.native.faults import I128, stop_if
from compiler.backends.native.frame import NativeFrame
from compiler.backends.native.integers import lowest_by_minus_one
from compiler.hir.core import dtype_of
from compiler.hir.host import Quotient
from compiler.hir.types import is_wide

PAIR = vector("{ i64, i64 }")


def quotient(frame: NativeFrame, op: Quotient) -> LlvmValue:
    """Magnitudes are divided, the magnitude of the result is rounded, the sign is put back."""
    w, dtype = frame.w, dtype_of(op.left)
    a, b = frame.scalar(op.left.name), frame.scalar(op.right.name)
    signed = not is_unsigned(dtype)
    if op.site >= 0 and b.number in (None, 0, -1):
        bad = w.compare("eq", b, constant(b.type, 0))
        if signed:
            bad = w.binary("or", bad, lowest_by_minus_one(w, a, b))
        stop_if(frame, bad, op.site, [(dtype, a), (dtype_of(op.right), b)])
    n, d = (_magnitude(w, a), _magnitude(w, b)) if signed else (a, b)
    if is_wide(dtype):
        whole, rest = _divide_wide(w, n, d)
    else:
        whole, rest = w.binary("udiv", n, d), w.binary("urem", n, d)
    negative = _differ_in_sign(w, a, b) if signed else constant(I1, 0)
    up = _rounds_up(w, op.rounding, whole, rest, d, negative)
    if up is not None:
        whole = w.binary("add", whole, w.convert("zext", up, whole.type.element))
    return w.select(negative, w.binary("sub", constant(whole.type, 0), whole), whole) if signed else whole


def _magnitude(w: FunctionWriter, a: LlvmValue) -> LlvmValue:
    if a.number is not None:
        return constant(a.type, abs(a.number))
    return w.select(w.compare("slt", a, constant(a.type, 0)), w.binary("sub", constant(a.type, 0), a), a)


def _differ_in_sign(w: FunctionWriter, a: LlvmValue, b: LlvmValue) -> LlvmValue:
    first, second = (w.compare("slt", value, constant(value.type, 0)) for value in (a, b))
    return w.binary("xor", first, second)


def _rounds_up(
    w: FunctionWriter, rounding: str, whole: LlvmValue, rest: LlvmValue, divisor: LlvmValue, negative: LlvmValue
) -> LlvmValue | None:
    """Whether the magnitude becomes one more; None: never."""
    some = w.compare("ne", rest, constant(rest.type, 0))
    match rounding:
        case "away":
            return some
        case "floor":
            return w.select(negative, some, constant(I1, 0)) if negative.number is None else None
        case "ceil":
            return w.select(negative, constant(I1, 0), some) if negative.number is None else some
        case "nearest_even":
            gap = w.binary("sub", divisor, rest)
            odd = w.convert("trunc", whole, "i1")
            return w.binary("or", w.compare("ugt", rest, gap), w.binary("and", w.compare("eq", rest, gap), odd))
        case _:
            return None


def _divide_wide(w: FunctionWriter, n: LlvmValue, d: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
    """128 by 64 bits: quotient of 128, rest of 64. Most dividends need 64 bits only."""
    high = w.convert("trunc", w.binary("lshr", n, constant(I128, 64)), "i64")
    low = w.convert("trunc", n, "i64")
    short, long, after = w.label("short"), w.label("long"), w.label("divided")
    w.branch_if(w.compare("eq", high, constant(I64, 0)), short, long)
    w.start(short)
    quick, quick_rest = w.convert("zext", w.binary("udiv", low, d), "i128"), w.binary("urem", low, d)
    quick_end = w.block
    w.branch(after)
    w.start(long)
    top, rest = w.binary("udiv", high, d), w.binary("urem", high, d)
    name = w.module.helper("zyn.divide128", lambda name: _long_division(w.module, name))
    bottom, last = w.parts([I64, I64], lambda type: f"call {type} @{name}({rest}, {low}, {d})")
    whole = w.binary("or", w.binary("shl", w.convert("zext", top, "i128"), constant(I128, 64)), w.convert("zext", bottom, "i128"))
    long_end = w.block
    w.branch(after)
    w.start(after)
    return w.phi(I128, [(quick, quick_end), (whole, long_end)]), w.phi(I64, [(quick_rest, quick_end), (last, long_end)])


def _long_division(module: ModuleWriter, name: str) -> None:
    """(high, low) / divisor for high < divisor, so that the quotient has 64 bits: two digits of 32 bits, each estimated from the upper half
    of the normalised divisor and put right at most twice (Knuth, The Art of Computer Programming 2, 4.3.1, algorithm D)."""
    f = module.function(name, PAIR, [(I64, "high"), (I64, "low"), (I64, "divisor")], "internal", "noinline")
    high, low, divisor = f.parameters
    mask, half = constant(I64, 0xFFFFFFFF), constant(I64, 32)
    shift = f.value(I64, f"call i64 @llvm.ctlz.i64({divisor}, i1 true)")
    d = f.binary("shl", divisor, shift)
    upper, lower = f.binary("lshr", d, half), f.binary("and", d, mask)
    first = f.value(I64, f"call i64 @llvm.fshl.i64({high}, {low}, {shift})")
    shifted = f.binary("shl", low, shift)

    def digit(part: LlvmValue, following: LlvmValue) -> tuple[LlvmValue, LlvmValue]:
        """A digit of the quotient, and what is left with the next digit of the dividend behind it."""
        guess = f.binary("udiv", part, upper)
        rest = f.binary("sub", part, f.binary("mul", guess, upper))
        for _ in range(2):
            too_wide = f.compare("ugt", guess, mask)
            product = f.binary("mul", guess, lower)
            held = f.binary("or", f.binary("shl", rest, half), following)
            fits = f.compare("ule", rest, mask)
            off = f.binary("and", fits, f.binary("or", too_wide, f.compare("ugt", product, held)))
            guess = f.select(off, f.binary("sub", guess, constant(I64, 1)), guess)
            rest = f.select(off, f.binary("add", rest, upper), rest)
        left = f.binary("sub", f.binary("or", f.binary("shl", part, half), following), f.binary("mul", guess, d))
        return guess, left

    upper_digit, left = digit(first, f.binary("lshr", shifted, half))
    lower_digit, left = digit(left, f.binary("and", shifted, mask))
    whole = f.binary("or", f.binary("shl", upper_digit, half), lower_digit)
    pair = f.value(PAIR, f"insertvalue {PAIR} poison, {whole}, 0")
    f.ret(f.value(PAIR, f"insertvalue {pair}, {f.binary('lshr', left, shift)}, 1"))


def to_double(w: FunctionWriter, value: LlvmValue, unsigned: bool) -> LlvmValue:
    """A 128-bit int as the nearest f64: its first 64 bits, the last of them standing for all that follow, scaled by a power of two."""
    negative = constant(I1, 0) if unsigned else w.compare("slt", value, constant(I128, 0))
    magnitude = value if unsigned else _magnitude(w, value)
    zeros = w.value(I128, f"call i128 @llvm.ctlz.i128({magnitude}, i1 false)")
    shift = w.intrinsic("umin", zeros, constant(I128, 127))
    shifted = w.binary("shl", magnitude, shift)
    top = w.convert("trunc", w.binary("lshr", shifted, constant(I128, 64)), "i64")
    more = w.convert("zext", w.compare("ne", w.convert("trunc", shifted, "i64"), constant(I64, 0)), "i64")
    rounded = w.convert("uitofp", w.binary("or", top, more), "double")
    exponent = w.binary("sub", constant(I64, 1023 + 64), w.convert("trunc", shift, "i64"))
    scale = w.value(F64, f"bitcast {w.binary('shl', exponent, constant(I64, 52))} to double")
    result = w.binary("fmul", rounded, scale)
    return result if unsigned else w.select(negative, w.value(F64, f"fneg {result}"), result)
