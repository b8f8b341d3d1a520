"""Ranges hold every number that there can be, by trying all of them."""

import itertools
from collections.abc import Callable

import pytest
from nests import nest

from compiler.analysis.ranges import Range, Ranges, combined
from compiler.hir.affine import Affine
from compiler.hir.core import Index


def quotient(a: int, b: int) -> int:
    """Toward zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "div": quotient,
    "rem": lambda a, b: a - b * quotient(a, b),
    "shr": lambda a, b: a >> b,
}
RANGES: list[Range] = [(low, high) for low in range(-5, 6) for high in range(low, 6)]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_range_of_an_operation_holds_all_its_results(operation: str) -> None:
    known = 0
    for a, b in itertools.product(RANGES, RANGES):
        found = combined(operation, a, b)
        if found is None:
            continue
        known += 1
        results = [
            OPERATIONS[operation](x, y) for x in range(a[0], a[1] + 1) for y in range(b[0], b[1] + 1) if operation not in ("div", "rem") or y
        ]
        assert found[0] <= min(results) and max(results) <= found[1], (a, b)
        if operation in ("add", "sub", "mul", "min", "max", "shr"):
            assert found == (min(results), max(results)), (a, b)
    assert known > 50
    assert known == len(RANGES) ** 2 or operation in ("and", "div", "rem", "shr")


LOOPS: list[tuple[str, str, range, Callable[[int], range]]] = [
    ("0..8", "0..i", range(8), range),
    ("0..8", "i..8", range(8), lambda i: range(i, 8)),
    ("2..9 step 3", "0..3*i", range(2, 9, 3), lambda i: range(3 * i)),
    ("6..-1 step -2", "i..-1 step -1", range(6, -1, -2), lambda i: range(i, -1, -1)),
    ("0..4", "5..5", range(4), lambda i: range(5, 5)),
]


@pytest.mark.parametrize(("around", "inside", "outer", "inner"), LOOPS)
def test_the_range_of_a_form_holds_all_its_values(around: str, inside: str, outer: range, inner: Callable[[int], range]) -> None:
    function = nest(f"for i in {around} {{ for j in {inside} {{ %k = index of=2*j-i+1 : index }} }}", "N: index")
    (value,) = [op.results[0] for top in function.body.body for op in top.walk() if isinstance(op, Index)]
    low, high = Ranges(function).of(value)
    assert all(low <= 2 * j - i + 1 <= high for i in outer for j in inner(i))
    assert Ranges(function).affine(Affine.of("i"))[0] == min(outer)
