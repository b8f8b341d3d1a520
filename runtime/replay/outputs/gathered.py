"""What the summary and the charts need of a run's records, gathered as they pass by."""

from fractions import Fraction
from typing import Any

import numpy as np

from runtime.replay.events import MarketSide
from runtime.replay.outputs.records import PNL, OrderState, Records, RiskRule, RunDescription, rule_name
from runtime.replay.outputs.statistics import Counts, Envelope, Equity, Sampled, Sharpe, ratio

PERCENTILES = {"p50": Fraction(1, 2), "p99": Fraction(99, 100), "p99.9": Fraction(999, 1000), "max": Fraction(1)}


class CurrencyEquity:
    """Equity and drawdown of the instruments that earn in one currency."""

    def __init__(self, run: RunDescription, name: str) -> None:
        self.members = np.array([instrument.currency == name for instrument in run.instruments])
        self.equity = Equity(len(run.instruments))
        self.sharpe = Sharpe()
        self.line, self.falls = Envelope(), Envelope()

    def add(self, records: Records) -> None:
        own = records[self.members[records["instrument"]]]
        if own.size:
            equity, falls = self.equity.add(own["instrument"], own["net"])
            self.sharpe.add(own["ts"], equity)
            self.line.add(own["ts"], equity)
            self.falls.add(own["ts"], -falls)


class Position:
    """One instrument's lines, fills and last state."""

    def __init__(self) -> None:
        self.marks, self.positions = Envelope(), Envelope()
        self.fills = Sampled()
        self.fill_count = self.volume = 0
        self.last = np.zeros((), PNL)


class Gathered:
    """Of all records of a run."""

    def __init__(self, run: RunDescription) -> None:
        self.run = run
        self.currencies = {name: CurrencyEquity(run, name) for name in run.currencies}
        self.positions = [Position() for _ in run.instruments]
        self.rejects = dict.fromkeys(RiskRule, 0)
        self.refused = 0
        """Orders that the risk block refused, each once."""
        self.states = dict.fromkeys(OrderState, 0)
        self.ordered = [0 for _ in run.instruments]
        """Lots of all orders, by instrument."""
        self.latency = Counts()
        self.begin: int | None = None
        self.end: int | None = None

    def add(self, table: str, records: Records) -> None:
        if not records.size:
            return
        match table:
            case "orders":
                self._orders(records)
            case "fills":
                self._fills(records)
            case "rejects":
                self.refused += records.size
                for rule in RiskRule:
                    self.rejects[rule] += int(((records["mask"] & rule) != 0).sum())
            case "pnl":
                self._pnl(records)
            case "latency":
                self.latency.add(records["ns"])

    def _orders(self, records: Records) -> None:
        for state in OrderState:
            self.states[state] += int((records["state"] == state).sum())
        for number in np.unique(records["instrument"]).tolist():
            self.ordered[number] += sum(records["qty"][records["instrument"] == number].tolist())

    def _fills(self, records: Records) -> None:
        for number in np.unique(records["instrument"]).tolist():
            own = records[records["instrument"] == number]
            self.positions[number].fills.add(own)
            self.positions[number].fill_count += own.size
            self.positions[number].volume += sum(own["qty"].tolist())

    def _pnl(self, records: Records) -> None:
        self.begin = int(records["ts"][0]) if self.begin is None else self.begin
        self.end = int(records["ts"][-1])
        for currency in self.currencies.values():
            currency.add(records)
        for number in np.unique(records["instrument"]).tolist():
            own = records[records["instrument"] == number]
            one = self.positions[number]
            marked = own[own["marked"] != 0]
            one.marks.add(marked["ts"], marked["mark2"])
            one.positions.add(own["ts"], own["position"])
            one.last = own[-1].copy()

    def order_counts(self) -> dict[str, int]:
        """`submitted` is the sum of the others: expired orders are cancelled, those that the market refused rejected."""
        counts = {
            "filled": self.states[OrderState.FILLED],
            "cancelled": self.states[OrderState.CANCELLED] + self.states[OrderState.EXPIRED],
            "rejected": self.refused + self.states[OrderState.REJECTED],
            "open": sum(self.states[state] for state in (OrderState.NEW, OrderState.PENDING, OrderState.LIVE, OrderState.PART_FILLED)),
        }
        return {"submitted": sum(counts.values()), **counts}

    def fill_ratio(self) -> float | None:
        """Lots filled of lots that went to the market, of all instruments together."""
        return ratio(sum(position.volume for position in self.positions), sum(self.ordered))

    def rejects_by_rule(self) -> dict[str, int]:
        return {rule_name(rule): count for rule, count in self.rejects.items() if count}

    def percentiles(self) -> dict[str, float | None]:
        return {name: self.latency.percentile(share) for name, share in PERCENTILES.items()}


def is_buy(record: Any) -> bool:
    return int(record["side"]) == MarketSide.BUY
