"""Quotients, roots and minima of several elements a thread: few instructions, and one branch for all of them where some need more. That
they are rounded right is tested on a device (`tests/gpu/test_gpu_math.py`)."""

import numpy as np
import pytest

import zynml
from compiler.backends.nvptx.assemble import assemble
from compiler.backends.nvptx.compile import compile_kernels
from compiler.backends.nvptx.target import gpu_target
from compiler.hir.build import FunctionBuilder
from compiler.hir.instruction import Value
from compiler.hir.module import Form
from compiler.hir.types import INDEX, Mem
from compiler.schedule.gpu.facts import facts_of, specialised
from compiler.schedule.gpu.maps.maps import map_launches


def ptx(call: str, dtype: str) -> str:
    """PTX of `call` for each element of x and y, 16 bytes of them a thread."""
    f = FunctionBuilder("f", Form.FIELD)
    x, y = (f.parameter(name, Mem(dtype, ("N",), readonly=True)) for name in "xy")
    out = f.parameter("out", Mem(dtype, ("N",)))
    f.parameter("N", INDEX)
    f.axis("i", "N")
    a, b = (f.body.load(mem, ["i"]) for mem in (x, y))

    def made() -> Value:
        match call:
            case "root of more":
                return f.body.op("sqrt", f.body.op("add", f.body.op("abs", a), f.body.const(1.0, dtype)))
            case "quotient by a root":
                return f.body.op("div", a, f.body.op("sqrt", f.body.op("add", f.body.op("abs", b), f.body.const(1.0, dtype))))
            case "root":
                return f.body.op("sqrt", a)
            case _:
                return f.body.op(call, a, b)

    f.body.store(out, made(), ["i"])
    known, _, about = specialised(f.finish(), facts_of({"N": 1 << 24}, ("x", "y", "out")))
    found = map_launches(known, about)
    assert found is not None
    module = compile_kernels([one.function for one in found.launches], gpu_target("sm_90a"))
    assert all(use.spills == 0 for use in assemble(module).kernels.values())
    return module.text


@pytest.mark.parametrize(("dtype", "each"), [("f32", 4), ("f64", 2)])
@pytest.mark.parametrize(("call", "quick", "slow"), [("div", "rcp.approx", "div.rn"), ("root", "rsqrt.approx", "sqrt.rn")])
def test_several_at_a_time_have_one_branch(call: str, quick: str, slow: str, dtype: str, each: int) -> None:
    text = ptx(call, dtype)
    assert text.count(quick) == text.count(f"{slow}.{dtype}") > 0
    assert {block.count(slow) for block in text.split("$L")} == {0, each}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_a_quotient_by_a_root_has_the_reciprocal_already(dtype: str) -> None:
    text = ptx("quotient by a root", dtype)
    assert "rsqrt.approx" in text and "rcp.approx" not in text and "div.rn" in text


def test_roots_of_numbers_of_full_precision_have_none() -> None:
    text = ptx("root of more", "f32")
    assert "rsqrt.approx" in text and "sqrt.rn" not in text


@pytest.mark.parametrize("call", ["min", "max"])
def test_the_less_of_two_doubles_takes_three_instructions(call: str) -> None:
    text = ptx(call, "f64")
    assert text.count("setp.num.f64") == text.count("selp.f64") == text.count(f"setp.{'lt' if call == 'min' else 'gt'}u.and.f64") > 0
    assert "setp.eq.f64" not in text and text.count("selp") == text.count("selp.f64")


@pytest.mark.parametrize("call", ["x[i] / y[i]", "sqrt(x[i])", "sqrt(abs(x[i]) + 1.0)", "min(x[i], y[i])"])
@pytest.mark.parametrize("count", [0, 1, 3, 1000])
def test_in_the_emulator(call: str, count: int) -> None:
    x, y = (np.random.default_rng(count).uniform(0.1, 9, count) for _ in range(2))
    x[: count // 9], y[: count // 8] = np.inf, 0
    program = zynml.compile(
        f"def f(x: tensor[N, f64], y: tensor[N, f64]) {{ compute(x, y) {{ for i in 0..N: out[i] = {call} }} }}", device="emulator"
    )
    with np.errstate(all="ignore"):
        want = {"x[i] / y[i]": x / y, "sqrt(x[i])": np.sqrt(x), "min(x[i], y[i])": np.minimum(x, y)}.get(call, np.sqrt(np.abs(x) + 1))
    np.testing.assert_array_equal(program.f(x, y), want)


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16"])
def test_narrow_ints_become_f32_without_a_conversion(dtype: str) -> None:
    """One byte, or two, are put behind the bits of 2**23; wider ints are converted."""
    f = FunctionBuilder("f", Form.FIELD)
    x, out = f.parameter("x", Mem(dtype, ("N",), readonly=True)), f.parameter("out", Mem("f32", ("N",)))
    f.parameter("N", INDEX)
    f.axis("i", "N")
    f.body.store(out, f.body.cast(f.body.cast(f.body.load(x, ["i"]), "i32"), "f32"), ["i"])
    known, _, about = specialised(f.finish(), facts_of({"N": 1 << 24}, ("x", "out")))
    found = map_launches(known, about)
    assert found is not None
    text = compile_kernels([one.function for one in found.launches], gpu_target("sm_90a")).text
    assert "prmt.b32" in text and "cvt.rn.f32" not in text
