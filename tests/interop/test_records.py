"""Structs, enums, optionals, results and arrays `[T; N]` between Python and programs."""

import pickle

import numpy as np
import pytest

import zynml

PROGRAM = """struct Point { x: f64, y: f64 = 0.5 }
struct Counted { count: int, index: int? }
struct Row { values: [int; 2], at: Point }
enum Shape { Circle(f64), Box { w: f64, h: f64 }, Empty }
fn flip(p: Point) -> Point { Point { x: p.y, y: p.x } }
fn counted(count: int, index: int?) -> Counted { Counted { count: count, index: index } }
fn index_of(c: Counted) -> int { c.index ?? -1 }
fn index_of_any(c) -> int { c.index ?? -1 }
fn half(n: int) -> int? { if n % 2 == 0 { Some(n / 2) } else { None } }
fn twice(v: Option<Option<int>>) -> Option<Option<int>> { v }
fn unit(v: Option<()>) -> Option<()> { v }
fn checked(n: int) -> Result<int, String> { if n > 0 { Ok(n) } else { Err("low") } }
fn value(r: Result<int, String>) -> int { match r { Ok(v) => v, Err(_) => -1 } }
fn area(s: Shape) -> f64 { match s { Circle(r) => 3.0 * r * r
Box { w, h } => w * h
Empty => 0.0 } }
fn circle(r: f64) -> Shape { Circle(r) }
fn empty() -> Shape { Empty }
fn bumped(a: [int; 3]) -> [int; 3] { a[0] += 10
a }
fn narrow(a: [f32; 2]) -> [f32; 2] { a }
fn grid() -> [[int; 2]; 2] { [[1, 2], [3, 4]] }
fn diagonal(g: [[int; 2]; 2]) -> int { g[0][0] + g[1][1] }
fn names() -> [String; 2] { ["a", "b"] }
fn row(r: Row) -> Row { r.values[1] = 9
r }
struct Tree { value: int, below: List<Tree> }
fn tree(value: int, below: List<Tree>) -> Tree { Tree { value: value, below: below } }
fn size(t: Tree) -> int { var n = 1
for b in t.below { n += size(b) }
n }
fn grown(t: Tree) -> int { t.below.push(tree(0, []))
len(t.below) }
fn total(ps: List<Point>) -> f64 { var t = 0.0
for p in ps { t += p.x }
t }
fn either(p: (Point, int?)) -> f64 { p.0.x + (p.1 ?? 0) }
"""


@pytest.fixture(scope="module")
def program():
    return zynml.compile(PROGRAM)


def test_a_struct_has_its_fields_as_attributes(program):
    point = program.flip({"x": 1, "y": 2.5})
    assert (point.x, point.y) == (2.5, 1.0)
    assert type(point.y) is float
    assert repr(point) == "Point { x: 2.5, y: 1.0 }"
    assert program.flip(point) == program.flip((2.5, 1)) == program.flip({"y": 1.0, "x": np.float64(2.5)})


def test_fields_that_are_named_as_methods_of_tuples(program):
    found = program.counted(3, 4)
    assert (found.count, found.index) == (3, 4)
    assert program.index_of(found) == program.index_of_any(found) == 4


def test_optionals_are_none_or_their_value(program):
    assert program.half(4) == 2
    assert program.half(3) is None
    assert program.counted(1, None).index is None
    assert program.index_of(program.counted(1, None)) == program.index_of_any(program.counted(1, None)) == -1


def test_optionals_of_what_may_be_none_itself_stay_wrapped(program):
    assert program.twice(None) is None
    assert repr(program.twice(zynml.Some(None))) == "Some(None)"
    assert program.twice(3) == program.twice(zynml.Some(zynml.Some(3))) == zynml.Some(3)
    assert program.unit(None) is None
    assert program.unit(zynml.Some(None)) == zynml.Some(None)


def test_results(program):
    assert program.checked(3) == zynml.Ok(3)
    assert program.checked(0) == zynml.Err("low")
    assert repr(program.checked(0)) == "Err('low')"
    assert program.value(zynml.Ok(np.int64(5))) == 5
    assert program.value(program.checked(-1)) == -1


def test_cases_of_enums(program):
    assert repr(program.circle(2)) == "Circle(2.0)"
    assert repr(program.empty()) == "Empty"
    assert [program.area(shape) for shape in (program.circle(2.0), program.empty())] == [12.0, 0.0]


def test_arrays_are_numpys_and_are_copied(program):
    given = np.array([1, 2, 3])
    found = program.bumped(given)
    assert type(found) is np.ndarray and found.dtype == np.int64
    np.testing.assert_array_equal(found, [11, 2, 3])
    np.testing.assert_array_equal(given, [1, 2, 3])
    np.testing.assert_array_equal(program.bumped([1, 2, 3]), [11, 2, 3])
    np.testing.assert_array_equal(program.bumped(range(3)), [10, 1, 2])
    narrow = program.narrow((1, 2.5))
    assert narrow.dtype == np.float32 and narrow.tolist() == [1.0, 2.5]


def test_arrays_of_arrays_and_of_text(program):
    assert program.grid().tolist() == [[1, 2], [3, 4]]
    assert program.grid().dtype == np.int64
    assert program.diagonal(np.array([[1, 2], [3, 4]])) == program.diagonal([[1, 2], [3, 4]]) == program.diagonal(program.grid()) == 5
    assert program.names() == ["a", "b"]


def test_an_array_in_a_struct_is_copied(program):
    given = np.array([1, 2])
    found = program.row({"values": given, "at": (1, 2)})
    assert found.values.tolist() == [1, 9] and found.at.x == 1.0
    again = program.row((found.values, found.at))
    assert given.tolist() == [1, 2]
    again.values[0] = 7
    assert found.values.tolist() == [1, 9]


def test_lists_and_tuples_of_structs(program):
    assert program.total([{"x": 1, "y": 0}, (2, 0), program.flip((0, 3))]) == 6.0
    assert program.either(((1, 2), None)) == 1.0
    assert program.either(({"x": 1, "y": 2}, 5)) == 6.0


def test_structs_that_hold_lists_of_themselves(program):
    leaf = program.tree(1, [])
    both = program.tree(2, [leaf, program.tree(3, [leaf])])
    for _ in range(3):
        assert program.size(both) == 4
        assert program.grown(both) == 3, "the function's list is its own"
    with pytest.raises(zynml.ZynMLError, match="ZYN0807"):
        program.size({"value": 1, "below": [leaf, 4]})


def test_values_are_pickled_and_hashed(program):
    for value in (program.flip((1, 2)), program.circle(2), program.empty(), program.checked(1), zynml.Some(None)):
        assert pickle.loads(pickle.dumps(value)) == value
        assert len({value, pickle.loads(pickle.dumps(value))}) == 1
    assert program.flip(pickle.loads(pickle.dumps(program.flip((1, 2))))) == program.flip((2, 1))


def test_values_of_another_program_of_the_same_text(program):
    other = zynml.compile(PROGRAM)
    assert other.area(program.circle(2)) == 12.0
    assert other.flip((1, 2)) == program.flip((1, 2))


NO_COUNTERPART = "a Python dict has no counterpart"


@pytest.mark.parametrize(
    "name, value, said, hint",
    [
        ("flip", {"x": 1}, "`p` has no `y`, and Point needs it", None),
        ("flip", {"x": 1, "y": 2, "z": 3}, "`p` has `z`, and Point has no such field", "its fields are `x`, `y`"),
        ("flip", (1,), "`p` has 1 part, and Point has 2", "its fields are `x`, `y`"),
        ("flip", 3, "`p` is an int, and `flip` takes Point", "a dictionary or a tuple of its fields becomes one: `x`, `y`"),
        ("flip", None, "`p` is None, and `flip` takes Point", "a dictionary or a tuple of its fields becomes one: `x`, `y`"),
        ("flip", {"x": "a", "y": 1}, "`p.x` of `flip`: expected f64, found String", None),
        ("row", {"values": [1, "b"], "at": (1, 2)}, "`r.values[1]` of `row`: expected i64, found String", None),
        ("value", 3, "`r` is an int, and `value` takes Result<i64, String>", "`zynml.Ok(value)` and `zynml.Err(error)` make one"),
        ("value", zynml.Ok("a"), "`r` of `value`: expected i64, found String", None),
        ("area", zynml.Ok(1), "`s` is a `Result`, and `area` takes Shape", None),
        ("bumped", [1, 2], "`a` has 2 elements, and `bumped` takes [i64; 3]", None),
        ("bumped", 3, "`a` is an int, and `bumped` takes [i64; 3]", "an array of NumPy's, a list or a tuple becomes one"),
        (
            "bumped",
            np.ones(3),
            "`a` is an array of float64 of shape (3,), and `bumped` takes [i64; 3]",
            "`a.astype(np.int64)` converts it",
        ),
        ("bumped", np.ones((3, 1), int), "`a` is an array of int64 of shape (3, 1), and `bumped` takes [i64; 3]", None),
        ("total", [{"x": 1}], "`ps[0]` has no `y`, and Point needs it", None),
        ("half", {}, NO_COUNTERPART, "programs know numbers, text, arrays, lists, tuples, ranges and functions"),
        ("index_of_any", {}, NO_COUNTERPART, "programs know numbers, text, arrays, lists, tuples, ranges and functions"),
    ],
)  # fmt: skip
def test_what_does_not_fit(program, name, value, said, hint):
    with pytest.raises(zynml.ZynMLError) as caught:
        getattr(program, name)(value)
    [diagnostic] = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.message, diagnostic.hint) == ("0807", said, hint)


def test_a_whole_message(program):
    with pytest.raises(zynml.ZynMLError) as caught:
        program.flip({"x": 1, "yy": 2})
    assert str(caught.value) == (
        "error[ZYN0807]: `p` has `yy`, and Point has no such field\n"
        " --> <program>:5:9\n"
        "  |\n"
        "5 | fn flip(p: Point) -> Point { Point { x: p.y, y: p.x } }\n"
        "  |         ^^^^^^^^ declared here\n"
        "hint: its fields are `x`, `y`"
    )
