"""Calls of functions that hold compute blocks: they are inlined, so that their blocks become one kernel. How many kernels a call launches, on
the CPU and on the emulator; values against NumPy; what goes wrong is said as if nothing were inlined."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zynml
from compiler.launch.native_calls.watch import CPU_LAUNCHES
from compiler.typed_ast.inlinable import inlinable_functions

HERE = [None, "emulator"]

POINTS = """
def brighten(x: tensor[H, W, C, u8], by: f32): tensor[H, W, C, u8] {
    compute(x, by) { for i in 0..H, j in 0..W, c in 0..C: out[i, j, c] = clamp(round((x[i, j, c] as f32) + by), 0.0, 255.0) as u8 }
}
def scaled(x: tensor[H, W, C, u8], percent: f32): tensor {
    let factor = (100.0 + percent) / 100.0
    compute(x, factor) {
        for i in 0..H, j in 0..W, c in 0..C: out[i, j, c] = clamp(round(((x[i, j, c] as f32) - 128.0) * factor + 128.0), 0.0, 255.0) as u8
    }
}
def invert(x: tensor[H, W, C, u8]): tensor { compute(x) { for i in 0..H, j in 0..W, c in 0..C: out[i, j, c] = 255u8 - x[i, j, c] } }
"""


def brighten(x: np.ndarray, by: float) -> np.ndarray:
    return np.clip(np.round(x.astype(np.float64) + by), 0, 255)


def scaled(x: np.ndarray, percent: float) -> np.ndarray:
    return np.clip(np.round((x.astype(np.float64) - 128) * ((100 + percent) / 100) + 128), 0, 255)


def picture(seed: int = 0, shape: tuple[int, ...] = (7, 33, 3)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def launches(program: zynml.CompiledProgram, call: Callable[[], object], device: str | None, like: str = "") -> int:
    """How many kernels a call of a function launches. `like`: it and its arguments, described for the emulator."""
    if device is None:
        with CPU_LAUNCHES.watched() as found:
            call()
        return len(found)
    return len(program._session.launches_like([like], device))


@pytest.mark.parametrize("device", HERE)
def test_a_chain_of_calls_is_one_launch(device: str | None) -> None:
    program = zynml.compile(POINTS + "def all(x: tensor[H, W, C, u8]): tensor { invert(scaled(brighten(x, 20.5), 30.0)) }", device=device)
    x = picture()
    want = 255 - scaled(brighten(x, 20.5), 30.0)
    assert np.array_equal(program.all(x), want)
    assert launches(program, lambda: program.all(x), device, "all(x=7x33x3:u8)") == 1


@pytest.mark.parametrize("device", HERE)
def test_a_chain_over_statements_is_one_launch(device: str | None) -> None:
    text = """
def all(x: tensor[H, W, C, u8], by: f32) {
    let x = x |> brighten(by)
    let factor = by * 2.0
    let x = scaled(percent=factor, x=x)
    let twice = invert(invert(x))
    return brighten(twice, -by)
}"""
    program = zynml.compile(POINTS + text, device=device)
    x = picture(1)
    assert np.array_equal(program.all(x, 11.0), brighten(scaled(brighten(x, 11), 22), -11))
    assert launches(program, lambda: program.all(x, 11.0), device, "all(x=7x33x3:u8 by=11.0)") == 1


@pytest.mark.parametrize("device", HERE)
def test_a_pipeline_is_one_launch_where_a_function_is_too_long(device: str | None) -> None:
    body = "brighten(" * 20 + "x" + ", 3.0)" * 20
    text = f"pipeline p(x: tensor[H, W, C, u8]) -> tensor {{ {body} }}\ndef f(x: tensor[H, W, C, u8]): tensor {{ {body} }}"
    program = zynml.compile(POINTS + text, device=device)
    x = picture(2)
    want = np.clip(x.astype(np.int64) + 60, 0, 255)
    assert np.array_equal(program.p(x), want) and np.array_equal(program.f(x), want)
    assert launches(program, lambda: program.p(x), device, "p(x=7x33x3:u8)") == 1
    assert launches(program, lambda: program.f(x), device, "f(x=7x33x3:u8)") > 1


def test_pipelines_call_pipelines() -> None:
    text = """
pipeline soft(x: tensor[H, W, C, u8]) { x |> brighten(10.0) |> scaled(-20.0) }
pipeline both(x: tensor[H, W, C, u8]) -> tensor[H, W, C, u8]:
    let first = soft(x)
    soft(invert(first))
"""
    program = zynml.compile(POINTS + text)
    x = picture(3)

    def soft(x: np.ndarray) -> np.ndarray:
        return scaled(brighten(x, 10), -20)

    assert np.array_equal(program.both(x), soft(255 - soft(x)))
    assert launches(program, lambda: program.both(x), None) == 1


def test_calls_at_the_top_of_a_program(capfd: pytest.CaptureFixture[str]) -> None:
    text = """
let x = tensor([[[10, 20, 250]]], dtype=u8)
let x = brighten(x, 10.0)
let x = invert(x)
println(x, invert(brighten(x, 1.0)))
for k in 0..2:
    let y = brighten(x, k as f32)
    println(scaled(invert(y), 0.0))
"""
    program = zynml.compile(POINTS + text)
    with CPU_LAUNCHES.watched() as found:
        program.run()
    assert len(found) == 2 + 2 * 2  # of each turn, what is printed has its own
    assert capfd.readouterr().out.splitlines() == [
        "tensor([[[235, 225, 0]]], shape=[1, 1, 3], dtype=u8) tensor([[[19, 29, 254]]], shape=[1, 1, 3], dtype=u8)",
        "tensor([[[20, 30, 255]]], shape=[1, 1, 3], dtype=u8)",
        "tensor([[[19, 29, 254]]], shape=[1, 1, 3], dtype=u8)",
    ]


SUMS = """
def added(x: tensor[N], y: tensor[N]): tensor[N] { compute(x, y) { for i in 0..N: out[i] = x[i] + y[i] } }
def doubled(x: tensor[N]): tensor[N] { compute(x) { for i in 0..N: out[i] = x[i] * 2.0 } }
def picked(x: tensor[N], at: tensor[M, i64]): tensor[M] { compute(x, at) { for i in 0..M: out[i] = x[at[i]] } }
def untyped(x, k) { compute(x, k) { for i in 0..N: out[i] = x[i] * k } }
"""


def test_names_of_functions_and_callers_are_apart() -> None:
    """`N` is another number where the functions are called, and so is `k`."""
    text = """
def f(a: tensor[K], N: int, k: f32): tensor {
    let x = doubled(a)
    let y = untyped(x, k + 1.0)
    let k = doubled(y)
    added(doubled(k), added(x, a))
}"""
    program = zynml.compile(SUMS + text)
    a = np.arange(5, dtype=np.float32)
    assert np.array_equal(program.f(a, 2, 3.0), a * 2 * 4 * 2 * 2 + a * 3)


def test_untyped_functions_are_joined() -> None:
    program = zynml.compile(SUMS + "def f(x: tensor[N]) { untyped(untyped(x, 2.0), 3.0) }\ndef g(x) { untyped(untyped(x, 2), 3) }")
    x = np.arange(4, dtype=np.float32)
    assert np.array_equal(program.f(x), x * 6) and launches(program, lambda: program.f(x), None) == 1
    ints = np.arange(4, dtype=np.int64)
    assert np.array_equal(program.g(ints), ints * 6) and launches(program, lambda: program.g(ints), None) == 1


FAULTS = {
    "sizes": "let n = arange(0, 5).reshape(-1)\nlet r = added(doubled(n), doubled(load_four()))\nprintln(r)",
    "an index": "println(doubled(picked(doubled(zeros(4)), tensor([1, 9]))))",
    "a dtype": "println(doubled(doubled(as_any(tensor([1, 2], dtype=f64)))))",
    "a number": "println(untyped(untyped(zeros(3), 1.0), 1 / zero()))",
    "an argument that stops": "println(doubled(doubled(as_any(arange(0, 3))[7])))",
}
HELPERS = """
def load_four() { zeros(4) }
def as_any(x) { if x.numel() > 100 { 1 } else { x } }
def zero(): int { 0 }
"""


@pytest.mark.parametrize("device", HERE)
@pytest.mark.parametrize("name", FAULTS)
def test_what_goes_wrong_is_said_as_without_inlining(name: str, device: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    text = SUMS + HELPERS + FAULTS[name]

    def message() -> str:
        with pytest.raises(zynml.ZynMLError) as caught:
            zynml.compile(text, device=device).run()
        return str(caught.value)

    found = message()
    monkeypatch.setattr("compiler.backends.host.program.inlined", lambda program, checker: program)
    assert found == message()


def test_arguments_are_evaluated_once_and_in_order(capfd: pytest.CaptureFixture[str]) -> None:
    text = """
def told(x, word) { println(word); x }
println(added(doubled(told(zeros(2), "first")), doubled(told(zeros(2), "second"))))
println(doubled(doubled(told(arange(0, 2), "once"))))
try { println(doubled(doubled(told(as_any(tensor([1.0], dtype=f64)), "before the fault")))) } catch Error as e { println(e.code) }
"""
    zynml.compile(SUMS + HELPERS + text).run()
    lines = capfd.readouterr().out.splitlines()
    assert lines[:2] + lines[3:4] + lines[5:] == ["first", "second", "once", "before the fault", "ZYN0807"]


def test_functions_that_are_not_inlined() -> None:
    """Those that call themselves, wait, keep results, read variables of the top, or change what they are given."""
    text = """
let gain = 3.0
def louder(x: tensor[N]): tensor { compute(x, gain) { for i in 0..N: out[i] = x[i] * gain } }
def rec(x: tensor[N], n: int): tensor { if n == 0 { doubled(x) } else { rec(doubled(x), n - 1) } }
def same(x: tensor[N]): tensor { same2(doubled(x)) }
def same2(x: tensor[N]): tensor { if x[0] > 100.0 { x } else { same(doubled(x)) } }
@memoize def kept(n: int): int { n }
def changed(x: tensor[N]): tensor { var y = doubled(x); compute(mut y) { for i in 0..N: y[i] = y[i] + 1.0 }; y }
def f(x: tensor[N]): tensor { louder(louder(x)) }
def g(x: tensor[N]): tensor { doubled(changed(doubled(x))) }
"""
    program = zynml.compile(SUMS + text)
    x = np.ones(3, np.float32)
    assert np.array_equal(program.f(x), x * 9)
    assert np.array_equal(program.g(x), (x * 4 + 1) * 2)
    assert np.array_equal(program.rec(x, 3), x * 16)
    assert np.array_equal(program.same(x), x * 128)
    assert not any(name in inlinable_functions(*_typed(program)) for name in ("louder", "rec", "same", "same2", "changed", "f"))


def _typed(program: zynml.CompiledProgram) -> Any:
    from compiler.typed_ast.check import checker_of

    tree = program._session.check()
    checker = checker_of(tree, program._session.language.library, meaning=program._session.language.meaning)
    return tree, lambda syntax: None if syntax is None else checker.resolver.resolve(syntax)


def test_variables_of_the_top_that_functions_read_have_their_values() -> None:
    text = """
let x = doubled(arange(0, 3))
def seen() { x }
let y = doubled(x)
println(seen(), y)
"""
    program = zynml.compile(SUMS + text)
    program.run()
    assert np.array_equal(program.seen(), np.arange(3) * 2)


@pytest.mark.parametrize("device", HERE)
def test_products_and_rows_of_functions_join_what_follows(device: str | None) -> None:
    """An affine layer and its activation, each a function; a softmax of their result stays a kernel of its own."""
    text = """
def product(A: tensor[M, K], B: tensor[K, N]): tensor {
    compute(A, B) {
        for i in 0..M, j in 0..N:
            var s = 0.0
            for k in 0..K: s += A[i, k] * B[k, j]
            out[i, j] = s
    }
}
def shifted(p: tensor[M, N], bias: tensor[N]): tensor { compute(p, bias) { for i in 0..M, j in 0..N: out[i, j] = max(p[i, j] + bias[j], 0.0) } }
pipeline layer(x: tensor[B, I], w: tensor[I, O], b: tensor[O]) -> tensor { shifted(product(x, w), b) }
"""
    program = zynml.compile(text, device=device)
    random = np.random.default_rng(5)
    x, w, b = (random.standard_normal(s).astype(np.float32) for s in [(5, 17), (17, 9), (9,)])
    want = np.maximum(x.astype(np.float64) @ w + b, 0)
    assert np.allclose(program.layer(x, w, b), want, rtol=1e-5, atol=1e-5)
    assert launches(program, lambda: program.layer(x, w, b), device, "layer(x=5x17 w=17x9 b=9)") == 1
    assert "one kernel" in str(program.emit("fusion"))


def test_functions_of_modules_and_named_kernels_are_joined(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "filters.zynml").write_text("def half(x: tensor[N]): tensor[N] { compute(x) { for i in 0..N: out[i] = x[i] * 0.5 } }\n")
    program = tmp_path / "main.zynml"
    program.write_text(
        "import filters\nfrom filters import half\n@kernel(elementwise) def up(x: tensor[N]): tensor { for i in 0..N: out[i] = x[i] + 1.0 }\n"
        "println(up(half(filters.half(up(arange(0, 3))))))\n"
    )
    with CPU_LAUNCHES.watched() as found:
        zynml.compile(program).run()
    assert len(found) == 1
    assert capfd.readouterr().out == "tensor([1.25, 1.5, 1.75], shape=[3], dtype=f32)\n"
