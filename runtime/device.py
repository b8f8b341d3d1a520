"""Names of devices (`cpu`, `cuda`, `cuda:1`) and which of them this machine has. Nothing is allocated or launched here."""

from collections.abc import Mapping

KINDS = ("cpu", "cuda", "rocm", "metal", "vulkan")

ABSENT: Mapping[str, str] = {
    "cuda": "no CUDA driver, binding or device was found",
    "rocm": "ROCm is not supported",
    "metal": "Metal is not supported",
    "vulkan": "Vulkan is not supported",
}
"""Why a kind of device can't be used here."""


class Device(str):
    """A device by its usual name, which it equals as a string: `Device("cuda:1").kind == "cuda"`."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        return self.partition(":")[0]

    @property
    def ordinal(self) -> int:
        return int(self.partition(":")[2] or 0)


CPU = Device("cpu")


def parse_device(name: str) -> Device:
    """The device of that name; ValueError when there can be none. `cuda:0` and `cuda` are one device, as are `cpu` and `cpu:0`."""
    kind, colon, index = name.partition(":")
    if kind not in KINDS or (colon and not (index.isascii() and index.isdigit())) or (kind == "cpu" and int(index or 0) != 0):
        raise ValueError(f"`{name}` names no device")
    return Device(kind if int(index or 0) == 0 else f"{kind}:{int(index)}")


def cuda_name(ordinal: int) -> Device:
    """A CUDA device by its number."""
    return Device("cuda" if ordinal == 0 else f"cuda:{ordinal}")


def present_devices() -> tuple[Device, ...]:
    """The devices that programs can use on this machine. Asks the CUDA driver, if its binding is installed."""
    return (CPU, *map(cuda_name, range(_gpus())))


def is_present(device: str) -> bool:
    """Whether programs can use the device; CUDA is only asked about its own."""
    kind, _, index = device.partition(":")
    return device == CPU or (kind == "cuda" and int(index or 0) < _gpus())


def _gpus() -> int:
    from runtime.cuda.gpu import gpu_count

    return gpu_count()


def absence(device: Device) -> str:
    """In words, why a device is not in `present_devices()`."""
    return ABSENT.get(device.kind, "there is no such device")
