"""Stand-ins for PyTorch and CuPy on the fake device: what of their arrays and streams is read directly, and nothing else."""

import ctypes
import struct
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from foreign import ByDlpack

from runtime.cuda.gpu import Gpu
from runtime.dlpack import type_code
from runtime.element_types import DTYPES

TORCH_NAMES = {
    "bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32",
    "u64": "uint64", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
}  # fmt: skip

OWN, EXTERNAL = 0x7700, 0x8800
"""Handles of a stream that PyTorch made, and of one that it was given."""


class _ExchangeTable(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32 * 2), ("others", ctypes.c_void_p * 4), ("describe", ctypes.c_void_p), ("stream", ctypes.c_void_p))


class FakeTorch(ModuleType):
    """`torch`, as far as tensors on a device go. `stream` is its current one; `exchanges`: its tensors have DLPack's functions in C."""

    def __init__(self, exchanges: bool = False) -> None:
        super().__init__("torch")
        self.stream, self.recording = 0, False
        self.strided, self.sparse_coo, self.complex64 = object(), object(), object()
        for name in TORCH_NAMES.values():
            setattr(self, name, f"torch.{name}")
        identity = {0: 0, OWN: 3, EXTERNAL: EXTERNAL}
        self._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda ordinal: self.stream)
        self.cuda = SimpleNamespace(
            current_stream=lambda ordinal: SimpleNamespace(stream_id=identity[self.stream], cuda_stream=self.stream),
            is_current_stream_capturing=lambda: self.recording,
        )

        class Tensor(ByDlpack):
            requires_grad, is_cuda, layout, negative = False, True, self.strided, False

            def __init__(inner, gpu: Gpu, array: Any) -> None:
                super().__init__(gpu, array)
                inner.shape, inner.dtype = array.shape, getattr(self, TORCH_NAMES[inner.array.dtype])

            def data_ptr(inner) -> int:
                return inner.array.pointer

            def stride(inner) -> tuple[int, ...]:
                return inner.array.strides

            def is_contiguous(inner) -> bool:
                return inner.array.is_contiguous

            def get_device(inner) -> int:
                return inner.gpu.device.ordinal

            def is_neg(inner) -> bool:
                return inner.negative

        self.Tensor = Tensor
        if exchanges:
            self._offer(Tensor)

    def _offer(self, kind: Any) -> None:
        """DLPack's exchange API of a class, in the layout of its header."""

        def describe(tensor: Any, into: int) -> int:
            if tensor.layout is not self.strided:
                return -1
            array = tensor.array
            tensor.extents = (ctypes.c_int64 * 8)(*array.shape), (ctypes.c_int64 * 8)(*array.strides)
            code, bits = type_code(array.dtype)
            shape, strides = map(ctypes.addressof, tensor.extents)
            packed = struct.pack("<QiiiBBHQQQ", array.pointer, 2, tensor.get_device(), len(array.shape), code, bits, 1, shape, strides, 0)
            ctypes.memmove(into, packed, len(packed))
            self.described += 1
            return 0

        def current(kind: int, ordinal: int, into: Any) -> int:
            into[0] = self.stream
            return 0

        self.described = 0
        call, number = ctypes.PYFUNCTYPE, ctypes.c_int
        self.kept = (
            call(number, ctypes.py_object, ctypes.c_void_p)(describe),
            call(number, number, number, ctypes.POINTER(ctypes.c_uint64))(current),
        )
        addresses = [ctypes.cast(one, ctypes.c_void_p).value for one in self.kept]
        self.table = _ExchangeTable((1, 3), (0, 0, 0, 0), *addresses)
        new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", ctypes.pythonapi))
        kind.__dlpack_c_exchange_api__ = new(ctypes.addressof(self.table), b"dlpack_exchange_api", None)


class FakeCupy(ModuleType):
    """`cupy`, the same way."""

    def __init__(self) -> None:
        super().__init__("cupy")
        self.stream, self.device = 0, 0
        self.cuda = SimpleNamespace(
            get_current_stream=lambda: SimpleNamespace(ptr=self.stream), runtime=SimpleNamespace(getDevice=lambda: self.device)
        )

        class ndarray(ByDlpack):
            def __init__(inner, gpu: Gpu, array: Any) -> None:
                super().__init__(gpu, array)
                inner.shape, inner.dtype, inner.itemsize = array.shape, DTYPES[inner.array.dtype], array.itemsize
                inner.strides, inner.data = array.strides, SimpleNamespace(ptr=inner.array.pointer)
                inner.flags = SimpleNamespace(c_contiguous=array.flags.c_contiguous)
                inner.device = SimpleNamespace(id=gpu.device.ordinal)

        self.ndarray = ndarray


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)
