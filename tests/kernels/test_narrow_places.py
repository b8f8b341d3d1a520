"""The place of an extreme, kept in a type narrower than an index: the extreme is found as any other, in any order, and the place of the first
one is converted. Expected values from NumPy."""

import numpy as np
import pytest

import zynml

TEXT = """def f(x: tensor[R, N]) {{
    compute(x) -> (at: tensor[R, {type}], best: tensor[R]) {{
        for i in 0..R {{
            var high = -inf
            var where_: {type} = {start}
            for j in 0..N {{ if x[i, j] > high {{
                high = x[i, j]
                where_ = (2 * j + 1) as {type}
            }} }}
            at[i] = where_
            best[i] = high
        }}
    }}
}}"""
TYPES = {"i32": np.int32, "i16": np.int16, "u8": np.uint8}


@pytest.mark.parametrize("device", ["cpu", "emulator:sm_90a"])
@pytest.mark.parametrize("type", TYPES)
def test_the_first_of_the_greatest(device: str, type: str) -> None:
    program = zynml.compile(TEXT.format(type=type, start=1), device=device)
    assert "a value from one iteration" not in str(program.schedule)
    for shape in [(3, 1), (5, 300), (40, 33), (2, 0)]:
        x = np.random.default_rng(shape[1]).integers(0, 50, shape).astype(np.float32)
        if shape[1] > 20:
            x[0, :20] = np.nan
            x[1] = -np.inf
        at, best = program.f(x)
        known = np.where(np.isnan(x), -np.inf, x)
        high = known.max(axis=1, initial=-np.inf)
        place = known.argmax(axis=1) if shape[1] else np.zeros(shape[0], np.int64)
        assert np.array_equal(best, high)
        assert np.array_equal(at, np.where(high > -np.inf, (2 * place + 1).astype(TYPES[type]), 1))
