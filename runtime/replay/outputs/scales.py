"""What the numbers of a run's records are units of, by instrument."""

from runtime.replay.grids import GridStep
from runtime.replay.outputs.decimals import Scale
from runtime.replay.outputs.records import RunDescription


class Scales:
    """Prices, marks (half ticks), quantities and money of a run's instruments."""

    def __init__(self, run: RunDescription) -> None:
        self.names = [one.name for one in run.instruments]
        self.price = Scale.of([one.tick for one in run.instruments])
        self.mark = Scale.of([GridStep(one.tick.digits + 1, 5 * one.tick.divisor) for one in run.instruments])
        self.qty = Scale.of([one.lot for one in run.instruments])
        self.money = Scale.of([GridStep(one.scale, 1) for one in run.instruments])
