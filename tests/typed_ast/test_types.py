"""Types of expressions: literals, promotion, shapes, calls."""

import sys

import pytest

from compiler.typed_ast import nodes
from tests.typed_ast.checking import checked, codes, messages, type_of, types_of


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1", "i64"),
        ("1.5", "f64"),
        ("7u8", "u8"),
        ("1.5f32", "f32"),
        ("2f16", "f16"),
        ("true", "bool"),
        ('"a"', "String"),
        ('f"{1:>8}"', "String"),
        ("((), true)", "((), bool)"),
        ("(1, 2.0)", "(i64, f64)"),
        ("[1, 2]", "List<i64>"),
        ("[1, 2.5]", "List<f64>"),
        ("[]", "List<?>"),
        ("[[1], [2]]", "List<List<i64>>"),
        ("0..3", "range"),
        ("pi", "f64"),
        ("def(x: i64): x * 2", "(i64) => i64"),
        ("def(x): x * 2", "(?) => ?"),
        ("[x * 2 for x in [1, 2] if x > 1]", "List<i64>"),
        ("if true { 1 } else { 2.5 }", "f64"),
        ("true ? 1 : 2", "i64"),
        ("1 if true else 2.0", "f64"),
        ("{ let a = 2\n a * 3 }", "i64"),
    ],
)
def test_a_value_has_the_type(expression: str, expected: str) -> None:
    assert type_of(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + 1", "i64"),
        ("1 + 1.0", "f64"),
        ("1u8 + 1", "u8"),
        ("1u8 + 1.5", "f64"),
        ("1i32 + 1i64", "i64"),
        ("1u8 + 1i32", "i32"),
        ("1u32 + 1i32", "i64"),
        ("1f16 + 1bf16", "f32"),
        ("1f32 + 1f64", "f64"),
        ("1i64 + 1f32", "f32"),
        ("1f32 + 1", "f32"),
        ("1f32 * 0.5", "f32"),
        ("7 / 2", "i64"),
        ("7 % 2", "i64"),
        ("2 ** 3", "i64"),
        ("-1i8", "i8"),
        ("1 < 2.0", "bool"),
        ('"a" < "b"', "bool"),
        ("[1] == [2]", "bool"),
        ("1 in [1, 2]", "bool"),
        ("not true and false or true", "bool"),
        ('"a" + "b"', "String"),
        ("6 & 3", "i64"),
        ("1u8 << 2", "u8"),
        ("2.5 as i64", "i64"),
        ("zeros(3) as f64", "tensor[3, f64]"),
    ],
)
def test_an_operator_promotes(expression: str, expected: str) -> None:
    assert type_of(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("zeros(3, 4)", "tensor[3, 4, f32]"),
        ("zeros(3, 4) + 1", "tensor[3, 4, f32]"),
        ("zeros(3, 4) * 0.5", "tensor[3, 4, f32]"),
        ("2.0 / zeros(3)", "tensor[3, f32]"),
        ("zeros(3, dtype=i64) * 0.5", "tensor[3, f64]"),
        ("zeros(3, dtype=f16) + zeros(3, dtype=bf16)", "tensor[3, f32]"),
        ("zeros(3, dtype=i32) + zeros(3)", "tensor[3, f32]"),
        ("zeros(3, 1) + zeros(4)", "tensor[3, 4, f32]"),
        ("zeros(2, 1, 4) + zeros(3, 1)", "tensor[2, 3, 4, f32]"),
        ("zeros(3) > 0.0", "tensor[3, bool]"),
        ("-zeros(3)", "tensor[3, f32]"),
        ("zeros(2, 3) @ zeros(3, 4)", "tensor[2, 4, f32]"),
        ("zeros(3) @ zeros(3, 4)", "tensor[4, f32]"),
        ("zeros(2, 3) @ zeros(3)", "tensor[2, f32]"),
        ("zeros(3) @ zeros(3)", "f32"),
        ("zeros(5, 2, 3) @ zeros(3, 4)", "tensor[5, 2, 4, f32]"),
        ("zeros(5, 2, 3) @ zeros(1, 3, 4)", "tensor[5, 2, 4, f32]"),
    ],
)
def test_tensors_broadcast_and_multiply(expression: str, expected: str) -> None:
    assert type_of(expression) == expected


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("x[0, 1, 2]", "f32"),
        ("x[-3, 0, 0]", "f32"),
        ("x[0]", "tensor[4, 5, f32]"),
        ("x[0:2]", "tensor[2, 4, 5, f32]"),
        ("x[1:]", "tensor[2, 4, 5, f32]"),
        ("x[:, 1]", "tensor[3, 5, f32]"),
        ("x[..., 1]", "tensor[3, 4, f32]"),
        ("x[0, ..., 1]", "tensor[4, f32]"),
        ("x[:, ::2, -1]", "tensor[3, 2, f32]"),
        ("x[:, 3:0:-1]", "tensor[3, 3, 5, f32]"),
        ("x[0:100]", "tensor[3, 4, 5, f32]"),
        ("x[n:n + 1, 0]", "tensor[1, 5, f32]"),
        ("x[k:, 0, 0]", "tensor[?, f32]"),
    ],
)
def test_an_index_leaves_the_other_axes(index: str, expected: str) -> None:
    assert type_of(index, "let x = zeros(3, 4, 5)\nlet n = 1\nmut k = 1") == expected


def test_weak_literals_become_firm_in_a_variable() -> None:
    before = "let n = 2\nlet h = 0.5\nlet x = 1.5f32"
    assert type_of("x * 2", before) == "f32"
    assert type_of("x * h", before) == "f64"
    assert type_of("x * n", before) == "f32"


def test_elements_of_tuples_and_lists() -> None:
    before = 'let t = (1, "a", zeros(2))\nlet xs = [[1.5], [2.5]]'
    assert type_of("t.1", before) == "String"
    assert type_of("t.2", before) == "tensor[2, f32]"
    assert type_of("xs[0]", before) == "List<f64>"
    assert type_of("xs[0][0]", before) == "f64"
    assert type_of("xs[0:1]", before) == "List<List<f64>>"


def test_a_pattern_takes_a_tuple_apart() -> None:
    found = types_of('let (a, (_, b)) = (1, ("x", 2.5))\nlet c = a\nlet d = b')
    assert (str(found["c"]), str(found["d"])) == ("i64", "f64")


def test_a_declared_type_stands_with_the_shape_of_its_value() -> None:
    assert type_of("x", "let x: tensor = zeros(3)") == "tensor[3, f32]"
    assert type_of("x", "let x: f64 = 1") == "f64"
    assert type_of("x", "let x: tensor[2, 2] = [[1, 2], [3, 4]]") == "tensor[2, 2, f32]"


def test_constants_of_lets_make_shapes_static() -> None:
    assert type_of("zeros(rows, 2 * rows)", "let rows = 4") == "tensor[4, 8, f32]"
    assert "4" not in type_of("zeros(rows)", "param rows = 4"), "a param can be set from outside"


def test_a_function_without_a_result_type_has_that_of_its_body() -> None:
    assert type_of("f(1)", "def f(x: i64) { x * 2.5 }") == "f64"
    assert type_of("f(1)", "def f(x: i64) { if x > 0 { return 1 }\n 2.5 }") == "f64"
    assert type_of("(f(1), true)", "def f(x) { println(x) }") == "((), bool)"


def test_sizes_of_a_result_are_those_of_the_call() -> None:
    before = "def mix(a: tensor[M, K], b: tensor[K, N]): tensor[M, 2*N + 1] { zeros(1, 1) }\ndef same(a: tensor[M, K]) { a + 1 }"
    assert type_of("mix(zeros(2, 3), zeros(3, 4))", before) == "tensor[2, 9, f32]"
    assert type_of("same(zeros(2, 3))", before) == "tensor[2, 3, f32]"


def test_sizes_of_a_caller_go_through_a_callee() -> None:
    program = """
def rows(a: tensor[M, K]): tensor[M] { a[:, 0] }
def twice(x: tensor[P, 4]) { rows(x) @ rows(x) }
def grow(x: tensor[P, 4]): tensor[P] { rows(x) }
def wrong(x: tensor[P, 4]): tensor[P + 1] { rows(x) }
"""
    assert codes(program) == ["0301"]


def test_sizes_are_ints_in_a_body() -> None:
    assert type_of("f(zeros(3))", "def f(x: tensor[N]) { x[0] / N + 1 }") == "f32"
    assert type_of("f(zeros(3))", "def f(x: tensor[N]) { N }") == "i64"


def test_a_generic_function_is_typed_call_by_call() -> None:
    before = "def pair(a, b) { (a, b) }\ndef double(x) { x + x }\ndef both(x) { pair(double(x), x) }"
    assert type_of('both("a")', before) == "(String, String)"
    assert type_of("both(1)", before) == "(i64, i64)"
    assert type_of("double(zeros(2))", before) == "tensor[2, f32]"


def test_recursion_of_a_generic_function_ends() -> None:
    assert type_of("fib(10)", "def fib(n) { if n < 2 { return n }\n fib(n - 1) + fib(n - 2) }") in ("i64", "?")
    assert codes("def a(x, y) { b(y, [x]) }\ndef b(x, y) { a([x], y) }\na(1, 2)") == []
    assert codes("def grow(x) { grow([x]) }\ngrow(1)") == []


def test_types_that_grow_without_end_are_given_up_in_time() -> None:
    calls = "".join(f"def f{i}(x) {{ f{i + 1}(x) \n f{i + 1}((x, 1)) }}\n" for i in range(40))
    assert codes(calls + "def f40(x) { x }\nf0(1)") == []


def test_a_variable_that_a_loop_changes_has_the_type_of_all_rounds() -> None:
    found = types_of("mut x = zeros(3)\nfor i in 0..2 { x = concat(x, zeros(3)) }\nlet y = x")
    assert str(found["y"]) == "tensor[?, f32]" or str(found["y"]) == "tensor"


def test_a_mutable_tensor_may_change_its_shape_and_a_number_its_value_only() -> None:
    assert codes("mut x = zeros(3)\nx = zeros(4, 5)\nlet y = x + zeros(4, 5)") == []
    assert codes("mut n = 1\nn = 2.5") == ["0207"]


def test_a_shadowing_let_starts_anew() -> None:
    assert type_of("x", 'let x = 1\nlet x = "a"') == "String"


def test_three_independent_errors_are_three_messages_by_position() -> None:
    program = 'let a = zeros(3) + zeros(4)\nprintln(missing)\nlet n: i64 = "x"\n'
    assert codes(program) == ["0301", "0201", "0203"], messages(program)


def test_what_depends_on_an_error_is_silent() -> None:
    program = "let a = zeros(3) + zeros(4)\nlet b = a @ 3\nlet c = b\nif c { c.foo() }\nlet d = missing + 1\nfor i in d { i[0] = 2 }"
    assert codes(program) == ["0301", "0201"], messages(program)


def test_a_body_that_an_instance_asks_for_first_is_typed_in_the_tree() -> None:
    program = checked("def g(a: i64) { a * 2.0 }\ndef h(x) { g(1) }\nprintln(h(2))").program
    function = program.statements[0]
    assert isinstance(function, nodes.Function)
    assert function.body is not None
    (statement,) = function.body.statements
    assert isinstance(statement, nodes.ExpressionStatement)
    assert str(statement.value.type) == "f64"


def test_long_chains_and_deep_nests_are_checked() -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20000)
    try:
        assert type_of(" + ".join(["1"] * 2000)) == "i64"
        assert type_of("(" * 150 + "1" + ")" * 150) == "i64"
        assert codes("if true {" * 150 + "println(missing)" + "}" * 150) == ["0201"]
    finally:
        sys.setrecursionlimit(limit)


def test_a_nested_function_keeps_out_of_the_tree_what_one_call_makes_of_it() -> None:
    found = checked('def outer(x) {\n    def inner() { x + 1 }\n    inner()\n}\nouter(2)\nouter("a")')
    (fault,) = found.diagnostics.errors
    assert (fault.code, [label.text for label in fault.others]) == ("0208", ["String", "i64", "called here with (String)"])
    outer = found.program.statements[0]
    assert isinstance(outer, nodes.Function)
    assert outer.body is not None
    inner = outer.body.statements[0]
    assert isinstance(inner, nodes.Function)
    assert inner.body is not None
    (statement,) = inner.body.statements
    assert isinstance(statement, nodes.ExpressionStatement)
    assert str(statement.value.type) == "?"


def test_a_size_is_bound_by_a_dim_that_falls_as_it_grows() -> None:
    text = """def f(x: tensor[4 - N, f32], y: tensor[N, f32]): tensor[N, f32] { y }
let r = f(zeros(1), zeros(3))
"""
    assert str(types_of(text)["r"]) == "tensor[3, f32]"
    assert codes(text.replace("zeros(3)", "zeros(2)")) == ["0302"]
