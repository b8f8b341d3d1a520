"""How long a launch takes whose blocks use several things that multiprocessors have, or share: a closed queue, by mean value analysis."""

from collections.abc import Mapping, Sequence
from math import ceil

DRAIN = 0.3
"""Of a wave's turn: loads come first and stores last."""
FEW_BLOCKS = 8
"""Of a multiprocessor, below which its last round counts."""
OWN = ("the second cache", "the first cache", "instructions")
"""What each multiprocessor has by itself: those with a block more than others end later. Memory is all theirs."""


def passed(
    streams: Mapping[str, float], blocks: int, processors: int, warps: int, resident: int, waiting: float, turns: float = 1.0
) -> float:
    """Nanoseconds from the first block to the last. `streams`: what each thing would take by itself, of which `blocks`, the beginning of
    blocks, goes on beside all others; `warps` of a block; `resident` blocks of a multiprocessor; `waiting`: nanoseconds that a block
    takes beside what it queues for, in so many turns."""
    each = blocks / processors
    uneven = ceil(each) / each if each < FEW_BLOCKS else 1.0
    at_once = min(resident, max(1, ceil(each)))
    portions = uneven * each * warps
    services = [streams["memory"] / portions, *(streams[name] * uneven / portions for name in OWN)]
    total = max(portions / _throughput(waiting, services, at_once * warps), streams["blocks"])
    return total * (1 + DRAIN / max(0.6, each / resident) / turns)


def _throughput(waiting: float, services: Sequence[float], customers: int) -> float:
    """Portions a nanosecond."""
    queues = [0.0] * len(services)
    rate = 0.0
    for number in range(1, customers + 1):
        responses = [service * (1 + queue) for service, queue in zip(services, queues, strict=True)]
        rate = number / (waiting + sum(responses))
        queues = [rate * response for response in responses]
    return rate
