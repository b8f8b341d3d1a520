"""What launches cost, from the work of their blocks, in nanoseconds. What depends on that is an order among kernels of one field. On an
NVIDIA H200 prices are within a quarter of what was measured for most rows, maps and windows of `bench.gpu.wide`."""

from collections.abc import Mapping
from math import log2, prod

from compiler.hir.affine import Affine
from compiler.hir.types import INDEX
from compiler.machines.access import ALIGNMENT
from compiler.schedule.gpu.facts import Facts
from compiler.schedule.gpu.price.block_work import BlockWork, NotPriced, block_work
from compiler.schedule.gpu.price.memory_traffic import LINE, SECTOR
from compiler.schedule.gpu.price.queue import passed
from compiler.schedule.launches import Either, Launch, Launches
from runtime.records import frozen

ISSUE = 4 * 0.8
"""Instructions of warps that a multiprocessor begins each cycle."""
CHAINED = 1.0
"""Cycles from one instruction of a warp to the next, where it waits for no value and no other warp is in its way."""
BEGIN = 800
"""Cycles of a thread beside what it waits for."""
LONG_RUN, SHORT_RUN = 512, 0.05
"""Bytes that are best read in one run, and what each halving costs of the time of memory."""
NARROW = 0.04
"""Of the time of memory, for each halving of the 16 bytes that a lane best accesses."""
RESERVED = 12
"""Registers of addresses and digits."""
SPILLED = 1.0
"""Instructions, and cycles of the first cache, in each turn for a register that has no room."""
ATOMIC = 2.0
"""Cycles of the second cache for an atomic, of each multiprocessor."""
SAMPLES = 3
"""Blocks of a grid that are followed: they need not be alike."""
ALIKE = 1.05
"""Times the least of their prices, below which they are."""


@frozen
class LaunchPrice:
    """`nanoseconds` of a launch; `least`: what its bytes alone would take; `streams`: each thing that it queues for, by itself."""

    nanoseconds: float
    least: float
    streams: tuple[tuple[str, float], ...] = ()
    alike: bool = True
    """Whether blocks cost the same."""

    @property
    def limit(self) -> str:
        """What it waits for most."""
        return max(self.streams, key=lambda stream: stream[1], default=("the launch", 0.0))[0]

    def __add__(self, other: "LaunchPrice") -> "LaunchPrice":
        """Of two launches, one behind the other."""
        mine, theirs = dict(self.streams), dict(other.streams)
        streams = {name: mine.get(name, 0.0) + theirs.get(name, 0.0) for name in (*mine, *theirs)}
        alike = self.alike and other.alike
        return LaunchPrice(self.nanoseconds + other.nanoseconds, self.least + other.least, tuple(streams.items()), alike)


def price_of(launches: Launches, facts: Facts, samples: int = SAMPLES) -> LaunchPrice:
    """Of all launches, one behind the other; `samples`: blocks of each that are followed. Raises `NotPriced`."""
    sizes = sizes_of(launches, facts)
    total = LaunchPrice(0.0, 0.0)
    for stage in launches.stages:
        launch = stage.chosen(sizes) if isinstance(stage, Either) else stage
        if not isinstance(launch, Launch):
            raise NotPriced("a sort")
        total = total + launch_price(launch, sizes, facts, samples)
    return total


def sizes_of(launches: Launches, facts: Facts) -> dict[str, int]:
    """About what their `index` parameters are."""
    names = {parameter.name for launch in launches.launches for parameter in launch.function.parameters if parameter.type == INDEX}
    sizes = {name: facts.about(Affine.of(name)) for name in names}
    for product in launches.products:
        sizes[product.name] = product.value(sizes)
    return sizes


def launch_price(launch: Launch, sizes: Mapping[str, int], facts: Facts, samples: int = SAMPLES) -> LaunchPrice:
    """The mean of some blocks' prices, as if all were like each. Raises `NotPriced`."""
    if launch.nanoseconds is not None:
        return LaunchPrice(launch.nanoseconds, launch.nanoseconds)
    blocks, machine, rates = launch.blocks(sizes), facts.machine, facts.rates
    if blocks <= 0:
        return LaunchPrice(rates.launch, rates.launch)
    places = sorted({blocks * (2 * sample + 1) // (2 * samples) for sample in range(samples)})
    works = [block_work(launch.function, sizes, launch.block, place, machine.lanes, rates.latency) for place in places]
    prices = [_as_if_all_were(work, launch, blocks, facts) for work in works]
    streams = {name: sum(dict(price.streams)[name] for price in prices) / len(prices) for name, _ in prices[0].streams}
    nanoseconds = [price.nanoseconds for price in prices]
    least = sum(price.least for price in prices) / len(prices)
    alike = max(nanoseconds) < ALIKE * min(nanoseconds)
    return LaunchPrice(sum(nanoseconds) / len(prices), least, tuple(streams.items()), alike)


def _as_if_all_were(work: BlockWork, launch: Launch, blocks: int, facts: Facts) -> LaunchPrice:
    machine, rates, memories = facts.machine, facts.rates, work.memories.values()
    clock, each, threads = rates.clock, blocks / facts.processors, prod(launch.block)
    turns = max(1.0, work.waiting / rates.latency)
    most = _most_registers(launch, machine.registers // threads)
    spilled = SPILLED * max(0, work.registers + RESERVED - most) * turns * work.warps
    resident = max(1, machine.resident_blocks(threads, min(work.registers + RESERVED, most), work.shared))
    whole = sum(memory.bytes for memory in memories)
    moved, least, again, factor = 0.0, 0.0, 0.0, 1.0
    for memory in memories:
        bytes = min(float(memory.bytes), memory.touched * blocks)
        least += bytes
        # of what all blocks at work read again later, the caches have nothing left
        far = sum(repeated for repeated, between in memory.again if between * min(blocks, resident * facts.processors) > rates.cache)
        bytes += far * blocks
        again += far
        moved += bytes
        if bytes * 8 > whole:
            factor = max(factor, runs(memory.run) + NARROW * log2(ALIGNMENT / max(1, min(ALIGNMENT, memory.widest))))
    # The first cache puts no stores together.
    asked = again + sum(max(memory.touched, SECTOR * memory.stored) for memory in memories)
    second = asked / rates.second_cache + ATOMIC * work.atomics
    first = sum(memory.wavefronts for memory in memories) + work.shared_cycles + spilled
    streams = {
        "memory": moved / rates.memory * factor,
        "the second cache": each * second / clock,
        "the first cache": each * first / clock,
        "instructions": each * (work.instructions + spilled) / ISSUE / clock,
        "matrix units": each * work.products / clock,
        "blocks": each * rates.block / clock,
    }
    waiting = (BEGIN + work.waiting + CHAINED * work.instructions / work.warps) / clock
    total = passed(streams, blocks, facts.processors, work.warps, resident, waiting, turns) + rates.launch
    return LaunchPrice(total, least / rates.memory + rates.launch, tuple(streams.items()))


def runs(run: float) -> float:
    """Times as long as memory takes that is read in runs of so many bytes."""
    return 1 + SHORT_RUN * max(0.0, log2(LONG_RUN / max(SECTOR, run))) + 0.25 * max(0.0, LINE / max(SECTOR, run) - 1)


def _most_registers(launch: Launch, most: int) -> int:
    """That a thread can have, of so many if there were one block on a multiprocessor."""
    info = launch.function.kernel_info
    bounds = None if info is None else info.launch_bounds
    if bounds is not None and bounds.min_blocks_per_sm:
        most //= bounds.min_blocks_per_sm
    return min(most, 255)
