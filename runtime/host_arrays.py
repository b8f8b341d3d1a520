"""Arrays of other libraries on the host, taken in without a copy by DLPack; those of types that NumPy doesn't know (bf16) too."""

from typing import Any

import numpy as np

from runtime.dlpack import ON_HOST, TakenTensor, capsule_of
from runtime.tensor import Array, is_foreign, numpy_dtype


class _Seen:
    """What an array over another library's memory keeps: NumPy reads the interface, and keeps this object as the array's base."""

    __slots__ = ("__array_interface__", "taken")

    def __init__(self, taken: TakenTensor) -> None:
        described = taken.description
        dtype = numpy_dtype(described.dtype)
        self.taken = taken
        self.__array_interface__ = {
            "version": 3,
            "shape": described.shape,
            # a type that NumPy has no letters for is read as bytes and named afterwards
            "typestr": f"<V{dtype.itemsize}" if is_foreign(dtype) else dtype.str,
            "data": (described.pointer, described.read_only),
            "strides": None if described.strides is None else tuple(stride * dtype.itemsize for stride in described.strides),
        }


def import_host_array(source: Any) -> Array:
    """An array over the source's memory on the host. An older capsule says nothing of writing: what it holds may be written, as other
    libraries take it too. ValueError for elements that programs don't know and for memory elsewhere."""
    taken = TakenTensor(capsule_of(source))
    described = taken.description
    if described.kind not in ON_HOST:
        raise ValueError("the tensor does not lie on the host")
    if 0 in described.shape:
        # where nothing lies there need be no address
        return np.empty(described.shape, numpy_dtype(described.dtype))
    return np.asarray(_Seen(taken)).view(numpy_dtype(described.dtype))
