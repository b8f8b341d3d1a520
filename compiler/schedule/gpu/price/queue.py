"""How long a launch takes whose blocks use several things that multiprocessors have, or share: a closed queue, by mean value analysis."""

from collections.abc import Mapping, Sequence
from math import ceil

DRAIN = 0.3
"""Of a wave's turn: loads come first and stores last."""
MANY_ROUNDS = 4
"""Of blocks on a multiprocessor, from which on the last doesn't count: blocks no longer begin together."""
OWN = ("the second cache", "the first cache", "instructions", "matrix units")
"""What each multiprocessor has by itself: those with a block more than others end later. Memory is all theirs."""


def passed(
    streams: Mapping[str, float], blocks: int, processors: int, warps: int, resident: int, waiting: float, turns: float = 1.0
) -> float:
    """Nanoseconds from the first block to the last. `streams`: what each thing would take by itself, of which `blocks`, the beginning of
    blocks, goes on beside all others; `warps` of a block; `resident` blocks of a multiprocessor; `waiting`: nanoseconds that a block
    takes beside what it queues for, in so many turns."""
    each = blocks / processors
    most = ceil(each)
    services = [streams["memory"] / (most * warps), *(streams.get(name, 0.0) / (each * warps) for name in OWN)]
    rounds, left = divmod(most, resident)
    if rounds >= MANY_ROUNDS:
        total = each * warps / throughput(waiting, [streams["memory"] / (each * warps), *services[1:]], resident * warps)
    else:
        total = sum(count * warps / throughput(waiting, services, count * warps) for count in [resident] * rounds + [left] * (left > 0))
    return max(total, streams["blocks"]) * (1 + DRAIN / max(0.6, each / resident) / turns)


def throughput(waiting: float, services: Sequence[float], customers: int) -> float:
    """Portions a nanosecond of a closed queue with so many customers, each of whom takes `waiting` nanoseconds beside its services: mean
    value analysis (Reiser and Lavenberg, 1980)."""
    queues = [0.0] * len(services)
    rate = 0.0
    for number in range(1, customers + 1):
        responses = [service * (1 + queue) for service, queue in zip(services, queues, strict=True)]
        rate = number / (waiting + sum(responses))
        queues = [rate * response for response in responses]
    return rate
