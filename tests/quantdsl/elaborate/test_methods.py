"""Methods that change what they are called on, where that lies in memory: a value read before the call stays what it was."""

from tests.quantdsl.elaborate.running import Functions
from tests.quantdsl.strategies.stand import ES, SECOND, Stand, trade

SLOTS = """
struct Slots { first: [int; 3], used: int }
impl Slots {
  fn put(mut self, x: int) -> int {
    self.first[self.used] = x
    self.used = self.used + 1
    self.first[0] + self.first[1] + self.first[2]
  }
  fn clear(mut self) { self = Slots { first: [0; 3], used: 0 } }
}
"""


def test_memory_in_a_tuple() -> None:
    text = """fn f(n: int) -> (int, int, int, int, int) {
      var s = Slots { first: [0; 3], used: 0 }
      let t = (s.used, s.put(n), s, s.put(7), s)
      (t.0, t.1, t.2.first[1], t.3, t.4.used)
    }"""
    assert Functions(SLOTS + text).f(4) == (0, 4, 0, 11, 2)


def test_memory_in_arguments() -> None:
    text = """fn both(a: Slots, b: int, c: Slots) -> int { a.first[0] * 100 + b * 10 + c.first[0] }
    fn f(n: int) -> int {
      var s = Slots { first: [0; 3], used: 0 }
      both(s, s.put(n), s)
    }"""
    assert Functions(SLOTS + text).f(4) == 44


def test_memory_in_an_array_and_elements_of_it() -> None:
    text = """fn f(n: int) -> (int, int, int, int) {
      var s = Slots { first: [0; 3], used: 0 }
      var both = [s, s]
      let before = [both[0], both[1]]
      _ = both[1].put(n)
      let after = [both[0], both[1]]
      (before[1].used, after[0].used, after[1].first[0], s.used)
    }"""
    assert Functions(SLOTS + text).f(4) == (0, 0, 4, 0)


def test_a_method_without_a_result() -> None:
    text = """fn f(n: int) -> (int, int) {
      var s = Slots { first: [n; 3], used: 3 }
      let before = s
      s.clear()
      (before.first[2] + before.used, s.first[2] + s.used)
    }"""
    assert Functions(SLOTS + text).f(4) == (7, 0)


def test_an_index_that_an_argument_changes() -> None:
    """The index is computed before the arguments, and the element is stored behind them."""
    text = """fn next(mut self: int, by: int) -> int {
      self = self + by
      self
    }
    fn f(n: int) -> (int, int, int) {
      var i = 0
      var a = [10, 20, 30]
      let got = a[i].next(i.next(2))
      (got, a[0] * 100 + a[2], i)
    }"""
    assert Functions(text).f(0) == (12, 1230, 2)


def test_containers_of_the_prelude_by_their_type() -> None:
    """A program's own `push` and that of rings."""
    text = """struct Stack { top: int }
    fn push(mut self: Stack, x: int) -> int {
      self.top = self.top * 10 + x
      self.top
    }
    fn f(n: int) -> (int, int, int, int, int) {
      var s = Stack { top: 0 }
      var r: ring<int, 2>
      let t = (r.len, r.push(n), r.len, s.push(n), s.push(n))
      (t.0, t.2, t.3, t.4, r[0])
    }"""
    assert Functions(text).f(4) == (0, 1, 4, 44, 4)


def test_states_of_a_strategy() -> None:
    """In handlers, and in methods that stand in the strategy, which see its states."""
    text = f"""{ES}
    struct Tally {{ sum: int, times: int }}
    impl Tally {{
      fn note(mut self, x: int) -> int {{
        self.sum = self.sum + x
        self.times = self.times + 1
        self.sum
      }}
    }}
    strategy S on ES {{ risk Desk
      state tally: Tally = Tally {{ sum: 0, times: 0 }}
      state seen: int = 0
      state mixed: int = 0
      fn twice(mut self: int) -> int {{
        seen = seen + 1
        self = self * 2
        self
      }}
      on trade(t) {{
        mixed = tally.sum * 100 + tally.note(t.qty.lots) * 10 + tally.times
        let k = tally.times.twice()
      }}
    }}"""
    ran = Stand(text)([trade(SECOND * k, 100, 3) for k in range(2)])
    assert (ran["tally"], ran["seen"], ran["mixed"]) == ((6, 6), 2, 300 + 60 + 3)
