"""Windows, stencils and other nests in which neighbouring results read the same elements, against PyTorch, the same compiled by
`torch.compile`, and a copy of as many bytes."""

from collections.abc import Iterator
from typing import Any

import torch

from bench.gpu import peers, sources
from bench.gpu.harness import Call, Row
from bench.gpu.limits import of_bytes


def rows(scale: int = 1) -> Iterator[Row]:
    n = 64 // scale
    yield pooled("max pool 3x3 by 2", sources.MAX_POOL, (n, 64, 112, 112), lambda x: peers.functional.max_pool2d(x, 3, 2))
    yield stencil(512 // scale)
    yield life(8192 // scale)
    yield depthwise(32 // scale, 56, 192)
    yield rotary(4, 32, 4096 // scale, 128)
    yield pooled("mean pool 2x2x2", sources.MEAN_POOL_3D, (n // 4, 64, 128, 128), lambda x: peers.functional.avg_pool3d(x, 2))
    yield pooled("mean pool of 3", sources.MEAN_POOL_1D, (n, 128, 16384), lambda x: peers.functional.avg_pool1d(x, 3, 1))
    yield channels_first(16, 64, 256 // scale)


def _peers(eager: Call, moved: int) -> dict[str, Call]:
    kept: list[Any] = []

    def copy(*_: Any) -> Any:
        if not kept:
            kept.append(torch.empty(moved // 2, dtype=torch.uint8, device="cuda"))
        return kept[0].clone()

    return {"PyTorch": eager, "torch.compile": torch.compile(eager, dynamic=False), "copy": copy}


def _row(name: str, source: str, inputs: Call, eager: Call, moved: int, tolerance: float, reference: Call | None = None) -> Row:
    return Row(name, source, inputs, _peers(eager, moved), of_bytes(moved), tolerance, reference, quick=True)


def pooled(name: str, source: str, shape: tuple[int, ...], eager: Call) -> Row:
    results = eager(torch.empty(shape, device="meta")).numel()
    moved = 4 * (torch.Size(shape).numel() + results)
    given = lambda arrays: [arrays.normal(*shape, dtype=torch.float32)]  # noqa: E731
    return _row(f"{name}, {'x'.join(map(str, shape))} f32", source, given, eager, moved, 1e-6)


def stencil(side: int) -> Row:
    def eager(x: Any) -> Any:
        out = -6.0 * x
        out[1:] += x[:-1]
        out[:-1] += x[1:]
        out[:, 1:] += x[:, :-1]
        out[:, :-1] += x[:, 1:]
        out[:, :, 1:] += x[:, :, :-1]
        out[:, :, :-1] += x[:, :, 1:]
        return out

    given = lambda arrays: [arrays.normal(side, side, side, dtype=torch.float32)]  # noqa: E731
    return _row(f"7-point stencil {side}^3 f32", sources.STENCIL, given, eager, 8 * side**3, 1e-6)


def life(side: int) -> Row:
    def eager(x: Any) -> Any:
        e = peers.functional.pad(x, (1, 1, 1, 1))
        count = sum(e[a : a + side, b : b + side] for a in range(3) for b in range(3))
        return ((count == 3) | ((count == 4) & (x == 1))).to(torch.uint8)

    given = lambda arrays: [arrays.whole(0, 2, side, side, dtype=torch.uint8)]  # noqa: E731
    return _row(f"life {side}^2 u8", sources.LIFE, given, eager, 2 * side**2, 0.0)


def depthwise(images: int, side: int, channels: int) -> Row:
    def cudnn(x: Any, w: Any) -> Any:
        out = peers.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(2, 0, 1)[:, None], padding=3, groups=channels)
        return out.permute(0, 2, 3, 1)

    given = lambda arrays: [arrays.normal(images, side, side, channels), arrays.normal(7, 7, channels)]  # noqa: E731
    moved = 4 * images * side**2 * channels
    name = f"depthwise 7x7 {images}x{side}x{side}x{channels} NHWC bf16"
    return _row(name, sources.DEPTHWISE_7, given, cudnn, moved, 8e-3)


def channels_first(images: int, channels: int, side: int) -> Row:
    def cudnn(x: Any, w: Any) -> Any:
        return peers.functional.conv2d(x, w[:, None], groups=channels)

    shapes = (images, channels, side, side), (channels, 3, 3)
    given = lambda arrays: [arrays.normal(*shape, dtype=torch.float32) for shape in shapes]  # noqa: E731
    moved = 8 * images * channels * side**2
    name = f"depthwise 3x3 {images}x{channels}x{side}x{side} NCHW f32"
    return _row(name, sources.DEPTHWISE_FIRST, given, cudnn, moved, 1e-5)


def rotary(batch: int, heads: int, length: int, width: int) -> Row:
    def eager(x: Any, cos: Any, sin: Any) -> Any:
        p, q = x[..., : width // 2].float(), x[..., width // 2 :].float()
        return torch.cat((p * cos - q * sin, q * cos + p * sin), -1).to(x.dtype)

    def given(arrays: Any) -> list[Any]:
        tables = (arrays.normal(length, width // 2, dtype=torch.float32) for _ in range(2))
        return [arrays.normal(batch, heads, length, width), *tables]

    moved = 4 * batch * heads * length * width + 4 * length * width
    return _row(f"rotary {batch}x{heads}x{length}x{width} bf16", sources.ROTARY, given, eager, moved, 8e-3)
