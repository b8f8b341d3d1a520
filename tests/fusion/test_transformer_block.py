"""The transformer's block of the programs against float64, at small sizes: on the CPU, and in the emulator. Every step rounds to bf16."""

from pathlib import Path

import numpy as np
import pytest

import zynml
from tests.fusion import transformer

TEXT = Path("programs/zynml/transformer_block.zynml").read_text()
NARROW = TEXT.replace("128 + ", "8 + ").replace("0..128:", "0..8:").replace("C / 128", "C / 8").replace("0.08838834764", "0.35355339")
"""With heads of 8 columns. The lines at its end, for heads of 128, are left out."""


@pytest.mark.parametrize("device", [None, "emulator"])
@pytest.mark.parametrize("shape", [(1, 1, 8, 8), (2, 5, 16, 24)], ids=str)
def test_against_float64(device: str | None, shape: tuple[int, int, int, int]) -> None:
    program = zynml.compile(NARROW[: NARROW.index("def filled")], device=device)
    given = transformer.inputs(*shape)
    found = program.transformer_block(*given).astype(np.float64)
    want = transformer.expected(given, depth=8)
    assert np.linalg.norm(found - want) <= 0.01 * np.linalg.norm(want)


def test_its_kernels() -> None:
    """What is added to the products, and the GELU between them, are part of the products."""
    told = str(zynml.compile(TEXT).emit("fusion"))
    assert told.count("one kernel") == 3
