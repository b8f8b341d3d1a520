"""Which machine the emulator is, by the device's name: `emulator:sm_90a`. Programs without compute blocks name devices, too, so the
machines are only imported when an emulator is named."""

from typing import TYPE_CHECKING, Any

from runtime import device as devices
from runtime.device import Device, NoDevice
from runtime.entry_points import TARGETS, entry_points

if TYPE_CHECKING:
    from compiler.machines.gpu import GpuMachine

USUAL = "sm_90"
"""What plain `emulator` is."""


def emulated(device: Device) -> "GpuMachine":
    """The machine that an emulator's name means. Raises NoDevice."""
    from compiler.machines.nvidia import MACHINES

    machine = MACHINES.get(device.target or USUAL) or _of_package(device.target or USUAL)
    if machine is None:
        raise NoDevice(f"there is no target `{device.target}` to emulate", f"targets are {', '.join(MACHINES)}")
    return machine


def _of_package(name: str) -> "GpuMachine | None":
    """The machine of a target that another package registers. Raises NoDevice."""
    from compiler.machines.gpu import GpuMachine

    for entry in entry_points(TARGETS):
        if entry.name == name:
            try:
                found: Any = entry.load()
                machine = (found if hasattr(found, "machine") else found()).machine
            except Exception as error:
                message = f"the target `{name}` of the package `{entry.distribution}` can't be loaded: {type(error).__name__}: {error}"
                raise NoDevice(message, "this is a fault of that package") from error
            if not isinstance(machine, GpuMachine):
                raise NoDevice(f"the target `{name}` of the package `{entry.distribution}` is no GPU", "emulators are of GPUs")
            return machine
    return None


def require_present(name: str) -> Device:
    """The device of that name, which programs can use here; of an emulator, its machine, too. Raises NoDevice."""
    device = devices.require_present(name)
    if device.kind == devices.EMULATOR:
        emulated(device)
    return device
