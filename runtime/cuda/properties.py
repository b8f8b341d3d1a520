"""What a CUDA device is and what it can hold: read once, then plain values."""

from typing import Any

from runtime.cuda.driver import Driver
from runtime.records import frozen


@frozen
class Properties:
    """A device's name, size and limits. Memory in bytes, clocks in kHz."""

    ordinal: int
    name: str
    capability: tuple[int, int]
    memory: int
    multiprocessors: int
    warp_size: int
    max_threads_per_block: int
    max_threads_per_multiprocessor: int
    max_blocks_per_multiprocessor: int
    max_block: tuple[int, int, int]
    max_grid: tuple[int, int, int]
    shared_per_block: int
    shared_per_block_opt_in: int
    shared_per_multiprocessor: int
    registers_per_block: int
    registers_per_multiprocessor: int
    constant_memory: int
    l2_cache: int
    clock: int
    memory_clock: int
    memory_bus_bits: int
    copy_engines: int
    cooperative_launch: bool
    memory_pools: bool
    clusters: bool
    driver_version: tuple[int, int]

    @property
    def architecture(self) -> str:
        """As the assembler names it: `sm_90`."""
        return f"sm_{self.capability[0]}{self.capability[1]}"


_SINGLE = {
    "multiprocessors": "MULTIPROCESSOR_COUNT",
    "warp_size": "WARP_SIZE",
    "max_threads_per_block": "MAX_THREADS_PER_BLOCK",
    "max_threads_per_multiprocessor": "MAX_THREADS_PER_MULTIPROCESSOR",
    "max_blocks_per_multiprocessor": "MAX_BLOCKS_PER_MULTIPROCESSOR",
    "shared_per_block": "MAX_SHARED_MEMORY_PER_BLOCK",
    "shared_per_block_opt_in": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "shared_per_multiprocessor": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "registers_per_block": "MAX_REGISTERS_PER_BLOCK",
    "registers_per_multiprocessor": "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "constant_memory": "TOTAL_CONSTANT_MEMORY",
    "l2_cache": "L2_CACHE_SIZE",
    "clock": "CLOCK_RATE",
    "memory_clock": "MEMORY_CLOCK_RATE",
    "memory_bus_bits": "GLOBAL_MEMORY_BUS_WIDTH",
    "copy_engines": "ASYNC_ENGINE_COUNT",
}
_YES_OR_NO = {
    "cooperative_launch": "COOPERATIVE_LAUNCH",
    "memory_pools": "MEMORY_POOLS_SUPPORTED",
    "clusters": "CLUSTER_LAUNCH",
}


def read_properties(driver: Driver, ordinal: int, handle: Any) -> Properties:
    """The properties of a device of this driver."""

    def attribute(name: str) -> int:
        return int(driver.call("cuDeviceGetAttribute", getattr(attributes, f"CU_DEVICE_ATTRIBUTE_{name}"), handle))

    attributes = driver.api.CUdevice_attribute
    limits: dict[str, Any] = {field: attribute(name) for field, name in _SINGLE.items()}
    limits |= {field: bool(attribute(name)) for field, name in _YES_OR_NO.items()}
    name = driver.call("cuDeviceGetName", 128, handle)
    return Properties(
        ordinal=ordinal,
        name=bytes(name).split(b"\0")[0].decode(),
        capability=(attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR")),
        memory=int(driver.call("cuDeviceTotalMem", handle)),
        max_block=(attribute("MAX_BLOCK_DIM_X"), attribute("MAX_BLOCK_DIM_Y"), attribute("MAX_BLOCK_DIM_Z")),
        max_grid=(attribute("MAX_GRID_DIM_X"), attribute("MAX_GRID_DIM_Y"), attribute("MAX_GRID_DIM_Z")),
        driver_version=driver.version,
        **limits,
    )
