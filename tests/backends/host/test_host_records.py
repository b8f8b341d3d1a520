"""Structs, enums, `match`, optionals, results and arrays `[T; N]` on tier 0, with the checker's types and without; what stops a program."""

import pytest
from host_programs import lines, message

DECLARED = """struct Point { x: f64, y: f64 = 0.5 }
struct Holder { name: String, values: [int; 3], at: Point }
struct Pair<T> { first: T, second: T }
enum Shape { Circle(f64), Box { w: f64, h: f64 }, Empty }
fn half(n: int) -> int? { if n % 2 == 0 { Some(n / 2) } else { None } }
fn positive(n: int) -> Result<int, String> { if n > 0 { Ok(n) } else { Err(f"{n} is not") } }
fn holder() -> Holder { Holder { name: "a", values: [1, 2, 3], at: Point { x: 1.0 } } }
"""


def shown(text: str) -> list[str]:
    return lines(DECLARED + text)


# ---- structs ---------------------------------------------------------------------------------------------------------


def test_a_struct_is_printed_as_it_is_written() -> None:
    assert shown("println(Point { x: 1, y: 2.0 })\nprintln(holder())") == [
        "Point { x: 1.0, y: 2.0 }",
        'Holder { name: "a", values: [1, 2, 3], at: Point { x: 1.0, y: 0.5 } }',
    ]


def test_fields_are_computed_as_they_are_written_and_defaults_last() -> None:
    text = """def say(n) { print(n)
n * 1.0 }
let p = Point { y: say(2), x: say(1) }
println(p)
println(Point { x: 9.0, ..p }, Point { ..p })
"""
    assert shown(text) == ["21Point { x: 1.0, y: 2.0 }", "Point { x: 9.0, y: 2.0 } Point { x: 1.0, y: 2.0 }"]


def test_a_default_means_the_names_of_the_top() -> None:
    text = """struct Scaled { by: f64 = pi * 2.0 }
fn make() -> Scaled { let pi = 100.0
Scaled { } }
println(make())
"""
    assert lines(text) == ["Scaled { by: 6.283185307179586 }"]


def test_a_struct_is_copied_when_it_is_bound_passed_and_stored() -> None:
    text = """fn moved(p: Point) -> Point { p.x += 1.0
p }
var p = Point { x: 1.0 }
let q = p
var kept = [p]
let other = moved(p)
p.x = 7
kept[0].y = 9
println(p.x, q.x, other.x, kept[0], p.y)
"""
    assert shown(text) == ["7.0 1.0 2.0 Point { x: 1.0, y: 9.0 } 0.5"]


def test_parts_of_parts_are_assigned() -> None:
    text = """var h = holder()
let before = h
h.at.y += 2
h.values[1] = 20
h.values[2] *= 5
h.name = "b"
println(h)
println(before)
"""
    assert shown(text) == [
        'Holder { name: "b", values: [1, 20, 15], at: Point { x: 1.0, y: 2.5 } }',
        'Holder { name: "a", values: [1, 2, 3], at: Point { x: 1.0, y: 0.5 } }',
    ]


def test_parts_of_tuples_are_assigned() -> None:
    assert lines("var t = (1, (2.5, 'x'))\nlet u = t\nt.0 = 9\nt.1.0 += 1.0\nprintln(t, u)") == ['(9, (3.5, "x")) (1, (2.5, "x"))']


def test_a_list_inside_of_a_struct_stays_shared() -> None:
    text = "struct Bag { items: List<int> }\nvar a = Bag { items: [1, 2] }\nvar b = a\nb.items[0] = 5\nb.items.push(3)\nprintln(a.items)"
    assert lines(text) == ["[5, 2, 3]"]


def test_the_base_of_a_target_comes_before_the_value() -> None:
    text = """var ps = [Point { x: 1.0 }, Point { x: 2.0 }]
var i = 0
ps[i].x = if true { i = 1
50.0 } else { 0.0 }
println(ps[0].x, ps[1].x)
var p = Point { x: 1.0, y: 1.0 }
p.x = if true { p.y = 8.0
3.0 } else { 0.0 }
println(p)
"""
    assert shown(text) == ["50.0 2.0", "Point { x: 3.0, y: 8.0 }"]


def test_a_closure_sees_what_is_assigned_to_a_part_later() -> None:
    assert shown("var p = Point { x: 1.0 }\nlet get = def(): p.x\np.x = 4.0\nprintln(get())") == ["4.0"]


def test_a_struct_with_type_parameters() -> None:
    assert shown("let p = Pair { first: 1, second: 2 }\nprintln(p.first + p.second, Pair { first: 'a', second: 'b' })") == [
        '3 Pair { first: "a", second: "b" }'
    ]


def test_equality_compares_parts() -> None:
    text = """let p = Point { x: 1.0 }
println(p == Point { x: 1, y: 0.5 }, p != Point { x: 2.0 }, Circle(1.0) == Circle(1.0), Circle(1.0) == Empty, Empty == Empty)
println(half(4) == Some(2), half(3) == None, half(4) != None, (p, 1) == (p, 1), holder() == holder(), Ok(1) == positive(1))
"""
    assert shown(text) == ["true true true false true", "true true true true true true"]


# ---- enums and match -------------------------------------------------------------------------------------------------


def test_cases_are_printed_as_they_are_written() -> None:
    assert shown("println(Circle(2), Box { w: 1, h: 2 }, Empty, Shape::Empty, Shape::Circle(1.5))") == [
        "Circle(2.0) Box { w: 1.0, h: 2.0 } Empty Empty Circle(1.5)"
    ]


def test_arms_take_cases_apart() -> None:
    text = """fn area(s: Shape) -> f64 { match s { Circle(r) => 3.0 * r * r
Box { w, h: height } => w * height
Empty => 0.0 } }
println(area(Circle(2.0)), area(Box { w: 2.0, h: 3.0 }), area(Empty))
"""
    assert shown(text) == ["12.0 6.0 0.0"]


def test_guards_alternatives_and_ranges() -> None:
    text = """fn word(n: int) -> String { match n { 0 => "zero"
1 | 2 => "few"
x if x < 0 => f"below {x}"
3..10 => "some"
10..=20 => "many"
_ => "a lot" } }
for n in [0, 2, -4, 3, 9, 10, 20, 21] { print(word(n))
print(" ") }
println()
"""
    assert lines(text) == ["zero few below -4 some some many many a lot "]


def test_a_guard_that_fails_goes_on_with_the_next_arm() -> None:
    text = """fn f(s: Shape) -> f64 { match s { Circle(r) if r > 5.0 => r
Circle(r) if r > 2.0 => -r
Circle(_) => 0.0
_ => 1.0 } }
println(f(Circle(6.0)), f(Circle(3.0)), f(Circle(1.0)), f(Empty))
"""
    assert shown(text) == ["6.0 -3.0 0.0 1.0"]


def test_alternatives_bind_the_same_names() -> None:
    text = """enum Either { Left(int, int), Right(int), Neither }
fn value(e: Either) -> int { match e { Left(_, v) | Right(v) => v
Neither => -1 } }
println(value(Left(1, 2)), value(Right(3)), value(Neither))
"""
    assert lines(text) == ["2 3 -1"]


def test_nested_patterns_of_tuples_structs_and_cases() -> None:
    text = """fn f(pair: (int?, Shape)) -> f64 { match pair { (Some(n), Circle(r)) if n > 1 => r * 10.0
(None, Box { h }) => h
(Some(1), _) => 1.0
_ => 0.0 } }
println(f((Some(2), Circle(1.5))), f((None, Box { w: 1.0, h: 4.0 })), f((Some(1), Empty)), f((None, Empty)))
"""
    assert shown(text) == ["15.0 4.0 1.0 0.0"]


def test_arms_are_blocks_that_may_leave() -> None:
    text = """fn first(xs: List<int?>) -> int { for x in xs { match x { Some(v) if v > 2 => { return v }
Some(_) => { continue }
None => { break } } }
-1 }
println(first([Some(1), Some(5), None]), first([Some(1), None, Some(9)]))
"""
    assert lines(text) == ["5 -1"]


def test_a_match_gives_a_value_in_its_place() -> None:
    assert shown("let v: f64 = match half(4) { Some(n) => n, None => 1 }\nprintln(v)") == ["2.0"]


def test_the_colon_form() -> None:
    text = """fn f(n: int) -> int:
    match n:
        case 0:
            10
        case k if k > 5:
            k
        case _:
            -1
println(f(0), f(7), f(3))
"""
    assert lines(text) == ["10 7 -1"]


def test_values_of_any_type_are_matched() -> None:
    text = """fn kind(v: any) -> String { match v { Circle(r) => f"circle {r}", Some(3) => "three", (a, b) => f"{a} and {b}", 1..=4 => "small",
"x" | "y" => "text", Point { x } if x > 5.0 => "far", None => "none", true => "yes", _ => "other" } }
for v in [1] { println(kind(Circle(1.0)), kind(Some(3)), kind((1, 2)), kind(4), kind("y")) }
println(kind(Point { x: 6.0 }), kind(Point { x: 1.0 }), kind(None), kind(true), kind(false), kind(Some(4)))
"""
    assert shown(text) == ["circle 1.0 three 1 and 2 small text", "far other none yes other other"]


@pytest.mark.parametrize("typed", [True, False])
def test_a_value_of_any_type_that_no_arm_takes(typed: bool) -> None:
    assert message("fn f(v: any) -> int { match v { 1 => 2, Some(n) => 3 } }\nprintln(f(7))", typed) == (
        "error[ZYN0807]: no arm of this `match` takes 7\n"
        " --> program.zynml:1:29\n"
        "  |\n"
        "1 | fn f(v: any) -> int { match v { 1 => 2, Some(n) => 3 } }\n"
        "  |                             ^\n"
        "2 | println(f(7))\n"
        "  |         ---- called from here\n"
        "hint: add an arm `_ => ...`"
    )


# ---- optionals and results -------------------------------------------------------------------------------------------


def test_defaults_and_leaving() -> None:
    text = """fn quarter(n: int) -> int? { half(half(n)?) }
fn total(a: int, b: int) -> Result<int, String> { Ok(positive(a)? + positive(b)?) }
println(quarter(12), quarter(6), quarter(3), half(3) ?? 7, half(8) ?? 7, half(3) ?? half(4) ?? 0, quarter(3) ?? half(6))
println(total(1, 2), total(-1, -2), total(1, -2), positive(-3) ?? 0)
"""
    assert shown(text) == ["Some(3) None None 7 4 2 Some(3)", 'Ok(3) Err("-1 is not") Err("-2 is not") 0']


def test_a_default_is_computed_only_where_it_is_needed() -> None:
    assert shown("def say(n) { print(n)\nn }\nprintln(half(4) ?? say(1))\nprintln(half(3) ?? say(1))") == ["2", "11"]


def test_if_let() -> None:
    text = """fn f(n: int) -> int { if let v = half(n) { v } elif let Ok(v) = positive(n) { v * 100 } else { -1 } }
println(f(8), f(3), f(-3))
if let Some(v) = half(2) { println(v) }
if let (a, b) = (if true { Some((1, 2)) } else { None }) { println(a + b) }
"""
    assert shown(text) == ["4 300 -1", "1", "3"]


def test_a_plain_value_where_an_optional_is_wanted() -> None:
    text = """fn f(v: f64?) -> f64? { v }
var o: int? = 3
println(o, f(2), f(None))
o = None
println(o)
"""
    assert lines(text) == ["Some(3) Some(2.0) None", "None"]


def test_an_optional_that_surely_has_a_value_stands_for_it() -> None:
    from host_programs import output

    assert output("fn f(n: int) -> int {\nvar v: int? = None\nv = n\nlet w: int = v\nw + 1\n}\nprintln(f(3))") == "4\n"


def test_methods() -> None:
    text = """println(half(4).is_some(), half(4).is_none(), positive(1).is_ok(), positive(1).is_err())
println(half(4).unwrap(), positive(3).unwrap(), half(3).unwrap_or(9), positive(0).unwrap_or(9))
println(half(8).map(def(x): x * 10), half(7).map(def(x): x * 10), positive(2).map(def(x): x + 1), positive(0).map(def(x): x + 1))
println(half(8).and_then(half), half(6).and_then(half), half(8).ok_or("odd"), half(7).ok_or("odd"))
println(positive(1).ok(), positive(0).ok(), positive(0).map_err(def(e): len(e)), positive(4).and_then(positive))
"""
    assert shown(text) == [
        "true false true false",
        "2 3 9 9",
        'Some(40) None Ok(3) Err("0 is not")',
        'Some(2) None Ok(4) Err("odd")',
        "Some(1) None Err(8) Ok(4)",
    ]


@pytest.mark.parametrize("typed", [True, False])
def test_unwrap_of_none_stops_at_its_place(typed: bool) -> None:
    text = "fn half(n: int) -> int? { if n % 2 == 0 { Some(n / 2) } else { None } }\nlet v = half(3).unwrap()"
    assert message(text, typed) == (
        "error[ZYN0808]: `unwrap` of nothing: the value is none\n"
        " --> program.zynml:2:9\n"
        "  |\n"
        "2 | let v = half(3).unwrap()\n"
        "  |         ^^^^^^^^^^^^^^^^\n"
        "hint: give a default with `e ?? d`, or take the value out with `if let` or `match`"
    )


def test_unwrap_of_an_error_shows_it() -> None:
    text = 'fn f(n: int) -> Result<int, String> { Err("bad") }\nlet v = f(1).unwrap()'
    assert message(text).splitlines()[0] == "error[ZYN0808]: `unwrap` of an error: bad"


def test_a_question_mark_behind_a_value_of_another_type() -> None:
    assert message("fn f(v: any) -> int? { v? }\nprintln(f(3))").splitlines()[:2] == [
        "error[ZYN0807]: `?` takes a value that may be none, and this is i64",
        " --> program.zynml:1:24",
    ]


# ---- arrays ----------------------------------------------------------------------------------------------------------


def test_an_array_is_copied_when_it_is_bound_passed_and_stored() -> None:
    text = """fn change(a: [int; 3]) -> int { a[0] = 9
a[0] }
fn same(a) { a }
var a: [int; 3] = [1, 2, 3]
let b = a
let o: [int; 3]? = a
let (p, q) = (a, 1)
let c: [int; 3] = same(a)
println(change(a), a)
a[1] = 50
println(a, b, o, p, c, a.len, len(a))
var d = o ?? a
d[0] = 77
if let v = o { a = v }
a[2] = 8
println(o, a, d)
"""
    assert shown(text) == [
        "9 [1, 2, 3]",
        "[1, 50, 3] [1, 2, 3] Some([1, 2, 3]) [1, 2, 3] [1, 2, 3] 3 3",
        "Some([1, 2, 3]) [1, 2, 8] [77, 2, 3]",
    ]


def test_an_array_inside_of_a_struct_is_copied_with_it() -> None:
    text = """var xs = [holder(), holder()]
let first = xs[0]
xs[0].values[0] = 10
for x in xs { xs[1].values[1] = 20
print(x.values) }
println(first.values)
"""
    assert shown(text) == ["[10, 2, 3][1, 20, 3][1, 2, 3]"]


def test_a_loop_goes_over_the_elements_as_they_were() -> None:
    assert shown("var a: [int; 3] = [1, 2, 3]\nvar t = 0\nfor x in a { a[2] = 50\nt += x }\nprintln(t, a)") == ["6 [1, 2, 50]"]


def test_elements_are_what_the_type_says() -> None:
    text = """var a: [f32; 2] = [1, 2.5]
a[0] += 1
var b: [u8; 3] = [250; 3]
b[1] = 7
var c: [bool; 2] = [true; 2]
c[0] = false
var names: [String; 2] = ["a"; 2]
names[1] = "b"
var grid: [[int; 2]; 2] = [[0; 2]; 2]
grid[1][0] = 4
let before = grid
grid[0] = [8, 9]
println(a, b, c, names, grid, before)
"""
    assert shown(text) == ['[2.0, 2.5] [250, 7, 250] [false, true] ["a", "b"] [[8, 9], [4, 0]] [[0, 0], [4, 0]]']


def test_ints_of_elements_stay_checked() -> None:
    text = "var b: [u8; 2] = [250; 2]\nb[0] += 10"
    assert message(text).splitlines()[0] == "error[ZYN0806]: 250 + 10 does not fit in u8"


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("index", [3, -1])
def test_an_index_outside_of_an_array(index: int, typed: bool) -> None:
    text = f"var a: [int; 3] = [1, 2, 3]\nvar i = {index}\ni += 0\nprintln(a[i])"
    assert message(text, typed) == (
        f"error[ZYN0801]: index {index} is out of range: the array has 3, indices go from 0 to 2\n"
        " --> program.zynml:4:9\n"
        "  |\n"
        "4 | println(a[i])\n"
        "  |         ^^^^"
    )


def test_a_store_outside_of_an_array_comes_after_its_value() -> None:
    text = "var a: [int; 2] = [1, 2]\nvar i = 2\ni += 0\na[i] = if true { println('value')\n3 } else { 0 }"
    assert message(text).splitlines()[:2] == [
        "error[ZYN0801]: index 2 is out of range: the array has 2, indices go from 0 to 1",
        " --> program.zynml:4:1",
    ]


def test_numbers_of_arrays_are_plain_outside_of_them() -> None:
    assert shown("let a: [int; 2] = [9223372036854775807; 2]\nvar t = a[0]\nt -= 1\nprintln(t)") == ["9223372036854775806"]
    found = message("let a: [int; 2] = [9223372036854775807; 2]\nprintln(a[0] + a[1])").splitlines()[0]
    assert found == "error[ZYN0806]: 9223372036854775807 + 9223372036854775807 does not fit in i64"


def test_a_struct_with_a_list_of_its_own_kind() -> None:
    program = """struct Tree { value: int, children: List<Tree> }
fn total(t: Tree) -> int {
    var sum = t.value
    for c in t.children { sum += total(c) }
    sum
}
let leaf = Tree { value: 2, children: [] }
println(total(Tree { value: 1, children: [leaf, leaf, Tree { value: 5, children: [leaf] }] }))
"""
    assert lines(program) == ["12"]
