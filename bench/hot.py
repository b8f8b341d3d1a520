"""The four functions of a critical path of a strategy in QuantDSL, all checks on, beside C++ written for that strategy alone.

    python -m bench.hot [--calls 10000000] [--rounds 7] [--only risk ...] [--json FILE]

`hot.qdsl` is the strategy, `hot.cpp` what one would write by hand for it (`g++ -O3 -march=native -ffp-contract=off`: contracted products
would not be the same numbers). What is timed of ours is what a replay runs (`hot_functions.py`):

- risk: seven rules for an order, and what is remembered of it once it is accepted (its time, its client id);
- fill: position, cost, profit and loss, fee and drawdown after a fill, at a new mark;
- signal: a tick in the book, then the handler: two EMA, the imbalance of 10 levels, the microprice; no order is sent;
- send: an order through its rules, up to its request on the way to the market (batches only: it is delivered between them);
- order: the signal where many ticks send such an order;
- tick: all of it, the order filled, reported, accounted and written down.

Not the same on both sides: ours looks at more (a book or input that is suspect, a halted market, `reduce_only`, stops and icebergs, the
modes of filling, whether someone handles the report, the balance of the books after each fill, overflow everywhere), takes fees and what a
tick is worth from the desk, where C++ has constants, and catches what fails in a handler. C++ has the better book for ten levels, an array
a side; ours holds 4096 levels in blocks.

Both are called from compiled loops through a volatile pointer, in turn, on equal state. The results of all calls and what the desks hold
are compared first. Nanoseconds are means over all calls of a round, the median of the rounds; the ratio is ours over C++'s, round by round.
Percentiles are of a call, from batches of 16, and of single calls; the counter's own time is taken off of both."""

import argparse
import ctypes
import json
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field

from bench.hot_functions import ASKED, TICK, TRADED, linked, program_of, seen, state_of, with_own
from compiler.backends.native.link import Linked
from compiler.backends.native.record import RECORD_BYTES
from compiler.hir.layout import new_memory
from compiler.hir.module import HirModule, OptimizationLevel
from compiler.source import Sources
from compiler.syntax.read import read_source
from quantdsl.engine.layout import COLLECTED
from quantdsl.metadata import StrategyMetadata
from quantdsl.run.engine_state import EngineState
from quantdsl.run.machine import machine
from quantdsl.run.options import RunOptions
from runtime.replay.events import EventKind, Flag, empty

HERE = Path(__file__).parent
MANY, LEVELS, MIDDLE = 1 << 14, 16, 20_000
NUMBERS = (
    *("qty", "cost", "realized", "unrealized", "fees", "net", "max_drawdown", "volume", "open_buys", "open_sells"),
    *("average", "cash", "peak", "submitted", "open_count", "want"),
)
"""What the desk of C++ begins with; `fast` and `slow` follow."""
FUNCTIONS = ("risk", "fill", "signal", "send", "order", "tick")
SETTLED = ("send", "order")
"""Those whose orders are on their way when they end: they are timed in batches, and what is due is delivered in between."""


# ---- inputs ----


def asked(rng: np.random.Generator) -> Any:
    """Orders of which one in ten or so breaks some rule, each rule some."""
    made = new_memory(ASKED, MANY)
    made["side"], made["qty"] = rng.integers(0, 2, MANY), rng.integers(1, 900, MANY)
    made["limit"] = MIDDLE + rng.integers(-90, 91, MANY)
    made["step"] = rng.integers(600, 1800, MANY)
    made["held"] = rng.integers(-2050, 2051, MANY)
    for name, low, high in (("qty", 1001, 1100), ("qty", -3, 1), ("limit", MIDDLE + 101, MIDDLE + 120), ("held", 2990, 3010)):
        rare = rng.random(MANY) < 0.015
        made[name][rare] = rng.integers(low, high, int(rare.sum()))
    again = np.flatnonzero(rng.random(MANY) < 0.015)
    made["back"][again] = rng.integers(1, 100, len(again))
    busy = np.repeat(rng.random(MANY // 128) < 0.1, 128)
    made["step"][busy] //= 4
    return made


def traded(rng: np.random.Generator) -> Any:
    made = new_memory(TRADED, MANY)
    made["side"], made["qty"] = rng.integers(0, 2, MANY), rng.integers(1, 100, MANY)
    made["side"][1::2], made["qty"][1::2] = 1 - made["side"][::2], made["qty"][::2]
    made["price"] = MIDDLE + rng.integers(-120, 121, MANY)
    made["maker"] = rng.integers(0, 2, MANY)
    made["mark2"] = 2 * made["price"] + rng.integers(-4, 5, MANY)
    return made


def ticks(rng: np.random.Generator) -> Any:
    """Prices rise for some time, with more on the bid, then fall."""
    made = new_memory(TICK, MANY)
    run = rng.integers(8, 40, MANY // 16)
    up = np.repeat(np.arange(len(run)) % 2 == 0, run)[:MANY]
    made["step"] = 700
    within = np.clip(np.cumsum(np.where(up, 1, -1) * rng.integers(0, 2, MANY)) % 16, 0, 8)
    made["bid"], made["ask"] = MIDDLE - 9 + within, MIDDLE + 1 + within
    for own, larger in (("bid", up), ("ask", ~up)):
        made[f"{own}_at"] = np.where(rng.integers(0, 2, MANY) == 0, 0, rng.integers(1, 10, MANY))
        made[f"{own}_qty"] = rng.integers(20, 500, MANY) + np.where(larger, 1500, 0)
    return made


# ---- both sides ----


class Subject(ctypes.Structure):
    """`Subject` of hot.cpp."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("f", "after", "record", "desk", "state", "input")),
        ("stride", ctypes.c_int64),
        ("inputs", ctypes.c_int64),
        ("counts", ctypes.c_void_p * 8),
        ("stop", ctypes.c_uint64),
    ]


@define
class Side:
    """One of both: its memory and its functions. `held` keeps what C++ points to."""

    loops: ctypes.CDLL
    kind: str
    held: list[Any]
    subject: Subject

    def results(self, first: int, calls: int) -> Any:
        out = np.zeros(calls, np.int64)
        getattr(self.loops, f"results_{self.kind}")(ctypes.byref(self.subject), first, calls, ctypes.c_void_p(out.ctypes.data))
        return out

    def mean(self, calls: int) -> float:
        total = ctypes.c_int64()
        return float(getattr(self.loops, f"mean_{self.kind}")(ctypes.byref(self.subject), calls, ctypes.byref(total)))

    def batches(self, calls: int) -> tuple[Any, float]:
        """Nanoseconds of a call, one for each batch of 16; and of a cycle."""
        out, ns = np.zeros(calls // 16), ctypes.c_double()
        timed = getattr(self.loops, f"batches_{self.kind}")
        timed(ctypes.byref(self.subject), len(out), ctypes.c_void_p(out.ctypes.data), ctypes.byref(ns))
        return out * ns.value, ns.value

    def singles(self, calls: int) -> tuple[Any, float]:
        """Cycles of each call, and what the counter itself took."""
        out = np.zeros(calls)
        least = getattr(self.loops, f"singles_{self.kind}")(ctypes.byref(self.subject), calls, ctypes.c_void_p(out.ctypes.data))
        return out, float(least)

    def seen(self) -> dict[str, float]:
        if self.kind == "ours":
            return seen(self.held[0].memory[0], self.held[1][0])
        memory = self.held[0]
        found: dict[str, float] = dict(zip(NUMBERS, map(int, memory[: 8 * len(NUMBERS)].view(np.int64)), strict=True))
        found["fast"], found["slow"] = map(float, memory[8 * len(NUMBERS) :][:16].view(np.float64))
        return found


def library(folder: Path, *flags: str) -> ctypes.CDLL:
    out = folder / f"hot{len(flags)}.so"
    command = ["g++", "-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC", *flags, "-o", str(out), str(HERE / "hot.cpp")]
    subprocess.run(command, check=True)
    made = ctypes.CDLL(str(out))
    made.mean_ours.restype = made.mean_hand.restype = ctypes.c_double
    made.singles_ours.restype = made.singles_hand.restype = ctypes.c_double
    made.desk_bytes.restype = ctypes.c_uint64
    return made


def by_hand(loops: ctypes.CDLL, name: str, inputs: Any, sizes: Any) -> Side:
    memory = np.zeros(loops.desk_bytes(), np.uint8)
    loops.desk_begin(ctypes.c_void_p(memory.ctypes.data), MIDDLE - 1, MIDDLE + 1, LEVELS, ctypes.c_void_p(sizes.ctypes.data))
    function = getattr(loops, "c_signal" if name == "order" else f"c_{name}")
    after = ctypes.cast(loops.c_settle, ctypes.c_void_p).value if name in SETTLED else None
    subject = Subject(ctypes.cast(function, ctypes.c_void_p).value, after, None, memory.ctypes.data, None, inputs.ctypes.data)
    subject.stride, subject.inputs = inputs.itemsize, len(inputs)
    loops.counts_of(ctypes.c_void_p(memory.ctypes.data), subject.counts)
    return Side(loops, "hand", [memory, inputs], subject)


def ours(loops: ctypes.CDLL, name: str, code: Linked, module: HirModule, metadata: StrategyMetadata, inputs: Any, sizes: Any) -> Side:
    desk = EngineState(metadata)
    desk.set_up(RunOptions((), sample=0, pnl_every=0), "touch")
    state = new_memory(state_of(module))
    record = np.zeros(RECORD_BYTES, np.uint8)
    code["engine.begin"].run([desk.memory, desk.state, 0])
    events = empty(2 * LEVELS)
    for number in range(2 * LEVELS):
        side, level = divmod(number, LEVELS)
        events[number]["kind"], events[number]["side"] = EventKind.BOOK_LEVEL, side + 1
        events[number]["price"] = MIDDLE - 1 - level if side == 0 else MIDDLE + 1 + level
        events[number]["qty"] = sizes[number]
        events[number]["flags"] = Flag.LAST if number == 2 * LEVELS - 1 else 0
    handles, desk["settings"]["handles"] = int(desk["settings"]["handles"]), 0
    code["engine.run"].run([desk.memory, state, events.view(np.uint64).reshape(-1), len(events), 0])
    desk["settings"]["handles"] = handles
    function = code[f"measure.{'signal' if name == 'order' else name}"]
    after = code["measure.settle"].address if name in SETTLED else None
    places = record.ctypes.data, desk.memory.ctypes.data, state.ctypes.data, inputs.ctypes.data
    subject = Subject(function.address, after, *places, inputs.itemsize, len(inputs))
    for number, table in enumerate(COLLECTED):
        subject.counts[number] = _address(desk, table)
    return Side(loops, "ours", [desk, state, record, inputs, code], subject)


def _address(desk: EngineState, table: str) -> int:
    """Where the number of a table's records is kept."""
    return int(desk.memory["out"][table]["count"].ctypes.data)


def compare(pair: tuple[Side, Side], name: str, calls: int = 200_000) -> None:
    """The results of each call, and what the desks hold in between."""
    step = 16 * 63
    for first in range(0, calls, step):
        found = [side.results(first, step) for side in pair]
        assert (found[0] == found[1]).all(), f"{name}: results differ from call {first + int(np.argmin(found[0] == found[1]))} on"
        views = [side.seen() for side in pair]
        wrong = {what: (value, views[1][what]) for what, value in views[0].items() if value != views[1][what]}
        assert not wrong, f"{name}: after {first + step} calls {wrong}"


@define
class Bench:
    """Inputs, and both libraries; `pair` makes both sides of a function, each with memory of its own."""

    folder: Path
    level: OptimizationLevel = OptimizationLevel.OLATENCY
    rng: np.random.Generator = field(factory=lambda: np.random.default_rng(7))
    inputs: dict[str, Any] = field(init=False)
    sizes: Any = field(init=False)
    _libraries: dict[bool, ctypes.CDLL] = field(init=False, factory=dict)
    _programs: dict[tuple[bool, bool], tuple[Linked, HirModule, StrategyMetadata]] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self.inputs = {"risk": asked(self.rng), "fill": traded(self.rng), "tick": ticks(self.rng), "send": asked(self.rng)}
        self.inputs["signal"] = self.inputs["order"] = self.inputs["tick"]
        self.inputs["send"]["qty"] = self.rng.integers(1, 40, MANY)
        self.sizes = self.rng.integers(100, 1000, 2 * LEVELS)

    def pairs(self, name: str) -> Callable[[], tuple[Side, Side]]:
        watches = name == "signal"
        if watches not in self._libraries:
            self._libraries[watches] = library(self.folder, *(["-DMOST=0"] if watches else []))
        code, module, metadata = self._program(watches, name in ("risk", "send"))
        return partial(_both, self._libraries[watches], name, code, module, metadata, self.inputs[name], self.sizes)

    def _program(self, watches: bool, with_functions_of_its_own: bool) -> tuple[Linked, HirModule, StrategyMetadata]:
        """The strategy, which sends no orders where it only `watches`."""
        key = watches, with_functions_of_its_own
        if key not in self._programs:
            sources = Sources()
            source = sources.add(read_source(str(HERE / "hot.qdsl")))
            module, metadata = program_of(source, sources, **({"most": "0lots"} if watches else {}))
            code = linked(with_own(module) if with_functions_of_its_own else module, self.level)
            self._programs[key] = code, module, metadata
        return self._programs[key]


def measure(calls: int, rounds: int, only: Sequence[str], level: OptimizationLevel) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), level)
        for name in only:
            made = bench.pairs(name)
            compare(made(), name)
            found.append(_row(name, made(), calls, rounds))
    return found


def _both(
    loops: ctypes.CDLL, name: str, code: Linked, module: HirModule, metadata: StrategyMetadata, inputs: Any, sizes: Any
) -> tuple[Side, Side]:
    return ours(loops, name, code, module, metadata, inputs, sizes), by_hand(loops, name, inputs, sizes)


def _row(name: str, pair: tuple[Side, Side], calls: int, rounds: int) -> dict[str, Any]:
    times: list[list[float]] = [[], []]
    batches: list[list[Any]] = [[], []]
    for side in pair:  # memory is there once it was written
        side.batches(500_000)
    for turn in range(rounds):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            found, cycle = pair[which].batches(calls)
            batches[which].append(found)
            times[which].append(float(found.mean()) if name in SETTLED else pair[which].mean(calls))
    ratio = statistics.median(a / b for a, b in zip(*times, strict=True))
    row: dict[str, Any] = {"function": name, **dict(zip(("ours", "c++"), (round(statistics.median(t), 2) for t in times), strict=True))}
    row["ratio"] = round(ratio, 2)
    for which, who in enumerate(("", "c++ ")):
        row |= {f"{who}p{of:g}": round(float(np.percentile(np.concatenate(batches[which]), of)), 2) for of in (50, 99, 99.9)}
    single, timer = pair[0].singles(calls)
    row |= {f"single p{of:g}": round(float(np.percentile(single, of)) * cycle, 1) for of in (50, 99, 99.9)}
    row["timer"] = round(timer * cycle, 1)
    assert pair[0].subject.stop == 0, f"{name}: calls failed"
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=FUNCTIONS, nargs="+", default=FUNCTIONS)
    parser.add_argument("--level", default="latency", choices=[level.value for level in OptimizationLevel])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = measure(options.calls, options.rounds, options.only, OptimizationLevel(options.level))
    names = list(rows[0])
    print("  ".join(f"{name:>12}" for name in names))
    for row in rows:
        print("  ".join(f"{row[name]!s:>12}" for name in names))
    if options.json is not None:
        command = f"python -m bench.hot --calls {options.calls} --rounds {options.rounds}"
        told = {"machine": machine(), "command": command, "nanoseconds": rows}
        options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
