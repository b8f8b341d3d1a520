"""Form A in the interpreter: loops, slots, control flow, memory, checks, sorting, calls. Programs are HIR text; expected values NumPy's."""

import math

import ml_dtypes
import numpy as np
import pytest

from compiler.diagnostics import ZyntaxError
from compiler.emulator.interpret import KernelFault, interpret
from compiler.hir.parse import parse_function, parse_module
from compiler.hir.verify import verify


def run(text: str, *arguments: object) -> tuple[object, ...]:
    function = parse_function(text)
    verify(function)
    return interpret(function, arguments)


MATMUL = """func @matmul(%A: mem<MxKx{t}>, %B: mem<KxNx{t}>, %C: mem<MxNx{t}>, %M: index, %N: index, %K: index) form=A {{
  for i in 0..M {{ for j in 0..N {{
    %z = const 0 : {t}
    %s = slot %z : slot<{t}>
    for k in 0..K {{
      %a = load %A[i, k] : {t}
      %b = load %B[k, j] : {t}
      %p = mul %a, %b : {t}
      %o = get %s : {t}
      %n = add %o, %p : {t}
      set %s, %n
    }}
    %r = get %s : {t}
    store %C[i, j], %r
  }} }}
}}"""


@pytest.mark.parametrize("shape", [(5, 7, 3), (1, 1, 1), (4, 4, 0), (0, 3, 2)])
def test_matmul_in_doubles_follows_the_nest(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    generator = np.random.default_rng(1)
    a, b, c = generator.standard_normal((m, k)), generator.standard_normal((k, n)), np.full((m, n), 9.0)
    run(MATMUL.format(t="f64"), a, b, c, m, n, k)
    expected = np.zeros((m, n))
    for step in range(k):  # the order of the nest
        expected = expected + a[:, [step]] * b[[step], :]
    assert np.array_equal(c, expected)


@pytest.mark.parametrize("name,dtype", [("f32", np.float32), ("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_each_float_step_rounds_to_its_type(name: str, dtype: object) -> None:
    generator = np.random.default_rng(2)
    a, b = (generator.standard_normal((3, 9)).astype(dtype), generator.standard_normal((9, 2)).astype(dtype))
    c = np.zeros((3, 2), dtype)
    run(MATMUL.format(t=name), a, b, c, 3, 2, 9)
    expected = np.zeros((3, 2), dtype)
    for step in range(9):
        expected = (expected + (a[:, [step]] * b[[step], :]).astype(dtype)).astype(dtype)
    assert np.array_equal(c.view(np.uint8), expected.view(np.uint8))


def test_int_sums_wrap() -> None:
    a = np.array([[100, 100]], np.int8)
    b = np.array([[100], [3]], np.int8)
    c = np.zeros((1, 1), np.int8)
    run(MATMUL.format(t="i8"), a, b, c, 1, 1, 2)
    assert c[0, 0] == np.int64(100 * 100 + 300).astype(np.int8)


def test_strided_views_are_read_and_written_in_place() -> None:
    base = np.arange(24.0).reshape(4, 6)
    out = np.zeros((6, 8))
    run(
        """func @copy(%x: mem<MxN, f64>, %y: mem<MxNxf64>, %M: index, %N: index) form=A {
        for i in 0..M { for j in 0..N { %v = load %x[i, j] : f64 store %y[i, j], %v } } }""".replace("MxN, f64", "MxNxf64, strides=[N, 1]"),
        base.T[::2],
        out[::2, ::2],
        3,
        4,
    )
    assert np.array_equal(out[::2, ::2], base.T[::2])
    assert not out[1::2].any()


def test_loops_carry_values_and_run_in_steps_and_backwards() -> None:
    out = np.zeros(3, np.int64)
    run(
        """func @f(%out: mem<3xi64>, %N: index) form=A {
        %z = const 0 : i64
        %up = for i in 2..N step 3 carry(%s = %z) { %v = cast %i0 to=i64 : i64 %n = add %s, %v : i64 yield %n }
        store %out[0], %up
        %down = for j in N..-1 step -2 carry(%d = %z) { %w = index of=j : index %x = cast %w to=i64 : i64 %ten = const 10 : i64
          %m = mul %d, %ten : i64 %y = add %m, %x : i64 yield %y }
        store %out[1], %down
        %none = for k in 5..5 carry(%e = %up) { yield %z }
        store %out[2], %none }""".replace("%v = cast %i0", "%i0 = index of=i : index %v = cast %i0"),
        out,
        9,
    )
    assert out.tolist() == [2 + 5 + 8, 97531, 15]


def test_break_and_continue_leave_the_innermost_loop() -> None:
    out = np.zeros((3, 10), np.int32)
    run(
        """func @f(%out: mem<3x10xi32>) form=A {
        %one = const 1 : i32
        for i in 0..3 { for j in 0..10 {
          %odd = inbounds of=2*floor((j)/2)+1-j below=1 : i1
          %skip = not %odd : i1
          %i_ = index of=i : index %j_ = index of=j : index
          %past = gt %j_, %i_ : i1
          %l = const 6 : index
          %far = gt %j_, %l : i1
          if %far { break }
          if %skip { continue }
          store %out[i, j], %one
        } } }""",
        out,
    )
    expected = np.zeros((3, 10), np.int32)
    for i in range(3):
        for j in range(10):
            if j > 6:
                break
            if not 0 <= 2 * (j // 2) + 1 - j < 1:
                continue
            expected[i, j] = 1
    assert np.array_equal(out, expected)
    assert expected.any()


def test_while_carries_and_runs_its_condition_first() -> None:
    out = np.zeros(2, np.int64)
    run(
        """func @collatz(%out: mem<2xi64>, %start: i64) form=A {
        %zero = const 0 : i64 %one = const 1 : i64 %two = const 2 : i64 %three = const 3 : i64
        %n, %steps = while carry(%a = %start, %s = %zero) { %go = gt %a, %one : i1 condition %go } do (%b, %t) {
          %r = rem %b, %two : i64 %even = eq %r, %zero : i1
          %next = if %even : i64 { %h = div %b, %two : i64 yield %h } else { %m = mul %b, %three : i64 %p = add %m, %one : i64 yield %p }
          %u = add %t, %one : i64
          yield %next, %u
        }
        store %out[0], %n store %out[1], %steps }""",
        out,
        27,
    )
    assert out.tolist() == [1, 111]


def test_a_while_over_slots_with_break() -> None:
    out = np.zeros(1, np.int32)
    run(
        """func @f(%out: mem<1xi32>) form=A {
        %z = const 0 : i32 %one = const 1 : i32 %s = slot %z : slot<i32> %yes = const true : i1 %limit = const 5 : i32
        while { condition %yes } do {
          %v = get %s : i32 %n = add %v, %one : i32 set %s, %n
          %stop = ge %n, %limit : i1
          if %stop { break }
        }
        %r = get %s : i32 store %out[0], %r }""",
        out,
    )
    assert out[0] == 5


def test_a_slot_read_before_a_later_set_keeps_its_old_value() -> None:
    out = np.zeros(2)
    run(
        """func @f(%out: mem<2xf64>, %a: f64, %b: f64) form=A {
        %s = slot %a : slot<f64> %old = get %s : f64 set %s, %b %new = get %s : f64 store %out[0], %old store %out[1], %new }""",
        out,
        1.5,
        2.5,
    )
    assert out.tolist() == [1.5, 2.5]


def test_gathers_and_scatters_use_index_values() -> None:
    x, k, out = np.arange(10.0) * 2, np.array([3, 9, 0, 3], np.int32), np.zeros(10)
    run(
        """func @f(%x: mem<10xf64>, %k: mem<4xi32>, %out: mem<10xf64>) form=A {
        for i in 0..4 { %q = load %k[i] : i32 %p = cast %q to=index : index %v = load %x[p] : f64
          %old = load %out[9-p] : f64 %n = add %old, %v : f64 store %out[9-p], %n } }""",
        x,
        k,
        out,
    )
    expected = np.zeros(10)
    np.add.at(expected, 9 - k, x[k])
    assert np.array_equal(out, expected)


def test_pads_and_masks_do_not_touch_memory() -> None:
    x, out = np.arange(1.0, 5.0), np.zeros((3, 6))
    run(
        """func @f(%x: mem<Nxf64>, %out: mem<3x6xf64>, %N: index) form=A {
        for i in 0..6 { %a = load %x[i-1] pad=-7.0 : f64 store %out[0, i], %a
          %ok = inbounds of=i below=N : i1 %b = load %x[i] where=%ok : f64 store %out[1, i], %b
          %c = load %x[i-2] where=%ok pad=0.5 : f64 store %out[2, i], %c where=%ok } }""",
        x,
        out,
        4,
    )
    assert out.tolist() == [[-7, 1, 2, 3, 4, -7], [1, 2, 3, 4, 0, 0], [0.5, 0.5, 1, 2, 0, 0]]


@pytest.mark.parametrize("index,value", [("i+1", 4), ("i-1", -1), ("0-i", -1)])
def test_an_index_outside_is_a_compilers_fault(index: str, value: int) -> None:
    with pytest.raises(ZyntaxError) as error:
        run(f"func @f(%x: mem<4xf32>) form=A {{ for i in 0..4 {{ %v = load %x[{index}] : f32 }} }}", np.zeros(4, np.float32))
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.code == "0901"
    assert f"reaches ({value},) in a memory of shape (4,)" in diagnostic.message


def test_a_check_reports_code_site_and_values_of_the_first_failure() -> None:
    text = """func @f(%k: mem<4xi32>, %out: mem<4xi32>) form=A { site 0801 "a" site 0801 "b"
        %n = const 3 : i32
        for i in 0..4 { %v = load %k[i] : i32 %ok = lt %v, %n : i1 check %ok, %v, %n code=0801 site=1 store %out[i], %v } }"""
    out = np.zeros(4, np.int32)
    with pytest.raises(KernelFault) as fault:
        run(text, np.array([1, 2, 7, 9], np.int32), out)
    assert (fault.value.code, fault.value.site, fault.value.values) == ("0801", 1, (7, 3))
    assert out.tolist() == [1, 2, 0, 0]


def test_scratch_memory_shows_when_it_is_read_unwritten() -> None:
    out = np.zeros(3)
    run(
        """func @f(%out: mem<Nxf64>, %N: index) form=A { %t = alloc : mem<Nxf64, local> %one = const 1.0 : f64
        store %t[1], %one for i in 0..N { %v = load %t[i] : f64 store %out[i], %v } }""",
        out,
        3,
    )
    assert out[1] == 1.0 and np.isnan(out[[0, 2]]).all()


def test_memories_without_dims_hold_one_number() -> None:
    x, out = np.array(3.5), np.array(0.0)
    run("func @f(%x: mem<f64>, %out: mem<f64>) form=A { %v = load %x[] : f64 %w = add %v, %v : f64 store %out[], %w }", x, out)
    assert out == 7.0


def test_truth_values_are_bytes() -> None:
    for make in (np.bool_, np.uint8):
        x, out = np.array([1, 0, 1], make), np.zeros(3, make)
        run(
            "func @f(%x: mem<3xi1>, %out: mem<3xi1>) form=A { for i in 0..3 { %v = load %x[i] : i1 %n = not %v : i1 store %out[i], %n } }",
            x,
            out,
        )
        assert out.tolist() == [0, 1, 0]


@pytest.mark.parametrize("name,kind", [("argmin", min), ("argmax", max)])
def test_combine_prefers_nan_then_the_lower_index(name: str, kind: object) -> None:
    rows = [[3.0, 1.0, 1.0, 3.0], [math.nan, 0.0, math.nan, 9.0], [5.0, math.nan, 1.0, math.nan], [0.0, -0.0, 0.0, -0.0], [math.inf] * 4]
    for row in rows:
        x, out = np.array(row), np.zeros(1, np.int64)
        start = "inf" if name == "argmin" else "-inf"
        run(
            f"""func @f(%x: mem<4xf64>, %out: mem<1xi64>) form=A {{ %m = const {start} : f64 %z = const {2**63 - 1} : i64
            %v, %k = for i in 0..4 carry(%a = %m, %b = %z) {{ %e = load %x[i] : f64 %i_ = index of=i : index %j = cast %i_ to=i64 : i64
              %c, %d = combine {name} %a, %b, %e, %j : f64, i64 yield %c, %d }}
            store %out[0], %k }}""",
            x,
            out,
        )
        missing = [i for i, v in enumerate(row) if math.isnan(v)]
        assert out[0] == (missing[0] if missing else row.index(kind(row)))  # type: ignore[operator]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint8, np.int64])
def test_sort_is_stable_and_puts_nan_last(dtype: object, descending: bool) -> None:
    generator = np.random.default_rng(3)
    keys = generator.integers(0, 4, (3, 40)).astype(dtype)
    if dtype is np.float32:
        keys[0, ::5] = math.nan
        keys[1, ::3] = -0.0
    payload = np.tile(np.arange(40, dtype=np.int32), (3, 1))
    expected = []
    for row in keys:
        order = sorted(
            range(40),
            key=lambda i, row=row: (math.isnan(row[i]), 0 if math.isnan(row[i]) else -float(row[i]) if descending else float(row[i])),
        )
        expected.append(order)
    name = {"float32": "f32", "int8": "i8", "uint8": "u8", "int64": "i64"}[np.dtype(dtype).name]
    flag = "true" if descending else "false"
    run(f"func @f(%k: mem<3x40x{name}>, %p: mem<3x40xi32>) form=A {{ sort %k, %p axis=1 descending={flag} }}", keys, payload)
    assert payload.tolist() == expected


def test_functions_call_each_other_and_return_values() -> None:
    module = parse_module("""module @m version=1 {
      func @square(%x: f64) form=A results=[f64] { %y = mul %x, %x : f64 return %y }
      func @fact(%n: i64) form=A results=[i64] {
        %one = const 1 : i64 %small = le %n, %one : i1
        if %small { return %one }
        %m = sub %n, %one : i64 %r = call @fact(%m) : i64 %p = mul %n, %r : i64 return %p }
      func @f(%x: f64, %out: mem<2xf64>) form=A { %s = call @square(%x) : f64 store %out[0], %s
        %k = const 10 : i64 %q = call @fact(%k) : i64 %w = cast %q to=f64 : f64 store %out[1], %w } }""")
    verify(module)
    out = np.zeros(2)
    interpret(module.functions["f"], [3.0, out], module)
    assert out.tolist() == [9.0, math.factorial(10)]
    assert interpret(module.functions["square"], [1.5], module) == (2.25,)


def test_scalars_are_brought_to_their_type() -> None:
    out = np.zeros(1)
    run("func @f(%a: f32, %out: mem<1xf64>) form=A { %w = cast %a to=f64 : f64 store %out[0], %w }", 0.1, out)
    assert out[0] == np.float64(np.float32(0.1))


@pytest.mark.parametrize(
    "arguments,words",
    [([np.zeros(3)], "holds f32, not float64"), ([np.zeros(4, np.float32)], "has shape (3,), not (4,)"), ([], "takes 1 arguments, not 0")],
)
def test_wrong_arguments_are_refused(arguments: list[object], words: str) -> None:
    with pytest.raises(ZyntaxError, match="0901") as error:
        run("func @f(%x: mem<3xf32>) form=A { }", *arguments)
    assert words in error.value.diagnostics[0].message


def test_places_of_loops_change_nothing() -> None:
    out = np.zeros(5)
    run("func @f(%out: mem<5xf64>) form=A { %o = const 2.0 : f64 for i in 0..5 place=thread { store %out[i], %o } }", out)
    assert out.tolist() == [2.0] * 5


def test_too_many_nested_loops_are_refused_in_words() -> None:
    nest = "".join(f"for i{k} in 0..1 {{ " for k in range(25)) + "}" * 25
    with pytest.raises(ZyntaxError) as error:
        run(f"func @f() form=A {{ {nest} }}")
    assert error.value.diagnostics[0].code == "0109"


def test_endless_recursion_is_refused_in_words() -> None:
    module = parse_module("module @m version=1 { func @f() form=A { call @f() } }")
    with pytest.raises(ZyntaxError, match="@f calls functions deeper than the interpreter follows"):
        interpret(module.functions["f"], [], module)
