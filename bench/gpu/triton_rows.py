"""Kernels in Triton, to be compared with: a row for each program, read once."""

import triton
import triton.language as tl
from triton import next_power_of_2  # noqa: F401


@triton.jit
def softmax(x, out, columns, stride, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, BLOCK)
    inside = place < columns
    values = tl.load(x + row * stride + place, mask=inside, other=-float("inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + place, powers / tl.sum(powers, axis=0), mask=inside)


@triton.jit
def rms_norm(x, out, columns, stride, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, BLOCK)
    inside = place < columns
    values = tl.load(x + row * stride + place, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / columns + epsilon)
    tl.store(out + row * stride + place, values * scale, mask=inside)


@triton.jit
def layer_norm(x, out, columns, stride, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, BLOCK)
    inside = place < columns
    values = tl.load(x + row * stride + place, mask=inside, other=0.0).to(tl.float32)
    away = tl.where(inside, values - tl.sum(values, axis=0) / columns, 0.0)
    scale = tl.rsqrt(tl.sum(away * away, axis=0) / columns + epsilon)
    tl.store(out + row * stride + place, away * scale, mask=inside)


@triton.jit
def gelu(x, out, count, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    values = tl.load(x + place, mask=inside).to(tl.float32)
    inner = 0.7978845608 * (values + 0.044715 * values * values * values)
    turned = 2.0 / (1.0 + tl.exp(-2.0 * inner)) - 1.0
    tl.store(out + place, 0.5 * values * (1.0 + turned), mask=inside)


KERNELS = {"softmax": softmax, "rms norm": rms_norm, "layer norm": layer_norm}
