"""The memory of a run, seen from Python: set up before it, read and emptied while it goes on. Its layout is `layout.ENGINE_STATE`."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.hir.layout import new_memory
from compiler.hir.native_types import U8
from quantdsl.engine.layout import BARS, COLLECTED, ENGINE_STATE, ENOUGH, TIMERS
from quantdsl.metadata import StrategyMetadata
from quantdsl.run.options import FILLS, RunOptions
from runtime.replay.grids import GridStep
from runtime.replay.outputs.records import LAYOUTS, Records


class EngineState:
    """`memory` and `state` are what native code is given; both are all zero at first, which costs nothing where nobody writes.
    `dropped`: records of the log that gave their place to later ones of the same event."""

    def __init__(self, metadata: StrategyMetadata) -> None:
        self.metadata = metadata
        self.memory: npt.NDArray[Any] = new_memory(ENGINE_STATE)
        self.state: npt.NDArray[np.uint8] = new_memory(U8, metadata.state_bytes)
        self._fields = self.memory[0]
        self.dropped = 0

    def __getitem__(self, name: str) -> Any:
        """A field; its own fields follow by name."""
        return self._fields[name]

    def set_up(self, options: RunOptions, fills: str) -> None:
        """Writes all settings: the program's, then the run's."""
        settings, metadata = self._fields["settings"], self.metadata
        tick, lot = GridStep(*metadata.market.tick), GridStep(*metadata.market.lot)
        for path, value in metadata.settings.items():
            place, *rest = reversed(path.split("."))
            target = settings
            for name in reversed(rest):
                target = target[name]
            target[place] = value
        settings["instrument"], settings["fills"], settings["trim"] = 0, FILLS[fills], options.trim
        settings["out"], settings["back"], settings["tick_value"] = options.out, options.back, metadata.market.tick_value
        settings["tick_divisor"], settings["tick_power"] = tick.divisor, 10**tick.digits
        settings["lot_divisor"], settings["lot_power"] = lot.divisor, 10**lot.digits
        settings["sample"], settings["pnl_every"] = options.sample, options.pnl_every
        assert len(metadata.timers) <= TIMERS and len(metadata.bars) <= BARS
        settings["timers"], settings["bars"] = len(metadata.timers), len(metadata.bars)
        for number, period in enumerate(metadata.timers):
            self._fields["timers"][number]["period"] = period
            self._fields["timers"][number]["number"] = number
        for number, (kind, size) in enumerate(metadata.bars):
            self._fields["bars"][number]["kind"], self._fields["bars"][number]["size"] = kind, size

    def collect(self, *tables: str) -> Iterator[tuple[str, Records]]:
        """Takes the records out that are there, by table, of all tables or of these; they are to be used, or copied, before the next call
        of native code."""
        out = self._fields["out"]
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
        return {name: int(lost) for name in COLLECTED if (lost := self._fields["out"][name]["lost"])}

    def optional(self, name: str, of: Any = None) -> int | None:
        """The value of a `T?`."""
        held = (self._fields if of is None else of)[name]
        return int(held["value"]) if held["present"] else None
