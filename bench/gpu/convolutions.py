"""Convolutions against cuDNN: the layers of ResNet-50, both orders of axes, groups, dilation, f32."""

from collections.abc import Iterator
from typing import Any

import torch

from bench.gpu import peers, sources
from bench.gpu.harness import Arrays, Row
from bench.gpu.limits import Cost

LAYERS = (
    (56, 64, 64, 1, 1), (56, 64, 64, 3, 1), (56, 64, 256, 1, 1), (56, 256, 64, 1, 1), (56, 256, 512, 1, 2), (56, 128, 128, 3, 2),
    (28, 128, 128, 3, 1), (28, 512, 128, 1, 1), (28, 256, 256, 3, 2), (14, 256, 256, 3, 1), (14, 256, 1024, 1, 1), (7, 512, 512, 3, 1),
)  # fmt: skip
"""Of ResNet-50, beyond the first: pixels a side, channels, filters, taps a side, stride."""


def rows(scale: int = 1) -> Iterator[Row]:
    images = max(1, 32 // scale)
    yield layer("conv2d", images, 56, 256, 256, 3, goal=1.0, quick=True)
    for side, channels, filters, taps, stride in LAYERS:
        quick = (side, taps) in ((56, 3), (7, 3)) and stride == 1
        yield layer("resnet", images, side, channels, filters, taps, stride, goal=0.95, group="ResNet-50", quick=quick)
    yield layer("resnet, its first layer,", images, 224, 3, 64, 7, 2)
    yield layer("conv2d", images, 56, 256, 256, 3, last=False)
    yield layer("conv2d", images, 28, 512, 128, 1, last=False)
    yield layer("resnet, its first layer,", images, 224, 3, 64, 7, 2, last=False)
    yield layer("conv2d dilated by 2", images, 56, 256, 256, 3, dilation=2)
    yield layer("conv2d", images, 56, 64, 64, 3, types="f32")
    yield layer("conv2d of 36 channels", images, 56, 36, 72, 3)
    yield grouped(images, 56, 32, 8)
    yield depthwise(images, 56, 256)


def layer(
    name: str,
    images: int,
    side: int,
    channels: int,
    filters: int,
    taps: int,
    stride: int = 1,
    *,
    dilation: int = 1,
    types: str = "bf16",
    last: bool = True,
    goal: float | None = None,
    group: str = "",
    quick: bool = False,
) -> Row:
    padding = dilation * (taps // 2)
    dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[types]
    out = (side + 2 * padding - dilation * (taps - 1) - 1) // stride + 1

    def inputs(arrays: Arrays) -> list[Any]:
        image, weight = (images, side, side, channels), (filters, taps, taps, channels)
        if not last:
            image, weight = (images, channels, side, side), (filters, channels, taps, taps)
        return [arrays.normal(*image, dtype=dtype), arrays.normal(*weight, dtype=dtype)]

    def cudnn(x: Any, w: Any) -> Any:
        if not last:
            return peers.functional.conv2d(x, w, stride=stride, padding=padding, dilation=dilation)
        first = peers.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), stride=stride, padding=padding, dilation=dilation)
        return first.permute(0, 2, 3, 1)

    more = f", every {stride}." if stride > 1 else ""
    label = f"{name} {images}x{side}x{side}x{channels} to {filters}{more} {taps}x{taps} {'NHWC' if last else 'NCHW'} {types}"
    moved = dtype.itemsize * (images * side**2 * channels + filters * taps**2 * channels + images * out**2 * filters)
    cost = Cost(2.0 * images * out**2 * channels * filters * taps**2, types, moved, "TFLOP/s")
    source = sources.convolution(stride, padding, dilation, types, last)
    tolerance = 8e-3 if types == "bf16" else 5e-6
    return Row(label, source, inputs, {"cuDNN": cudnn}, cost, tolerance, in_double(cudnn), goal, group, quick)


def grouped(images: int, side: int, groups: int, each: int) -> Row:
    """3x3, as many filters as channels in each group."""
    channels = groups * each

    def cudnn(x: Any, w: Any) -> Any:
        image = x.reshape(*x.shape[:3], channels).permute(0, 3, 1, 2)
        weight = w.reshape(channels, *w.shape[2:]).permute(0, 3, 1, 2)
        out = peers.functional.conv2d(image, weight, padding=1, groups=groups)
        return out.permute(0, 2, 3, 1).reshape(*x.shape[:3], groups, each)

    moved = 2 * (2 * images * side**2 * channels + channels * 9 * each)
    return Row(
        f"conv2d {images}x{side}x{side}x{channels} in {groups} groups 3x3 NHWC bf16",
        sources.GROUPED,
        lambda arrays: [arrays.normal(images, side, side, groups, each), arrays.normal(groups, each, 3, 3, each)],
        {"cuDNN": cudnn},
        Cost(2.0 * images * side**2 * channels * each * 9, "bf16", moved, "TFLOP/s"),
        8e-3,
        in_double(cudnn),
    )


def depthwise(images: int, side: int, channels: int) -> Row:
    def cudnn(x: Any, w: Any) -> Any:
        out = peers.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(2, 0, 1)[:, None], padding=1, groups=channels)
        return out.permute(0, 2, 3, 1)

    return Row(
        f"depthwise {images}x{side}x{side}x{channels} 3x3 NHWC bf16",
        sources.DEPTHWISE,
        lambda arrays: [arrays.normal(images, side, side, channels), arrays.normal(3, 3, channels)],
        {"cuDNN": cudnn},
        Cost(2.0 * images * side**2 * channels * 9, "f32", 4.0 * images * side**2 * channels, "TB/s"),
        8e-3,
        in_double(cudnn),
    )


def in_double(call: Any) -> Any:
    """The call on one picture of the batch after the other, in float64, which takes much memory."""

    def exact(x: Any, w: Any) -> Any:
        return torch.cat([call(picture.double(), w.double()) for picture in x.split(4)])

    return exact
