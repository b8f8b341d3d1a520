"""What memory bounds: maps, chains of maps, sums, transposes, and rows that are normalised."""

from collections.abc import Iterator
from typing import Any

import torch

from bench.gpu import peers, sources
from bench.gpu.harness import Row
from bench.gpu.limits import of_bytes

TYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
COLUMNS = (1024, 4096, 16384, 65536)


def rows(scale: int = 1) -> Iterator[Row]:
    count = (1 << 28) // scale**2
    yield from maps(count)
    yield from sums(count, scale)
    yield from moved(8192 // scale)
    for name in sources.ROWS:
        for types in TYPES:
            for columns in COLUMNS:
                yield normalised(name, (1 << 26) // scale // columns, columns, types, quick=columns == 4096)


def maps(count: int) -> Iterator[Row]:
    for types, dtype in TYPES.items():
        quick, moved = types == "f32", of_bytes(2 * dtype.itemsize * count)
        tolerance = 3e-6 if types == "f32" else 4e-3

        def arrays(number: int, dtype: Any = dtype) -> Any:
            return lambda arrays: [arrays.normal(count, dtype=dtype) for _ in range(number)]

        copied: dict[str, Any] = {"PyTorch's copy": torch.clone}
        gelu: dict[str, Any] = {"PyTorch": _gelu, "Triton": peers.triton_gelu}
        name = f"{count} {types}"
        yield Row(f"copy {name}", sources.copy(types), arrays(1), copied, moved, 0.0, goal=0.98, quick=quick)
        yield Row(f"gelu {name}", sources.gelu(types), arrays(1), gelu, moved, tolerance, _gelu_exactly, 0.98, quick=quick)
        label = f"gelu {name}, against a copy"
        yield Row(label, sources.gelu(types), arrays(1), copied, moved, tolerance, _gelu_exactly, 0.98, quick=quick, alike=False)
        added = of_bytes(3 * dtype.itemsize * count)
        yield Row(f"add {name}", sources.add(types), arrays(2), {"PyTorch": torch.add}, added, tolerance, goal=0.98, quick=quick)
    one_block: dict[str, Any] = {"the same in one block": _Program(sources.at_once())}
    name = f"five blocks in a chain, {count} f32"
    one = lambda arrays: [arrays.normal(count, dtype=torch.float32)]  # noqa: E731
    yield Row(name, sources.chained(), one, one_block, of_bytes(8 * count), 1e-6, goal=0.98, quick=True)


class _Program:
    """Another program of ours as a peer, compiled when it is first called."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.program: Any = None

    def __call__(self, *values: Any) -> Any:
        import zynml

        self.program = self.program or zynml.compile(self.source, device="cuda:0")
        return self.program.f(*values)


def _gelu(x: Any) -> Any:
    return peers.functional.gelu(x, approximate="tanh")


def _gelu_exactly(x: Any) -> Any:
    return _gelu(x.double())


def sums(count: int, scale: int) -> Iterator[Row]:
    """What reads much and writes little. A sum that is a number waits for the device on both sides."""
    m, n = 8192 // scale, 32768 // scale

    def wide(arrays: Any) -> list[Any]:
        return [arrays.normal(m, n, dtype=torch.float32)]

    read = of_bytes(4 * m * n)
    flat = lambda arrays: [arrays.normal(count, dtype=torch.float32)]  # noqa: E731
    total = {"PyTorch": lambda x: torch.sum(x).item()}
    yield Row(f"sum {count} f32", sources.TOTAL, flat, total, of_bytes(4 * count), 1e-2, lambda x: x.double().sum(), 1.0, quick=True)
    by_row = {"PyTorch": lambda x: x.sum(1)}
    yield Row(f"row sums {m}x{n} f32", sources.ROW_SUMS, wide, by_row, read, 1e-5, lambda x: x.double().sum(1), 1.0, quick=True)
    by_column = {"PyTorch": lambda x: x.sum(0)}
    yield Row(f"column sums {m}x{n} f32", sources.COLUMN_SUMS, wide, by_column, read, 1e-5, lambda x: x.double().sum(0), 1.0, quick=True)
    yield Row(f"argmax of rows {m}x{n} f32", sources.ARGMAX, wide, {"PyTorch": lambda x: x.max(1)}, read, 0.0, goal=1.0, quick=True)


def moved(side: int) -> Iterator[Row]:
    """Elements that only change places."""
    square = lambda arrays: [arrays.normal(side, side)]  # noqa: E731
    turned = {"PyTorch": lambda x: x.T.contiguous()}
    yield Row(f"transpose {side}^2 bf16", sources.TRANSPOSE, square, turned, of_bytes(4 * side * side), 0.0, goal=5.0, quick=True)
    for types, dtype in TYPES.items():
        size = dtype.itemsize
        for name, source, axes, shape in (
            ("0213", sources.permute(types), (0, 2, 1, 3), (8, side // 8, 32, 128)),
            ("0312", sources.permute_inside(types), (0, 3, 1, 2), (64, side // 64, side // 64, 64)),
        ):
            count = shape[0] * shape[1] * shape[2] * shape[3]
            peer = {"PyTorch": lambda x, axes=axes: x.permute(axes).contiguous()}
            inputs = lambda arrays, shape=shape, dtype=dtype: [arrays.normal(*shape, dtype=dtype)]  # noqa: E731
            label = f"permute {name} {'x'.join(map(str, shape))} {types}"
            goal = 2.0 if name == "0312" else None
            yield Row(label, source, inputs, peer, of_bytes(2 * size * count), 0.0, goal=goal, quick=types == "bf16")


def normalised(name: str, count: int, columns: int, types: str, quick: bool) -> Row:
    """Softmax and norms over rows."""
    dtype = TYPES[types]
    library = {
        "softmax": lambda x: torch.softmax(x, 1),
        "rms norm": lambda x: peers.functional.rms_norm(x, x.shape[1:], eps=peers.EPSILON),
        "layer norm": lambda x: peers.functional.layer_norm(x, x.shape[1:], eps=peers.EPSILON),
    }[name]
    calls = {"PyTorch": library} if name == "layer norm" else {"Triton": peers.triton_rows(name), "PyTorch": library}
    return Row(
        f"{name} {count}x{columns} {types}",
        sources.rows(name, types),
        lambda arrays: [arrays.normal(count, columns, dtype=dtype)],
        calls,
        of_bytes(2 * dtype.itemsize * count * columns),
        8e-3 if types == "bf16" else 1e-5,
        lambda x: library(x.double()),
        1.6 if name == "layer norm" else 0.98,
        quick=quick,
    )
