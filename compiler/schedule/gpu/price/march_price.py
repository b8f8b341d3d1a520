"""What marches cost, in nanoseconds: lines take their steps one after the other, so that few of them wait for their own arithmetic, many
for memory."""

from math import log2

from compiler.schedule.gpu.facts import ALIGNMENT, Facts
from compiler.schedule.gpu.price.launch_price import NARROW, runs
from compiler.schedule.gpu.price.memory_traffic import SECTOR
from runtime.records import frozen

SCHEDULERS = 4
"""Of a multiprocessor: each begins an instruction of a warp in a cycle."""
BEGIN = 3000
"""Cycles until a block's first steps, and behind its last."""


@frozen
class MarchShape:
    """Blocks of so many `lines`, each of so many `steps`; `warps` of a block that do steps, so many `instructions` each, which follow each
    other in `wait` cycles; cycles of a multiprocessor for what `helpers` do in a step of all lines of a block; what a block needs; `bytes`
    of a step of a line, in runs of so many, `wide` at once."""

    blocks: int
    lines: int
    steps: int
    warps: int
    instructions: float
    wait: float
    helpers: float
    threads: int
    registers: int
    shared: int
    bytes: int
    run: int
    wide: int


def nanoseconds(shape: MarchShape, facts: Facts) -> float:
    machine, rates = facts.machine, facts.rates
    resident = max(1, machine.resident_blocks(shape.threads, shape.registers, shape.shared))
    together = min(resident, -(-shape.blocks // facts.processors))
    turns = -(-shape.blocks // (facts.processors * together))
    issued = together * (shape.warps * shape.instructions / SCHEDULERS + shape.helpers)
    own = -(-together * shape.warps // SCHEDULERS) * shape.instructions
    cycles = turns * (BEGIN + shape.steps * max(shape.wait, issued, own))
    moved = float(shape.blocks * shape.lines * shape.steps * shape.bytes)
    asked = moved * max(1.0, SECTOR / shape.run) / (rates.second_cache * facts.processors)
    factor = runs(shape.run) + NARROW * log2(ALIGNMENT / shape.wide)
    return rates.launch + max(cycles / rates.clock, asked / rates.clock, moved / rates.memory * factor)
