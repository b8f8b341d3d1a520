"""Whole programs: the block of a transformer, as `programs/zynml` has it, against PyTorch's functions one by one, with its three
projections joined, and compiled."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch

from bench.gpu import sources
from bench.gpu.harness import Arrays, Row
from bench.gpu.limits import Cost
from bench.gpu.peers import functional

HEAD = 128
"""Elements of a head."""

def rows(scale: int = 1) -> Iterator[Row]:
    yield block(4, 2048 // scale, 2048, 8192, quick=True)
    yield block(4, 2048 // scale, 4096, 16384)
    yield block(1, 16, 256, 1024, tuned=False)


def block(texts: int, tokens: int, width: int, inner: int, quick: bool = False, tuned: bool = True) -> Row:
    """`tuned`: against PyTorch's compiler, too, which takes tens of seconds for each shape."""

    def inputs(arrays: Arrays) -> list[Any]:
        def weights(*shape: int) -> Any:
            return (arrays.normal(*shape, dtype=torch.float32) * shape[0] ** -0.5).to(torch.bfloat16)

        def gain() -> Any:
            return (1 + 0.1 * arrays.normal(width, dtype=torch.float32)).to(torch.bfloat16)

        square = [weights(width, width) for _ in range(4)]
        return [arrays.normal(texts, tokens, width), gain(), *square, gain(), weights(width, inner), weights(inner, width)]

    positions = texts * tokens
    products = 2.0 * positions * (4 * width * width + 2 * width * inner)
    attention = 4.0 * texts * width * tokens * (tokens + 1) / 2
    moved = 2.0 * (4 * width * width + 2 * width * inner + 2 * positions * width)
    return Row(
        f"transformer block bf16, {texts}x{tokens} tokens, {width} wide, {inner} inside",
        sources.transformer(),
        inputs,
        {"PyTorch": eager, "PyTorch, projections joined": Joined(), **({"torch.compile": compiled()} if tuned else {})},
        Cost(products + attention, "bf16", moved, "TFLOP/s"),
        1e-2,
        lambda *given: eager(*(value.double() for value in given)),
        1.0,
        quick=quick,
    )


def eager(x: Any, first: Any, q: Any, k: Any, v: Any, o: Any, second: Any, up: Any, down: Any) -> Any:
    n = _norm(x, first)
    return _after(x, *(_heads(n @ weights) for weights in (q, k, v)), o, second, up, down)


class Joined:
    """With one product for queries, keys and values, whose weights are put side by side once."""

    def __init__(self) -> None:
        self._known: dict[int, Any] = {}

    def __call__(self, x: Any, first: Any, q: Any, k: Any, v: Any, o: Any, second: Any, up: Any, down: Any) -> Any:
        weights = self._known.get(q.data_ptr())
        if weights is None:
            self._known = {q.data_ptr(): torch.cat([q, k, v], 1)}
            weights = self._known[q.data_ptr()]
        heads = (_heads(part) for part in (_norm(x, first) @ weights).chunk(3, -1))
        return _after(x, *heads, o, second, up, down)


@cache
def compiled() -> Any:
    return torch.compile(eager)


def _norm(x: Any, gain: Any) -> Any:
    return functional.rms_norm(x, (x.shape[-1],), gain, 1e-6)


def _heads(x: Any) -> Any:
    return x.unflatten(-1, (-1, HEAD)).transpose(1, 2)


def _after(x: Any, q: Any, k: Any, v: Any, o: Any, second: Any, up: Any, down: Any) -> Any:
    attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    y = x + attended.transpose(1, 2).flatten(2) @ o
    return y + functional.gelu(_norm(y, second) @ up, approximate="tanh") @ down
