"""Values that were taken from a state stay what they were while functions and loops change the state."""

from tests.quantdsl.strategies.stand import ES, Stand, trade

STRATEGY = (
    ES
    + """
struct Kept { values: [int; 3], mark: Price<ES>? = none }

fn both(xs: [int; 3], ys: [int; 3]) -> int { xs[0] * 1000 + ys[0] }

strategy S on ES {
  risk Desk
  state xs = [1, 2, 3]
  state window: ring<int, 3>
  state kept = Kept { values: [7, 8, 9] }
  state table: table<int, Kept, 4>
  state seen: int = 0
  state a = 0
  state b = 0
  state c = 0
  state d = 0
  state e = 0
  state f = 0
  state g = 0
  state h = 0

  fn touched(given: [int; 3]) -> int {
    xs[0] = 50
    given[0] * 100 + xs[0]
  }
  fn next(by: int) -> int {
    xs[0] += by
    seen += 1
    xs[0]
  }
  fn copy() -> [int; 3] { xs }
  fn swapped() -> [int; 3] {
    next(1)
    xs
  }

  on trade(t) {
    a = touched(xs)
    xs[0] = 1
    b = both(xs, swapped())
    let before = xs
    xs = [9, 9, 9]
    c = before[0] * 10 + xs[0]
    d = xs[0] * 100 + next(1) * 10 + xs[0]
    let (p, q) = (xs, swapped())
    e = p[0] * 100 + q[0]
    _ = window.push(3)
    _ = window.push(4)
    for x in window {
      _ = window.push(x * 10 + next(0) % 10)
      f = f * 100 + x
    }
    for x in xs {
      next(1)
      g += x
    }
    let old = kept
    kept.values[1] = 80
    kept.mark = t.price
    _ = table.insert(1, kept)
    let found = table.get(1)
    kept.values[1] = 800
    _ = table.insert(1, kept)
    if let was = found {
      if let is = table.get(1) {
        h = old.values[1] * 1_000_000 + was.values[1] * 1000 + is.values[1]
      }
    }
    xs = copy()
  }
}
"""
)


def test_values_are_copies() -> None:
    ran = Stand(STRATEGY, interpret=True)([trade(0, 100)])
    assert ran.caught == []
    assert ran["a"] == 1 * 100 + 50
    assert ran["b"] == 1 * 1000 + 2
    assert ran["c"] == 2 * 10 + 9
    assert ran["d"] == 900 + 100 + 10
    assert ran["e"] == 1000 + 11
    assert ran["f"] == 403
    assert ran["g"] == 11 + 9 + 9
    assert ran["h"] == 8_080_800
    assert ran["seen"] == 1 + 1 + 1 + 2 + 3
    assert ran["xs"] == [14, 9, 9]
    assert ran["kept"] == ([7, 800, 9], 100)
