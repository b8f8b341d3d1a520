"""What a case is, what it is drawn from, and how it runs."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import define, field, frozen

import zynml
from tests.kernels.checks import DTYPES, exactly, holds, laid_out

Array = np.ndarray[Any, Any]

ORDINARY = (1, 3, 31, 33, 64, 100, 127, 128, 256, 257, 1000, 1009, 1024)
TINY = (1, 2, 3, 5, 8, 16, 17)
NAMES = "abcdeghijknquvwxyz"
"""Of indices: none that a body gives to a value."""
LAYOUTS = ("contiguous", "contiguous", "transposed", "sliced", "strided")


@frozen
class Case:
    """`wanted` and `magnitude` (the sums of the terms' absolute values, where there are sums of `terms`) are in float64; whole numbers
    are compared exactly. `dtype`: of the result, if it matters. `layouts` say how the arrays lie in memory."""

    kind: str
    source: str
    inputs: Sequence[Any]
    wanted: Callable[[], Any]
    magnitude: Callable[[], Any] | None = None
    terms: float = 1
    exact: bool = False
    layouts: Sequence[str] = ()
    words: str = ""

    def compare(self, got: Any) -> None:
        wanted = self.wanted()
        if self.exact:
            for one, other in zip(_each(got), _each(wanted), strict=True):
                exactly(one, other)
        else:
            holds(got, wanted, None if self.magnitude is None else self.magnitude(), self.terms)


def _each(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


@define
class Draw:
    """What is drawn from; the same for equal seeds. `tiny`: for the emulator."""

    chance: np.random.Generator
    tiny: bool
    names: list[str] = field(init=False)

    @names.default
    def _(self) -> list[str]:
        return [str(name) for name in self.chance.permutation(list(NAMES))]

    def one(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.chance.integers(len(choices)))]

    def often(self, probability: float) -> bool:
        return bool(self.chance.random() < probability)

    def name(self) -> str:
        """Of an index: none that came before."""
        return self.names.pop()

    def extent(self, most: int = 1024, least: int = 1) -> int:
        """Mostly 1, primes, powers of two and their neighbours; at times any number."""
        if self.tiny:
            return int(self.one([extent for extent in TINY if least <= extent <= most] or [least]))
        if self.often(0.25):
            return int(self.chance.integers(least, most + 1))
        return int(self.one([extent for extent in ORDINARY if least <= extent <= most] or [least]))

    def extents(self, count: int, elements: int, zeros: bool = True) -> tuple[int, ...]:
        """So many, whose product stays below `elements`; now and then one is 0."""
        elements = min(elements, 4096) if self.tiny else elements
        found: list[int] = []
        for place in range(count):
            room = max(1, elements // int(np.prod(found, initial=1)))
            least_later = 1 if place == count - 1 else 4
            found.append(self.extent(max(1, min(1024, room // least_later))))
        found = [found[int(place)] for place in self.chance.permutation(count)]
        if zeros and self.often(0.03):
            found[int(self.chance.integers(count))] = 0
        return tuple(found)

    def shuffled(self, parts: Sequence[str]) -> list[str]:
        return [parts[int(place)] for place in self.chance.permutation(len(parts))]

    def loops(self, ranges: Sequence[str], body: str, indent: str) -> str:
        """Nested loops over these ranges in any order, in one `for` or several."""
        ranges = self.shuffled(ranges)
        cut = int(self.chance.integers(len(ranges) + 1))
        heads = [part for part in (ranges[:cut], ranges[cut:]) if part]
        lines = [f"{indent}{'    ' * depth}for {', '.join(part)}:" for depth, part in enumerate(heads)]
        inner = indent + "    " * len(heads)
        return "\n".join(lines) + "\n" + "\n".join(inner + line for line in body.split("\n"))

    def array(self, dtype: str, shape: Sequence[int], whole: bool = False) -> Array:
        """Normal numbers, or small whole ones, whose sums are exact."""
        kind = DTYPES[dtype]
        if kind.kind in "iub":
            low = 0 if kind.kind in "ub" else -3
            return self.chance.integers(low, 2 if kind.kind == "b" else 4, shape).astype(kind)
        if whole:
            return self.chance.integers(-2, 3, shape).astype(kind)
        return self.chance.standard_normal(shape).astype(kind)

    def layout(self, array: Array) -> str:
        return "contiguous" if self.tiny or array.size == 0 or array.size > 1 << 20 else str(self.one(LAYOUTS))


def wide(array: Any) -> Any:
    return np.asarray(array).astype(np.float64)


def run(case: Case, device: str) -> None:
    """Raises AssertionError where the answer is wrong, and what the program raises."""
    program = zynml.compile(case.source, device=device)
    layouts = iter(case.layouts or ["contiguous"] * len(case.inputs))
    given = [_placed(laid_out(value, layout), device) if isinstance(value, np.ndarray) else value for value, layout in zip(case.inputs, layouts, strict=False)]
    got = program.f(*given)
    case.compare(tuple(map(_fetched, got)) if isinstance(got, tuple) else _fetched(got))


TARGETS = ("sm_90a", "sm_80", "sm_75")
"""GPUs whose launches the emulator runs: cases take turns."""


def _fetched(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, zynml.Tensor | np.ndarray) else value


def _placed(array: Array, device: str) -> Any:
    """The array on the device, in the same layout with the same gaps, by PyTorch where that is there."""
    if not device.startswith("cuda"):
        return array
    try:
        import torch
    except ImportError:
        return array
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    if array.size == 0 or base.dtype != array.dtype or array.dtype.kind == "b" or array.dtype.name in ("uint16", "uint32", "uint64"):
        return array
    offset = (array.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // array.itemsize
    dense = np.ascontiguousarray(base)
    bits = torch.from_numpy(dense.view(np.int16) if dense.dtype == DTYPES["bf16"] else dense).to(device)
    held = bits.view(torch.bfloat16) if dense.dtype == DTYPES["bf16"] else bits
    return held.as_strided(array.shape, [stride // array.itemsize for stride in array.strides], offset)
