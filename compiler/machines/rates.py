"""How fast a GPU is, as the price of a kernel counts it: measured, for the devices that share an architecture differ."""

from runtime.records import frozen


@frozen
class GpuRates:
    """`clock`: cycles a nanosecond. `memory`: bytes a nanosecond that are read and written. `second_cache`: bytes a cycle that each
    multiprocessor reads from the L2 cache. `launch`: nanoseconds of a launch that does little. `block`: cycles between two blocks that
    begin on a multiprocessor. `latency`: cycles from a load to a value that no cache has. `cache`:
    bytes that blocks at work may read, all of them together, before the L2 cache surely has nothing left of what they read first."""

    clock: float
    memory: float
    second_cache: float
    launch: float
    block: float
    latency: float
    cache: float = 60e6


H200 = GpuRates(clock=1.9, memory=4250.0, second_cache=34.0, launch=2800.0, block=157.0, latency=700.0)
"""Of an NVIDIA H200. What depends on rates is an order among kernels, so they stand for devices that weren't measured, too."""
