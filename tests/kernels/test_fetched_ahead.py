"""Rows whose bounds data hold and that lie one behind the other: what they hold is fetched ahead, and their sums are exact."""

from itertools import pairwise

import numpy as np
import pytest

import zynml


@pytest.mark.parametrize("term", ("v[k]", "v[k] * v[w[k]]"))
def test_only_rows_one_behind_the_other_are_fetched_ahead(term: str) -> None:
    text = f"""def f(a: tensor[R, i32], b: tensor[R, i32], v: tensor[K], w: tensor[K, i32]) {{
        compute(a, b, v, w) -> tensor[R - 1] {{ for r in 0..R - 1 {{ var s = 0.0
            for k in START..END {{ s += {term} }}
            out[r] = s }} }}
    }}"""
    rng = np.random.default_rng(5)
    start = np.concatenate([[0], np.cumsum(rng.integers(0, 70, 40))]).astype(np.int32)
    v, w = rng.integers(-9, 10, start[-1]).astype(np.float32), rng.integers(0, start[-1], start[-1]).astype(np.int32)
    terms = v * v[w] if "w" in term else v
    for last, is_fetched in (("a[r + 1]", True), ("b[r]", False)):
        program = zynml.compile(text.replace("START", "a[r]").replace("END", last))
        assert ("ahead=" in str(program.emit("hir-after=place"))) is is_fetched
        got = program.f(start, np.roll(start, -1), v, w)
        assert list(got) == [terms[begin:end].sum() for begin, end in pairwise(start)]
