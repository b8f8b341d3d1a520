"""The devices of this machine as places where compute blocks run: what has to be copied there, what that costs, how a block is
compiled for it."""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from math import prod
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from compiler.devices.costs import Rates
from compiler.launch.block import ComputeBlock
from compiler.launch.cache import PLACED, PLACES, Cache
from compiler.machines.emulated import emulated
from compiler.source import Sources
from runtime.device import CPU, EMULATOR, Device, present_devices
from runtime.records import Factory, define
from runtime.tensor import Tensor

if TYPE_CHECKING:
    from compiler.launch.emulator import Report
    from compiler.launch.recorded import LaunchRecording
    from runtime.cuda.gpu import Gpu

Block = Callable[[Mapping[str, Any]], Any]


class DevicePlace(Protocol):
    """A device for blocks. A block is made once for each place and keeps its compiled kernels."""

    @property
    def device(self) -> Device: ...

    def block(self, block: ComputeBlock) -> Block: ...

    def holds(self, tensor: Tensor) -> bool:
        """Whether the tensor's elements are here, so that nothing is copied."""

    def bring(self, tensor: Tensor) -> Tensor:
        """The tensor with its elements here; itself when they are."""

    def wait(self) -> None:
        """Until all that was started here is done."""


def bytes_of(tensor: Tensor) -> int:
    """Bytes of a tensor's elements."""
    return prod(tensor.shape) * tensor.dtype.itemsize


@define(eq=False)
class CpuPlace:
    """The processor: blocks run as they are."""

    device: Device = CPU

    def block(self, block: ComputeBlock) -> Block:
        return block

    def holds(self, tensor: Tensor) -> bool:
        return tensor.host is not None

    def bring(self, tensor: Tensor) -> Tensor:
        tensor.contents  # noqa: B018 (fetched, and kept)
        return tensor

    def wait(self) -> None:
        """Blocks return when they are done."""


@define(eq=False)
class EmulatorPlace:
    """The emulator of a machine, whose memory is the host's. Nobody chooses it for its speed."""

    report: "Report | None" = None
    device: Device = EMULATOR
    _blocks: Cache[ComputeBlock, Block] = Factory(partial(Cache, PLACED))

    def block(self, block: ComputeBlock) -> Block:
        from compiler.launch.emulator import EmulatedBlock

        return self._blocks.of(block, lambda: EmulatedBlock(block, emulated(self.device), self.report))

    def holds(self, tensor: Tensor) -> bool:
        return tensor.host is not None or tensor.device.kind == EMULATOR

    def bring(self, tensor: Tensor) -> Tensor:
        return tensor

    def wait(self) -> None:
        """Blocks return when they are done."""


@define(eq=False)
class GpuPlace:
    """An NVIDIA GPU."""

    gpu: "Gpu"
    sources: Sources
    _blocks: Cache[ComputeBlock, Block] = Factory(partial(Cache, PLACED))

    @property
    def device(self) -> Device:
        from runtime.device import cuda_name

        return cuda_name(self.gpu.device.ordinal)

    def block(self, block: ComputeBlock) -> Block:
        from compiler.devices.tuning.tuner import tuner_of
        from compiler.launch.cuda.kernels import CudaBlock

        return self._blocks.of(block, lambda: CudaBlock(block, self.gpu, self.sources, tuner_of(self.gpu)))

    def holds(self, tensor: Tensor) -> bool:
        from runtime.cuda.remote import copy_on, elements_on

        return elements_on(tensor, self.gpu) is not None or copy_on(tensor, self.gpu) is not None

    def bring(self, tensor: Tensor) -> Tensor:
        from runtime.cuda.remote import sent

        return tensor if self.holds(tensor) else Tensor(None, sent(tensor, self.gpu))

    def wait(self) -> None:
        self.gpu.synchronize()


@define(eq=False)
class RecordedPlace:
    """A place whose blocks tell which kernels they run."""

    place: DevicePlace
    recording: "LaunchRecording"
    _blocks: Cache[ComputeBlock, Block] = Factory(partial(Cache, PLACED))

    @property
    def device(self) -> Device:
        return self.place.device

    def block(self, block: ComputeBlock) -> Block:
        return self._blocks.of(block, lambda: self._recorded(block))

    def _recorded(self, block: ComputeBlock) -> Block:
        from compiler.launch.recorded import RecordedBlock, by_threads, on_the_cpu, on_the_gpu

        run: Any = self.place.block(block)
        match self.device.kind:
            case "cpu":
                return RecordedBlock(block, run, on_the_cpu, self.recording)
            case "emulator":
                return RecordedBlock(block, run, by_threads(emulated(self.device), self.recording.dry), self.recording)
            case _:
                return RecordedBlock(block, run, on_the_gpu(run), self.recording)

    def holds(self, tensor: Tensor) -> bool:
        return self.place.holds(tensor)

    def bring(self, tensor: Tensor) -> Tensor:
        return self.place.bring(tensor)

    def wait(self) -> None:
        self.place.wait()


@define(eq=False)
class DevicePlaces:
    """The places of this machine, each made when it is first asked for. `measure` finds how fast one is, which is asked once and only
    where there is a choice; `report` is the emulator's; `recording` hears of kernels that run; `clock` gives seconds."""

    sources: Sources
    measure: Callable[[DevicePlace], Rates]
    report: "Report | None" = None
    recording: "LaunchRecording | None" = None
    clock: Callable[[], float] = perf_counter
    _places: Cache[Device, DevicePlace] = Factory(partial(Cache, PLACES))
    _rates: Cache[Device, Rates] = Factory(partial(Cache, PLACES))

    @cached_property
    def present(self) -> tuple[Device, ...]:
        """The devices to choose from, the CPU first."""
        return present_devices()

    def at(self, device: Device) -> DevicePlace:
        """The place of a device that is here."""
        return self._places.of(device, lambda: self._recorded(self._make(device)))

    def rates(self, device: Device) -> Rates:
        return self._rates.of(device, lambda: self.measure(self.at(device)))

    def _recorded(self, device_place: DevicePlace) -> DevicePlace:
        return device_place if self.recording is None else RecordedPlace(device_place, self.recording)

    def _make(self, device: Device) -> DevicePlace:
        if device == CPU:
            return CpuPlace()
        if device.kind == EMULATOR:
            return EmulatorPlace(self.report, device)
        from runtime.cuda.gpu import gpu

        return GpuPlace(gpu(device.ordinal), self.sources)
