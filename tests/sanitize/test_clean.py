"""Kernels without a fault, on which nothing is reported: families of custom kernels in several sizes, every kind of kernel as the
compiler lays it out, and the programs of the gallery."""

from pathlib import Path

import numpy as np
import pytest

import zynml
from tests.programs.on_devices import PROGRAMS, ROOT, emulator_command
from tests.sanitize.plants import kernel
from tests.sanitize.test_planted import findings

FAMILIES = {
    "copied": "let i = global_idx().x\nif i < {n}: out[i] = x[i]",
    "strided": "for i in global_idx().x..{n} step grid_dim().x * block_dim().x: out[k[i]] = x[i]",
    "reversed in shared memory": "shared var s[{block}]\ns[k[t]] = x[t]\nbarrier()\nif b == 0: out[t] = s[{block} - 1 - t]",
    "tree": (
        "shared var s[{block}]\ns[t] = x[t]\nbarrier()\nvar h = k[{half}]\nwhile h > 0:\n    if t < h: s[t] = s[t] + s[t + h]\n"
        "    barrier()\n    h = h / 2\nif t == 0 and b == 0: out[0] = s[0]"
    ),
    "scan with two buffers": (
        "shared var s[2, {block}]\ns[0, t] = x[t]\nbarrier()\nvar d = 1\nvar here = 0\nwhile d < {block}:\n"
        "    s[1 - here, t] = s[here, t]\n    if t >= d: s[1 - here, t] = s[here, t] + s[here, t - d]\n    barrier()\n"
        "    here = 1 - here\n    d = d * 2\nif b == 0: out[t] = s[here, t]"
    ),
    "scan in place with two barriers": (
        "shared var s[{block}]\ns[t] = x[t]\nbarrier()\nvar d = 1\nwhile d < {block}:\n    var v = 0.0\n    if t >= d: v = s[t - d]\n"
        "    barrier()\n    s[t] = s[t] + v\n    barrier()\n    d = d * 2\nif b == 0: out[t] = s[t]"
    ),
    "histogram": (
        "shared var bins[8, i32]\nfor j in t..8 step block_dim().x: bins[j] = 0\nbarrier()\natomic_add(bins[k[t] % 8], 1)\nbarrier()\n"
        "for j in t..8 step block_dim().x: atomic_add(out[j], bins[j] as f32)"
    ),
    "window": (
        "shared var s[{block} + 2]\ns[k[t] + 1] = x[t]\nif t == 0: s[0] = 0.0\nif t == {block} - 1: s[{block} + 1] = 0.0\nbarrier()\n"
        "if b == 0: out[t] = s[t] + s[t + 1] + s[t + 2]"
    ),
    "sums of blocks": "let s = block_sum(x[t])\nif t == 0: out[b] = s",
    "atomics in memory": "atomic_add(out[k[t] % 5], x[t])\nlet seen = atomic_max(out[5], x[t])",
    "every thread writes one value": "shared var s[1]\ns[0] = 1.0\nbarrier()\nout[b * {block} + t] = s[0]",
    "one thread fills": "shared var s[1]\nif t == 0: s[0] = x[b]\nbarrier()\nout[b * {block} + t] = s[0]",
    "turns of a tile": (
        "shared var s[{block}]\nvar sum = 0.0\nfor turn in 0..3:\n    s[k[t]] = x[t] + turn\n    barrier()\n"
        "    sum += s[{block} - 1 - t]\n    barrier()\nout[b * {block} + t] = sum"
    ),
    "the last block sums": (
        "shared var last[1, i32]\nif t == 0:\n    out[b] = x[b] + 1.0\n    fence(device)\n"
        "    last[0] = atomic_add(out[20], 1.0) as i32\nbarrier()\n"
        "if last[0] == grid_dim().x - 1 and t == 0:\n    var sum = 0.0\n    for j in 0..grid_dim().x: sum += out[j]\n    out[21] = sum"
    ),
    "the last block sums what all its threads wrote": (
        "shared var last[1, i32]\nout[22 + b * {block} + t] = x[t]\nfence(device)\nbarrier()\n"
        "if t == 0: last[0] = atomic_add(out[20], 1.0) as i32\nbarrier()\n"
        "if last[0] == grid_dim().x - 1:\n    fence(device)\n    let v = out[22 + t]\n    if v < 0.0: out[22 + t] = 0.0"
    ),
}
LAUNCHES = ((8, 1), (31, 1), (32, 2), (33, 2), (64, 1), (96, 2))

WARPS = {
    "a sum of a warp": "let s = warp_sum(x[t])\nif lane_id() == 0: out[b * {block} + t] = s",
    "neighbours": "let v = warp_shuffle_down(x[t], 1)\nif lane_id() < 31: out[b * {block} + t] = v",
    "votes": "if warp_any(x[t] > 3.0) and not warp_all(x[t] > 9.0): out[b * {block} + t] = warp_ballot(k[t] % 2 == 0) as f32",
    "butterflies": (
        "var v = x[t]\nfor j in 0..5:\n    let other = warp_shuffle_xor(v, k[32] / k[t - t + 32] * 1 + j * 0)\n    v = v + other\n"
        "out[b * {block} + t] = v"
    ),
    "sums of warps": (
        "shared var s[32]\nlet w = warp_sum(x[t])\nif lane_id() == 0: s[k[t] / 32] = w\nbarrier()\n"
        "if t == 0:\n    var sum = 0.0\n    for j in 0..{block} / 32: sum += s[j]\n    out[b] = sum"
    ),
    "groups that agree": "out[b * {block} + t] = warp_match(k[t] / 4) as f32",
}
WHOLE_WARPS = ((32, 1), (64, 2), (96, 1))

CASES = [(name, text, *launch) for name, text in FAMILIES.items() for launch in LAUNCHES]
CASES += [(name, text, *launch) for name, text in WARPS.items() for launch in WHOLE_WARPS]


def test_there_are_enough_of_them() -> None:
    assert len(CASES) >= 100


@pytest.mark.parametrize("name,text,block,grid", CASES)
def test_nothing_is_reported_on_a_kernel_without_a_fault(name: str, text: str, block: int, grid: int) -> None:
    body = text.format(block=block, half=1 << (block.bit_length() - 1) - 1, n=min(block * grid, 128))
    if name == "tree" and block & block - 1:
        body = body.replace("if t < h:", f"if t < h and t + h < {block}:").replace("k[", "2 * k[")
    assert findings(kernel(body, result="tensor[256]", block=str(block), grid=str(grid))) == ()


KINDS = {
    "relu": (1003,), "transpose": (13, 25), "total": (1003,), "column_sums": (33, 10), "argmax": (107,), "softmax": (2, 33),
    "scan": (300,), "sort": (65,), "histogram": (307,), "matmul": ((10, 7), (7, 33)), "batched": ((1, 5, 4), (1, 4, 7)),
    "conv2d": ((1, 1, 3, 7), (1, 1, 3, 3)), "depthwise": ((1, 1, 4, 7), (1, 3, 3)), "attention": ((1, 3, 4), (1, 5, 4), (1, 5, 4)),
}  # fmt: skip


@pytest.fixture(scope="module")
def kernels() -> zynml.CompiledProgram:
    return zynml.compile(ROOT / "bench" / "kernels.zynml", sanitize=True)


@pytest.mark.parametrize("name", KINDS)
def test_nothing_is_reported_on_a_kind_of_kernel(name: str, kernels: zynml.CompiledProgram) -> None:
    chance = np.random.default_rng(len(name))
    shapes = [shape if isinstance(shape, tuple) else None for shape in KINDS[name]]
    arrays = [chance.standard_normal(shape if shape is not None else KINDS[name]) for shape in (shapes if shapes[0] else [None])]
    dtype = np.uint8 if name == "histogram" else np.float32
    getattr(kernels, name)(*(np.abs(array * 9).astype(dtype) for array in arrays))


LONG = ("attention", "conv2d")
"""Programs whose kernels are too much for an interpreter to watch."""


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.stem not in LONG], ids=lambda p: p.stem)
def test_nothing_is_reported_on_a_program(program: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from zyntax.main import cli

    monkeypatch.chdir(ROOT)
    code = cli.main(args=[*emulator_command(program), "--sanitize"], prog_name="zyntax", standalone_mode=False)
    assert not code, capsys.readouterr().err
