"""Which floats are known to be positive numbers of full precision."""

import pytest

from compiler.analysis.float_bounds import is_nonnegative, is_normal
from compiler.hir.instruction import Value
from compiler.hir.parse import parse_function

HEAD = "func @f(%X: mem<Nxf32, readonly>, %out: mem<Nxf32>, %N: index) form=A {\n for k in 0..N { %x = load %X[k] : f32 "
ONE = "%one = const 1.0 : f32 %e = exp %x : f32 "


def value(text: str) -> Value:
    (loop,) = parse_function(f"{HEAD}{ONE}{text} store %out[k], %r }} }}").body.body
    *_, op, _ = loop.regions[0].body
    return op.result


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("%r = add %e, %one : f32", True),
        ("%r = add %one, %e contract : f32", True),
        ("%s = mul %x, %x : f32 %r = add %s, %one : f32", True),
        ("%a = abs %x : f32 %q = sqrt %a : f32 %s = mul %a, %q : f32 %r = add %s, %one : f32", True),
        ("%r = max %x, %one : f32", True),
        ("%r = fma %x, %x, %one : f32", True),
        ("%r = fma %x, %e, %one : f32", False),
        ("%r = add %x, %one : f32", False),
        ("%r = sub %one, %e : f32", False),
        ("%r = add %e, %e : f32", False),
        ("%tiny = const 1e-40 : f32 %r = add %e, %tiny : f32", False),
        ("%n = neg %e : f32 %r = add %n, %one : f32", False),
    ],
)
def test_sums_of_a_number_and_what_is_never_negative(text: str, normal: bool) -> None:
    assert is_normal(value(text)) == normal


@pytest.mark.parametrize(
    ("text", "holds"),
    [("%r = min %e, %one : f32", True), ("%r = min %e, %x : f32", False), ("%r = max %x, %e : f32", True), ("%r = mul %x, %e : f32", False)],
)
def test_what_is_never_negative(text: str, holds: bool) -> None:
    assert is_nonnegative(value(text)) == holds
