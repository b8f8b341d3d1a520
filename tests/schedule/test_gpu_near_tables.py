"""Every block table that may be chosen instead of a rule's gives the rule's results: on the emulator, of exact reductions over one axis and
several, with results along others or none. Expected values from NumPy."""

from collections.abc import Callable

import numpy as np
import pytest

import zynml
from compiler.launch import thread_kernels
from compiler.schedule.gpu import choose
from compiler.schedule.gpu.price import near_tables

PAIRS = """def f(x: tensor[N, i32], y: tensor[M, i32]) {
    compute(x, y) -> tensor[1, i64] {
        for o in 0..1 {
            var count: i64 = 0
            for i in 0..N, j in 0..M { if x[i] > y[j]: count += 1 }
            out[o] = count
        }
    }
}"""
ALL = """def f(x: tensor[N, M, i32]) {
    compute(x) -> tensor[1, i32] {
        for o in 0..1 {
            var least = 2147483647i32
            for i in 0..N, j in 0..M { least = min(least, x[i, j]) }
            out[o] = least
        }
    }
}"""
ROWS = """def f(x: tensor[N, M, i32]) {
    compute(x) -> tensor[N, i32] { for i in 0..N, j in 0..M: out[i] += x[i, j] }
}"""
COLUMNS = """def f(x: tensor[N, M, u8]) {
    compute(x) -> tensor[M, u32] { for i in 0..N, j in 0..M: out[j] = max(out[j], x[i, j] as u32) }
}"""
PLANES = """def f(x: tensor[N, M, 5, i32]) {
    compute(x) -> tensor[M, i64] { for n in 0..N, m in 0..M, c in 0..5: out[m] += x[n, m, c] as i64 }
}"""

NESTS: dict[str, tuple[str, tuple[tuple[int, ...], ...], Callable[..., object]]] = {
    "pairs": (PAIRS, ((300,), (1100,)), lambda x, y: [(x[:, None] > y).sum()]),
    "all": (ALL, ((70, 1030),), lambda x: [x.min()]),
    "rows": (ROWS, ((37, 1200),), lambda x: x.sum(1)),
    "columns": (COLUMNS, ((40, 300),), lambda x: x.max(0)),
    "planes": (PLANES, ((9, 140, 5),), lambda x: x.astype(np.int64).sum((0, 2))),
}


@pytest.mark.parametrize("name", NESTS)
def test_every_table_gives_the_same_results(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, shapes, wanted = NESTS[name]
    for constant, value in {"SMALL": 0, "NEAR_ENOUGH": 0.0, "WORTH_TRYING": float("inf"), "MOST_CANDIDATES": 99}.items():
        monkeypatch.setattr(near_tables, constant, value)
    random = np.random.default_rng(len(name))
    arrays = [random.integers(0, 200, shape).astype(np.uint8 if "u8" in text else np.int32) for shape in shapes]
    count, number = 1, 0
    while number < count:

        def chosen(field, facts, sizes, number=number):  # type: ignore[no-untyped-def]
            nonlocal count
            every = choose.choices(field, facts, sizes)
            count = len(every)
            return (every[number],)

        with monkeypatch.context() as patched:
            patched.setattr(thread_kernels, "choices", chosen)
            given = zynml.compile(text, device="emulator:sm_90a").f(*arrays)
        assert np.array_equal(given, wanted(*arrays)), number
        number += 1
    assert count > 1
