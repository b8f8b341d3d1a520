"""Tensor maps: what the driver is asked to encode, once each; how kernels get them; what is refused before."""

import ctypes

import pytest
from attrs import evolve
from fake_driver import EncodedMap, value

from runtime.cuda.array import DeviceArray
from runtime.cuda.errors import CudaRefused
from runtime.cuda.launch import CheckedLaunch
from runtime.cuda.tensor_map import PARAMETER, TensorBoxes, tensor_map

TAIL = ("CU_TENSOR_MAP_L2_PROMOTION_L2_128B", "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE")


@pytest.fixture
def array(gpu):
    buffer = gpu.allocate(1 << 16)
    pointer = -(-buffer.pointer // 256) * 256

    def make(dtype, *shape, strides=None, offset=0):
        return DeviceArray(buffer, pointer + offset, shape, dtype, gpu.stream, strides)

    return make


def test_boxes_are_told_innermost_first_and_strides_in_bytes(array):
    x = array("bf16", 5, 19, 40)
    assert EncodedMap.read(tensor_map(x, (1, 64, 32), "64B")) == (
        "tiled", "CU_TENSOR_MAP_DATA_TYPE_BFLOAT16", 3, x.pointer, [40, 19, 5], [80, 1520], [32, 64, 1], [1, 1, 1],
        "CU_TENSOR_MAP_INTERLEAVE_NONE", "CU_TENSOR_MAP_SWIZZLE_64B", *TAIL,
    )  # fmt: skip


def test_rows_may_lie_apart(array):
    x = array("f32", 7, 10, strides=(16, 1))
    assert EncodedMap.read(tensor_map(x, (8, 4)))[4:7] == ([10, 7], [64], [4, 8])
    # of one row, the stride has no meaning
    assert EncodedMap.read(tensor_map(array("f32", 1, 10, strides=(3, 1)), (1, 4)))[4:6] == ([10, 1], [16])


def test_windows_have_corners_channels_and_pixels(array):
    x = array("f16", 2, 5, 6, 64)
    found = EncodedMap.read(tensor_map(x, (1, 1, 128, 64), "128B", ((-1, -2), (0, -3))))
    assert found[:2] == ("im2col", "CU_TENSOR_MAP_DATA_TYPE_FLOAT16")
    assert found[4:6] == ([64, 6, 5, 2], [128, 768, 3840])
    assert found[6:11] == ([-2, -1], [-3, 0], 64, 128, [1, 1, 1, 1])


def test_boxes_that_leave_elements_out_reach_further(array):
    boxes = TensorBoxes("bf16", (2, 9, 10, 64), (5760, 640, 64, 1), (2, 4, 5, 64), "128B", None, (1, 2, 3, 1))
    found = EncodedMap.read(boxes.of(array("bf16", 1).device, array("bf16", 1).pointer))
    assert found[6:8] == ([64, 15, 8, 2], [1, 3, 2, 1])


@pytest.mark.parametrize("box, step", [((1, 4, 64), (1, 9, 1)), ((1, 4, 64), (1, 1, 2)), ((1, 64, 64), (1, 8, 1))])
def test_steps_that_the_hardware_has_not(array, box, step):
    boxes = TensorBoxes("bf16", (2, 64, 64), (4096, 64, 1), box, None, None, step)
    with pytest.raises(CudaRefused) as caught:
        boxes.of(array("bf16", 1).device, array("bf16", 1).pointer)
    assert str(caught.value) == f"a box of {box} in steps of {step}: 1 to 8, 1 along the last dim, over 256 elements at most"


@pytest.mark.parametrize(
    "dtype,name",
    [
        *(("bool", "UINT8"), ("i8", "UINT8"), ("u8", "UINT8"), ("i16", "UINT16"), ("u16", "UINT16"), ("i32", "INT32"), ("u32", "UINT32")),
        *(("i64", "INT64"), ("u64", "UINT64"), ("f16", "FLOAT16"), ("bf16", "BFLOAT16"), ("f32", "FLOAT32"), ("f64", "FLOAT64")),
    ],
)
def test_every_type_of_elements_has_one_of_its_width(array, dtype, name):
    assert EncodedMap.read(tensor_map(array(dtype, 16, 16), (1, 16)))[1] == f"CU_TENSOR_MAP_DATA_TYPE_{name}"


def test_a_map_is_encoded_once(array, fake):
    x = array("f32", 16, 16)
    assert tensor_map(x, (8, 8)) == tensor_map(array("f32", 16, 16), (8, 8))
    assert fake.calls["cuTensorMapEncodeTiled"] == 1
    tensor_map(x, (8, 4))
    tensor_map(array("f32", 16, 16, offset=1024), (8, 8))
    assert fake.calls["cuTensorMapEncodeTiled"] == 3


def test_a_kernel_gets_its_map_by_value_at_a_multiple_of_64_bytes(gpu, fake, array):
    x, seen = array("f32", 16, 16), []

    def look(parameters, grid):
        place = ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p))[1]
        seen.append((value(parameters, 0, ctypes.c_uint64), place % 64, ctypes.string_at(place, 128)))

    fake.kernels["scale"] = look
    held = tensor_map(x, (8, 8))
    launch = CheckedLaunch(gpu.modules.load(b"image", "blas").kernel("scale"), ("pointer", PARAMETER, "i32"), (1,), (32,))
    launch(gpu.stream, x, held, 7)
    launch.bind(x, held, 7)(gpu.stream)
    assert seen == [(x.pointer, 0, held)] * 2


@pytest.mark.parametrize(
    "arguments,box,more,words",
    [
        (("f32", 7, 10), (8, 4), {}, "the rows of f32[7, 10] are (40,) bytes apart; boxes are copied where that is a multiple of 16"),
        (("f32", 8, 8), (257, 4), {}, "the box (257, 4) has more than 256 elements along a dim, or none"),
        (("f32", 8, 8), (0, 4), {}, "the box (0, 4) has more than 256 elements along a dim, or none"),
        (("f32", 8, 8), (4,), {}, "a box of 1 dims from f32[8, 8]: 1 to 5 dims, as many as the array has"),
        (("f32", 1, 1, 1, 1, 1, 8), (1,) * 5 + (4,), {}, "a box of 6 dims from f32[1, 1, 1, 1, 1, 8]: 1 to 5 dims, as many as the array has"),
        (("f32", 0, 8), (1, 4), {}, "boxes are copied from arrays of 1 to 2^32 elements along each dim, not from f32[0, 8]"),
        (("f32", 8, 8), (1, 3), {}, "a box's rows of 12 bytes are no multiple of 16"),
        (("f32", 8, 64), (1, 64), {"swizzle": "128B"}, "a box's rows are 256 bytes, where the swizzle 128B takes 128"),
        (("f32", 8, 8), (1, 4), {"window": ((), ())}, "a window of corners () and (): one number for each dim between the first and the last, of 3 to 5"),
        (("f16", 1, 8, 8, 8), (1, 1, 8, 8), {"window": ((0, -200), (0, 0))}, "a window of corners (0, -200) and (0, 0): -128 to 127 for 2 dims"),
    ],
)  # fmt: skip
def test_what_the_hardware_can_not_copy_is_refused(array, fake, arguments, box, more, words):
    with pytest.raises(CudaRefused) as caught:
        tensor_map(array(*arguments), box, **more)
    assert str(caught.value) == words
    assert not fake.calls["cuTensorMapEncodeTiled"] + fake.calls["cuTensorMapEncodeIm2col"]


def test_places_and_layouts_that_boxes_can_not_have_are_refused(array):
    with pytest.raises(CudaRefused, match=r"^boxes are copied from addresses at multiples of 16 bytes, not from 0x[0-9a-f]+$"):
        tensor_map(array("f32", 8, 8, offset=4), (4, 4))
    with pytest.raises(CudaRefused) as caught:
        tensor_map(array("f32", 8, 8, strides=(4, 2)), (4, 4))
    assert str(caught.value) == "boxes are contiguous along the last dim; f32[8, 8] has strides (4, 2)"


def test_devices_without_bulk_copies_say_so(array, monkeypatch):
    x = array("f32", 8, 8)
    monkeypatch.setattr(x.device, "properties", evolve(x.device.properties, clusters=False))
    with pytest.raises(CudaRefused) as caught:
        tensor_map(x, (4, 4))
    assert str(caught.value).endswith(" has no bulk copies: they take compute capability 9.0")
