"""Kernels of every kind become PTX without a GPU, for the oldest target and for newer ones."""

from pathlib import Path

import pytest

import zynml

KERNELS = Path(__file__).parent.parent.parent.parent / "bench" / "kernels.zynml"

@pytest.mark.parametrize("target", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_every_kind_of_kernel_becomes_ptx(target: str) -> None:
    ptx = zynml.compile(KERNELS).emit("ptx", target)
    assert isinstance(ptx, str)
    assert f".target {target}" in ptx
    assert ptx.count(".visible .entry") >= 15
    assert "llvm." not in ptx


def test_the_same_program_gives_the_same_ptx() -> None:
    text = 'def f(x: tensor[N]): tensor { compute(x) { for i in 0..N: out[i] = exp(x[i]) } }'
    assert zynml.compile(text).emit("ptx", "sm_90") == zynml.compile(text).emit("ptx", "sm_90")

