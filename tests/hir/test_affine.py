"""Affine forms: arithmetic keeps the value, equal forms are equal objects, text reads back."""

from hypothesis import given
from hypothesis import strategies as st

from compiler.hir.affine import Affine
from compiler.hir.parse import ModuleReader

NAMES = ("N", "i", "i0", "k")
values = st.fixed_dictionaries({name: st.integers(-50, 50) for name in NAMES})
leaves = st.one_of(st.sampled_from(NAMES).map(Affine.of), st.integers(-20, 20).map(Affine.of))
forms = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
        st.tuples(inner, st.integers(-5, 5)).map(lambda p: p[0] * p[1]),
        st.tuples(inner, st.integers(1, 7)).map(lambda p: p[0].floordiv(p[1])),
        st.tuples(inner, st.integers(1, 7)).map(lambda p: p[0].ceildiv(p[1])),
    ),
    max_leaves=8,
)


@given(forms, forms, st.integers(-9, 9), st.integers(1, 9), values)
def test_arithmetic_is_arithmetic(a: Affine, b: Affine, factor: int, divisor: int, at: dict[str, int]) -> None:
    x, y = a.evaluate(at.__getitem__), b.evaluate(at.__getitem__)
    assert (a + b).evaluate(at.__getitem__) == x + y
    assert (a - b).evaluate(at.__getitem__) == x - y
    assert (a * factor).evaluate(at.__getitem__) == x * factor
    assert a.floordiv(divisor).evaluate(at.__getitem__) == x // divisor
    assert a.ceildiv(divisor).evaluate(at.__getitem__) == -(-x // divisor)


@given(forms, forms)
def test_sums_do_not_know_their_order(a: Affine, b: Affine) -> None:
    assert a + b == b + a
    assert a - a == Affine.of(0)
    assert hash(a + b) == hash(b + a)


@given(forms, forms, values)
def test_substitution_is_evaluation_of_the_part(a: Affine, b: Affine, at: dict[str, int]) -> None:
    inner = b.evaluate(at.__getitem__)
    assert a.substitute({"i": b}).evaluate(at.__getitem__) == a.evaluate({**at, "i": inner}.__getitem__)


@given(forms)
def test_text_reads_back(form: Affine) -> None:
    reader = ModuleReader(str(form))
    assert reader.affine() == form
    reader.finish()


def test_an_exact_division_leaves_no_floor() -> None:
    assert (Affine.of("i") * 8 + 16).floordiv(8) == Affine.of("i") + 2
    assert str((Affine.of("M") + 127).floordiv(128)) == "floor((M+127)/128)"
    assert str(Affine.of("i") * -2 + "k" - 3) == "-2*i+k-3"
    assert (Affine.of("N") - 1).ceildiv(2).names == ("N",)
