"""The sources of `bench.gpu`, at sizes that reach tiles, ragged ends and several blocks, on the machine with most ways to compute them: what the
GPU would run gives the CPU's values, and the sanitizer finds nothing."""

import re

import numpy as np
import pytest

import zynml
from runtime.tensor import numpy_dtype
from tests.frozen.programs import SizedProgram, sized_programs

REDUCED = {
    "attention": {4: 1, 16: 1, 32: 4, 8: 1, 2048: 96, 4096: 96},
    "attention-one-query": {16: 1, 4096: 96},
    "computed": {4096: 64},
    "convolution": {32: 1, 56: 6, 256: 32},
    "depthwise": {32: 1, 56: 6, 256: 32},
    "group-norm": {32: 2, 16: 4, 56: 6},
    "variances": {32: 2, 256: 8, 56: 6},
    "batched": {512: 2, 64: 2},
    "permute": {8: 2, 4096: 40, 16: 4, 128: 20, 256: 40},
}
"""Extents of programs whose names begin so; of several the longest."""

PROGRAMS = {program.name: program for program in sized_programs()}


def reduced(program: SizedProgram) -> dict[str, tuple[int, ...]]:
    kind = max((name for name in REDUCED if program.name.startswith(name)), key=len, default="")
    known = REDUCED.get(kind, {})
    return {name: tuple(known.get(extent, extent if kind else smaller(extent)) for extent in extents) for name, extents in program.extents.items()}


def scalars(text: str) -> list[float]:
    """Of attention: what its scores are multiplied by."""
    return [0.125] if "scale: f32" in text else []


def smaller(extent: int) -> int:
    """Of the same kind: a multiple of 64, or not; long lines stay longer than a tile."""
    if extent > 1 << 19:
        return 5000 + extent % 2
    return extent if extent <= 64 else 128 if extent % 64 == 0 else 67 + extent % 7


def drawn(text: str, name: str, extents: tuple[int, ...]) -> np.ndarray:
    """Small whole numbers, of the dtype that the parameter has; indices lie inside of everything."""
    declared = re.search(rf"\b{name}: tensor(?:\[([^\]]*)\])?", text)
    words = declared.group(1) if declared and declared.group(1) else ""
    dtype = next((word for word in re.findall(r"\w+", words)[::-1] if re.fullmatch(r"(bf|f|i|u)\d+(e\dm\d)?", word)), "f32")
    generator = np.random.default_rng(len(text))
    low, high = (0, 64) if dtype[0] in "iu" else (-2, 3)
    return generator.integers(low, high, extents).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_gpu_would_run_is_right_and_clean(name: str) -> None:
    program = PROGRAMS[name]
    values = [drawn(program.text, one, extents) for one, extents in reduced(program).items()]
    numbers = scalars(program.text)
    wanted = zynml.compile(program.text, device="cpu").f(*(value.copy() for value in values), *numbers)
    got = zynml.compile(program.text, device="emulator:sm_90a", sanitize=True).f(*values, *numbers)
    for one, other in zip(flat(got), flat(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-2, atol=2e-2 * max(1.0, float(np.max(np.abs(other), initial=0.0))))


def flat(value: object) -> list[np.ndarray]:
    return [np.asarray(one).astype(np.float64) for one in (value if isinstance(value, tuple) else (value,))]
