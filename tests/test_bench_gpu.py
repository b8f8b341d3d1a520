"""What the GPU's bench is made of that needs no GPU: its programs, the roofline's arithmetic, the table."""

from pathlib import Path

import pytest

import zynml
from bench.gpu import host_time, sources
from bench.gpu.limits import DEVICES, of_bytes, of_products
from bench.roofline import draw
from bench.table import gpu_table

PROGRAMS = {
    **{f"product {layout}": sources.product(a, b, "bf16", shapes) for layout, (a, b, shapes) in sources.LAYOUTS.items()},
    "whole product": sources.product(types="i8"),
    "bias and gelu": sources.BIAS_GELU,
    "residual": sources.RESIDUAL,
    "batched": sources.BATCHED,
    "window": sources.convolution(2, 1, 2),
    "window, channels first": sources.convolution(1, 1, 1, "f32", last=False),
    "groups": sources.GROUPED,
    "depthwise": sources.DEPTHWISE,
    "attention": sources.attention(),
    "causal": sources.attention(causal=True),
    "slopes": sources.attention(score="s * scale - A[h] * (i - j)", given="A: tensor[H, f32]"),
    "documents": sources.attention(mask="S[b, i] == S[b, j]", given="S: tensor[B, N, i32]"),
    "gelu": sources.gelu("bf16"),
    "copy": sources.copy("f32"),
    "add": sources.add("bf16"),
    "chained": sources.chained(),
    "at once": sources.at_once(),
    "total": sources.TOTAL,
    "row sums": sources.ROW_SUMS,
    "column sums": sources.COLUMN_SUMS,
    "argmax": sources.ARGMAX,
    "transpose": sources.TRANSPOSE,
    "permute": sources.permute("bf16"),
    "permute inside": sources.permute_inside("f32"),
    **{name: sources.rows(name, "bf16") for name in sources.ROWS},
    "group norm": sources.GROUP_NORM,
    "variances": sources.VARIANCES,
    "gather": sources.GATHER,
    "lookup": sources.LOOKUP,
    "histogram": sources.histogram("u8", 256),
    "scatter": sources.scatter(1 << 20),
    "scan": sources.SCAN,
    "sort": sources.sort("i32"),
    "pairs": sources.SORT_PAIRS,
    "max pool": sources.MAX_POOL,
    "mean pool in 3 dimensions": sources.MEAN_POOL_3D,
    "mean pool in a dimension": sources.MEAN_POOL_1D,
    "stencil": sources.STENCIL,
    "life": sources.LIFE,
    "depthwise 7x7": sources.DEPTHWISE_7,
    "depthwise, channels first": sources.DEPTHWISE_FIRST,
    "rotary": sources.ROTARY,
    "transformer": sources.transformer(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_right(name: str) -> None:
    zynml.compile(PROGRAMS[name])


def test_a_product_is_bounded_by_what_it_needs_more_of() -> None:
    limits = DEVICES["H200"]
    square, thin = of_products(8192, 8192, 8192, "bf16", 2, 2), of_products(1, 4096, 4096, "bf16", 2, 2)
    assert (square.bound(limits), thin.bound(limits)) == ("bf16", "memory")
    assert square.least_seconds(limits) == pytest.approx(2 * 8192**3 / 989e12)
    assert thin.least_seconds(limits) == pytest.approx((2 * 4096 + 2 * 4096**2 + 2 * 4096) / 4.8e12)
    assert square.rate(1.0) == pytest.approx(1.0995, rel=1e-4)
    assert of_bytes(4.8e12).least_seconds(limits) == 1.0


def test_a_table_shows_what_failed_by_its_code() -> None:
    good = {"workload": "copy", "ours_ms": 1.0, "peer_ms": 2.0, "best_peer": "PyTorch", "ratio": 2.0, "ratio_spread": [1.5, 2.5]}
    good |= {"rate": 4.0, "unit": "TB/s", "share_of_limit": 0.83, "goal": 0.98}
    found = gpu_table({"rows": [good, {"workload": "f8", "failed": "ZYN0109: not supported yet"}]}).splitlines()[2:]
    assert found == ["| copy | 1 | 2 | PyTorch | 4 TB/s | 83 | 2.00 | 1.50 to 2.50 | 0.98 |", "| f8 | ZYN0109 | | | | | | | |"]


def test_a_picture_has_a_dot_a_row(tmp_path: Path) -> None:
    limits = DEVICES["H200"]
    rows = [
        {"workload": "a", "kind": "products", "operations": 1e12, "bytes": 1e9, "ours_ms": 2.0, "peer_ms": 2.5},
        {"workload": "b", "kind": "attention", "operations": 1e11, "bytes": 1e9, "ours_ms": 0.5},
        {"workload": "c", "kind": "memory", "failed": "ZYN0109"},
    ]
    figures = {"device": "H200", "date": "2026-01-01", "limits": {"bytes": limits.bytes, "operations": dict(limits.operations)}, "rows": rows}
    draw(figures, tmp_path / "roofline.svg")
    text = (tmp_path / "roofline.svg").read_text()
    assert text.startswith("<?xml")
    assert "products" in text
    assert "memory" not in text


def test_host_times_are_medians_over_processes():
    figures = {"update": [(4.0, 3.0), (6.0, 3.5), (4.5, 3.0)], "new": [(2.0, 4.0)] * 3}
    update, new = host_time.shown(figures)
    assert "4.50 us" in update and "3.00 us" in update and "+1.50 us" in update and "1.50 times" in update
    assert "-2.00 us" in new and "0.50 times" in new


def test_of_each_call_the_quickest_burst_counts(monkeypatch):
    seconds = iter([0.0, 3.0, 3.0, 5.0, 5.0, 6.0, 6.0, 10.0])
    monkeypatch.setattr(host_time, "BURSTS", 2)
    monkeypatch.setattr(host_time, "BURST", 2)
    monkeypatch.setattr(host_time.time, "perf_counter", lambda: next(seconds))
    assert host_time.quickest(lambda: None, lambda: None, lambda: None) == (0.5e6, 1e6)
