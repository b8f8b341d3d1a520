"""Whole books, one a row, as what changed from the row before."""

import numpy as np
import numpy.typing as npt

from runtime.replay.events import EventKind, Events, Flag, MarketSide
from runtime.replay.grids import I64

Half = tuple[I64, I64]
"""Prices and quantities of a side [rows, levels]; no quantity: no level."""


class Books:
    """The last book of each instrument."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[Half, Half]] = {}

    def differences(self, events: Events, trades: npt.NDArray[np.bool_], bids: Half, asks: Half) -> Events:
        """Trades, and behind each the levels that went, then those that came or changed. An instrument's first book starts with a clear
        one. Rows without change give nothing."""
        rows, depth = bids[0].shape
        first = np.zeros(rows, np.bool_)
        before = [(np.zeros_like(prices), np.zeros_like(lots)) for prices, lots in (bids, asks)]
        for instrument in np.unique(events["instrument"]).tolist():
            here = np.flatnonzero(events["instrument"] == instrument)
            known = self._last.get(instrument)
            first[here[0]] = known is None
            for side, (prices, lots) in enumerate((bids, asks)):
                for part, now in enumerate((prices, lots)):
                    before[side][part][here[1:]] = now[here[:-1]]
                    if known is not None:
                        before[side][part][here[0]] = known[side][part][0]
            last = here[-1:]
            self._last[instrument] = ((bids[0][last], bids[1][last]), (asks[0][last], asks[1][last]))
        went = [_went(old, new) for old, new in zip(before, (bids, asks), strict=True)]
        came = [_went(new, old, same=True) for old, new in zip(before, (bids, asks), strict=True)]
        marks = np.concatenate([trades[:, None], first[:, None], *went, *came], axis=1)
        prices = np.concatenate([before[0][0], before[1][0], bids[0], asks[0]], axis=1)
        lots = np.concatenate([np.zeros((rows, 2 * depth), np.int64), bids[1], asks[1]], axis=1)
        row, place = np.nonzero(marks)
        found = events[row]
        level = place >= 2
        found["flags"] &= 0xFFFF ^ int(Flag.LAST)
        last_of = np.append(row[1:] != row[:-1], True)[: row.size]
        found["flags"][last_of] |= int(Flag.LAST)
        found["kind"][place == 1], found["side"][place == 1] = EventKind.BOOK_CLEAR, MarketSide.NONE
        found["flags"][first[row] & (place > 0)] |= int(Flag.SNAPSHOT)
        found["kind"][level] = EventKind.BOOK_LEVEL
        found["side"][level] = np.where((place[level] - 2) // depth % 2 == 0, int(MarketSide.BUY), int(MarketSide.SELL))
        found["price"][place == 1] = found["qty"][place == 1] = 0
        found["price"][level], found["qty"][level] = prices[row[level], place[level] - 2], lots[row[level], place[level] - 2]
        return found


def _went(old: Half, new: Half, same: bool = False) -> npt.NDArray[np.bool_]:
    """Levels of `old` [rows, levels] whose price `new` hasn't; with `same`, whose price and quantity it hasn't both."""
    matches = (old[0][:, :, None] == new[0][:, None, :]) & (new[1][:, None, :] > 0)
    if same:
        matches &= old[1][:, :, None] == new[1][:, None, :]
    gone: npt.NDArray[np.bool_] = (old[1] > 0) & ~matches.any(axis=2)
    return gone
