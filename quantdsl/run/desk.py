"""The memory of a run, seen from Python: set up before it, read and emptied while it goes on. Its layout is `engine.layout.DESK`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.hir.layout import new_memory
from quantdsl.engine.layout import BARS, COLLECTED, DESK, ENOUGH, TIMERS
from quantdsl.facts import StrategyFacts
from quantdsl.native.types import U8
from quantdsl.run.options import FILLS, RunOptions
from runtime.replay.grids import GridStep
from runtime.replay.outputs.records import LAYOUTS, Records


class Desk:
    """`memory` and `state` are what native code is given; both are all zero at first, which costs nothing where nobody writes.
    `dropped`: records of the log that gave their place to later ones of the same event."""

    def __init__(self, facts: StrategyFacts) -> None:
        self.facts = facts
        self.memory: npt.NDArray[Any] = new_memory(DESK)
        self.state: npt.NDArray[np.uint8] = new_memory(U8, facts.state_bytes)
        self._desk = self.memory[0]
        self.dropped = 0

    def __getitem__(self, name: str) -> Any:
        """A field; its own fields follow by name."""
        return self._desk[name]

    def set_up(self, options: RunOptions, fills: str) -> None:
        """Writes all settings: the program's, then the run's."""
        settings, facts = self._desk["settings"], self.facts
        tick, lot = GridStep(*facts.market.tick), GridStep(*facts.market.lot)
        for path, value in facts.settings.items():
            place, *rest = reversed(path.split("."))
            target = settings
            for name in reversed(rest):
                target = target[name]
            target[place] = value
        settings["instrument"], settings["fills"], settings["trim"] = 0, FILLS[fills], options.trim
        settings["out"], settings["back"], settings["point"] = options.out, options.back, facts.market.point
        settings["tick_divisor"], settings["tick_power"] = tick.divisor, 10**tick.digits
        settings["lot_divisor"], settings["lot_power"] = lot.divisor, 10**lot.digits
        settings["point_value"] = facts.market.point / 10**facts.market.scale
        settings["sample"], settings["pnl_every"] = options.sample, options.pnl_every
        assert len(facts.timers) <= TIMERS and len(facts.bars) <= BARS
        settings["timers"], settings["bars"] = len(facts.timers), len(facts.bars)
        for number, period in enumerate(facts.timers):
            self._desk["timers"][number]["period"] = period
            self._desk["timers"][number]["number"] = number
        for number, (kind, size) in enumerate(facts.bars):
            self._desk["bars"][number]["kind"], self._desk["bars"][number]["size"] = kind, size

    def collect(self, *tables: str) -> Iterator[tuple[str, Records]]:
        """Takes the records out that are there, by table, of all tables or of these; they are to be used, or copied, before the next call
        of native code."""
        out = self._desk["out"]
        for name in tables or COLLECTED:
            table = out[name]
            count = int(table["count"])
            if count:
                found = table["records"][:count]
                table["count"] = 0
                if name == "log" and (dropped := int(table["lost"])):
                    self.dropped += dropped
                    table["lost"] = 0
                    found[-ENOUGH:] = np.roll(found[-ENOUGH:], -(dropped % ENOUGH))
                yield name, found.view(LAYOUTS[name]) if name in LAYOUTS else found
        if not tables:
            out["full"] = False

    def lost(self) -> dict[str, int]:
        """Records by table that there was no room for."""
        return {name: int(lost) for name in COLLECTED if (lost := self._desk["out"][name]["lost"])}

    def optional(self, name: str, of: Any = None) -> int | None:
        """The value of a `T?`."""
        held = (self._desk if of is None else of)[name]
        return int(held["value"]) if held["present"] else None
