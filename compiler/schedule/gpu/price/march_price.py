"""What marches cost, in nanoseconds: lines take their steps one after the other, so that few of them wait for their own arithmetic, many
for memory."""

from math import ceil, hypot, sqrt

from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.price.launch_price import runs
from compiler.schedule.gpu.price.memory_traffic import SECTOR
from runtime.records import frozen

SCHEDULERS = 4
"""Of a multiprocessor: each begins an instruction of a warp in a cycle."""
ALONE, TOGETHER = 1.9, 0.8
"""Cycles of an instruction of a warp that has a scheduler alone, and of each of several that share one."""
BEGIN, BARRIER, LATENCY = 800, 105, 600
"""Cycles of a block beside its steps, between two parts of them, and from a load to its value."""
FILLED, EMPTY = 0.65, 1.0
"""Parts that pass before the first step, and for how many the memory of a multiprocessor waits that has one block."""
LAST = 0.5
"""Of a turn of blocks, for those that end last."""
FEW = 19.5
"""Bytes that a multiprocessor reads and writes in a cycle, at most."""
RUNS = 0.45
"""Of what short runs cost elsewhere: neighbouring blocks march along beside each other."""
CACHE, CROWDED = 9 / 8, 0.7
"""Times its shared memory that a multiprocessor has with the first cache, by which copies of less than 16 bytes pass; of the time of
memory, where nothing is left for them."""


@frozen
class MarchShape:
    """Blocks of so many `lines`, each of so many `steps`, a `part` of them at once, and `ahead` parts under way; `warps` of a block that do
    steps, so many `instructions` each, which follow each other in `wait` cycles; what `helpers` do in a step of all lines of a block, in
    instructions of lines; what a block needs; `bytes` of a step of a line, in runs of so many; `cached`: what is under way of a block and
    passes by the first cache."""

    blocks: int
    lines: int
    steps: int
    part: int
    ahead: int
    warps: int
    instructions: float
    wait: float
    helpers: float
    threads: int
    registers: int
    shared: int
    bytes: int
    run: int
    cached: int = 0


def nanoseconds(shape: MarchShape, facts: Facts) -> float:
    """What lines wait for and what memory takes, neither of which hides all of the other."""
    machine, rates = facts.machine, facts.rates
    resident = max(1, machine.resident_blocks(shape.threads, shape.registers, shape.shared))
    together = min(resident, ceil(shape.blocks / facts.processors))
    turns = shape.blocks / (facts.processors * together)
    issued = together * (shape.warps * shape.instructions + shape.helpers) / SCHEDULERS
    shared = ceil(together * shape.warps / SCHEDULERS) * shape.instructions * TOGETHER
    helped = shape.helpers / max(1, shape.threads // machine.lanes - shape.warps)
    step = max(shape.wait, shape.instructions * ALONE, issued, shared, helped) + BARRIER / shape.part
    step = max(step, LATENCY / (shape.part * max(1, shape.ahead)))
    lines = (1.0 if turns <= 1 else turns + LAST) * (BEGIN + (shape.steps + FILLED * shape.part) * step) / rates.clock
    moved = float(shape.blocks * shape.lines * shape.steps * shape.bytes)
    factor = (1 + RUNS * (runs(shape.run) - 1)) * sqrt(max(1.0, SECTOR / shape.run))
    memory = moved / rates.memory * factor * (1 + EMPTY * shape.part / (shape.steps * together))
    if shape.cached:
        left = CACHE * machine.shared - together * shape.shared
        memory *= 1 + CROWDED * max(0.0, 1 - left / (together * shape.cached))
    few = moved / (min(shape.blocks, facts.processors) * FEW * rates.clock)
    return rates.launch + hypot(lines, max(memory, few))
