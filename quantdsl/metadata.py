"""What is known of a compiled strategy beside its code: all that a run needs to set it up and to say what happened. Plain data, kept as
JSON with the code, so that a program from the cache runs without being read again."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from runtime.records import field, frozen

Pair = tuple[int, int]


def _tuples(values: Sequence[Any]) -> tuple[Any, ...]:
    """JSON's lists as tuples, all the way down."""
    return tuple(_tuples(value) if isinstance(value, list | tuple) else value for value in values)


def _shape(value: Any) -> "StateShape":
    return value if isinstance(value, StateShape) else StateShape(**value)


def _shapes(values: Sequence[Any]) -> "tuple[StateShape, ...]":
    return tuple(map(_shape, values))


def _market(value: Any) -> "Market":
    return value if isinstance(value, Market) else Market(**value)


def _logs(values: Sequence[Any]) -> "tuple[LogSite, ...]":
    return tuple(one if isinstance(one, LogSite) else LogSite(**one) for one in values)


@frozen
class StateShape:
    """How a value lies in memory, so that it can be read back and said.

    `what`: `bool`; `int`, `unsigned`, `float` of `size` bytes; `id`; `side`; `price ticks qty money ratio timestamp duration`; `enum`: a u8
    in front, and `parts` are its cases, each with its fields as parts; `optional`: present and value; `result`: ok, value and error;
    `tuple`, `struct`: the fields; `array`: the first of `count` elements; `ring`: how many there are, where the next one goes, and the
    first of `count`; `table`: whether the first of `count` slots is used, its key, its value; `text`: `name` itself; `bytes`: what nobody
    reads. `offset`s of parts count from where the whole begins, whose `size` is with the gap behind it."""

    name: str
    what: str
    offset: int = 0
    size: int = 8
    parts: "tuple[StateShape, ...]" = field(default=(), converter=_shapes)
    count: int = 0


@frozen
class Market:
    """The instrument. `tick` and `lot` are (digits, divisor) of a `runtime.replay.grids.GridStep`; `scale`: digits of the currency's money;
    `tick_value`: money units that one lot gains as the price rises one tick."""

    name: str
    currency: str
    scale: int
    tick: Pair = field(converter=_tuples)
    lot: Pair = field(converter=_tuples)
    tick_value: int


@frozen
class LogSite:
    """A place that calls `log_ring(x)`: its line, and the shape of x."""

    line: int
    shape: StateShape = field(converter=_shape)


@frozen
class StrategyMetadata:
    """Of one strategy.

    `settings`: values of fields of `engine.layout.SETTINGS` that the program decides, nested ones by path (`maker.numerator`); the runner
    writes the others. `timers`: periods in ns, by number; `bars`: (kind, size) of `BAR_BUILDER`, by number. `kill_texts[n - 1]` is what
    `kill` was given where the engine's `killed_by` is n. `state_bytes`, `state`: the program's memory and those parts of it that the source
    calls `state`. `target_ns`: the shortest `@target_latency` of its handlers; `affinity`: the core of `@cpu_affinity`. `no_risk`: the
    reason that stands for a risk block."""

    program: str
    strategy: str
    market: Market = field(converter=_market)
    settings: Mapping[str, int | float | bool]
    handlers: tuple[str, ...] = field(default=(), converter=_tuples)
    timers: tuple[int, ...] = field(default=(), converter=_tuples)
    bars: tuple[Pair, ...] = field(default=(), converter=_tuples)
    kill_texts: tuple[str, ...] = field(default=(), converter=_tuples)
    logs: tuple[LogSite, ...] = field(default=(), converter=_logs)
    state_bytes: int = 8
    state: tuple[StateShape, ...] = field(default=(), converter=_shapes)
    parameters: Mapping[str, int | float | bool] = field(factory=dict)
    target_ns: float | None = None
    affinity: int | None = None
    no_risk: str | None = None

    def plain(self) -> dict[str, Any]:
        """For JSON; `StrategyMetadata(**plain)` is the same again."""
        return attrs.asdict(self)
