"""`match`, `if let`, tuples, structs and enums in kernels, against what NumPy and plain Python compute."""

import numpy as np
from helpers import run_block as run

X = np.array([0.5, -1.5, 2.5, 7.0, 3.0], np.float32)

TYPES = """
struct Point { x: f32, y: f32 }
enum Side { Buy, Sell, Hold }
enum Shape { Circle(f32), Rect { w: f32, h: f32 }, Empty }
impl Point {
    def plus(self, other: Point): Point { Point { x: self.x + other.x, y: self.y + other.y } }
    def norm(self): f32 { sqrt(self.x * self.x + self.y * self.y) }
    def origin(): Point { Point { x: 0.0, y: 0.0 } }
}
def area(s: Shape): f32 { match s { Circle(r) => 3.0 * r * r, Rect { w, h } => w * h, Empty => 0.0 } }
def shape(i: i64, x: f32): Shape {
    if i == 0 { return Circle(x) }
    match i {
        1 => { return Shape::Rect { w: x, h: 2.0 } }
        _ => { if x > 3.0 { return Empty } }
    }
    Rect { h: 1.0, w: x }
}
def side(x: f32): Side { if x > 1.0 { Buy } elif x < 0.0 { Sell } else { Hold } }
def above(x: f32, least: f32): Option<f32> { if x > least { Some(x) } else { None } }
def halved(n: i64): Result<i64, i32> { if n % 2 == 0 { Ok(n / 2) } else { Err(-1i32) } }
"""


def of(text: str) -> np.ndarray:
    return np.asarray(run(TYPES + "let y = compute(x) {\n" + text + "\n}", x=X))


def test_match_of_ints_with_ranges_alternatives_and_guards() -> None:
    got = of("for i in 0..N: out[i] = match i { 0 => x[i], 1 | 4 => -x[i], 2..4 if x[i] < 3.0 => 10.0, _ => 20.0 }")
    assert got.tolist() == [0.5, 1.5, 10.0, 20.0, -3.0]


def test_match_of_bools_and_tuples() -> None:
    got = of("for i in 0..N: out[i] = match (x[i] > 1.0, i) { (true, 2) => 1.0, (true, n) => n as f32, (false, _) => x[i] }")
    assert got.tolist() == [0.5, -1.5, 1.0, 3.0, 4.0]


def test_match_as_a_statement_runs_one_arm() -> None:
    got = of("for i in 0..N {\n out[i] = 0.0\n match side(x[i]) { Buy => { out[i] = x[i] }\n Sell => { out[i] = 100.0 }\n _ => {} } }")
    assert got.tolist() == [0.0, 100.0, 2.5, 7.0, 3.0]


def test_enums_with_values_from_functions() -> None:
    expected = [3.0 * 0.5 * 0.5, -1.5 * 2.0, 2.5, 0.0, 3.0]
    assert of("for i in 0..N: out[i] = area(shape(i, x[i]))").tolist() == expected


def test_structs_have_fields_methods_and_functions_of_their_own() -> None:
    text = """for i in 0..N {
        var p = Point::origin()
        for k in 0..3: p = p.plus(Point { y: x[i], x: 1.0 })
        p.x -= 0.5
        out[i] = p.norm()
    }"""
    np.testing.assert_allclose(of(text), np.hypot(2.5, 3.0 * X.astype(np.float64)), rtol=1e-6)


def test_optionals_are_carried_through_loops() -> None:
    text = """for i in 0..N {
        var best: Option<f32> = None
        for j in 0..N {
            if let Some(v) = above(x[j], x[i]) {
                best = match best { Some(b) => Some(min(b, v)), None => Some(v) }
            }
        }
        out[i] = match best { Some(b) => b, None => -100.0 }
    }"""
    assert of(text).tolist() == [2.5, 0.5, 3.0, -100.0, 7.0]


def test_results_hold_two_types() -> None:
    got = of("for i in 0..N: out[i] = x[i] * (match halved(i) { Ok(n) => n as f32, Err(e) => e as f32 })")
    assert got.tolist() == [0.0, 1.5, 2.5, -7.0, 6.0]


def test_alternatives_bind_one_name() -> None:
    text = """for i in 0..N {
        let a = match shape(i, x[i]) { Circle(v) | Rect { w: v, h: _ } => v, Empty => 9.0 }
        out[i] = a
    }"""
    assert of(text).tolist() == [0.5, -1.5, 2.5, 9.0, 3.0]


def test_names_of_a_pattern_end_with_its_arm() -> None:
    text = """for i in 0..N {
        let v = 1.0
        if let Some(v) = above(x[i], 0.0) { out[i] = v + 1.0 } else { out[i] = v }
    }"""
    assert of(text).tolist() == [1.5, 1.0, 3.5, 8.0, 4.0]


def test_equality_of_values_of_several_numbers() -> None:
    got = of("for i in 0..N: out[i] = (1.0 if side(x[i]) == Hold else 2.0) + (10.0 if (i, x[i]) == (2, 2.5) else 0.0) + 0.0 * x[i]")
    assert got.tolist() == [1.0, 2.0, 12.0, 2.0, 2.0]


def test_tuples_are_variables() -> None:
    text = """for i in 0..N {
        var t = (0.0, (1, x[i]))
        for j in 0..i { t = (t.0 + x[j], (t.1.0 * 2, t.1.1)) }
        t.1.0 += 1
        let (total, (power, own)) = t
        out[i] = total + (power as f32) * own
    }"""
    sums = np.concatenate([[0.0], np.cumsum(X.astype(np.float64))[:-1]])
    assert of(text).tolist() == (sums + (2.0 ** np.arange(5) + 1.0) * X).tolist()


def test_a_struct_with_type_parameters() -> None:
    text = """struct Pair<A, B> { first: A, second: B }
def turned<A, B>(p: Pair<A, B>): Pair<B, A> { Pair { first: p.second, second: p.first } }
let y = compute(x) { for i in 0..N: out[i] = turned(Pair { first: i, second: x[i] }).first }"""
    assert np.asarray(run(text, x=X)).tolist() == X.tolist()
