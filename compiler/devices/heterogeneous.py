"""A compute block for several devices: both versions can be made, and each run goes where it costs least. Inputs that lie on a device
already pull the block there; results stay where they were made, so that what follows is pulled along."""

import threading
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any

from compiler.analysis.work import Work
from compiler.devices.costs import MEASURED_RUNS, History, work_at
from compiler.devices.explain import Decision, DeviceCandidate, Explain
from compiler.devices.places import Block, DevicePlace, DevicePlaces, bytes_of
from compiler.diagnostics import ZyntaxError
from compiler.launch.block import ComputeBlock
from compiler.launch.cache import HISTORIES, WORK, Cache
from compiler.launch.kernels import BuiltKernel
from compiler.launch.signature import as_tensor
from compiler.launch.updates import require_updatable
from runtime import forks
from runtime.cuda.errors import CudaError, CudaRefused, CudaUnavailable
from runtime.device import CPU, Device
from runtime.records import Factory, define, frozen
from runtime.tensor import Tensor

UNABLE = frozenset({"0109", "0502", "0503", "0504", "0804"})
"""What a GPU may say of a block that the CPU runs all the same: not supported there, over its limits, not enough memory."""


@frozen
class DeviceChoice:
    """Where a block runs with some inputs, and what that was estimated to take."""

    candidate: DeviceCandidate
    candidates: tuple[DeviceCandidate, ...]
    work: Work
    kernel: BuiltKernel
    estimated: float


@define(eq=False)
class HeterogeneousBlock:
    """Where a block runs that nobody placed, by any thread."""

    block: ComputeBlock
    places: DevicePlaces
    explain: Explain | None = None
    _work: Cache[Any, tuple[BuiltKernel, Work]] = Factory(partial(Cache, WORK))
    _histories: Cache[tuple[BuiltKernel, Device], History] = Factory(partial(Cache, HISTORIES))
    _lock: threading.Lock = Factory(forks.lock)

    @cached_property
    def on_cpu(self) -> Block:
        return self.places.at(CPU).block(self.block)

    def for_values(self, values: Mapping[str, Any]) -> Block:
        """The block on one of the devices."""
        devices = self.places.present
        if devices == (CPU,):
            if self.explain is not None:
                self.explain(Decision.of(self.block.compute, values, (), CPU, "the only device here"))
            return self.on_cpu
        choice = self.choose(values, devices)
        device = choice.candidate.device
        if self.explain is not None:
            self.explain(Decision.of(self.block.compute, values, choice.candidates, device, "which costs least"))
        return _Chosen(self, choice, self.places.at(device))

    def choose(self, values: Mapping[str, Any], devices: tuple[Device, ...]) -> DeviceChoice:
        """The cheapest device for these inputs; of equals the first, and the CPU comes first. Raises ZyntaxError when the inputs don't
        fit the block."""
        given = {name: as_tensor(value) for name, value in values.items()}
        kernel, work = self._work.of(self.block.call_key(given), lambda: self._work_of(given))
        candidates, estimates = [], []
        for device in devices:
            if self._history(kernel, device).unable:
                continue
            device_place = self.places.at(device)
            estimates.append(self.places.rates(device).running(work))
            candidates.append(self._candidate(device_place, given, kernel, work, estimates[-1]))
        best = min(range(len(candidates)), key=lambda number: candidates[number].seconds)
        return DeviceChoice(candidates[best], tuple(candidates), work, kernel, estimates[best])

    def _work_of(self, given: Mapping[str, Any]) -> tuple[BuiltKernel, Work]:
        kernel = self.block.kernel_of(given)
        shapes = {name: value.shape for name, value in given.items() if isinstance(value, Tensor)}
        scalars = {name: value for name, value in given.items() if name not in shapes}
        return kernel, work_at(kernel, shapes, kernel.sizes(shapes, scalars))

    def _candidate(
        self, device_place: DevicePlace, given: Mapping[str, Any], kernel: BuiltKernel, work: Work, estimated: float
    ) -> DeviceCandidate:
        """Copies are counted from where the elements lie, through the host; what the block updates goes back there."""
        moved, copying = 0, 0.0
        for name, tensor in given.items():
            if not isinstance(tensor, Tensor) or device_place.holds(tensor):
                continue
            size = bytes_of(tensor)
            moved += size
            if tensor.host is None:
                copying += self.places.rates(tensor.device).copying_from(size)
            if device_place.device != CPU:
                rates = self.places.rates(device_place.device)
                copying += rates.copying_to(size) + (rates.copying_from(size) if name in kernel.updated else 0.0)
        running, measured = self._history(kernel, device_place.device).running(work, estimated)
        return DeviceCandidate(device_place.device, moved, copying, running, measured)

    def _history(self, kernel: BuiltKernel, device: Device) -> History:
        return self._histories.of((kernel, device), History)

    def run(self, choice: DeviceChoice, device_place: DevicePlace, values: Mapping[str, Any]) -> Any:
        """The run; where a GPU turns out to be unable to, on the CPU instead. Inputs of a run that fails are as before."""
        try:
            return self._measured(choice, device_place, values)
        except (CudaError, CudaRefused, CudaUnavailable) as trouble:
            from compiler.codes.device_faults import diagnostic

            error = ZyntaxError(diagnostic(trouble, self.block.compute.span))
        except ZyntaxError as refusal:
            error = refusal
        if device_place.device == CPU or not all(fault.code in UNABLE for fault in error.diagnostics):
            raise error
        if all(fault.code != "0804" for fault in error.diagnostics):
            self._history(choice.kernel, device_place.device).unable = True
        if self.explain is not None:
            why = f"since {device_place.device} can't: {error.diagnostics[0].message}"
            self.explain(Decision.of(self.block.compute, values, (), CPU, why))
        return self.on_cpu(values)

    def _measured(self, choice: DeviceChoice, device_place: DevicePlace, values: Mapping[str, Any]) -> Any:
        """The run, measured as long as there are few measured ones; the first, which compiles, is not."""
        run = device_place.block(self.block)
        with self._lock:
            history = self._history(choice.kernel, device_place.device)
            first, history.compiled = not history.compiled, True
            runs = history.of(choice.work, choice.estimated)
        if first or runs.runs >= MEASURED_RUNS:
            return run(values)
        updated = self.block.updated
        if updated:  # while the inputs are the program's own
            require_updatable(choice.kernel.updated, values, self.block.compute)
        there = {
            name: device_place.bring(value) if isinstance(value, Tensor) and name not in updated else value
            for name, value in values.items()
        }
        device_place.wait()
        clock = self.places.clock
        started = clock()
        result = run(there)
        device_place.wait()
        seconds = clock() - started
        with self._lock:
            runs.add(seconds)
        return result


@define
class _Chosen:
    """The block on one device."""

    block: HeterogeneousBlock
    choice: DeviceChoice
    place: DevicePlace

    def __call__(self, values: Mapping[str, Any]) -> Any:
        return self.block.run(self.choice, self.place, values)

    def beside(self, values: Mapping[str, Any]) -> Callable[[], Any] | None:
        """The run for another thread. Nobody measures it: others run at the same time."""
        there = self.place.block(self.block.block)
        run: Callable[[], Any] | None = there.beside(values) if hasattr(there, "beside") else lambda: there(values)
        return run
