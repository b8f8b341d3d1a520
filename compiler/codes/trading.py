"""Codes 07xx: QuantDSL's exact numbers, orders and risk."""

from functools import partial

from compiler.codes.entry import code as _code

code = partial(_code, language="quantdsl")

_MARKET = """currency USD { scale 8 }
instrument ES : USD { tick 0.25  lot 1  multiplier 50 }
"""
_RISK = """risk Desk for ES { max_order_qty 10lots  max_position 20lots }
"""

CODES = (
    code(
        "0701",
        "two instruments or currencies mixed",
        """Prices, quantities and ticks belong to one instrument, money to one currency. A price of one instrument can't be compared with,
        added to or passed as one of another, and a strategy's risk block is one for its own instrument.""",
        _MARKET + "instrument NQ : USD { tick 0.25  lot 1  multiplier 20 }\nfn dearer(a: Price<ES>, b: Price<NQ>) -> bool { a > b }\n",
        _MARKET
        + "instrument NQ : USD { tick 0.25  lot 1  multiplier 20 }\nfn dearer(a: Price<ES>, b: Price<NQ>) -> bool { a.f64 > b.f64 }\n",
    ),
    code(
        "0702",
        "literal off the grid",
        """Decimals are exact: a literal where a price, quantity or amount of money stands is a whole number of ticks, lots or units of
        the currency's scale. The message names the two nearest values that are.""",
        _MARKET + "const LIMIT: Price<ES> = 4500.30\n",
        _MARKET + "const LIMIT: Price<ES> = 4500.25\n",
    ),
    code(
        "0703",
        "money scale too small",
        """Every product of a price and a quantity is kept exactly, so tick x lot x multiplier must be a whole number of the currency's
        smallest unit. The scale is the number of its decimal digits, from 0 to 18.""",
        "currency USD { scale 2 }\ninstrument BTC : USD { tick 0.01  lot 0.00001  multiplier 1 }\n",
        "currency USD { scale 8 }\ninstrument BTC : USD { tick 0.01  lot 0.00001  multiplier 1 }\n",
    ),
    code(
        "0704",
        "float where an exact number stands",
        """A float becomes a price, quantity or amount of money only by name, with the way in which it is rounded; the result may be none
        (NaN, infinite, out of range).""",
        _MARKET + "fn half(q: Qty<ES>) -> Qty<ES> { q * 0.5 }\n",
        _MARKET + "fn half(q: Qty<ES>) -> Qty<ES>? { to_qty(q.f64 * 0.5, round = down) }\n",
    ),
    code(
        "0705",
        "constant out of range",
        """A constant doesn't fit its type, loses the remainder of a division where a float is wanted (`1 / 2`), divides by zero, or is an
        index outside of an array; so is an index that a loop surely takes, in a turn that nothing leaves out; or a limit or default is
        outside of what is allowed there. Where the values aren't known, the same is checked when the program runs.""",
        "const SMALL: u8 = 256\n",
        "const SMALL: u8 = 255\n",
    ),
    code(
        "0711",
        "allocation where none is allowed",
        """`@no_allocation` and `@critical_path` promise that no memory is asked for, by the function itself or by anything it calls: no
        lists, no texts made at run time, no `compute` blocks, no outside function that declares `effects(alloc)`. The message shows the
        calls that lead there.""",
        "extern fn model(x: f64) -> f64 effects(alloc)\nfn twice(x: f64) -> f64 { 2.0 * model(x) }\n"
        "@no_allocation\nfn score(x: f64) -> f64 { twice(x) }\n",
        "extern fn model(x: f64) -> f64 effects(none)\nfn twice(x: f64) -> f64 { 2.0 * model(x) }\n"
        "@no_allocation\nfn score(x: f64) -> f64 { twice(x) }\n",
    ),
    code(
        "0712",
        "system call where none is allowed",
        """`@no_syscalls` and `@critical_path` promise that the system isn't called: no `print`, no outside function that declares
        `effects(io)`. `log_ring` keeps a record in memory that is written out later; `now()` is the time of the event.""",
        _MARKET + 'strategy S on ES {\n  @critical_path\n  on trade(t) { print("seen") }\n}\n',
        _MARKET + "strategy S on ES {\n  @critical_path\n  on trade(t) { log_ring(t) }\n}\n",
    ),
    code(
        "0713",
        "recursion on a critical path",
        """How deep a function goes that calls itself, directly or through others, isn't known before it runs, so neither is its time nor
        its stack. A function that is `@inline_always` or `@gpu_compute` can't call itself either.""",
        "@critical_path\nfn steps(n: int) -> int { if n > 1 { steps(n / 2) + 1 } else { 0 } }\n",
        "@critical_path\nfn steps(n: int) -> int {\n  var left = n\n  var found = 0\n"
        "  while left > 1 max 64 { left = left / 2; found += 1 }\n  found\n}\n",
    ),
    code(
        "0714",
        "loop without a bound on a critical path",
        """A loop on a critical path runs at most a number of times that is known when the program is compiled: `for i in 0..n` where `n` is
        a constant, a `param`, or held by `min(x, 64)`; a `for` over an array or a ring; `while c max 64`, which stops the program when the
        condition holds more often.""",
        "@critical_path\nfn total(n: int) -> int {\n  var sum = 0\n  for i in 0..n { sum += i }\n  sum\n}\n",
        "@critical_path\nfn total(n: int) -> int {\n  var sum = 0\n  for i in 0..min(n, 64) { sum += i }\n  sum\n}\n",
    ),
    code(
        "0715",
        "unknown effects",
        """What a function from outside does can't be seen, so it is declared: `effects(none)`, or `alloc` (it allocates memory) and `io`
        (it calls the system). Critical paths may only call what has none.""",
        "extern fn model(x: f64) -> f64\n",
        "extern fn model(x: f64) -> f64 effects(none)\n",
    ),
    code(
        "0716",
        "estimate above the target",
        """`@target_latency(500ns)` says how long a function may take; the compiler counts its longest way, loops as often as they can run,
        in cycles of a processor at 3 GHz. What is over the target is a warning, and an error where the target is `hard`. Where there is no
        estimate (nothing says how often a loop runs, a function comes back to itself or is never called), a hard target is an error, too.
        It is an estimate: a run measures, and `--enforce p99` holds it against the target.""",
        "@critical_path @target_latency(100ns, hard)\nfn roots(x: f64) -> f64 {\n  var sum = 0.0\n"
        "  for i in 0..64 { sum += sqrt(x + sum) }\n  sum\n}\n",
        "@critical_path @target_latency(1us, hard)\nfn roots(x: f64) -> f64 {\n  var sum = 0.0\n"
        "  for i in 0..64 { sum += sqrt(x + sum) }\n  sum\n}\n",
    ),
    code(
        "0717",
        "unchecked code that risks money",
        """`@unsafe_unchecked` leaves out the checks of int arithmetic and indices. That is never allowed in what sends, changes or cancels
        orders, by itself or by what it calls.""",
        _MARKET
        + _RISK
        + "strategy S on ES {\n  risk Desk\n  @unsafe_unchecked\n  fn enter() { _ = buy(1lots) }\n  on trade(t) { enter() }\n}\n",
        _MARKET + _RISK + "strategy S on ES {\n  risk Desk\n  fn enter() { _ = buy(1lots) }\n  on trade(t) { enter() }\n}\n",
    ),
    code(
        "0721",
        "orders without risk",
        """Every order passes the strategy's risk block, and that block limits the position. A strategy for replay only may say
        `@no_risk("reason")`.""",
        _MARKET + "strategy S on ES {\n  on trade(t) { _ = buy(1lots) }\n}\n",
        _MARKET + _RISK + "strategy S on ES {\n  risk Desk\n  on trade(t) { _ = buy(1lots) }\n}\n",
    ),
    code(
        "0722",
        "order outside of a handler",
        """Orders are sent, changed and cancelled when an event is handled: in a strategy's handlers and in the functions that stand in
        the strategy.""",
        _MARKET + "fn enter() { _ = buy(1lots) }\n",
        _MARKET + _RISK + "strategy S on ES {\n  risk Desk\n  fn enter() { _ = buy(1lots) }\n  on trade(t) { enter() }\n}\n",
    ),
    code(
        "0723",
        "result neither used nor dropped",
        """An order that is refused says so in its result. It is matched, or dropped where that is meant: `_ = buy(1lots)`.""",
        _MARKET + _RISK + "strategy S on ES {\n  risk Desk\n  on trade(t) { buy(1lots) }\n}\n",
        _MARKET + _RISK + "strategy S on ES {\n  risk Desk\n  on trade(t) { _ = buy(1lots) }\n}\n",
    ),
    code(
        "0724",
        "look-ahead",
        """A value is used before it is known. `delay(x, n)` gives the value of n calls before, and n is at least 1.""",
        "signal change(x: f64) -> f64 {\n  emit (delay(x, -1) ?? x) - x\n}\n",
        "signal change(x: f64) -> f64 {\n  emit x - (delay(x, 1) ?? x)\n}\n",
    ),
    code(
        "0725",
        "floats compared for equality",
        """Two floats that should be equal rarely are to the last bit, and a handler that waits for it waits forever. `approx(a, b, rel)`
        compares them within a relative distance.""",
        _MARKET + "strategy S on ES {\n  state hits = 0\n  on trade(t) { if t.price.f64 == 4500.25 { hits += 1 } }\n}\n",
        _MARKET + "strategy S on ES {\n  state hits = 0\n  on trade(t) { if t.price == 4500.25 { hits += 1 } }\n}\n",
    ),
    code(
        "0726",
        "value that may be none",
        """A `T?` or `Result` is no `T`: a signal that warms up, one side of an empty book. It is taken out with `if let`, with a default
        (`??`), or left with (`?`).""",
        "signal slope(x: f64) -> f64 {\n  emit x - delay(x, 1)\n}\n",
        "signal slope(x: f64) -> f64 {\n  emit x - (delay(x, 1) ?? x)\n}\n",
    ),
)
