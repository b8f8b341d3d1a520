"""Attention against PyTorch's back ends: cuDNN and FlashAttention 2; with caps, slopes and masks against FlexAttention. Operations are
those of scores that masks leave: the rate of such a row over that of the plain one is its share of the plain rate."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from attrs import frozen

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
    for form in FORMS:
        yield formed(form, 4, 16, 4096 // scale, 128)


PLAIN: Any = "s * scale", lambda given, s, h, i, j: s


@frozen
class Form:
    """Of attention: its score and its mask as text, and as functions of tensors: of what both read besides, the score, head, query and
    key, and of that, batch, query and key. `given`: what is read, with its type; `values`: made for so many batches, heads and keys."""

    name: str
    score: str = PLAIN[0]
    scored: Callable[..., Any] = PLAIN[1]
    mask: str = ""
    seen: Callable[..., Any] | None = None
    given: str = ""
    values: Callable[[int, int, int], Any] = lambda batch, heads, keys: None


def causal(given: Any, b: Any, i: Any, j: Any) -> Any:
    return j <= i


def slopes(batch: int, heads: int, keys: int) -> Any:
    return 2.0 ** (-8.0 * torch.arange(1, heads + 1, device="cuda") / heads)


def numbers(batch: int, heads: int, keys: int) -> Any:
    """Of the documents that keys belong to, sorted."""
    return torch.randint(0, 8, (batch, keys), generator=torch.Generator().manual_seed(3)).sort(1).values.int().cuda()


SLOPE: Any = "s * scale - A[h] * (i - j)", lambda given, s, h, i, j: s - given[h] * (i - j)
DOCUMENTS: Any = "S[b, i] == S[b, j]", lambda given, b, i, j: given[b, i] == given[b, j]
FORMS = (
    Form("cap of 50", "tanh(s * scale / 50.0) * 50.0", lambda given, s, h, i, j: torch.tanh(s / 50.0) * 50.0),
    Form("ALiBi", *SLOPE, given="A: tensor[H, f32]", values=slopes),
    Form("ALiBi, causal", *SLOPE, "j <= i", causal, "A: tensor[H, f32]", slopes),
    Form("window of 1024", *PLAIN, "j <= i and i - j < 1024", lambda given, b, i, j: (j <= i) & (i - j < 1024)),
    Form("8 documents", *PLAIN, *DOCUMENTS, "S: tensor[B, N, i32]", numbers),
)


def formed(form: Form, batch: int, count: int, length: int, width: int) -> Row:
    """A form of attention, its scores counted as far as the mask leaves them."""
    heads, places = torch.arange(count), torch.arange(length)
    i, j = places[:, None], places
    values = form.values(batch, count, length)

    def masked(b: int) -> Any:
        on = [value.to("cuda") if isinstance(value, torch.Tensor) else value for value in (values, i, j)]
        return torch.ones(length, length, dtype=torch.bool, device="cuda") if form.seen is None else form.seen(on[0], b, *on[1:])

    def exact(q: Any, k: Any, v: Any, scale: float, *given: Any) -> Any:
        out = torch.empty(q.shape, dtype=torch.float64, device=q.device)
        for b in range(batch):
            seen = masked(b)
            for h in heads:
                scores = form.scored(values, q[b, h].double() @ k[b, h].double().T * scale, h, i.to(q.device), j.to(q.device))
                out[b, h] = torch.softmax(scores.masked_fill(~seen, -torch.inf), -1) @ v[b, h].double()
        return out

    pairs = count * sum(int(masked(b).sum()) for b in range(batch))
    shape, given = (batch, count, length, width), [] if values is None else [values]
    return Row(
        f"attention bf16 {batch}x{count}x{length}x{width}, {form.name}",
        sources.attention(score=form.score, mask=form.mask, given=form.given),
        lambda arrays: [*(arrays.normal(*shape) for _ in range(3)), width**-0.5, *given],
        {"FlexAttention": peers.flex(values, form.scored, form.seen, shape)},
        Cost(4.0 * pairs * width, "bf16", 8.0 * batch * count * length * width, "TFLOP/s"),
        1e-2,
        exact,
    )


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
