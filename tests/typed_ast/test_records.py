"""Structs, enums, optionals, results and arrays `[T; N]` in ZynML: what is accepted, and what is said of mistakes."""

import pytest

from tests.typed_ast.checking import codes, messages

DECLARED = """struct Point { x: f64, y: f64 = 0.0 }
struct Pair<T> { first: T, second: T }
enum Shape { Circle(f64), Box { w: f64, h: f64 }, Empty }
let p = Point { x: 1.0 }
let shape = Circle(2.0)
"""


@pytest.mark.parametrize(
    "text",
    [
        "let d: f64 = p.x + p.y",
        "let q = Point { x: 2.0, ..p }",
        "let area: f64 = match shape { Circle(r) => r * r, Box { w, h } => w * h, Empty => 0.0 }",
        "let area: f64 = match shape { case Circle(r) { r * r } case Box { w, h } { w * h } case Empty { 0.0 } }",
        "fn half(n: int) -> int? { if n % 2 == 0 { Some(n / 2) } else { None } }\nlet v: i64 = half(3) ?? 7",
        "fn half(n: int) -> Option<int> { None }\nif let Some(v) = half(4) { println(v) }",
        "fn parse(n: int) -> Result<int, String> { if n > 0 { Ok(n) } else { Err(\"negative\") } }\nfn twice(n: int) -> Result<int, String> { Ok(parse(n)? * 2) }",
        "let a: [int; 3] = [0; 3]\nlet b: i64 = a[2]",
        "let N = 4\nlet a: [bool; 2 * N] = [true; 8]",
        "let both = Pair { first: 1, second: 2 }\nlet c: Pair<i64> = both",
        "let s = Shape::Empty\nlet t = Shape::Circle(1.0)",
        "struct Tree { value: int, children: List<Tree> }\nlet leaf = Tree { value: 1, children: [] }\nlet tree = Tree { value: 2, children: [leaf] }",
        "var q = p\nq.x = 2.0\nq.y = 3\nq.x += 1",
        "var a: [int; 3] = [0; 3]\na[2] = 4\na[0] += a[2]",
        "var a: [Point; 2] = [p; 2]\na[1].x = 2.0",
        "var t = (1, 2.5)\nt.0 = 9\n(t.0, t.1) = (3, 1)",
        "var s = shape\ns = Empty",
        "var o: int? = None\no = 3\nlet v: int = o",
        "let n = 4\nlet q = if n > 3 { p } else { Point { x: 0.0 } }\nlet x: f64 = q.x",
        "let n = 4\nlet o: int? = if n > 3 { n } else { None }",
        "let points: [Point; 2] = [p; 2]\nfor q in points { let x: f64 = q.x }",
        "def f(n) { if n > 0 { p } else { 1 } }\nlet v = f(1)",
    ],
)  # fmt: skip
def test_accepted(text: str) -> None:
    assert codes(DECLARED + text) == [], messages(DECLARED + text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p.z", "0202"),
        ("Point { y: 1.0 }", "0204"),
        ("Point { x: true }", "0203"),
        ("Point { x: 1.0, z: 2.0 }", "0202"),
        ("Circle(1.0, 2.0)", "0204"),
        ("Shape::Round", "0201"),
        ("match shape { Circle(r) => r, Empty => 0.0 }", "0206"),
        ("match 3 { 1 => 2 }", "0206"),
        ("let v: int? = 1\nlet w: i64 = v", "0726"),
        ("let a: [int; 3] = [0; 3]\na[3]", "0705"),
        ("let a: [int; 0] = [1]", "0301"),
        ("1 ?? 2", "0203"),
        ("struct Loop { inner: Loop }", "0210"),
        ("p.x = 2.0", "0205"),
        ("var q = p\nq.x = true", "0203"),
        ("var q = p\nq.z = 1.0", "0202"),
        ("var q = p\nq = 3", "0203"),
        ("var s = shape\ns = p", "0203"),
        ("var a: [int; 3] = [0; 3]\na[1] = 2.5", "0207"),
        ("var a: [int; 3] = [0; 3]\na = [0; 4]", "0203"),
        ("var a: [Point; 2] = [p; 2]\na[1].y = true", "0203"),
        ("var t = (1, 2)\nt.1 = 2.5", "0207"),
        ("var o: int? = None\no = true", "0203"),
        ("let n = 4\nlet q = if n > 3 { p } else { shape }", "0203"),
        ("let r: Result<int, String> = Ok(3)\nr", "0723"),
        ("let v = None", "0203"),
        ("let (a, b) = p", "0203"),
        ("for x in p { }", "0203"),
    ],
)
def test_refused(text: str, expected: str) -> None:
    assert codes(DECLARED + text) == [expected], messages(DECLARED + text)


@pytest.mark.parametrize(
    "text",
    [
        "let a: [int; 3] = [1, 2, 3]\nvar t: i64 = 0\nfor x in a { t += x }",
        "let a: [[f32; 2]; 1] = [[1, 2.5]]",
        "fn f(v: any) -> i64 { match v { Circle(r) => 1, Some(n) => 2, (a, b) => 3, 4 => 4 } }",
        "fn f(v: any) -> i64 { if let n = v { 1 } else { 2 } }",
        "let o: int? = None\nlet b: bool = o == None",
        "let s: bool = shape == Circle(1.0) or p == Point { x: 2.0 }",
        "fn half(n: int) -> int? { None }\nfn f(n: int) { half(n)? + 1 }\nlet v = f(3)\nmatch v { Some(n) => n, _ => 0 }",
    ],
)  # fmt: skip
def test_arrays_values_of_any_type_and_comparison_are_accepted(text: str) -> None:
    assert codes(DECLARED + text) == [], messages(DECLARED + text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("p == shape", "0208"), ("p == 3", "0208"), ("let a: [int; 2] = [1]", "0203"), ("let a: [int; 2] = [1, true]", "0203")],
)
def test_what_is_never_equal_and_arrays_of_others(text: str, expected: str) -> None:
    assert codes(DECLARED + text) == [expected], messages(DECLARED + text)
