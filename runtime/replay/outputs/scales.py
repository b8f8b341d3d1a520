"""What the numbers of a run's records are units of, by instrument."""

from runtime.replay.grids import GridStep
from runtime.replay.outputs.decimals import Scale
from runtime.replay.outputs.records import RunDescription


class Scales:
    """Prices, marks (half ticks), quantities and money of a run's instruments."""

    def __init__(self, run: RunDescription) -> None:
        self.names = [instrument.name for instrument in run.instruments]
        self.currencies = [instrument.currency for instrument in run.instruments]
        self.price = Scale.of([instrument.tick for instrument in run.instruments])
        self.mark = Scale.of([GridStep(instrument.tick.digits + 1, 5 * instrument.tick.divisor) for instrument in run.instruments])
        self.qty = Scale.of([instrument.lot for instrument in run.instruments])
        self.money = Scale.of([GridStep(instrument.scale, 1) for instrument in run.instruments])
