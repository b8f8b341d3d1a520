"""`quantdsl.functions`: from Python, on NumPy arrays."""

import math
from pathlib import Path

import numpy as np
import pytest

import quantdsl
from zynml import ZynMLError

PROGRAM = """
param by: f64 = 2.0
param flag: bool = false
fn scaled(x: tensor[N, f64]) -> tensor { compute(x, by) { for i in 0..N: out[i] = x[i] * by } }
fn told() -> (f64, bool) { (by, flag) }
"""


def test_arrays_and_parameters() -> None:
    program = quantdsl.functions(PROGRAM, by=3.0, flag=True)
    for x in (np.zeros(0), np.arange(33.0), np.arange(10.0)[::3], np.array([math.nan, math.inf])):
        np.testing.assert_array_equal(program.scaled(x), 3 * x)
    assert program.told() == (3.0, True)
    assert program.scaled(np.ones(1)).dtype == np.float64


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "p.qdsl"
    path.write_text(PROGRAM, encoding="utf-8")
    assert quantdsl.functions(path, threads=1).told() == quantdsl.functions(str(path)).told() == (2.0, False)


def test_what_is_wrong() -> None:
    for text, code in (("fn f( \n", "ZYN0102"), ("fn f(x: Side) { }\n", "ZYN0109"), ("fn f() -> f64 { y }\n", "ZYN0201")):
        with pytest.raises(ZynMLError) as caught:
            quantdsl.functions(text)
        assert code in caught.value.codes
    with pytest.raises(ZynMLError) as caught:
        quantdsl.functions("/nowhere/p.qdsl")
    assert len(caught.value.codes) == 1
    with pytest.raises(ValueError, match="threads"):
        quantdsl.functions(PROGRAM, threads=-1)
    with pytest.raises(ZynMLError):
        quantdsl.functions(PROGRAM, wrong=3)
