"""A compute block that several devices compute together: each gets a range of its inputs along the split axis, and the results are joined
on the first of them. Ranges are as long as each other, or longer by one; where there are fewer rows than devices, the last devices
have nothing to do."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from operator import itemgetter
from typing import Any

import numpy as np

from compiler.analysis.device_split import DeviceSplit
from compiler.devices.explain import Decision, DeviceCandidate, Explain
from compiler.devices.places import Block, DevicePlace, DevicePlaces
from compiler.diagnostics import ZyntaxError
from compiler.launch.block import ComputeBlock
from compiler.launch.cpu import first_fault
from compiler.launch.kernels import BuiltKernel
from compiler.launch.signature import as_tensor
from compiler.lowering.result_plan import grouped, number_of
from compiler.typed_ast.types import DType
from runtime.device import Device
from runtime.futures import started
from runtime.records import define, frozen
from runtime.tensor import Tensor, numpy_dtype

_COMBINING: Mapping[str, np.ufunc] = {
    "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or
}  # fmt: skip


@frozen
class DeviceRange:
    """What one device computes: the results with these indices along the split axis, from these values. `moved`: bytes of them that lie
    elsewhere."""

    device_place: DevicePlace
    low: int
    high: int
    values: Mapping[str, Any]
    moved: int


@define(eq=False)
class SplitBlock:
    """The block on all of the devices: called like a `ComputeBlock`."""

    block: ComputeBlock
    devices: tuple[Device, ...]
    by: str
    places: DevicePlaces
    explain: Explain | None = None

    def __call__(self, values: Mapping[str, Any]) -> Any:
        given = {name: as_tensor(value) for name, value in values.items()}
        kernel = self.block.kernel_of(given)
        split = kernel.analysed.split
        assert split is not None
        ranges = self._ranges(kernel, split, given)
        if self.explain is not None:
            self._explain(split, ranges, given)
        try:
            results = self._results(kernel, ranges)
        except ZyntaxError as error:
            # Indices in the message of a device count from its own range on.
            if {fault.code for fault in error.diagnostics} <= {site.code for site in kernel.nest.sites}:
                raise ZyntaxError(first_fault(kernel, given, self.block.compute, error.diagnostics[0])) from None
            raise
        if len(results) == 1:
            return results[0]
        plans = kernel.lowered.plan.results
        return self._joined(grouped(plans, [*range(len(plans))]), results, kernel, split, ranges[0].device_place)

    def _ranges(self, kernel: BuiltKernel, split: DeviceSplit, given: Mapping[str, Any]) -> list[DeviceRange]:
        """Who computes what. Raises ZyntaxError when the values don't fit the block."""
        shapes = {name: value.shape for name, value in given.items() if isinstance(value, Tensor)}
        scalars = {name: value for name, value in given.items() if name not in shapes}
        extent = kernel.sizes(shapes, scalars).values[split.extent]
        devices = self.devices[: max(1, min(extent, len(self.devices)))]
        shortest, longer = divmod(extent, len(devices))
        ranges, low = [], 0
        for number, device in enumerate(devices):
            high = low + shortest + (number < longer)
            ranges.append(self._range(self.places.at(device), low, high, split, given))
            low = high
        return ranges

    def _range(self, device_place: DevicePlace, low: int, high: int, split: DeviceSplit, given: Mapping[str, Any]) -> DeviceRange:
        values, moved = dict(given), 0
        for name, value in given.items():
            if name in split.inputs:
                index = (*(slice(None),) * split.inputs[name], slice(low, high))
                if value.remote is None or (value.host is not None and device_place.device.kind != "cuda"):
                    values[name] = Tensor(value.host[index])
                else:
                    values[name] = Tensor(None, value.remote.viewed(itemgetter(index)))
            elif name in split.scalars:
                values[name] = type(value)(high - low)
            if isinstance(value, Tensor) and not device_place.holds(value):
                moved += prod(values[name].shape) * value.dtype.itemsize
        return DeviceRange(device_place, low, high, values, moved)

    def _results(self, kernel: BuiltKernel, ranges: Sequence[DeviceRange]) -> list[Any]:
        """The value of each range. GPUs return when their work is queued; where they wait (for copies from the host, for a check), or a
        processor works itself, threads keep all of them at work. The first failure is raised when none of them works any more."""
        runs = [(self.places.at(each.device_place.device).block(self.block), each) for each in ranges]
        waits = bool(kernel.nest.sites) or any(each.moved or each.device_place.device.kind != "cuda" for each in ranges)
        if not waits:
            return [run(each.values) for run, each in runs]
        others = [started(_call(run, each)) for run, each in runs[1:]]
        outcomes: list[Any] = []
        failures: list[Exception] = []
        for work in (_call(*runs[0]), *(other.value for other in others)):
            try:
                outcomes.append(work())
            except Exception as failure:
                failures.append(failure)
        if failures:
            raise failures[0]
        return outcomes

    def _joined(self, structure: Any, results: Sequence[Any], kernel: BuiltKernel, split: DeviceSplit, device_place: DevicePlace) -> Any:
        """The values of ranges as one. `structure` has the number of each result where it stands in the value."""
        if isinstance(structure, tuple):
            parts = zip(structure, zip(*results, strict=True), strict=True)
            return tuple(self._joined(inner, values, kernel, split, device_place) for inner, values in parts)
        if structure in split.combined:
            return combined(results, split.combined[structure], kernel.lowered.plan.results[structure].dtype)
        return joined(results, split.axis, device_place)

    def _explain(self, split: DeviceSplit, ranges: Sequence[DeviceRange], given: Mapping[str, Any]) -> None:
        assert self.explain is not None
        candidates = [DeviceCandidate(each.device_place.device, each.moved, share=(each.low, each.high)) for each in ranges]
        names = Device(", ".join(self.devices))
        self.explain(Decision.of(self.block.compute, given, candidates, names, f"{self.by}, split along axis {split.axis}"))


def _call(run: Block, each: DeviceRange) -> Callable[[], Any]:
    return lambda: run(each.values)


def joined(results: Sequence[Tensor], axis: int, device_place: DevicePlace) -> Tensor:
    """The tensors of ranges as one: on the GPU where the first was computed, or on the host."""
    if device_place.device.kind == "cuda" and axis == 0:
        from runtime.cuda.gpu import gpu
        from runtime.cuda.joined import joined_rows

        return Tensor(None, joined_rows(results, gpu(device_place.device.ordinal)))
    return Tensor(np.concatenate([each.contents for each in results], axis))


def combined(results: Sequence[Any], monoid: str, dtype: DType) -> Any:
    """The numbers of ranges as one, of the type that the block computes it in."""
    numbers = np.array(results, numpy_dtype(dtype.value))
    return number_of(np.asarray(_COMBINING[monoid].reduce(numbers, dtype=numbers.dtype)), dtype)
