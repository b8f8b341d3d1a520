"""How many blocks a multiprocessor holds: numbers of NVIDIA's occupancy calculator, and the targets of devices."""

import pytest

from compiler.backends.nvptx.target import PTX_VERSIONS, gpu_target, ptx_of_driver, target_of_device
from compiler.diagnostics import ZyntaxError
from compiler.machines.nvidia import MACHINES


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "blocks"),
    [
        ("sm_80", 256, 32, 0, 8),  # all 64 warps
        ("sm_80", 256, 33, 0, 6),  # 40 registers a thread when rounded up: 48 warps
        ("sm_80", 1024, 64, 0, 1),
        ("sm_80", 1024, 65, 0, 0),  # doesn't fit at all
        ("sm_80", 32, 16, 0, 32),  # no more blocks than that
        ("sm_80", 128, 32, 32 * 1024, 4),  # 33 KiB each, with the system's
        ("sm_80", 64, 32, 163 * 1024, 1),
        ("sm_75", 64, 32, 32 * 1024, 2),
        ("sm_75", 1024, 32, 0, 1),
        ("sm_86", 512, 32, 0, 3),  # 48 warps
        ("sm_90a", 384, 168, 0, 1),
        ("sm_90", 128, 128, 0, 4),
        ("sm_120", 256, 32, 48 * 1024, 2),
    ],
)
def test_resident_blocks(arch: str, threads: int, registers: int, shared: int, blocks: int) -> None:
    assert gpu_target(arch).machine.resident_blocks(threads, registers, shared) == blocks


def test_every_machine_has_versions_of_ptx() -> None:
    assert PTX_VERSIONS.keys() == MACHINES.keys()


@pytest.mark.parametrize(
    ("capability", "arch"),
    [((7, 5), "sm_75"), ((8, 0), "sm_80"), ((8, 6), "sm_86"), ((8, 7), "sm_86"), ((8, 9), "sm_89"), ((9, 0), "sm_90a"),
     ((10, 0), "sm_100a"), ((10, 3), "sm_100"), ((11, 0), "sm_100"), ((12, 0), "sm_120"), ((12, 1), "sm_120"), ((13, 0), "sm_120")],
)  # fmt: skip
def test_a_device_takes_its_own_target_or_the_highest_below(capability: tuple[int, int], arch: str) -> None:
    assert target_of_device(capability).machine.name == arch


def test_older_devices_are_refused() -> None:
    with pytest.raises(ZyntaxError) as raised:
        target_of_device((7, 0))
    (diagnostic,) = raised.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("0504", "devices of compute capability 7.0 are not supported")


@pytest.mark.parametrize(
    ("driver", "ptx"), [((12, 0), (8, 0)), ((12, 4), (8, 4)), ((12, 6), (8, 5)), ((12, 8), (8, 7)), ((12, 9), (8, 8)), ((13, 0), (9, 0)), ((13, 1), (9, 1))]
)
def test_what_ptx_a_driver_takes(driver: tuple[int, int], ptx: tuple[int, int]) -> None:
    assert ptx_of_driver(driver) == ptx
