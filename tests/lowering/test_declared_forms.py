"""Extents that a type declares as forms of a size (`tensor[2*H]`) are known to the block, so that indices within them need no check."""

import numpy as np
import pytest

import zynml
from compiler.fusion.program_kernels import kernels

UNSHUFFLED = """def f(x: tensor[C, 2*H, 2*W]): tensor {
    compute(x) {
        for o in 0..4 * C, y in 0..H, z in 0..W:
            out[o, y, z] = x[o / 4, 2 * y + (o % 4) / 2, 2 * z + o % 2]
    }
}"""


def test_indices_within_a_declared_form_have_no_check() -> None:
    """A nest with checks has no field."""
    ((_, kernel),) = kernels(zynml.compile(UNSHUFFLED)._session)
    assert kernel.field is not None


@pytest.mark.parametrize("device", ["cpu", "emulator:sm_90a"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 4, 5), (2, 31, 33), (0, 3, 2)])
def test_unshuffled(shape: tuple[int, int, int], device: str) -> None:
    c, h, w = shape
    x = np.random.default_rng(c).standard_normal((c, 2 * h, 2 * w)).astype("f4")
    expected = x.reshape(c, h, 2, w, 2).transpose(0, 2, 4, 1, 3).reshape(4 * c, h, w)
    assert np.array_equal(zynml.compile(UNSHUFFLED, device=device).f(x), expected)


def test_an_extent_that_is_no_such_form_is_refused() -> None:
    with pytest.raises(zynml.ZynMLError, match="ZYN0"):
        zynml.compile(UNSHUFFLED).f(np.zeros((1, 3, 2), "f4"))
