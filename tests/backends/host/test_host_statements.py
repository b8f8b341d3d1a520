"""Statements in tier 0: choices, loops, blocks as values, targets of assignments."""

from host_programs import lines


def test_if_elif_else_takes_the_first_that_holds() -> None:
    program = """
def size(n: int): String {
    if n < 10 { "small" } elif n < 100 { "middle" } else if n < 1000 { "large" } else { "huge" }
}
for n in [1, 50, 500, 5000]: println(size(n))
"""
    assert lines(program) == ["small", "middle", "large", "huge"]


def test_if_is_a_value() -> None:
    assert lines("let x = if 1 < 2 { 10 } else { 20 }\nprintln(x + (if x > 5 { 1 } else { 2 }))") == ["11"]


def test_a_block_has_the_value_of_its_last_expression() -> None:
    assert lines("let y = {\n  let a = 2\n  a * a\n}\nprintln(y)") == ["4"]


def test_an_if_without_else_in_the_end_of_a_function_gives_unit() -> None:
    assert lines("def f(x) {\n  if x { 5 }\n}\nprintln(f(true) == ())\nprintln(f(false))")[1:] == ["()"]


def test_while_with_break_and_continue() -> None:
    program = """
var i = 0
var s = 0
while true {
    i += 1
    if i == 3: continue
    if i > 6: break
    s += i
}
println(i, s)
"""
    assert lines(program) == ["7 18"]


def test_a_condition_that_needs_statements_is_evaluated_in_each_turn() -> None:
    assert lines("var i = 0\nwhile { let j = i * 2\n j < 6 } { i += 1 }\nprintln(i)") == ["3"]


def test_ranges() -> None:
    program = """
for i in 0..3: print(i, "")
for i in 0..=3: print(i, "")
for i in 10..0 step -4: print(i, "")
for i in 0..=4 step 2: print(i, "")
for i in 3..0: print("never")
println()
"""
    assert lines(program) == ["0 1 2 0 1 2 3 10 6 2 0 2 4 "]


def test_break_in_a_nest_leaves_the_inner_loop() -> None:
    program = """
for i in 0..3, j in 0..10 {
    if j == 2: break
    print(i * 10 + j, "")
}
println()
"""
    assert lines(program) == ["0 1 10 11 20 21 "]


def test_a_later_clause_sees_the_variables_before_it() -> None:
    assert lines("var n = 0\nfor i in 0..4, j in 0..i: n += 1\nprintln(n)") == ["6"]


def test_tuples_are_taken_apart() -> None:
    program = """
let (a, _, (b, c)) = (1, 2, (3, 4))
mut x = 1
mut y = 2
(x, y) = (y, x)
println(a, b, c, x, y)
for i, v in [(0, "a"), (1, "b")]: print(i, v, "")
println()
"""
    assert lines(program) == ["1 3 4 2 1", "0 a 1 b "]


def test_lists_change_through_indices_and_slices() -> None:
    program = """
mut xs = [1, 2, 3, 4, 5]
xs[0] = 10
xs[-1] += 100
xs[1:3] = [7, 8]
println(xs, xs[1:4], xs[::2])
mut grid = [[1, 2], [3, 4]]
grid[1][0] *= 5
println(grid)
"""
    assert lines(program) == ["[10, 7, 8, 4, 105] [7, 8, 4] [10, 8, 105]", "[[1, 2], [15, 4]]"]


def test_lists_are_shared() -> None:
    assert lines("mut a = [1, 2]\nlet b = a\na[0] = 9\nprintln(b)") == ["[9, 2]"]


def test_tensors_are_indexed_and_changed() -> None:
    program = """
mut t = tensor([[1.0, 2.0], [3.0, 4.0]])
t[0, 1] = 7
t[1, 0] += 0.5
println(t[0, 1], t[1], t[:, 0])
for row in t: print(row[0], "")
println(t + t * 2.0)
"""
    assert lines(program) == [
        "7.0 tensor([3.5, 4.0], shape=[2], dtype=f32) tensor([1.0, 3.5], shape=[2], dtype=f32)",
        "1.0 3.5 tensor([[3.0, 21.0], [10.5, 12.0]], shape=[2, 2], dtype=f32)",
    ]


def test_strings_formats_and_comprehensions() -> None:
    program = """
let x = 3.14159
let name = "zyn"
println(f"{name}: {x:>8.2f}|{x + 1.0}|{{}} {[1, 2]}")
println([i * i for i in 0..6 if i % 2 == 0], [a + b for a, b in [(1, 2), (3, 4)]])
println("héllo"[1], "abc"[1:])
"""
    assert lines(program) == ["zyn:     3.14|4.14159|{} [1, 2]", "[0, 4, 16] [3, 7]", "é bc"]


def test_main_runs_after_the_statements() -> None:
    assert lines('def main() { println("main") }\nprintln("top")') == ["top", "main"]


def test_early_return() -> None:
    program = """
def find(xs, x) {
    for i in 0..len(xs) {
        if xs[i] == x { return i }
    }
    -1
}
println(find([5, 6, 7], 7), find([1], 2))
"""
    assert lines(program) == ["2 -1"]


def test_a_return_inside_a_value_leaves_the_function() -> None:
    program = "def f(x: int): int {\n let y = if x > 0 { x } else { return -1 }\n y * 2\n}\nprintln(f(4), f(-4))"
    assert lines(program) == ["8 -1"]


def test_a_variable_may_get_its_value_later() -> None:
    assert lines("var x: i64\nif 1 < 2 { x = 5 } else { x = 6 }\nprintln(x)") == ["5"]
