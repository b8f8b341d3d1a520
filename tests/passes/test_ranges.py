"""Ranges that types give, and the checks that go for them."""

from typing import Any

import numpy as np
import pytest

import zynml


def hir(index: str, dtype: str, count: int) -> str:
    text = f"""
    def f(table: tensor[{count}], x: tensor[N, {dtype}]): tensor {{
        compute(table, x) {{ for i in 0..N: out[i] = table[{index}] }}
    }}
    """
    return str(zynml.compile(text).emit("hir-after=dce"))


@pytest.mark.parametrize(
    ("index", "dtype", "count", "checked"),
    [
        ("x[i]", "u8", 256, False),
        ("x[i]", "u8", 255, True),
        ("x[i] as i32", "u8", 256, False),
        ("x[i]", "i8", 256, True),
        ("(x[i] as i32) + 128", "i8", 256, True),
        ("x[i]", "u16", 65536, False),
        ("x[i]", "i32", 65536, True),
    ],
)
def test_an_index_whose_type_keeps_it_inside_is_not_checked(index: str, dtype: str, count: int, checked: bool) -> None:
    assert ("  check " in hir(index, dtype, count)) == checked


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_tables_of_every_number_of_a_type(dtype: Any) -> None:
    name, count = np.dtype(dtype).name.replace("uint", "u"), np.iinfo(dtype).max + 1
    text = f"""
    def f(table: tensor[{count}], x: tensor[N, {name}]): tensor {{
        compute(table, x) {{ for i in 0..N: out[i] = table[x[i]] }}
    }}
    """
    table = np.random.default_rng(1).standard_normal(count).astype(np.float32)
    x = np.random.default_rng(2).integers(0, count, 10_001).astype(dtype)
    np.testing.assert_array_equal(zynml.compile(text).f(table, x), table[x])
