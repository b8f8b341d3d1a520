"""The tensor maps of a launch: what its kernel's bulk copies are told of the arrays among its arguments."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from compiler.backends.nvptx.compile import KernelEntry
from compiler.hir.module import HirFunction
from compiler.hir.types import Mem
from runtime.cuda.array import contiguous_strides
from runtime.cuda.device import CudaDevice
from runtime.cuda.tensor_map import Boxes


@frozen
class LaunchMaps:
    """For each map that a kernel takes, in order: the place of its array among the arguments, and the boxes."""

    maps: tuple[tuple[int, Boxes], ...] = ()

    def of(self, device: CudaDevice, arguments: Sequence[Any]) -> list[bytes]:
        """The maps for these arguments; CudaRefused where the hardware can't copy their boxes."""
        return [boxes.of(device, int(arguments[place])) for place, boxes in self.maps]


def launch_maps(function: HirFunction, entry: KernelEntry, sizes: Mapping[str, int]) -> LaunchMaps:
    """The maps of a launch, for these values of the function's sizes."""
    places = {parameter.name: place for place, parameter in enumerate(function.parameters)}
    found = []
    for parameter in entry.parameters:
        if parameter.map is not None:
            place = places[parameter.map.memory]
            type_ = function.parameters[place].type
            assert isinstance(type_, Mem)
            dims = tuple(form.evaluate(sizes.__getitem__) for form in type_.dims)
            strides = tuple(form.evaluate(sizes.__getitem__) for form in type_.strides or ()) or contiguous_strides(dims)
            dtype = {"index": "i64", "i1": "bool"}.get(type_.dtype, type_.dtype)
            found.append((place, Boxes(dtype, dims, strides, parameter.map.box, parameter.map.swizzle, parameter.map.window)))
    return LaunchMaps(tuple(found))
