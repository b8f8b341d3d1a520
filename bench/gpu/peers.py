"""What people use on GPUs: PyTorch (cuBLAS, cuDNN and CUB behind it), CuPy, and kernels written in Triton.

The Triton kernels are a program for each row, as that language's own tutorials write softmax, with numbers of warps by the length of the
row as collections of such kernels choose them."""

import os
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False

functional = torch.nn.functional
EPSILON = 1e-5


def in_tf32(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call with products of f32 in tf32."""

    def allowed(*values: Any) -> Any:
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            return call(*values)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False

    return allowed


def sdpa(causal: bool, backend: str) -> Callable[..., Any]:
    """PyTorch's attention by one of its backends."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kind = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}[backend]

    def call(q: Any, k: Any, v: Any, scale: float) -> Any:
        with sdpa_kernel(kind):
            return functional.scaled_dot_product_attention(q, k, v, scale=scale, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])

    return call


def flex(values: Any, scored: Callable[..., Any], seen: Callable[..., Any] | None, shape: tuple[int, ...]) -> Callable[..., Any]:
    """FlexAttention, compiled, with scores and masks that read `values`; its map of blocks is made once."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled = torch.compile(flex_attention)

    def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return scored(values, s, h, i, j)

    @cache
    def mask() -> Any:
        return None if seen is None else create_block_mask(lambda b, h, i, j: seen(values, b, i, j), shape[0], None, shape[2], shape[2])

    def call(q: Any, k: Any, v: Any, scale: float, *given: Any) -> Any:
        return compiled(q, k, v, score_mod=score, block_mask=mask(), scale=scale)

    return call


def scaled_product(a: Any, b: Any, fast: bool) -> Any:
    """cuBLASLt's product of f8, to bf16; `b` as [N, K]. `fast`: summed by tensor cores alone, in fewer bits than f32 has."""
    one = _one(a.device)
    return torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=fast)


@cache
def _one(device: Any) -> Any:
    return torch.ones((), device=device)


def bias_gelu_by_library(a: Any, b: Any, row: Any) -> Any:
    """cuBLASLt's own epilogue."""
    return torch._addmm_activation(row, a, b, use_gelu=True)


@cache
def cupy() -> Any:
    """The library, on PyTorch's stream."""
    import cupy as library

    return library


def by_cupy(name: str, *options: Any) -> Callable[..., Any]:
    """A function of CuPy's on PyTorch's tensors."""

    def call(x: Any) -> Any:
        library = cupy()
        return getattr(library, name)(library.from_dlpack(x), *options)

    return call


# ---- Triton ----------------------------------------------------------------------------------------------------------------


def warps_of(block: int) -> int:
    return 32 if block >= 32768 else 16 if block >= 8192 else 8 if block >= 2048 else 4


@cache
def _row_kernels() -> Any:
    os.environ.setdefault("TRITON_CACHE_DIR", "/tmp/zyntax-bench-triton")
    from bench.gpu import triton_rows

    return triton_rows


def triton_rows(name: str) -> Callable[..., Any]:
    """Softmax, RMS norm or layer norm over the rows of a matrix."""
    return partial(_triton_rows, name)


def _triton_rows(name: str, x: Any) -> Any:
    kernels = _row_kernels()
    rows, columns = x.shape
    block = kernels.next_power_of_2(columns)
    out = torch.empty_like(x)
    kernels.KERNELS[name][(rows,)](x, out, columns, x.stride(0), EPSILON, BLOCK=block, num_warps=warps_of(block))
    return out


def triton_gelu(x: Any) -> Any:
    """The approximation with tanh."""
    kernels = _row_kernels()
    out = torch.empty_like(x)
    block = 1024
    kernels.gelu[(-(-x.numel() // block),)](x, out, x.numel(), BLOCK=block, num_warps=4)
    return out
