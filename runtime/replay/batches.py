"""What flows from a reader to the engine: some events, the rows that they were made of, and the rows that were no good."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.records import Factory, define, field, frozen
from runtime.replay.bad_rows import BadRow, BadSource, Why, shortened
from runtime.replay.events import Events
from runtime.replay.grids import Listing

NOBODY = 0xFFFFFFFF
"""The instrument of a record that is of none of the program's."""


@frozen
class DataSource:
    """A file as the command line names it: `SYMBOL=path`, the place among the others, the instruments of the program, and what `--map`
    says of it."""

    path: Path
    stream: int
    listings: tuple[Listing, ...]
    symbol: str | None = None
    mapped: dict[str, str] = Factory(dict)
    table: Any = None
    """Rows that are in memory already; `path` is then only what messages call them."""

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def only(self) -> int:
        """The instrument of a file that names none: the one in front of its path, or the only one. Raises BadSource."""
        if self.symbol is None:
            if len(self.listings) == 1:
                return 0
            known = ", ".join(listing.name for listing in self.listings)
            hint = f"--data {self.listings[0].name}={self.path}"
            raise BadSource(f"{self.path}: the file doesn't say which of {known} it is about", hint)
        return self.index(self.symbol)

    @property
    def signed(self) -> bool:
        """`--map prices=signed`: prices may be below zero, as of spreads."""
        return self.mapped.get("prices") == "signed"

    def index(self, name: str) -> int:
        """The place of an instrument in the program. Raises BadSource."""
        for position, listing in enumerate(self.listings):
            if listing.name == name:
                return position
        known = ", ".join(listing.name for listing in self.listings)
        raise BadSource(f"{self.path}: the program has no instrument `{name}`", f"it has {known}")

    def grid(self, instrument: int, of: str) -> str:
        """What a price (`tick`) or a quantity (`lot`) must be a multiple of, in words."""
        listing = self.listings[instrument]
        return f"the {of} of {listing.name} is {(listing.tick if of == 'tick' else listing.lot).text(1)}"

    def bad(self, row: int, column: str, text: str, why: Why, detail: str = "", binary: bool = False) -> BadRow:
        return BadRow(self.name, self.stream, row, column, shortened(text), why, detail, binary)


@define
class Batch:
    """Rows of one file, in its order. `rows`: all of them, also those that are bad, or `left_out` because nobody asked for them."""

    events: Events
    rows: int
    bad: list[BadRow] = field(factory=list)
    left_out: int = 0
    binary: bool = False
    time: str = "ts"
    """What the file calls its column of times."""

    id: str = "id"
    """What it calls that of trades' ids."""

    book: bool = False
    """A row that is lost leaves the book unknown."""

    instrument: int = NOBODY
    """The one that all rows are about."""

    strangers: tuple[str, ...] = ()
    """Symbols that the file has so far, as long as none of them is of the program."""


def refuse(
    batch: Batch,
    which: npt.NDArray[np.bool_],
    source: DataSource,
    column: str,
    texts: Callable[[int], str],
    why: Why,
    grid: str = "",
    detail: Callable[[int], str] = lambda row: "",
) -> None:
    """Takes the rows with a marked event out and lists each of them once. `texts` and `detail` give those of an event's place; `grid`: tick
    or lot, where they are off it."""
    if not which.any():
        return
    rows = batch.events["row"]
    places = np.flatnonzero(which)
    _, first = np.unique(rows[places], return_index=True)
    for row in places[first].tolist():
        said = source.grid(int(batch.events["instrument"][row]), grid) if grid else detail(row)
        batch.bad.append(source.bad(int(rows[row]), column, texts(row), why, said, batch.binary))
    batch.events = batch.events[~np.isin(rows, rows[places])]
