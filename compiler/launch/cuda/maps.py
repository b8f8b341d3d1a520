"""The tensor maps of a launch: what its kernel's bulk copies are told of the arrays among its arguments."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from attrs import Factory, field

from runtime.cuda.array import contiguous_strides
from runtime.cuda.device import CudaDevice
from runtime.cuda.tensor_map import TensorBoxes
from runtime.records import frozen

if TYPE_CHECKING:
    from compiler.backends.nvptx.compile import KernelEntry
    from compiler.hir.module import HirFunction
    from compiler.hir.types import Mem

MAPS_REMEMBERED = 1024
"""Of one array of a launch: a program's tensors come back to few addresses."""


@frozen
class LaunchMap:
    """A map that a kernel takes: the place of its array among the arguments, the boxes, and the maps for addresses that came before."""

    place: int
    boxes: TensorBoxes
    _known: dict[int, bytes] = field(default=Factory(dict), eq=False, repr=False)

    def of(self, device: CudaDevice, pointer: int) -> bytes:
        """The map for the array at this address; CudaRefused where the hardware can't copy its boxes."""
        found = self._known.get(pointer)
        if found is None:
            found = self.boxes.of(device, pointer)
            if len(self._known) >= MAPS_REMEMBERED:
                self._known.clear()
            self._known[pointer] = found
        return found


@frozen
class LaunchMaps:
    """The maps that a kernel takes, in order."""

    maps: tuple[LaunchMap, ...] = ()

    def of(self, device: CudaDevice, arguments: Sequence[Any]) -> list[bytes]:
        """The maps for these arguments, whose pointers are addresses."""
        return [one.of(device, arguments[one.place]) for one in self.maps]


def launch_maps(function: "HirFunction", entry: "KernelEntry", sizes: Mapping[str, int]) -> LaunchMaps:
    """The maps of a launch, for these values of the function's sizes."""
    places = {parameter.name: place for place, parameter in enumerate(function.parameters)}
    found = []
    for parameter in entry.parameters:
        if parameter.map is not None:
            place = places[parameter.map.memory]
            type_ = cast("Mem", function.parameters[place].type)
            dims = tuple(form.evaluate(sizes.__getitem__) for form in type_.dims)
            strides = tuple(form.evaluate(sizes.__getitem__) for form in type_.strides or ()) or contiguous_strides(dims)
            dtype = {"index": "i64", "i1": "bool"}.get(type_.dtype, type_.dtype)
            map = parameter.map
            found.append(LaunchMap(place, TensorBoxes(dtype, dims, strides, map.box, map.swizzle, map.window, map.step, map.rounded)))
    return LaunchMaps(tuple(found))
