"""The tensor maps of a launch: what its kernel's bulk copies are told of the arrays among its arguments."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from compiler.launch.cache import TENSOR_MAPS, Cache
from compiler.launch.slots import element_name
from runtime.cuda.array import contiguous_strides
from runtime.cuda.device import CudaDevice
from runtime.cuda.tensor_map import TensorBoxes
from runtime.records import field, frozen

if TYPE_CHECKING:
    from compiler.backends.nvptx.compile import KernelEntry
    from compiler.hir.module import HirFunction
    from compiler.hir.types import Mem


@frozen
class LaunchMap:
    """A map that a kernel takes: the place of its array among the arguments, the boxes, and the maps for addresses that came before."""

    place: int
    boxes: TensorBoxes
    known: Cache[int, bytes] = field(factory=partial(Cache, TENSOR_MAPS), eq=False, repr=False)

    def of(self, device: CudaDevice, pointer: int) -> bytes:
        """The map for the array at this address; CudaRefused where the hardware can't copy its boxes."""
        return self.known.get(pointer) or self.known.keep(pointer, self.boxes.of(device, pointer))


@frozen
class LaunchMaps:
    """The maps that a kernel takes, in order."""

    maps: tuple[LaunchMap, ...] = ()

    def of(self, device: CudaDevice, arguments: Sequence[Any]) -> list[bytes]:
        """The maps for these arguments, whose pointers are addresses."""
        return [map_.of(device, arguments[map_.place]) for map_ in self.maps]


def launch_maps(function: "HirFunction", entry: "KernelEntry", sizes: Mapping[str, int]) -> LaunchMaps:
    """The maps of a launch, for these values of the function's sizes."""
    places = {parameter.name: position for position, parameter in enumerate(function.parameters)}
    maps = []
    for parameter in entry.parameters:
        if parameter.map is not None:
            position = places[parameter.map.memory]
            type_ = cast("Mem", function.parameters[position].type)
            dims = tuple(form.evaluate(sizes.__getitem__) for form in type_.dims)
            strides = tuple(form.evaluate(sizes.__getitem__) for form in type_.strides or ()) or contiguous_strides(dims)
            dtype = element_name(type_.dtype)
            map = parameter.map
            maps.append(LaunchMap(position, TensorBoxes(dtype, dims, strides, map.box, map.swizzle, map.window, map.step, map.rounded)))
    return LaunchMaps(tuple(maps))
