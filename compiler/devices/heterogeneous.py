"""A compute block for several devices: both versions can be made, and each run goes where it costs least. Inputs that lie on a device
already pull the block there; results stay where they were made, so that what follows is pulled along."""

import threading
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from attrs import Factory

from compiler.analysis.work import Work
from compiler.codes.device_faults import DeviceTrouble, diagnostic
from compiler.devices.costs import MEASURED_RUNS, History, work_at
from compiler.devices.explain import Candidate, Decision, Explain
from compiler.devices.places import Block, Place, Places
from compiler.diagnostics import ZyntaxError
from compiler.launch.block import ComputeBlock
from compiler.launch.kernels import BuiltKernel
from compiler.launch.signature import as_tensor
from compiler.launch.updates import require_updatable
from runtime import forks
from runtime.device import CPU, Device
from runtime.records import define, frozen
from runtime.tensor import Tensor

WORK_REMEMBERED = 256

UNABLE = frozenset({"0109", "0502", "0503", "0504", "0804"})
"""What a GPU may say of a block that the CPU runs all the same: not supported there, over its limits, not enough memory."""


@frozen
class Choice:
    """Where a block runs with some inputs, and what that was estimated to take."""

    candidate: Candidate
    candidates: tuple[Candidate, ...]
    work: Work
    kernel: BuiltKernel
    estimated: float


@define(eq=False)
class HeterogeneousBlock:
    """Where a block runs that nobody placed, by any thread."""

    block: ComputeBlock
    places: Places
    explain: Explain | None = None
    _work: dict[Any, Work] = Factory(dict)
    _histories: dict[tuple[BuiltKernel, Device], History] = Factory(dict)
    _compiled: set[tuple[BuiltKernel, Device]] = Factory(set)
    _unable: set[tuple[BuiltKernel, Device]] = Factory(set)
    _lock: threading.Lock = Factory(forks.lock)

    def for_values(self, values: Mapping[str, Any]) -> Block:
        """The block on one of the devices."""
        devices = self.places.present
        if devices == (CPU,):
            if self.explain is not None:
                self.explain(Decision.of(self.block.compute, values, (), CPU, "the only device here"))
            return self.block
        choice = self.choose(values, devices)
        device = choice.candidate.device
        if self.explain is not None:
            self.explain(Decision.of(self.block.compute, values, choice.candidates, device, "which costs least"))
        return _Chosen(self, choice, self.places.at(device))

    def choose(self, values: Mapping[str, Any], devices: tuple[Device, ...]) -> Choice:
        """The cheapest device for these inputs; of equals the first, and the CPU comes first. Raises ZyntaxError when the inputs don't
        fit the block."""
        given = {name: as_tensor(value) for name, value in values.items()}
        kernel = self.block.kernel_of(given)
        work = self._work_of(kernel, given)
        candidates, estimates = [], []
        for device in devices:
            if (kernel, device) in self._unable:
                continue
            place = self.places.at(device)
            estimates.append(self.places.rates(device).running(work))
            candidates.append(self._candidate(place, given, kernel, work, estimates[-1]))
        best = min(range(len(candidates)), key=lambda number: candidates[number].seconds)
        return Choice(candidates[best], tuple(candidates), work, kernel, estimates[best])

    def _work_of(self, kernel: BuiltKernel, given: Mapping[str, Any]) -> Work:
        shapes = {name: value.shape for name, value in given.items() if isinstance(value, Tensor)}
        scalars = {name: value for name, value in given.items() if name not in shapes}
        sizes = kernel.sizes(shapes, scalars)
        key = (kernel, tuple(shapes.values()), tuple(sizes.size_arguments.values()))
        found = self._work.get(key)
        if found is None:
            if len(self._work) >= WORK_REMEMBERED:
                self._work.clear()
            found = self._work[key] = work_at(kernel, shapes, sizes)
        return found

    def _candidate(self, place: Place, given: Mapping[str, Any], kernel: BuiltKernel, work: Work, estimated: float) -> Candidate:
        """Copies are counted from where the elements lie, through the host; what the block updates goes back there."""
        updated = {result.input for result in kernel.lowered.plan.results if result.input is not None}
        moved, copying = 0, 0.0
        for name, tensor in given.items():
            if not isinstance(tensor, Tensor) or place.holds(tensor):
                continue
            size = bytes_of(tensor)
            moved += size
            if tensor.host is None:
                copying += self.places.rates(tensor.device).copying_from(size)
            if place.device != CPU:
                rates = self.places.rates(place.device)
                copying += rates.copying_to(size) + (rates.copying_from(size) if name in updated else 0.0)
        running, measured = self._history(kernel, place.device).running(work, estimated)
        return Candidate(place.device, moved, copying, running, measured)

    def _history(self, kernel: BuiltKernel, device: Device) -> History:
        return self._histories.setdefault((kernel, device), History())

    def run(self, choice: Choice, place: Place, values: Mapping[str, Any]) -> Any:
        """The run; where a GPU turns out to be unable to, on the CPU instead. Inputs of a run that fails are as before."""
        try:
            return self._measured(choice, place, values)
        except DeviceTrouble as trouble:
            error = ZyntaxError(diagnostic(trouble, self.block.compute.span))
        except ZyntaxError as refusal:
            error = refusal
        if place.device == CPU or not all(found.code in UNABLE for found in error.diagnostics):
            raise error
        if all(found.code != "0804" for found in error.diagnostics):
            self._unable.add((choice.kernel, place.device))
        if self.explain is not None:
            why = f"since {place.device} can't: {error.diagnostics[0].message}"
            self.explain(Decision.of(self.block.compute, values, (), CPU, why))
        return self.block(values)

    def _measured(self, choice: Choice, place: Place, values: Mapping[str, Any]) -> Any:
        """The run, measured as long as there are few measured ones; the first, which compiles, is not."""
        key = (choice.kernel, place.device)
        run = place.block(self.block)
        with self._lock:
            first = key not in self._compiled
            self._compiled.add(key)
            history = self._history(choice.kernel, place.device).of(choice.work, choice.estimated)
        if first or history.runs >= MEASURED_RUNS:
            return run(values)
        updated = {entry.name for entry in self.block.compute.inputs if entry.mutable}
        if updated:  # while the inputs are the program's own
            written = [result.input for result in choice.kernel.lowered.plan.results if result.input is not None]
            require_updatable(written, values, self.block.compute)
        there = {
            name: place.bring(value) if isinstance(value, Tensor) and name not in updated else value for name, value in values.items()
        }
        place.wait()
        clock = self.places.clock
        started = clock()
        result = run(there)
        place.wait()
        seconds = clock() - started
        with self._lock:
            history.add(seconds)
        return result


@define
class _Chosen:
    """The block on one device."""

    block: HeterogeneousBlock
    choice: Choice
    place: Place

    def __call__(self, values: Mapping[str, Any]) -> Any:
        return self.block.run(self.choice, self.place, values)

    def beside(self, values: Mapping[str, Any]) -> Callable[[], Any] | None:
        """The run for another thread. Nobody measures it: others run at the same time."""
        there = self.place.block(self.block.block)
        run: Callable[[], Any] | None = there.beside(values) if hasattr(there, "beside") else lambda: there(values)
        return run


def bytes_of(tensor: Tensor) -> int:
    """Bytes of a tensor's elements."""
    return prod(tensor.shape) * tensor.dtype.itemsize
