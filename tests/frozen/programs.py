"""The fixed list: every program of the gallery, and textbook kernels at the sizes at which they are measured."""

from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from bench.gpu import sources

ROOT = Path(__file__).parents[2]
GALLERY = sorted((ROOT / "programs" / "zynml").glob("*.zynml"))
STRATEGIES = sorted((ROOT / "programs" / "quantdsl").glob("*.qdsl"))
CPU_KERNELS = ROOT / "bench" / "kernels.zynml"


@frozen
class SizedProgram:
    """A function `f` of one block or a chain of blocks, with the extents of the tensors that it is called with, by input name."""

    name: str
    text: str
    extents: dict[str, tuple[int, ...]]


def sized_programs() -> Iterator[SizedProgram]:
    """The sources of `bench.gpu`, with sizes of every kind: large, ragged, few rows, odd."""
    yield from _products()
    yield from _attention_and_convolutions()
    yield from _memory()


def _products() -> Iterator[SizedProgram]:
    for m, n, k in ((8192, 8192, 8192), (1024, 1024, 1024), (4000, 4104, 4040), (1, 4096, 4096), (16, 14336, 4096), (999, 1001, 1003)):
        yield SizedProgram(f"product-{m}-{n}-{k}", sources.product(), {"A": (m, k), "B": (k, n)})
    for layout, (left, right, shapes) in sources.LAYOUTS.items():
        for types in ("bf16", "i8", "f32"):
            extents = {"A": (4096, 4096), "B": (4096, 4096)}
            yield SizedProgram(f"product-{types}-{_word(layout) or 'rows'}", sources.product(left, right, types, shapes), extents)
    square = {"A": (4096, 4096), "B": (4096, 4096)}
    yield SizedProgram("product-tf32", sources.product(types="f32", mode="@precision(products=tf32)"), square)
    yield SizedProgram("product-f32-fma", sources.product(types="f32", mode="@precision(products=f32)"), square)
    yield SizedProgram("product-f64", sources.product(types="f64"), square)
    yield SizedProgram("product-f8", sources.product("A[i, k]", "B[j, k]", "f8e4m3", "M, K|N, K", "bf16"), square)
    yield SizedProgram("bias-gelu", sources.BIAS_GELU, {**square, "bias": (4096,)})
    yield SizedProgram("residual", sources.RESIDUAL, {**square, "Z": (4096, 4096)})
    yield SizedProgram("computed-left", sources.computed("max(A[i, k], 0.0)"), square)
    yield SizedProgram("computed-triangle", sources.computed(when="k <= i"), square)
    yield SizedProgram("computed-weights", sources.computed(weights="K, N, i8", scaled=True), {**square, "scale": (4096,)})
    yield SizedProgram("gated", sources.GATED, {"A": (4096, 4096), "V": (4096, 4096), "W": (4096, 4096)})
    yield SizedProgram("batched", sources.BATCHED, {"A": (512, 128, 128), "C": (512, 128, 128)})
    yield SizedProgram("batched-ragged", sources.BATCHED, {"A": (64, 1000, 96), "C": (64, 96, 72)})


def _attention_and_convolutions() -> Iterator[SizedProgram]:
    for width in (64, 128):
        for causal in (False, True):
            extents = {"Q": (4, 16, 4096, width), "K": (4, 16, 4096, width), "V": (4, 16, 4096, width)}
            yield SizedProgram(f"attention-{width}{'-causal' if causal else ''}", sources.attention(causal), extents)
    yield SizedProgram(
        "attention-grouped", sources.attention(True, 4), {"Q": (2, 32, 2048, 128), "K": (2, 8, 2048, 128), "V": (2, 8, 2048, 128)}
    )
    yield SizedProgram(
        "attention-one-query", sources.attention(), {"Q": (16, 16, 1, 128), "K": (16, 16, 4096, 128), "V": (16, 16, 4096, 128)}
    )
    image, weight = (32, 56, 56, 256), (256, 3, 3, 256)
    yield SizedProgram("convolution", sources.convolution(padding=1), {"X": image, "F": weight})
    yield SizedProgram("convolution-stride", sources.convolution(stride=2, padding=1), {"X": image, "F": weight})
    yield SizedProgram("convolution-first", sources.convolution(padding=1, last=False), {"X": (32, 256, 56, 56), "F": (256, 256, 3, 3)})
    yield SizedProgram("convolution-grouped", sources.GROUPED, {"X": (32, 56, 56, 32, 8), "F": (32, 8, 3, 3, 8)})
    yield SizedProgram("depthwise", sources.DEPTHWISE, {"X": (32, 56, 56, 256), "F": (3, 3, 256)})


def _memory() -> Iterator[SizedProgram]:
    line, table = {"x": (2**28,)}, {"x": (16384, 4096)}
    for types in ("f32", "bf16"):
        yield SizedProgram(f"gelu-{types}", sources.gelu(types), line)
        yield SizedProgram(f"copy-{types}", sources.copy(types), line)
        yield SizedProgram(f"permute-{types}", sources.permute(types), {"x": (8, 4096, 16, 64)})
        yield SizedProgram(f"permute-inside-{types}", sources.permute_inside(types), {"x": (8, 128, 128, 256)})
        for name in sources.ROWS:
            for columns in (1024, 4096, 16384, 65536, 1000):
                yield SizedProgram(f"{_word(name)}-{types}-{columns}", sources.rows(name, types), {"x": (4096, columns)})
    yield SizedProgram("add-f32", sources.add("f32"), {"x": (2**28,), "y": (2**28,)})
    yield SizedProgram("copy-odd", sources.copy("f32"), {"x": (999_983,)})
    yield SizedProgram("chained", sources.chained(), line)
    yield SizedProgram("at-once", sources.at_once(), line)
    yield SizedProgram("total", sources.TOTAL, line)
    yield SizedProgram("row-sums", sources.ROW_SUMS, table)
    yield SizedProgram("column-sums", sources.COLUMN_SUMS, table)
    yield SizedProgram("argmax", sources.ARGMAX, table)
    yield SizedProgram("transpose", sources.TRANSPOSE, {"x": (16384, 16384)})
    yield SizedProgram("group-norm", sources.GROUP_NORM, {"x": (32, 32, 16, 56, 56), "gain": (32, 16)})
    yield SizedProgram("variances", sources.VARIANCES, {"x": (32, 256, 56, 56, 1)[:4]})
    yield SizedProgram("gather", sources.GATHER, {"x": (2**24,), "k": (2**24,)})
    yield SizedProgram("lookup", sources.LOOKUP, {"w": (50257, 1024), "k": (65536,)})
    yield SizedProgram("histogram", sources.histogram("u8", 256), {"x": (2**26,)})
    yield SizedProgram("scatter", sources.scatter(4096), {"x": (2**24,), "k": (2**24,)})
    yield SizedProgram("scan", sources.SCAN, line)
    yield SizedProgram("scan-rows", sources.scan_along(1), table)
    yield SizedProgram("scan-columns", sources.scan_along(0), table)
    yield SizedProgram("sort-f32", sources.sort("f32"), {"x": (2**26,)})
    yield SizedProgram("sort-pairs", sources.SORT_PAIRS, {"x": (2**26,)})
    yield SizedProgram("sort-rows", sources.SORT_ROWS, {"x": (65536, 256)})


def _word(text: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in text).strip("-")
