"""PyTorch's arrays for nests on a device, and what they compute in float64."""

from collections.abc import Sequence
from typing import Any

import torch

TORCH = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8,
}  # fmt: skip


class TorchArrays:
    """PyTorch on the device, with the functions of `bench.nests.numpy_arrays.NumpyArrays`."""

    xp: Any = torch

    def __init__(self, seed: int, device: str = "cuda") -> None:
        self.device = torch.device(device)
        self.generator = torch.Generator(device=self.device).manual_seed(seed)

    def normal(self, shape: Sequence[int], dtype: str) -> Any:
        return torch.randn(*shape, device=self.device, generator=self.generator).to(TORCH[dtype])

    def share(self, shape: Sequence[int], dtype: str) -> Any:
        return torch.rand(*shape, device=self.device, generator=self.generator).to(TORCH[dtype])

    def below(self, bound: int, shape: Sequence[int], dtype: str) -> Any:
        return torch.randint(0, bound, tuple(shape), device=self.device, generator=self.generator, dtype=TORCH[dtype])

    def rising(self, count: int, last: int, dtype: str) -> Any:
        inside = self.below(last + 1, [count], "i64").sort().values
        inside[0], inside[-1] = 0, last
        return inside.to(TORCH[dtype])

    def wide(self, array: Any) -> Any:
        return array.to(torch.float64)

    def indices(self, array: Any) -> Any:
        return array.to(torch.int64)

    def zeros(self, *shape: int) -> Any:
        return torch.zeros(*shape, device=self.device, dtype=torch.float64)

    def arange(self, count: int) -> Any:
        return torch.arange(count, device=self.device)

    def add_at(self, target: Any, index: Any, values: Any) -> None:
        target.index_add_(0, index, values)

    def largest_at(self, target: Any, index: Any, values: Any) -> None:
        target.scatter_reduce_(0, index, values, "amax")

    def swapped(self, array: Any) -> Any:
        return array.swapaxes(-1, -2)

    def repeated(self, counts: Any) -> Any:
        return torch.repeat_interleave(counts)

    def counted(self, index: Any, bins: int) -> Any:
        return torch.bincount(index, minlength=bins).double()

    def erf(self, x: Any) -> Any:
        return torch.erf(x)
