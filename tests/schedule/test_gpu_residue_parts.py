"""Transposed convolutions with strides on GPUs: a convolution for each residue of the results' indices, and zeros where none has taps."""

import re
from typing import Any

import numpy as np
import pytest

import zynml
from bench.gpu.textbook import transposed
from compiler.hir.affine import Affine
from compiler.hir.build import FunctionBuilder
from compiler.hir.memory import Load, Store
from compiler.hir.module import Form
from compiler.hir.types import Mem
from compiler.hir.verify import faults
from compiler.schedule.gpu.products import copied_operands
from compiler.schedule.gpu.rewrites import residue_parts
from compiler.schedule.gpu.rewrites.digit_dims import with_dims_of_digits
from tests.windows import BF16

Array = np.ndarray[Any, Any]
DEVICE = "emulator:sm_90a"


def expected_of(x: Array, w: Array, stride: int, padding: int, dilation: int, beyond: int, groups: int, rank: int) -> Array:
    channels, filters = x.shape[1] // groups, w.shape[1]
    extents = [(x.shape[2 + a] - 1) * stride + dilation * (w.shape[2 + a] - 1) + 1 + beyond for a in range(rank)]
    out = np.zeros((x.shape[0], groups * filters, *extents))
    for group in range(groups):
        own = slice(group * channels, (group + 1) * channels)
        for tap in np.ndindex(*w.shape[2:]):
            at = tuple(slice(dilation * q, dilation * q + stride * (n - 1) + 1, stride) for q, n in zip(tap, x.shape[2:], strict=True))
            terms = np.einsum("nc...,co->no...", x[:, own].astype(float), w[own][(..., *tap)].astype(float))
            out[(slice(None), slice(group * filters, (group + 1) * filters), *at)] += terms
    inner = tuple(slice(padding, extent - padding) for extent in extents)
    return out[(..., *inner)]


def text_of(rank: int, stride: int, padding: int, dilation: int, beyond: int, groups: int) -> str:
    return transposed(rank, *([number] * rank for number in (stride, padding, dilation, beyond)), grouped=groups > 1)


CASES = [
    # rank, stride, padding, dilation, beyond, groups, x, weight
    (1, 2, 1, 1, 1, 1, (2, 3, 31), (3, 5, 3)),
    (1, 3, 0, 2, 0, 1, (1, 32, 33), (32, 16, 4)),
    (1, 4, 2, 2, 0, 1, (2, 8, 9), (8, 16, 5)),
    (1, 6, 0, 4, 2, 2, (1, 16, 7), (16, 8, 2)),
    (2, 2, 1, 1, 0, 4, (1, 32, 3, 5), (32, 8, 3, 2)),
    (2, 2, 1, 2, 0, 1, (1, 16, 3, 5), (16, 16, 3, 3)),
    (2, 3, 0, 1, 0, 1, (1, 3, 1, 1), (3, 1, 2, 2)),
]


@pytest.mark.parametrize("products", [None, "tf32"])
@pytest.mark.parametrize("case", CASES)
def test_each_residue_has_taps_of_its_own(case: tuple[Any, ...], products: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residue_parts, "WORTH", 0)
    rank, stride, padding, dilation, beyond, groups, *shapes = case
    x, w = (np.random.default_rng(7).integers(-8, 9, shape).astype("f4") for shape in shapes)
    program = zynml.compile(text_of(rank, stride, padding, dilation, beyond, groups), device=DEVICE, products=products)
    out = program.f(x, w, groups) if groups > 1 else program.f(x, w)
    assert np.array_equal(out, expected_of(x, w, stride, padding, dilation, beyond, groups, rank))


def in_bf16(text: str) -> str:
    text = re.sub(r"(x|weight): tensor\[([^\]]*)\]", r"\1: tensor[\2, bf16]", text)
    return re.sub(r"(out\[.*\]) = total", r"\1 = total as bf16", text)


@pytest.mark.parametrize(("rank", "beyond", "shape"), [(1, 0, (1, 64, 40)), (2, 0, (2, 72, 9, 5))])
def test_residues_with_as_many_taps_are_one_product(
    rank: int, beyond: int, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their results go to memory of its own, which a launch behind turns."""
    monkeypatch.setattr(residue_parts, "WORTH", 0)
    monkeypatch.setattr(copied_operands, "WORTH", 0)
    weight = (shape[1], 64, *[4] * rank)
    text = in_bf16(text_of(rank, 2, 1, 1, beyond, 1))
    like = ", ".join(f"{name}={'x'.join(map(str, dims))}:bf16" for name, dims in (("x", shape), ("weight", weight)))
    names = [launch.function.name for launch in launched(text, like).launches]
    assert names == ["kernel_x_copy_0", "kernel_weight_copy_0", "kernel_0", "kernel_out_0"]
    x, w = (np.random.default_rng(7).integers(-8, 9, dims).astype(BF16) for dims in (shape, weight))
    out = np.asarray(zynml.compile(text, device=DEVICE).f(x, w))
    wanted = expected_of(x, w, 2, 1, 1, beyond, 1, rank).astype(np.float32).astype(BF16)
    assert np.array_equal(out.astype(np.float32), wanted.astype(np.float32))


def launched(text: str, like: str, **options: Any) -> Any:
    (kernel,) = zynml.compile(text, **options)._session.launches_like([like], DEVICE)
    return kernel.threads.launches


def test_elements_without_taps_are_filled_at_once() -> None:
    """Of 5 residues 3 taps reach 3; the picture is copied for the first of them."""
    launches = launched(text_of(1, 5, 1, 2, 0, 1), "x=16x32x4096:f32, weight=32x64x3:f32", products="tf32")
    names = [launch.function.name for launch in launches.launches]
    parts = [f"kernel_{residue}_{step}_0" for residue in (0, 2, 4) for step in ("x_copy", "weight_copy")]
    assert names == ["kernel_nothing_0", parts[0], parts[1], "kernel_0_0", parts[3], "kernel_2_0", parts[5], "kernel_4_0"]
    assert len(launches.workspaces) == 4


def test_parts_by_threads_are_one_launch_whose_blocks_take_turns() -> None:
    launches = launched(text_of(1, 5, 1, 2, 0, 1), "x=16x32x4096:f32, weight=32x64x3:f32")
    assert [launch.function.name for launch in launches.launches] == ["kernel_nothing_0", "kernel_0_0"]
    one = launched(text_of(1, 5, 1, 2, 0, 1), "x=16x32x4096:f32, weight=32x64x1:f32").launches[-1]
    sizes = launches.counted_sizes({"N": 16, "C": 32, "H": 4096, "O": 64, "Q": 3})
    assert launches.launches[-1].blocks(sizes) == 3 * one.blocks(sizes)


def test_axes_of_parts_with_other_extents_have_names_of_their_own() -> None:
    """Sums of 1, 2, 4 and 8 taps; what loops and conditions give varies along the axes that they are put together of."""
    launches = launched(text_of(3, 2, 1, 1, 0, 4), "x=8x32x12x24x48:f32, weight=32x8x3x3x3:f32, G=4")
    (one,) = launches.launches
    assert any(axis.startswith("c_r") for axis in one.function.axes)
    assert not faults(one.function)


@pytest.mark.parametrize(("filters", "threads"), [(16, 768), (64, None)])
def test_many_threads_share_a_multiprocessor_where_they_carry_little(filters: int, threads: int | None) -> None:
    like = f"x=8x32x64x128:f32, weight=32x{filters}x3x3:f32, G=4"
    (one,) = launched(text_of(2, 2, 1, 1, 1, 4), like).launches
    bounds = one.function.kernel_info.launch_bounds
    assert (bounds.min_blocks_per_sm and bounds.min_blocks_per_sm * bounds.max_threads_per_block) == threads


def test_small_sums_stay_one_launch() -> None:
    assert len(launched(text_of(1, 2, 1, 1, 0, 1), "x=1x3x31:f32, weight=3x4x3:f32").launches) == 1


@pytest.mark.parametrize(("extent", "index"), [(32, ["g", "c"]), (40, ["c+8*g"])])
def test_an_index_of_two_digits_is_of_two_dims(extent: int, index: list[str]) -> None:
    """Unless the dim has more than the digits."""
    out = FunctionBuilder("f", Form.FIELD)
    x, y = (out.parameter(name, Mem("f32", tuple(map(Affine.of, dims)))) for name, dims in (("x", (3, extent)), ("y", (3, 4, 8))))
    for axis, length in (("n", 3), ("g", 4), ("c", 8)):
        out.axis(axis, Affine.of(length))
    out.body.store(y, out.body.load(x, ["n", Affine.of("g") * 8 + "c"]), ["n", "g", "c"])
    load, store = with_dims_of_digits(out.finish()).body.body
    assert isinstance(load, Load) and isinstance(store, Store)
    assert [str(form) for form in load.index] == ["n", *index]
    assert [str(form) for form in store.index] == ["n", "g", "c"]
