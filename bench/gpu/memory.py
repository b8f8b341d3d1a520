"""What memory bounds: maps, chains of maps, sums, transposes, rows that are normalised, and elements found by indices."""

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
    yield from several_axes(scale)
    yield from by_index(scale)
    yield from met_by_data(scale)


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


def several_axes(scale: int) -> Iterator[Row]:
    """Norms of pictures: of groups of channels, and the statistics of each channel."""
    side = 56 // scale
    pictures = (32, 32, 8, side, side)
    size = 2 * 32 * 256 * side * side

    def group(x: Any, gain: Any) -> Any:
        return peers.functional.group_norm(x.flatten(1, 2), 32, gain.flatten().to(x.dtype), eps=peers.EPSILON).reshape(x.shape)

    given = lambda arrays: [arrays.normal(*pictures), arrays.normal(32, 8, dtype=torch.float32)]  # noqa: E731
    exactly = lambda x, gain: group(x.double(), gain)  # noqa: E731
    name = f"group norm 32x256x{side}x{side} bf16"
    yield Row(name, sources.GROUP_NORM, given, {"PyTorch": group}, of_bytes(2 * size), 8e-3, exactly, 1.0)
    batch = {"PyTorch": lambda x: torch.var(x, (0, 2, 3), unbiased=False)}
    flat = lambda arrays: [arrays.normal(32, 256, side, side)]  # noqa: E731
    wide = lambda x: x.double().var((0, 2, 3), unbiased=False)  # noqa: E731
    yield Row(f"variances of channels 32x256x{side}x{side} bf16", sources.VARIANCES, flat, batch, of_bytes(2 * size), 1e-4, wide, 1.0)


def by_index(scale: int) -> Iterator[Row]:
    """Gathers, lookups of rows, histograms, and sums where indices say."""
    count, table = (1 << 26) // scale**2, 1 << 20
    picked = lambda arrays: [arrays.normal(table, dtype=torch.float32), arrays.whole(0, table, count, dtype=torch.int32)]  # noqa: E731
    taken = {"PyTorch": lambda x, k: torch.index_select(x, 0, k)}
    yield Row(f"gather {count} of {table} f32", sources.GATHER, picked, taken, of_bytes(8 * count), 0.0, goal=0.8)
    for words, columns in ((32000, 4096), (1 << 20, 33)):
        rows = (1 << 25) // scale // columns
        given = lambda arrays, v=words, d=columns, m=rows: [arrays.normal(v, d), arrays.whole(0, v, m, dtype=torch.int32)]  # noqa: E731
        found = {"PyTorch": lambda w, k: peers.functional.embedding(k, w)}
        name = f"lookup of {rows} rows in {words}x{columns} bf16"
        yield Row(name, sources.LOOKUP, given, found, of_bytes(4 * rows * columns), 0.0, goal=0.8)
    for bins, types, dtype in ((256, "u8", torch.uint8), (8192, "i32", torch.int32)):
        drawn = lambda arrays, b=bins, t=dtype: [arrays.whole(0, b, count, dtype=t)]  # noqa: E731
        counted = {"PyTorch": lambda x, b=bins: torch.bincount(x, minlength=b), "CuPy": peers.by_cupy("bincount", None, bins)}
        cost = of_bytes(count * dtype.itemsize)
        yield Row(f"histogram {count} {types}, {bins} bins", sources.histogram(types, bins), drawn, counted, cost, 0.0, goal=0.8)
    placed = lambda arrays: [arrays.normal(count, dtype=torch.float32), arrays.whole(0, table, count, dtype=torch.int32)]  # noqa: E731
    added = {"PyTorch": lambda x, k: torch.zeros(table, device="cuda").index_add_(0, k, x)}
    yield Row(f"sums of {count} f32 where indices say, {table}", sources.scatter(table), placed, added, of_bytes(8 * count), 1e-3, goal=0.8)


def met_by_data(scale: int) -> Iterator[Row]:
    """Blocks whose iterations meet in elements that data name, written as loops."""
    count = 10**8 // scale**2
    total: dict[str, Any] = {"PyTorch's sum": torch.sum}
    for name, drawn in (
        ("random", lambda arrays: [arrays.whole(0, 256, count, dtype=torch.uint8)]),
        ("equal", lambda arrays: [torch.full((count,), 7, device="cuda", dtype=torch.uint8)]),
    ):
        label = f"{count} {name} bytes counted, against a sum of them"
        yield Row(label, sources.BYTES_COUNTED, drawn, total, of_bytes(count), 0.0, _bytes_counted, 1.2, quick=True, alike=False)
    terms, groups = 10**7 // scale**2, 10**6 // scale**2
    atomics: dict[str, Any] = {"PyTorch": _added}
    settled: dict[str, Any] = {"PyTorch, deterministic": _added_in_order}
    for name, power in (("", 1), (" skewed", 4)):
        given = lambda arrays, power=power: _grouped(arrays, terms, groups, power)  # noqa: E731
        label, cost = f"{terms} f32 added to {groups} by{name} data", of_bytes(8 * terms)
        yield Row(label, sources.added_by_group(), given, settled, cost, 1e-6, _added_exactly, 6.0 if power == 1 else 2.0, quick=True)
        relaxed = sources.added_by_group("@atomics(relaxed)")
        yield Row(f"{label}, in any order", relaxed, given, atomics, cost, 1e-5, _added_exactly, 1.0, quick=True)


def _grouped(arrays: Any, terms: int, groups: int, power: int) -> list[Any]:
    """Terms and their groups, the first of which have the most where the power is above 1."""
    drawn = torch.rand(terms, device="cuda", generator=arrays.generator) ** power
    return [arrays.normal(terms, dtype=torch.float32), (drawn * groups).to(torch.int32).clamp(max=groups - 1), groups]


def _added(x: Any, k: Any, groups: int) -> Any:
    return torch.zeros(groups, device="cuda", dtype=x.dtype).index_add_(0, k, x)


def _added_exactly(x: Any, k: Any, groups: int) -> Any:
    return _added(x.double(), k, groups)


def _added_in_order(x: Any, k: Any, groups: int) -> Any:
    torch.use_deterministic_algorithms(True)
    try:
        return _added(x, k, groups)
    finally:
        torch.use_deterministic_algorithms(False)


def _bytes_counted(x: Any) -> Any:
    return torch.bincount(x, minlength=256)
