"""Values of memory and of the log, read back by their shapes."""

import numpy as np

from quantdsl.run.shapes import said
from tests.quantdsl.strategies.stand import ES, Stand, trade

PROGRAM = """
enum Mood { Calm, Busy(Qty<ES>, Side), Late { by: Duration } }
struct Spot { at: Price<ES>, part: Ratio, small: i8, ok: bool }
strategy S on ES {
  risk Desk
  state mood = Calm
  state other = Calm
  state spot = Spot { at: 1.25, part: 50bps, small: -3, ok: true }
  state maybe: (Side, f64)? = none
  state known: (Side, f64)? = none
  state result: Result<Money, i32> = Err(-7)
  state window: ring<Ticks, 3>
  state grid: [f32; 2] = [0.5f32, -1.5f32]
  state time: Timestamp? = none
  state count: u64 = 18_446_744_073_709_551_615
  on trade(t) {
    mood = Busy(t.qty, Sell)
    other = Late { by: 3ms }
    known = some((Buy, t.price.f64))
    result = Ok(t.price * t.qty)
    _ = window.push(t.price - spot.at)
    time = t.ts
    grid[0] += 1.0f32
    count -= 1
    spot.ok = not spot.ok
    maybe = maybe
    log_ring((other, spot, t.side))
  }
}
"""


def test_states_and_log_are_read_back() -> None:
    stand = Stand(ES + PROGRAM)
    ran = stand(
        [trade(1_000_000_000, 101, 2), trade(1_000_000_001, 102, 3), trade(1_000_000_002, 97, 4), trade(1_000_000_003, 90, 5, "sell")]
    )
    memory = np.frombuffer(ran.state.tobytes(), np.uint8)
    market = stand.metadata.market
    found = {shape.name: said(shape, memory, market) for shape in stand.metadata.state}
    assert found == {
        "mood": "Busy(5lots, Sell)",
        "other": "Late(3000000ns)",
        "spot": "{ at: 1.25, part: 50bps, small: -3, ok: true }",
        "maybe": "none",
        "known": "(Buy, 22.5)",
        "result": "Ok(5625.00000000 USD)",
        "window": "[85ticks, 92ticks, 97ticks]",
        "grid": "[4.5, -1.5]",
        "time": "1970-01-01 00:00:01.000000003",
        "count": "18446744073709551611",
    }
    words = np.array(ran.records["log"][-1][4], np.int64).view(np.uint8)
    logged = said(stand.metadata.logs[0].shape, words, market)
    assert logged == "(Late(3000000ns), { at: 1.25, part: 50bps, small: -3, ok: true }, Sell)"
