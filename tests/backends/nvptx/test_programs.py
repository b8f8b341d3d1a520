"""Kernels of every kind become PTX without a GPU, for the oldest target and for newer ones."""

from pathlib import Path

import pytest

import zynml

KERNELS = Path(__file__).parent.parent.parent.parent / "bench" / "kernels.zynml"
WITHOUT = "def sort("


@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_every_kind_of_kernel_becomes_ptx(target: str) -> None:
    text = KERNELS.read_text(encoding="utf-8")
    start = text.index(WITHOUT)
    program = zynml.compile(text[:start] + text[text.index("def ", start + 1) :])
    ptx = program.emit("ptx", target)
    assert isinstance(ptx, str)
    assert f".target {target}" in ptx
    assert ptx.count(".visible .entry") >= 14
    assert "call.uni" not in ptx or "llvm" not in ptx


def test_the_same_program_gives_the_same_ptx() -> None:
    text = 'def f(x: tensor[N]): tensor { compute(x) { for i in 0..N: out[i] = exp(x[i]) } }'
    assert zynml.compile(text).emit("ptx", "sm_90") == zynml.compile(text).emit("ptx", "sm_90")


def test_sorting_on_a_gpu_says_that_it_is_not_supported() -> None:
    program = zynml.compile("def f(x: tensor[N]): tensor { compute(x) @kernel(sort) { for i in 0..N: yield x[i] } }")
    with pytest.raises(zynml.ZynMLError) as caught:
        program.emit("ptx", "sm_90")
    assert caught.value.codes == ("ZYN0109",)
