"""Attention against PyTorch's back ends: cuDNN and FlashAttention 2."""

from collections.abc import Iterator
from typing import Any

import torch

from bench.gpu import peers, sources
from bench.gpu.harness import Row
from bench.gpu.limits import Cost


def rows(scale: int = 1) -> Iterator[Row]:
    goals = {(128, False): 1.0, (128, True): 1.05, (64, False): 1.0, (64, True): 1.0}
    for (width, causal), goal in goals.items():
        yield heads(4, 16, 4096 // scale, width, causal, goal, quick=True)
    yield heads(4, 16, 4096 // scale, 80, False)
    yield heads(2, 32, 1000, 128, True)
    for batch, queries, keys in ((1, 1, 8192), (16, 1, 8192), (8, 4, 16384)):
        yield few(batch, 32, 8, queries, keys // scale, 128)


def few(batch: int, count: int, groups: int, queries: int, keys: int, width: int) -> Row:
    """Few queries against many keys, as when texts are written word by word; heads share keys and values in groups."""

    def exact(q: Any, k: Any, v: Any, scale: float) -> Any:
        k, v = (value.double().repeat_interleave(count // groups, 1) for value in (k, v))
        return torch.softmax(q.double() @ k.transpose(2, 3) * scale, -1) @ v

    shapes = (batch, count, queries, width), (batch, groups, keys, width), (batch, groups, keys, width)
    moved = 4.0 * batch * (groups * keys + count * queries) * width
    return Row(
        f"attention bf16 {batch}x{count}/{groups}x{queries} to {keys}x{width}",
        sources.attention(together=count // groups),
        lambda arrays: [*(arrays.normal(*shape) for shape in shapes), width**-0.5],
        {"cuDNN": peers.sdpa(False, "cudnn"), "FlashAttention 2": peers.sdpa(False, "flash")},
        Cost(4.0 * batch * count * queries * keys * width, "bf16", moved, "TB/s"),
        1e-2,
        exact,
    )


def heads(batch: int, count: int, length: int, width: int, causal: bool, goal: float | None = None, quick: bool = False) -> Row:
    def exact(q: Any, k: Any, v: Any, scale: float) -> Any:
        out = torch.empty(q.shape, dtype=torch.float64, device=q.device)
        for one in range(batch):
            scores = q[one].double() @ k[one].double().transpose(1, 2) * scale
            if causal:
                scores.masked_fill_(torch.ones(length, length, dtype=torch.bool, device=q.device).triu_(1), -torch.inf)
            out[one] = torch.softmax(scores, -1) @ v[one].double()
        return out

    pairs = length * (length + 1) / 2 if causal else length**2
    shape = batch, count, length, width
    return Row(
        f"attention bf16 {batch}x{count}x{length}x{width}{', causal' if causal else ''}",
        sources.attention(causal),
        lambda arrays: [*(arrays.normal(*shape) for _ in range(3)), width**-0.5],
        {"cuDNN": peers.sdpa(causal, "cudnn"), "FlashAttention 2": peers.sdpa(causal, "flash")},
        Cost(4.0 * batch * count * pairs * width, "bf16", 8.0 * batch * count * length * width, "TFLOP/s"),
        1e-2,
        exact,
        goal,
        quick=quick,
    )
