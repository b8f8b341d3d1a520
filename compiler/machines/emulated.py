"""Which machine the emulator is, by the device's name: `emulator:sm_90a`. Programs without compute blocks name devices, too, so the
machines are only imported when an emulator is named."""

from typing import TYPE_CHECKING

from runtime import device as devices
from runtime.device import Device, NoDevice

if TYPE_CHECKING:
    from compiler.machines.gpu import GpuMachine

USUAL = "sm_90"
"""What plain `emulator` is."""


def emulated(device: Device) -> "GpuMachine":
    """The machine that an emulator's name means. Raises NoDevice."""
    from compiler.machines.nvidia import MACHINES

    machine = MACHINES.get(device.target or USUAL)
    if machine is None:
        raise NoDevice(f"there is no target `{device.target}` to emulate", f"targets are {', '.join(MACHINES)}")
    return machine


def require_present(name: str) -> Device:
    """The device of that name, which programs can use here; of an emulator, its machine, too. Raises NoDevice."""
    device = devices.require_present(name)
    if device.kind == devices.EMULATOR:
        emulated(device)
    return device
