"""Tensors of several devices as one on a GPU."""

from collections.abc import Sequence
from math import prod
from operator import itemgetter

import numpy as np

from runtime.cuda.array import DeviceArray
from runtime.cuda.copies import copy, upload
from runtime.cuda.gpu import Gpu
from runtime.cuda.remote import OnGpu
from runtime.tensor import Tensor


def joined_rows(tensors: Sequence[Tensor], gpu: Gpu) -> OnGpu:
    """The rows of all tensors, which lie without gaps, one below the other. Copies are queued on the GPU's own stream."""
    shape = (sum(tensor.shape[0] for tensor in tensors), *tensors[0].shape[1:])
    buffer = gpu.allocate(max(1, prod(shape) * tensors[0].dtype.itemsize))
    whole = DeviceArray(buffer, buffer.pointer, shape, tensors[0].dtype_name, gpu.stream)
    low = 0
    for tensor in tensors:
        rows = slice(low, low + tensor.shape[0])
        target = whole.viewed(itemgetter(rows))
        remote = tensor.remote
        if isinstance(remote, OnGpu):
            gpu.stream.follow(remote.elements.stream)
            copy(target, remote.elements, gpu.stream)
        else:
            upload(target, np.ascontiguousarray(tensor.contents), gpu.stream)
        low += tensor.shape[0]
    return OnGpu(whole, gpu)
