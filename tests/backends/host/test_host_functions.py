"""Functions in tier 0: arguments, closures, sizes of signatures, calls from Python."""

import numpy as np
import pytest
from host_programs import Recorder, build, lines, message

from compiler.diagnostics import ZyntaxError


def test_defaults_and_keywords() -> None:
    program = """
def f(a: int, b: int = 10, c: f64 = 0.5) { println(a, b, c) }
f(1)
f(1, 2)
f(1, c=3)
f(c=1.5, a=7)
"""
    assert lines(program) == ["1 10 0.5", "1 2 0.5", "1 10 3.0", "7 10 1.5"]


def test_a_default_is_evaluated_at_each_call() -> None:
    assert lines("def f(x, xs = [0]) {\n mut ys = xs\n ys[0] += x\n ys[0]\n}\nprintln(f(1), f(2))") == ["1 2"]


def test_recursion_and_calls_before_the_definition() -> None:
    program = """
println(even(10), fib(15))
def even(n: int): bool { if n == 0 { true } else { odd(n - 1) } }
def odd(n: int): bool { if n == 0 { false } else { even(n - 1) } }
def fib(n) { if n < 2 { n } else { fib(n - 1) + fib(n - 2) } }
"""
    assert lines(program) == ["true 610"]


def test_arguments_become_what_the_parameter_declares() -> None:
    assert lines("def half(x: f32): f64 { x / 2 }\nlet n = 3\nprintln(half(n))\nprintln(half(0.1))") == ["1.5", "0.05000000074505806"]


def test_lists_become_tensors_at_a_call() -> None:
    assert lines("def total(v: tensor[N, f32]) { println(N, v) }\ntotal([1.0, 2.0, 3.0])") == [
        "3 tensor([1.0, 2.0, 3.0], shape=[3], dtype=f32)"
    ]


def test_size_names_are_ints_in_the_body() -> None:
    program = """
def f(a: tensor[N, 2 * M + 1, f32], b: tensor[M]) { println(N, M) }
f(zeros(4, 7), zeros(3))
"""
    assert lines(program) == ["4 3"]


def test_sizes_that_disagree_stop_the_call() -> None:
    program = "def f(a: tensor[N], b: tensor[N]) { println(N) }\nf(zeros(4), zeros(5))"
    assert message(program, typed=False).splitlines()[0] == "error[ZYN0802]: size `N` is 4 by axis 0 of `a` and 5 by axis 0 of `b`"


def test_closures_see_later_changes_of_a_variable() -> None:
    program = """
def counter() {
    mut n = 0
    let next = def() { n += 1
        n }
    next()
    next()
    n += 10
    println(next(), n)
}
counter()
"""
    assert lines(program) == ["13 13"]


def test_closures_made_in_a_loop_keep_their_own_turn() -> None:
    program = """
mut fs = [def(x) { x }]
for i in 0..3 {
    let k = i * 10
    mut m = i
    fs[0] = def(x) { m += 1
        x + k + m + i }
    println(fs[0](100), fs[0](100), m)
}
println([f(0) for f in [def(x) { x + j } for j in 1..4]])
"""
    assert lines(program) == ["101 102 2", "113 114 3", "125 126 4", "[1, 2, 3]"]


def test_functions_are_values() -> None:
    program = """
def twice(f, x) { f(f(x)) }
def add(n) { return def(x): x + n }
println(twice(add(5), 1), twice(def(x): x * x, 3))
"""
    assert lines(program) == ["11 81"]


def test_pipes_are_calls() -> None:
    assert lines("def f(x, y) { x * 10 + y }\nprintln(1 |> f(2) |> f(3))") == ["123"]


def test_functions_are_called_from_python() -> None:
    program = build("let base = 10\ndef f(x: f32, n: int = 2) { x * n + base }\ndef g(xs) { xs[0] }")
    assert program.functions["f"](1.5) == np.float32(13.0)
    assert program.functions["f"](1.5, n=4) == np.float32(16.0)
    assert program.functions["g"]([7, 8]) == 7


def test_a_python_argument_that_does_not_fit_is_0807() -> None:
    program = build("def f(n: int) { n }")
    with pytest.raises(ZyntaxError) as caught:
        program.functions["f"]("three")
    assert [(d.full_code, d.message) for d in caught.value.diagnostics] == [("ZYN0807", "expected i64, found String")]


def test_tests_are_callables() -> None:
    program = build('let x = 3\ntest "good" { assert(x == 3) }\ntest "bad" { assert(x == 4, "x is 3") }')
    program.tests["good"]()
    with pytest.raises(ZyntaxError) as caught:
        program.tests["bad"]()
    assert caught.value.diagnostics[0].code == "0808"


def test_parameters_and_config_go_to_the_runtime() -> None:
    runtime = Recorder(parameters={"n": 50})
    program = build("config { seed: 7 }\nparam n: int in 1..1000 = 30\ndef get() { n }", runtime)
    assert program.functions["get"]() == 50
    assert runtime.asked[0] == ("config", {"seed": 7})
    _, name, default, bounds = runtime.asked[1]
    assert (name, default, bounds.low, bounds.high, bounds.inclusive) == ("n", 30, 1, 1000, False)


def test_compute_gets_inputs_and_outer_variables() -> None:
    runtime = Recorder(result=5)
    program = """
let a = tensor([1.0, 2.0])
let scale = 3.0
let unused = 1
let n = 2
let r = compute(a, b = a + a) {
    for i in 0..n: out[i] = a[i] * scale + b[i]
}
println(r)
"""
    build(program, runtime, typed=False).run()
    (_, site, values), = runtime.asked
    assert site == 0
    assert list(values) == ["a", "b", "n", "scale"]
    assert values["scale"] == 3.0 and values["n"] == 2 and values["b"].array.tolist() == [2.0, 4.0]


def test_modules_give_functions_and_variables() -> None:
    runtime = Recorder()
    runtime.modules["shapes",] = build("let side = 4\ndef area(n) { n * n * side }")
    program = "import shapes\nfrom shapes import area\nimport shapes as s\nprintln(shapes.area(2), area(3), s::side, s.side)"
    import io

    written = io.StringIO()
    build(program, runtime, typed=False, output=written).run()
    assert written.getvalue() == "16 36 4 4\n"


def test_literals_in_containers_take_the_declared_types() -> None:
    program = """
def f(xs: List<f32>, p: (int, f32)) { println(xs[0] == 0.1, p.1 == 0.1) }
f([0.1, 2], (1, 0.1))
let ys: List<f32> = [0.1, 2]
let q: (f32, List<u8>) = (0.1, [1, 2])
println(ys, q)
"""
    assert lines(program) == ["true true", "[0.1, 2.0] (0.1, [1, 2])"]


def test_library_modules_and_externs() -> None:
    program = """
import tensor as t
from tensor import zeros
println(tensor.ones(2), t.zeros(1), zeros(1))
println(extern string_concat("a", "b"))
"""
    ones, zeros = "tensor([1.0, 1.0], shape=[2], dtype=f32)", "tensor([0.0], shape=[1], dtype=f32)"
    assert lines(program) == [f"{ones} {zeros} {zeros}", "ab"]


def test_a_declared_tensor_type_converts_elements_without_loss() -> None:
    assert lines("def f(v: tensor[N, f32]) { println(v) }\nf(tensor([1, 2]))") == ["tensor([1.0, 2.0], shape=[2], dtype=f32)"]
    program = 'def f(v: tensor[N, f32]) { println(v) }\nf(zeros(2, dtype="f64"))'
    assert message(program, typed=False).splitlines()[0] == "error[ZYN0807]: expected a tensor of f32, found one of f64"
    program = "def f(v: tensor[3, f32]) { println(v) }\nf(zeros(2))"
    assert message(program, typed=False).splitlines()[0] == "error[ZYN0807]: expected tensor[3, f32], found a tensor of shape [2]"


def test_affine_sizes_are_solved_and_checked() -> None:
    head = "def f(a: tensor[2 * M + 1, N - M, f32], b: tensor[N]) { println(M, N) }\n"
    assert lines(head + "f(zeros(5, 4), zeros(6))") == ["2 6"]
    found = message(head + "f(zeros(4, 4), zeros(6))", typed=False).splitlines()[0]
    assert found == "error[ZYN0802]: `2*M + 1` is 5, but axis 0 of `a` has the extent 4"


def test_a_part_of_a_tuple_may_be_called() -> None:
    assert lines("let p = (def(x: int): x + 1, 2)\nprintln(p.0(3))") == ["4"]


def test_a_function_that_declares_no_result_gives_unit() -> None:
    assert lines("def f(): void { 5 }\nprintln(f())") == ["()"]


def test_main_takes_no_arguments() -> None:
    assert message("def main(n: int) { println(n) }").splitlines()[0] == (
        "error[ZYN0204]: `main` is called without arguments, but needs `n`"
    )


def test_a_default_becomes_what_the_parameter_declares() -> None:
    assert lines("def f(x: f32 = 0.1, v: tensor[2] = [1, 2]) { println(x, v) }\nf()") == ["0.1 tensor([1.0, 2.0], shape=[2], dtype=f32)"]


def test_a_function_for_kernels_stops_only_when_host_code_calls_it() -> None:
    program = "def helper(i: i64): i64 { i + thread_idx().x }\nprintln(1)\n"
    assert lines(program) == ["1"]
    assert message(program + "helper(2)").splitlines()[0] == "error[ZYN0413]: `thread_idx` is called outside of a compute block"
