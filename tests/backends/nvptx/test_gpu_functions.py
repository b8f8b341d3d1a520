"""Functions of floats on GPUs, without a GPU: the PTX has only operations that round as IEEE 754 says, so that its numbers are those
of the same code on this machine's processor, which are compared with exact ones. tests/gpu/test_gpu_math.py asks a device."""

import ctypes
import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from kernels import compiled, pointwise

from compiler.backends.llvm import arithmetic
from compiler.backends.llvm.types import F32, F64
from compiler.backends.llvm.writer import ModuleWriter
from tests.math_references import LONG, SPECIAL, TABLE, assert_near, needs_long_double, sweep

TYPES = {"f32": (F32, np.float32), "f64": (F64, np.float64)}
NAMES = (*TABLE, "rsqrt", "sqrt")


@cache
def _engine() -> Any:
    """The functions as GPUs get them (scalar, no C library), each in a loop over an array, for this processor."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module = ModuleWriter("functions", native_half=True)
    module.c_library = False
    loops = []
    for dtype, (type, _) in TYPES.items():
        for name in (*NAMES, "log_of_normal"):
            f = module.function(f"{name}_{dtype}", type, [(type, "x")])
            f.ret(arithmetic.unary(f, name, dtype, f.parameters[0]))
            loops.append(_LOOP.format(name=name, dtype=dtype, type=type))
    parsed = binding.parse_assembly(module.text() + "".join(loops))
    parsed.verify()
    engine = binding.create_mcjit_compiler(parsed, binding.Target.from_default_triple().create_target_machine())
    engine.finalize_object()
    return engine


_LOOP = """
define void @all_{name}_{dtype}(ptr %x, ptr %y, i64 %n) {{
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %j, %next ]
  %from = getelementptr {type}, ptr %x, i64 %i
  %to = getelementptr {type}, ptr %y, i64 %i
  %v = load {type}, ptr %from
  %r = call {type} @{name}_{dtype}({type} %v)
  store {type} %r, ptr %to
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %next, label %done
done:
  ret void
}}
"""


def evaluate(name: str, dtype: str, x: np.ndarray) -> np.ndarray:
    y = np.empty_like(x)
    loop = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(_engine().get_function_address(f"all_{name}_{dtype}"))
    loop(x.ctypes.data, y.ctypes.data, len(x))
    return y


@needs_long_double
@pytest.mark.parametrize("dtype", TYPES)
def test_logarithms_of_numbers_that_are_known_to_be_normal(dtype: str) -> None:
    kind = TYPES[dtype][1]
    x = np.concatenate([sweep(bounds, kind, 20_000) for bounds in ((2.0**-14, 2), (1, 1.01), (1, 1e30))])
    x = np.concatenate([x, np.array([1, np.inf, np.nan, np.finfo(kind).max], kind)])
    with np.errstate(all="ignore"):
        assert_near(evaluate("log_of_normal", dtype, x), np.log(x.astype(LONG)), 1.0, x)


@needs_long_double
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", TABLE)
def test_right_to_the_ulp_that_the_cpu_is(name: str, dtype: str) -> None:
    reference, ranges, single, double = TABLE[name]
    for bounds in (*ranges, None):
        if bounds is None and name in ("sin", "cos", "tan"):
            continue  # NumPy's own reduction ends at 2**63; test_no_library has an exact one
        x = sweep(bounds, TYPES[dtype][1], 20_000)
        with np.errstate(all="ignore"):
            x = np.concatenate([x, -x, np.array(SPECIAL).astype(x.dtype)])
            assert_near(evaluate(name, dtype, x), reference(x.astype(LONG)), single if dtype == "f32" else double, x)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("arch", ["sm_75", "sm_100a"])
def test_every_operation_rounds_as_ieee_says(name: str, dtype: str, arch: str) -> None:
    ptx = compiled(pointwise("f", lambda b, v: b.op(name, v[0]), dtype), arch).text
    code = re.sub(r"(?m)//.*$|^.*\bcvt\..*$|^.*\brcp\.approx\.ftz\.f32\b.*$", "", ptx)  # a reciprocal that corrections round
    assert not re.search(r"\.(approx|full|ftz|rz|rm|rp)\b", code)
    bare = re.findall(r"\b(?:add|sub|mul|fma|div|sqrt)\.f(?:32|64)\b", code)
    assert bare == [], "without .rn the assembler may fuse"
    assert "call" not in code or re.search(r"\bzyn_", code)
    assert ".extern" not in code


@pytest.mark.parametrize(
    ("name", "instruction"),
    [("exp", "ex2.approx.f32"), ("exp2", "ex2.approx.f32"), ("log", "lg2.approx.f32"), ("log2", "lg2.approx.f32"), ("tanh", "ex2.approx.ftz.f32"),
     ("sqrt", "sqrt.approx.f32"), ("rsqrt", "rsqrt.approx.f32")],
)  # fmt: skip
def test_approximations_only_where_they_are_granted(name: str, instruction: str) -> None:
    granted = compiled(pointwise("f", lambda b, v: b.op(name, v[0], flags=("afn",)), "f32")).text
    assert instruction in granted
    assert ".approx" not in compiled(pointwise("f", lambda b, v: b.op(name, v[0]), "f32")).text.replace("rcp.approx.ftz.f32", "")
    assert ".approx" not in compiled(pointwise("f", lambda b, v: b.op(name, v[0], flags=("afn",)), "f64")).text
