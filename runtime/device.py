"""Names of devices (`cpu`, `cuda`, `cuda:1`, `emulator`, `emulator:sm_80`) and which of them this machine has. Nothing is allocated or
launched here."""

from collections.abc import Mapping

KINDS = ("cpu", "cuda", "emulator", "rocm", "metal", "vulkan")

ABSENT: Mapping[str, str] = {
    "rocm": "ROCm is not supported yet",
    "metal": "Metal is not supported yet",
    "vulkan": "Vulkan is not supported yet",
}
"""Why a kind of device can be used nowhere."""


class Device(str):
    """A device by its usual name, which it equals as a string: `Device("cuda:1").kind == "cuda"`."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        return self.partition(":")[0]

    @property
    def ordinal(self) -> int:
        return int(self.partition(":")[2] or 0)

    @property
    def target(self) -> str:
        """The machine that an emulator is: `sm_80` of `emulator:sm_80`; empty where its name doesn't say."""
        return self.partition(":")[2]


CPU = Device("cpu")
EMULATOR = Device("emulator")


def parse_device(name: str) -> Device:
    """The device of that name; ValueError when there can be none. `cuda` is `cuda:0`, and `cpu:0` is `cpu`. Which machines the emulator can
    be isn't known here."""
    kind, colon, index = name.partition(":")
    if kind == EMULATOR and index.isidentifier() and index.isascii():
        return Device(name)
    numbered = index.isascii() and index.isdigit() and len(index) < 4
    if kind not in KINDS or (colon and not numbered) or (kind in (CPU, EMULATOR) and int(index or 0) != 0):
        raise ValueError(f"`{name}` names no device")
    return Device(f"cuda:{int(index or 0)}" if kind == "cuda" else kind if int(index or 0) == 0 else f"{kind}:{int(index)}")


def cuda_name(ordinal: int) -> Device:
    """A CUDA device by its number."""
    return Device(f"cuda:{ordinal}")


def present_devices() -> tuple[Device, ...]:
    """The devices of this machine that programs can use; the emulator, which every machine has, is not among them. Asks the CUDA
    driver, if its binding is installed."""
    return (CPU, *map(cuda_name, range(_gpus())))


def is_present(device: str) -> bool:
    """Whether programs can use the device; CUDA is only asked about its own."""
    kind, _, index = device.partition(":")
    return device == CPU or kind == EMULATOR or (kind == "cuda" and int(index or 0) < _gpus())


def absence(device: Device) -> str:
    """In words, why a device that isn't here isn't."""
    if device.kind != "cuda":
        return ABSENT.get(device.kind, "there is no such device")
    from runtime.cuda.driver import unavailable_reason

    reason = unavailable_reason()
    if reason is not None:
        return reason
    count = _gpus()
    return f"this machine has {count} CUDA device{'s' if count > 1 else ''}, numbered from 0"


class NoDevice(Exception):
    """A name of no device, or of one that can't be used here: what is wrong, and what works instead, in words."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = f"{reason}{'; ' if reason else ''}devices here: {', '.join(present_devices())}"


def require_present(name: str) -> Device:
    """The device of that name, which programs can use here. Raises NoDevice."""
    try:
        device = parse_device(name)
    except ValueError as fault:
        raise NoDevice(str(fault)) from None
    if not is_present(device):
        raise NoDevice(f"there is no device `{name}` here", absence(device))
    return device


def _gpus() -> int:
    from runtime.cuda.driver import gpu_count

    return gpu_count()
