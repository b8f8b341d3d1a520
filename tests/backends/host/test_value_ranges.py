"""Sums that leave i64 stop, however the large number came to where it is read; those that can't leave it aren't looked at."""

import pytest
from test_direct import generated

import zynml

MAX = 2**63 - 1

OVERFLOWS = {
    "doubled": "mut x = 1\nfor i in 0..70 { x *= 2 }\nx",
    "a step from near the end": f"mut x = {MAX - 1}\nfor i in 0..5 {{ x += 1 }}\nx",
    "large steps": "mut x = 0\nfor i in 0..100 { x += 1000000000000000000 }\nx",
    "downward": f"mut x = 5\nfor i in 0..5 {{ x -= {MAX} }}\nx",
    "two that grow by each other": "mut a = 1\nmut b = 1\nfor i in 0..100 { a = b + 1\nb = a + a }\nb",
    "another name of a list": f"mut a = [1]\nlet b = a\nmut c = b\nc[0] = {MAX}\na[0] + 1",
    "a function that stores": f"mut a = [1]\nfill(a, {MAX})\na[0] + 1",
    "a row of a list": f"mut grid = [[1], [2]]\nfor row in grid {{ mut r = row\nr[0] = {MAX} }}\ngrid[0][0] + 1",
    "a named row": f"mut grid = [[1], [2]]\nmut row = grid[1]\nrow.push({MAX})\ngrid[1][1] + 1",
    "a last row": f"mut grid = [[1], [2]]\nmut row = grid.last()\nrow[0] = {MAX}\ngrid[1][0] + 1",
    "numbered rows": f"mut grid = [[1], [2]]\nfor i, row in enumerate(grid) {{ mut r = row\nr[0] = {MAX} }}\ngrid[1][0] + 1",
    "a row that is pushed": f"mut grid: List<List<int>> = []\nmut row = [1]\ngrid.push(row)\nrow[0] = {MAX}\ngrid[0][0] + 1",
    "a passed row": f"mut grid = [[1], [2]]\nfill(grid[0], {MAX})\ngrid[0][0] + 1",
    "rows of a map": f"mut m = {{1: [1]}}\nfor k, row in m {{ mut r = row\nr.push({MAX}) }}\nm[1][1] + 1",
    "keys": f"mut m = {{{MAX}: 1}}\nmut s = 0\nfor k, v in m {{ s = k + 1 }}\ns",
    "a map's new value": f"mut m = {{1: 1}}\nm.insert(2, {MAX})\nm[2] + 1",
    "a default": f"let m = {{1: 1}}\nm.get_or(2, {MAX}) + 1",
    "a map that counts": f"mut m = {{1: {MAX - 2}}}\nfor i in 0..5 {{ m[1] += 1 }}\nm[1]",
    "a match": f"let x = 1\nlet o: Option<int> = Some({MAX})\nmatch o {{ case Some(x) {{ x + 1 }} case None() {{ x }} }}",
    "a lambda's parameter": f"let x = 1\nlet g = x => x + 1\ng({MAX}) + x",
    "a closure that stores": f"mut x = 1\nlet g = def(): {{ x = {MAX} }}\ng()\nx + 1",
    "a closure's list": f"mut xs = [1]\nlet g = def(): {{ xs[0] = {MAX} }}\ng()\nxs[0] + 1",
    "a parameter": "big + 1",
    "a parameter's list": "bigs[0] + 1",
    "a loop over a parameter's list": "let x = 1\nmut s = 0\nfor x in bigs { s = x + 1 }\ns",
    "a comprehension over it": "let x = 1\nlet ys = [x + 1 for x in bigs]\nys[0]",
    "exchanged": f"mut a = 1\nmut b = {MAX}\n(a, b) = (b, a)\na + 1",
    "a choice of lists": f"mut xs = [1]\nmut ys = if big > 0 {{ xs }} else {{ [1] }}\nys.push({MAX})\nxs[1] + 1",
    "a struct's list": f"mut xs = [1]\nmut p = Holder {{ items: xs }}\np.items[0] = {MAX}\nxs[0] + 1",
    "a tuple's list": f"mut xs = [1]\nlet t = (xs, 1)\nfill(t.0, {MAX})\nxs[0] + 1",
    "a variable of the top": "change()\nlet y = 1\nhigh + y",
    "a hidden variable of the top": "change()\nif big < 0 { let high = 1\nprint(high) }\nhigh + 1",
    "a product of a loop": "mut s = 0\nfor i in 4000000000..4000000002 { s = i * i }\ns",
    "what is left of a sum": f"let a = {MAX}\nmut s = 0\nfor i in 1..3 {{ s = a + i - i }}\ns",
    "a list that repeats": f"mut xs = [0].repeat(3)\nxs[1] = {MAX}\nxs[1] + 1",
    "extended": "mut xs = [1]\nxs.extend(bigs)\nxs[1] + 1",
    "sorted": f"mut xs = [1, {MAX}]\nlet ys = xs.sorted()\nys[1] + 1",
    "a while": "mut x = 1\nwhile x > 0 { x = x * 3 + 1 }\nx",
    "an own max": f"let max = (a, b) => {MAX}\nlet y = max(1, 2)\ny + 1",
}

HEAD = """
struct Holder { items: List<int> }
mut high = 1
def change() { high = 9223372036854775807 }
def fill(mut xs: List<int>, value: int) { xs[0] = value }
"""


@pytest.mark.parametrize("body", OVERFLOWS.values(), ids=OVERFLOWS.keys())
def test_what_leaves_i64_stops(body: str) -> None:
    program = zynml.compile(f"{HEAD}def f(big: int, bigs: List<int>): int {{\n{body}\n}}\n")
    with pytest.raises(zynml.ZynMLError) as raised:
        program.f(MAX, [MAX])
    assert raised.value.codes == ("ZYN0806",)


@pytest.mark.parametrize(
    "body",
    [
        "mut at = 0\nwhile at < n { at += 1 }\nat",
        "mut s = 0\nfor i in 0..n { s += i % 10 - 3 }\ns",
        "mut key = 7\nfor i in 0..n { key = (key * 31 + 17) % 257 }\nkey",
        "mut m: HashMap<int, int> = {}\nfor i in 0..n { m[i] = m.get_or(i, 0) + 1 }\nm.len()",
        "mut grid = [[0, 0], [0, 0]]\nfor i in 0..2 { grid[i][1] = grid[i][0] + i % 5 }\ngrid[1][1]",
        "mut far = 0\nlet xs = [1, 5, 3]\nfor x in xs { far = max(far, x + 1) }\nfar",
    ],
)
def test_what_stays_in_i64_is_not_looked_at(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "·overflow" not in generated(f"def f(n: int): int {{\n{body}\n}}\n", monkeypatch)


def test_the_results_are_those_of_whole_numbers() -> None:
    text = """
def f(n: int): (int, int, int) {
    mut grid = [[i * j % 7 for j in 0..n] for i in 0..n]
    mut sum = 0
    for i in 1..n { for j in 1..n { sum += grid[i - 1][j] - grid[i][j - 1] * 2
        grid[i][j] = sum % 11 } }
    mut key = 5
    for i in 0..n { key = (key * 7 - 400) % 13 }
    (sum, key, grid[n - 1][n - 1])
}
"""
    n = 30
    grid = [[i * j % 7 for j in range(n)] for i in range(n)]
    total = 0
    for i in range(1, n):
        for j in range(1, n):
            total += grid[i - 1][j] - grid[i][j - 1] * 2
            grid[i][j] = abs(total) % 11 * (1 if total >= 0 else -1)
    key = 5
    for _ in range(n):
        moved = key * 7 - 400
        key = abs(moved) % 13 * (1 if moved >= 0 else -1)
    assert zynml.compile(text).f(n) == (total, key, grid[-1][-1])
