"""Names in tier 0: blocks and shadowing under Python's one scope a function, names that Python keeps for itself, and the order of
evaluation where an operand needs statements."""

from host_programs import lines


def test_an_inner_let_does_not_leak() -> None:
    assert lines("let x = 1\nif true {\n let x = 2\n println(x)\n}\nprintln(x)") == ["2", "1"]


def test_a_second_let_shadows_and_may_use_the_first() -> None:
    assert lines("let x = 1\nlet f = def() { x }\nlet x = x + 10\nprintln(x, f())") == ["11 1"]


def test_loop_variables_do_not_leak() -> None:
    program = """
let i = 100
for i in 0..3: print(i, "")
println(i)
let xs = [i for i in 0..2]
println(i, xs)
"""
    assert lines(program) == ["0 1 2 100", "100 [0, 1]"]


def test_a_local_hides_a_global_only_in_its_block() -> None:
    program = """
let x = 1
def f() {
    let before = x
    if true {
        let x = 5
        println(before, x)
    }
    x
}
println(f())
"""
    assert lines(program) == ["1 5", "1"]


def test_a_local_may_be_named_like_a_function() -> None:
    assert lines("def f(n) { n + 1 }\ndef g() {\n if true {\n  let f = f(1)\n  println(f)\n }\n f(10)\n}\nprintln(g())") == ["2", "11"]


def test_functions_change_globals() -> None:
    assert lines("mut total = 0\ndef add(n) { total += n }\nadd(3)\nadd(4)\nprintln(total)") == ["7"]


def test_a_parameter_may_change_when_it_says_so() -> None:
    assert lines("def f(mut n: int) {\n n += 1\n n\n}\nlet n = 5\nprintln(f(n), n)") == ["6 5"]


def test_names_of_python_are_plain_names() -> None:
    program = """
let class = 1
let lambda = 2
let None = 3
let int_ = 4
def pass(global, del=5) { global + del }
let range_ = pass(del=1, global=2)
let __builtins__ = 9
let __import__ = 8
println(class, lambda, None, range_, pass(1), __builtins__, __import__)
"""
    assert lines(program) == ["1 2 3 3 6 9 8"]


def test_operands_are_evaluated_from_left_to_right() -> None:
    program = """
mut log = ""
def note(name, value) {
    log += name
    value
}
mut a = [1, 2, 3]
a[note("a", 0)] = note("b", 5)
let s = note("c", 1) + (if note("d", true) { note("e", 2) } else { 0 }) * note("f", 3)
let t = (note("g", 1), { let q = note("h", 2)
    q }, note("i", 3))
println(log, s, t, a)
"""
    assert lines(program) == ["abcdefghi 7 (1, 2, 3) [5, 2, 3]"]


def test_an_operand_is_read_before_a_later_one_changes_it() -> None:
    assert lines("mut x = 1\nlet y = x + { x = 10\n x }\nprintln(y, x)") == ["11 10"]


def test_and_or_evaluate_the_right_side_only_when_asked() -> None:
    program = """
mut log = ""
def say(name, value) {
    log += name
    value
}
let a = say("a", false) and { let q = say("b", true)
    q }
let b = say("c", true) or { let q = say("d", true)
    q } or say("e", true)
let c = say("f", true) and { let q = say("g", true)
    q } and say("h", false)
println(log, a, b, c)
"""
    assert lines(program) == ["acfgh false true false"]


def test_a_conditional_evaluates_one_side() -> None:
    program = """
mut n = 0
def tick(v) {
    n += 1
    v
}
let x = true ? tick(1) : { let q = tick(2)
    q }
println(x, n)
"""
    assert lines(program) == ["1 1"]


def test_arguments_by_keyword_are_evaluated_as_written() -> None:
    program = """
mut log = ""
def note(name, value) {
    log += name
    value
}
println(Tensor::arange(step=note("s", 1.0), start=note("a", 0.0), stop=note("b", 3.0)), log)
"""
    assert lines(program)[0].endswith("sab")
