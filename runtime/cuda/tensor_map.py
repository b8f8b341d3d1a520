"""Tensor maps: what the hardware's bulk copies are told of an array on the device, 128 bytes that a kernel gets by value, aligned to 64
(`PARAMETER` among a launch's parameters). The driver encodes each once for a place, a shape and a box."""

import ctypes
from collections.abc import Iterator
from functools import lru_cache

from runtime.cuda.array import DeviceArray
from runtime.cuda.device import CudaDevice
from runtime.cuda.errors import CudaRefused
from runtime.element_types import DTYPES
from runtime.records import frozen

SIZE = 128
PARAMETER = f"bytes{SIZE}@64"

Dims = tuple[int, ...]
Window = tuple[Dims, Dims]
"""Of a convolution (im2col): the lower and the upper corner of where its pixels are taken from, for the dims between first and last."""

_TYPES = {
    name: kind
    for kind, names in {
        "UINT8": ("bool", "i8", "u8", "f8e4m3", "f8e5m2"),
        "UINT16": ("i16", "u16"),
        "INT32": ("i32",),
        "UINT32": ("u32",),
        "INT64": ("i64",),
        "UINT64": ("u64",),
        "FLOAT16": ("f16",),
        "BFLOAT16": ("bf16",),
        "FLOAT32": ("f32",),
        "FLOAT64": ("f64",),
    }.items()
    for name in names
}
"""The driver's type of elements; where it has none of the kind, one of the same width, since copies don't compute."""

_SWIZZLES = {"128B": 128, "64B": 64, "32B": 32}
"""Bytes of a row of a box that is swizzled so. Devices fault on narrower ones."""

_MOST_DIMS, _MOST_BOX, _MOST_PIXELS, _MOST_EXTENT, _MOST_STRIDE = 5, 256, 1024, 1 << 32, 1 << 40
_ALIGN, _MOST_STEP = 16, 8


@frozen
class TensorBoxes:
    """Boxes of arrays of one layout. `strides` and `box` are counted in elements, the contiguous dim last; `swizzle` is "128B", "64B",
    "32B" or None. With `window`, the last two extents of the box are pixels and channels; with `step`, the box's elements lie so far
    apart along each dim; `rounded` ones of f32 arrive as tf32."""

    dtype: str
    shape: Dims
    strides: Dims
    box: Dims
    swizzle: str | None = None
    window: Window | None = None
    step: Dims = ()
    rounded: bool = False

    def of(self, device: CudaDevice, pointer: int) -> bytes:
        """The map for the array at this address; CudaRefused, with the reason, for what the hardware can't copy."""
        return _encoded(device, pointer, self)

    @property
    def itemsize(self) -> int:
        return DTYPES[self.dtype].itemsize

    @property
    def row(self) -> int:
        """Bytes of a row of the box."""
        return self.box[-1] * self.itemsize

    @property
    def pitches(self) -> Dims:
        """Bytes between neighbours along all dims but the last; of a dim of one element, whatever the hardware takes."""
        pairs = list(zip(self.shape, self.strides, strict=True))[:-1]
        return tuple(stride * self.itemsize if extent != 1 else _ALIGN for extent, stride in pairs)

    def faults(self) -> Iterator[str]:
        """Why the hardware can't copy them, wherever the array lies."""
        rank, array = len(self.shape), f"{self.dtype}{list(self.shape)}"
        if not 1 <= rank <= _MOST_DIMS or len(self.box) != rank:
            yield f"a box of {len(self.box)} dims from {array}: 1 to {_MOST_DIMS} dims, as many as the array has"
            return
        if not all(1 <= extent <= _MOST_EXTENT for extent in self.shape):
            yield f"boxes are copied from arrays of 1 to 2^32 elements along each dim, not from {array}"
        most = [_MOST_BOX] * rank if self.window is None else [*[_MOST_BOX] * (rank - 2), _MOST_PIXELS, _MOST_BOX]
        if not all(1 <= extent <= limit for extent, limit in zip(self.box, most, strict=True)):
            yield f"the box {self.box} has more than {max(most)} elements along a dim, or none"
        if self.shape[-1] > 1 and self.strides[-1] != 1:
            yield f"boxes are contiguous along the last dim; {array} has strides {self.strides}"
        if any(pitch % _ALIGN or not 0 < pitch < _MOST_STRIDE for pitch in self.pitches):
            yield f"the rows of {array} are {self.pitches} bytes apart; boxes are copied where that is a multiple of {_ALIGN}"
        if self.row % _ALIGN:
            yield f"a box's rows of {self.row} bytes are no multiple of {_ALIGN}"
        if self.swizzle is not None and self.row != _SWIZZLES[self.swizzle]:
            yield f"a box's rows are {self.row} bytes, where the swizzle {self.swizzle} takes {_SWIZZLES[self.swizzle]}"
        if self.window is not None:
            yield from self.window_faults(self.window)
        if self.step and not self._steps_fit():
            yield f"a box of {self.box} in steps of {self.step}: 1 to {_MOST_STEP}, 1 along the last dim, over {_MOST_BOX} elements at most"

    def _steps_fit(self) -> bool:
        return all(1 <= step <= _MOST_STEP for step in self.step) and self.step[-1] == 1 and max(self.reach) <= _MOST_BOX

    @property
    def reach(self) -> Dims:
        """Elements that a box reaches over, those left out between its own counted."""
        return tuple(extent * step for extent, step in zip(self.box, self.step or (1,) * len(self.box), strict=True))

    def window_faults(self, window: Window) -> Iterator[str]:
        spatial, corners = len(self.shape) - 2, f"a window of corners {window[0]} and {window[1]}"
        if not 1 <= spatial <= 3 or any(len(corner) != spatial for corner in window):
            yield f"{corners}: one number for each dim between the first and the last, of 3 to 5"
            return
        half = 1 << 16 // spatial - 1
        if any(not -half <= number < half for corner in window for number in corner):
            yield f"{corners}: -{half} to {half - 1} for {spatial} dims"


def tensor_map(array: DeviceArray, box: Dims, swizzle: str | None = None, window: Window | None = None) -> bytes:
    """The map for boxes of an array; CudaRefused for what the hardware can't copy."""
    return TensorBoxes(array.dtype, array.shape, array.strides, tuple(box), swizzle, window).of(array.device, array.pointer)


@lru_cache(maxsize=4096)
def _encoded(device: CudaDevice, pointer: int, boxes: TensorBoxes) -> bytes:
    if not device.properties.clusters:
        raise CudaRefused(f"{device.properties.name} has no bulk copies: they take compute capability 9.0")
    for fault in boxes.faults():
        raise CudaRefused(fault)
    if pointer % _ALIGN:
        raise CudaRefused(f"boxes are copied from addresses at multiples of {_ALIGN} bytes, not from {pointer:#x}")
    api, rank = device.api, len(boxes.shape)
    kind = "TFLOAT32" if boxes.rounded else _TYPES[boxes.dtype]
    head = (
        getattr(api.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kind}"),
        rank,
        pointer,
        [api.cuuint64_t(extent) for extent in reversed(boxes.shape)],
        [api.cuuint64_t(pitch) for pitch in reversed(boxes.pitches)] or [api.cuuint64_t(_ALIGN)],  # the driver wants one
    )
    tail = (
        [api.cuuint32_t(step) for step in reversed(boxes.step)] or [api.cuuint32_t(1)] * rank,
        api.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(api.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{boxes.swizzle or 'NONE'}"),
        api.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        api.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if boxes.window is None:
        map_ = device.call("cuTensorMapEncodeTiled", *head, [api.cuuint32_t(extent) for extent in reversed(boxes.reach)], *tail)
    else:
        lower, upper = (list(reversed(corner)) for corner in boxes.window)
        pixels, channels = boxes.box[-2:]
        map_ = device.call("cuTensorMapEncodeIm2col", *head, lower, upper, channels, pixels, *tail)
    return ctypes.string_at(int(map_.getPtr()), SIZE)
