"""Functions where approximation is granted (`afn`), by the program or because results are rounded to 16 bits: the hardware's own, in f32
and narrower. Relative errors are about 2**-21. Without the flag there are polynomials, right to an ulp or two; `sin` and `cos` always
take those, since the hardware's are of no use for larger angles, and its `tanh` is right to 11 bits only."""

from math import log

from compiler.backends.llvm.arithmetic import rounded
from compiler.backends.llvm.bundle import Bundle
from compiler.backends.llvm.maths import Maths
from compiler.backends.llvm.types import F32
from compiler.backends.llvm.writer import FunctionWriter, LlvmValue, constant
from compiler.backends.nvptx.frame import NvptxFrame
from compiler.hir.core import Unary, dtype_of
from compiler.hir.types import is_float

_DIRECT = {"exp2": "ex2.approx.f32", "exp2 ftz": "ex2.approx.ftz.f32", "log2": "lg2.approx.f32"}
_DIRECT |= {"sqrt": "sqrt.approx.f32", "rsqrt": "rsqrt.approx.f32", "rsqrt ftz": "rsqrt.approx.ftz.f32"}
_NEAR_0 = 2.0**-5
_LOG2_E, _LN_2 = 1 / log(2), log(2)


def has(op: Unary) -> bool:
    dtype = dtype_of(op.value)
    return is_float(dtype) and dtype != "f64" and op.operator in (*_DIRECT, "exp", "log", "tanh")


def unary(frame: NvptxFrame, op: Unary) -> None:
    w, held = frame.w, frame.values[op.value.name]
    operator = f"{op.operator} ftz" if "ftz" in op.flags and op.operator in ("exp2", "rsqrt") else op.operator
    items = []
    for item in held.items:
        if not item.type.lanes:
            items.append(rounded(w, _one(w, operator, item), held.dtype))
            continue
        results = item
        for lane in range(item.type.lanes):
            results = w.insert(results, _one(w, operator, w.extract(item, lane)), lane)
        items.append(rounded(w, results, held.dtype))
    frame.define(op, Bundle(held.dtype, held.axes, held.simd, held.lanes, tuple(items)))


def _one(w: FunctionWriter, operator: str, x: LlvmValue) -> LlvmValue:
    match operator:
        case "exp":
            return _call(w, "exp2", w.binary("fmul", x, constant(F32, _LOG2_E)))
        case "log":
            return w.binary("fmul", _call(w, "log2", x), constant(F32, _LN_2))
        case "tanh":
            return _tanh(w, x)
        case _:
            return _call(w, operator, x)


def _tanh(w: FunctionWriter, x: LlvmValue) -> LlvmValue:
    """1 - 2 / (e + 1) with e = exp(2x); near 0, where that cancels, the first terms of the series."""
    m = Maths(w, F32)
    e = _call(w, "exp2 ftz", m.mul(x, m.number(2 * _LOG2_E)))
    far = m.fma(m.reciprocal(m.add(e, m.number(1.0))), m.number(-2.0), m.number(1.0))
    near = m.fma(m.mul(m.mul(x, x), x), m.number(-1 / 3), x)
    return m.select(m.is_("olt", m.abs(x), _NEAR_0), near, far)


def _call(w: FunctionWriter, operator: str, x: LlvmValue) -> LlvmValue:
    return w.assembly(f"{_DIRECT[operator]} $0, $1;", [F32], "f", [x], pure=True)[0]
