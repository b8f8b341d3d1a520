"""What the back end has no code for is said in words, with what works instead."""

import pytest

from compiler.backends.cpu.compile import compile_function
from compiler.diagnostics import ZyntaxError
from compiler.hir.build import FunctionBuilder
from compiler.hir.control import Call
from compiler.hir.core import Concat
from compiler.hir.module import Form
from compiler.hir.types import INDEX, Mem


def refusal(f: FunctionBuilder) -> tuple[str, str, str | None]:
    with pytest.raises(ZyntaxError) as raised:
        compile_function(f.finish())
    (diagnostic,) = raised.value.diagnostics
    return diagnostic.code, diagnostic.message, diagnostic.hint


def test_a_call_of_another_function() -> None:
    f = FunctionBuilder("f")
    f.body.emit(Call(function="g"))
    message = "the instruction `call` isn't supported yet by the CPU back end"
    assert refusal(f) == ("0109", message, "GPU and host instructions run on other targets")


def test_two_vector_axes() -> None:
    f = FunctionBuilder("f", Form.TILE, {"simd": 8, "simd1": 8})
    x = f.parameter("x", Mem("f32", [8, 8]))
    f.body.load(x, ["simd", "simd1"])
    message = "a value with two vector axes, `simd` and `simd1` isn't supported yet by the CPU back end"
    assert refusal(f) == ("0109", message, "place one of them in registers")


def test_a_tile_of_unknown_extent() -> None:
    f = FunctionBuilder("f", Form.FIELD, {"i": "N"})
    x = f.parameter("x", Mem("f32", ["N"]))
    f.parameter("N", INDEX)
    f.body.load(x, ["i"])
    message = "a tile whose extent `N` along `i` isn't a number isn't supported yet by the CPU back end"
    assert refusal(f) == ("0109", message, "schedule the function first: axes left over must have static extents")


def test_joining_along_lanes() -> None:
    f = FunctionBuilder("f", Form.TILE, {"simd": 8})
    x = f.parameter("x", Mem("f32", [8]))
    value = f.body.load(x, ["simd"])
    f.body.emit(Concat(values=(value, value), axis="simd"))
    assert refusal(f) == ("0109", "concat along a vector axis isn't supported yet by the CPU back end", "place the axis in registers")
