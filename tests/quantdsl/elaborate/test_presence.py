"""Optional variables that are known to have a value, as such values: variables, states, parts of structs."""

from tests.quantdsl.elaborate.running import MARKETS, Functions
from tests.quantdsl.signals.probing import Probe


def test_the_average_of_the_reference() -> None:
    text = """
    signal average(x: f64, n: const int) -> f64 {
      state v: f64? = none
      v = if let p = v { p + 2.0/(n+1) * (x - p) } else { x }
      emit v
    }
    fn probe(x: f64) -> f64 { average(x, 3) }"""
    average = Probe(text)
    assert [average(x) for x in (1.0, 3.0, 2.0)] == [1.0, 2.0, 2.0]


def test_variables_of_functions() -> None:
    run = Functions(
        MARKETS
        + """
    struct Pair { a: int, b: f64 }
    fn number(x: f64) -> f64 {
      var v: f64? = none
      v = x * 2.0
      let y: f64 = v
      v = none
      y + (v ?? 0.5)
    }
    fn pair(x: int) -> Pair {
      var v: Pair? = none
      v = Pair { a: x, b: 0.5 }
      v
    }
    fn price(p: Price<ES>, c: bool) -> Price<ES> {
      var v: Price<ES>? = none
      v = if c { p } else { p + 4ticks }
      return v
    }"""
    )
    assert run.number(1.5) == 3.5
    assert run.pair(7) == (7, 0.5)
    assert (run.price(10, True), run.price(10, False)) == (10, 14)
