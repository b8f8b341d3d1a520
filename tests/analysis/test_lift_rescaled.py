"""Sums that are rescaled by hand beside a running maximum: the field is the textbook's second pass, and means what the loop does."""

import math
from typing import Any

import numpy as np
import pytest
from nests import nest

from compiler.analysis.lift import Refused, lift
from compiler.emulator.interpret import interpret
from compiler.hir.module import HirFunction
from compiler.hir.text import print_function

PARAMETERS = "N: index; M: index; X: mem<NxMxf32, readonly>; V: mem<MxKxf32, readonly>; K: index; out: mem<NxKxf32>"
SCORE = "%x = load %X[i, j] : f32"
MAXIMUM = "%g = max %m, %x"
SUMS = """%d1 = sub %m, %g  %keep = exp %d1  %d2 = sub %x, %g  %p = exp %d2
    %l1 = mul %l, %keep contract  %l2 = add %l1, %p contract"""


def row(score: str = SCORE, maximum: str = MAXIMUM, sums: str = SUMS, start: str = "-inf", high: str = "M") -> str:
    """Sums of weights, and of values with these weights, for each row and column."""
    return f"""for i in 0..N {{ for c in 0..K {{ %m0 = const {start} : f32  %z = const 0.0 : f32
        %m9, %l9, %a9 = for j in 0..{high} carry(%m = %m0, %l = %z, %a = %z) {{
            {score}  {maximum}  {sums}
            %v = load %V[j, c] : f32  %pv = mul %p, %v contract  %a1 = mul %keep, %a contract  %a2 = add %pv, %a1 contract
            yield %g, %l2, %a2 }}
        %r = div %a9, %l9  store %out[i, c], %r }} }}"""


def operations(field: HirFunction) -> list[str]:
    return [line.split(" = ")[-1].strip().split(" %")[0] for line in print_function(field).strip().split("\n")[1:-1]]


def means(text: str, parameters: str = PARAMETERS, n: int = 5, m: int = 7, k: int = 3, change: Any = None) -> HirFunction:
    """The field of a nest, found equal to it."""
    written = nest(text, parameters)
    field = lift(nest(text, parameters), zeroed=frozenset({"out"}))
    random = np.random.default_rng(m)
    x, v = (random.standard_normal(shape).astype(np.float32) for shape in ((n, m), (m, k)))
    if change is not None:
        change(x, v)
    results = []
    for function in (written, field):
        known = {"N": n, "M": m, "K": k, "X": x, "V": v, "out": np.zeros((n, k), np.float32)}
        interpret(function, [known[one.name] for one in function.parameters])
        results.append(known["out"])
    assert np.allclose(*results, rtol=1e-5, atol=1e-6, equal_nan=True)
    return field


SOFTMAX = ["load", "reduce max", "sub", "exp", "reduce add", "load", "contract", "div", "store"]


def test_a_running_maximum_is_the_textbooks_passes() -> None:
    assert sorted(operations(means(row()))) == sorted(SOFTMAX)


@pytest.mark.parametrize(
    ("maximum", "sums"),
    [
        ("%g = max %x, %m", SUMS.replace("mul %l, %keep", "mul %keep, %l").replace("add %l1, %p", "add %p, %l1")),
        (
            MAXIMUM,
            "%h = const 0.5 : f32  %d1 = sub %m, %g  %e1 = mul %d1, %h  %keep = exp2 %e1 : f32  %d2 = sub %x, %g  %e2 = mul %h, %d2"
            "  %p = exp2 %e2 : f32  %l2 = fma %l, %keep, %p : f32",
        ),
    ],
    ids=["turned", "powers of two, fused"],
)
def test_it_may_be_written_in_other_ways(maximum: str, sums: str) -> None:
    assert operations(means(row(maximum=maximum, sums=sums))).count("reduce max") == 1


@pytest.mark.parametrize("start", ["-1.0e30", "0.5"])
def test_a_maximum_may_start_anywhere(start: str) -> None:
    means(row(start=start))
    means(row(start=start), m=0)


def test_no_element_leaves_sums_as_they_were() -> None:
    means(row(), m=0)
    means(row(), m=1)


def test_loops_may_end_where_the_row_does() -> None:
    field = means(row(high="i+1"), n=7, m=7)
    assert "select" in operations(field)


def test_nan_and_infinities_of_scores_and_values() -> None:
    def wild(x: Any, v: Any) -> None:
        x[0, 3], x[1, 6], x[2, 4] = np.nan, np.inf, -np.inf
        v[2, 0], v[3, 1] = np.inf, np.nan

    means(row(), change=wild)
    chosen = "%gt = gt %x, %m : i1  %g = select %gt, %x, %m : f32"
    assert "isnan" not in operations(means(row(maximum=chosen), change=wild))


@pytest.mark.parametrize("start", ["-inf", "-5.0"])
def test_a_maximum_over_tiles_of_tiles(start: str) -> None:
    """A loop over tiles around one over their keys, each carrying all three."""
    inner = row(score="%x = load %X[i, 4*t+j] : f32", start=start, high="4").replace("%V[j, c]", "%V[4*t+j, c]")
    inner = inner.replace("%m9, %l9, %a9 = for j", "%m9, %l9, %a9 = for t in 0..M carry(%m8 = %m0, %l8 = %z, %a8 = %z) { %m7, %l7, %a7 = for j")
    inner = inner.replace("carry(%m = %m0, %l = %z, %a = %z)", "carry(%m = %m8, %l = %l8, %a = %a8)")
    inner = inner.replace("yield %g, %l2, %a2 }", "yield %g, %l2, %a2 } yield %m7, %l7, %a7 }")
    parameters = PARAMETERS.replace("X: mem<NxM", "X: mem<NxL").replace("V: mem<MxK", "V: mem<LxK").replace("M: index", "M: index; L: index")
    field = lift(nest(inner, parameters))
    assert operations(field).count("reduce max") == 1 and "scan" not in " ".join(operations(field))
    random = np.random.default_rng(1)
    x, v, found = random.standard_normal((3, 8)), random.standard_normal((8, 2)), np.zeros((3, 2), np.float32)
    known = {"N": 3, "M": 2, "L": 8, "K": 2, "X": x.astype(np.float32), "V": v.astype(np.float32), "out": found}
    interpret(field, [known[one.name] for one in field.parameters])
    weights = np.exp(x - x.max(1, keepdims=True))
    assert np.allclose(found, weights @ v / weights.sum(1, keepdims=True), rtol=1e-5)


MEMORY = """for i in 0..N { %m0 = const -inf : f32  %z = const 0.0 : f32  for b in 0..K { store %out[i, b], %z }
    %m9, %l9 = for j in 0..M carry(%m = %m0, %l = %z) { %x = load %X[i, j] : f32  %g = max %m, %x
        SUMS
        for c in 0..K { %o = load %out[i, c] : f32  %o1 = mul %o, %keep contract
            %v = load %V[j, c] : f32  %pv = mul %p, %v contract  %o2 = add %o1, %pv contract  store %out[i, c], %o2 }
        yield %g, %l2 }
    for d in 0..K { %s = load %out[i, d] : f32  %r = div %s, %l9  store %out[i, d], %r } }""".replace("SUMS", SUMS)


def test_sums_in_memory_follow_it_too() -> None:
    assert sorted(operations(means(MEMORY))) == sorted(SOFTMAX)
    means(MEMORY, m=1)


@pytest.mark.parametrize(
    "changed",
    [
        ("%d1 = sub %m, %g", "%d1 = sub %g, %m"),
        ("%l2 = add %l1, %p", "%l2 = add %l1, %x"),
        ("%d2 = sub %x, %g", "%d2 = sub %x, %m"),
        ("%keep = exp %d1", "%keep = exp2 %d1 : f32"),
        ("%l1 = mul %l, %keep", "%l0 = mul %l, %keep  %l1 = mul %l0, %keep"),
    ],
    ids=["shrinks the wrong way", "adds something else", "the maximum before", "another base", "twice"],
)
def test_other_recurrences_keep_their_loops(changed: tuple[str, str]) -> None:
    with pytest.raises(Refused):
        lift(nest(row(sums=SUMS.replace(*changed)), PARAMETERS))


def test_a_first_score_that_is_hidden_makes_nan_as_it_is_written() -> None:
    hidden = "%w = load %X[i, j] : f32  %n = const -inf : f32  %key = index of=j : index  %row = index of=i : index  %s = le %row, %key : i1"
    score = hidden + "  %x = select %s, %w, %n : f32"
    with pytest.raises(Refused):
        lift(nest(row(score=score), PARAMETERS))
    causal = hidden.replace("le %row, %key", "le %key, %row") + "  %x = select %s, %w, %n : f32"
    means(row(score=causal), n=7, m=7)
    written, found = nest(row(score=score), PARAMETERS), np.zeros((2, 1), np.float32)
    known = {"N": 2, "M": 2, "K": 1, "X": np.zeros((2, 2), np.float32), "V": np.ones((2, 1), np.float32), "out": found}
    interpret(written, [known[one.name] for one in written.parameters])
    assert found[0, 0] == 1 and math.isnan(found[1, 0])


GROWN = """for i in 0..N { for c in 0..K { %m0 = const -inf : f32  %z = const 0.0 : f32
    %m9, %l9 = for j in 0..M carry(%m = %m0, %l = %z) {
        %x = load %X[i, j] : f32  %grows = gt %x, %m : i1
        %l1, %g = if %grows : f32, f32 {
            %d1 = sub %m, %x  %keep = exp %d1  %l0 = mul %l, %keep contract  yield %l0, %x
        } else { yield %l, %m }
        %d2 = sub %x, %g  %p = exp %d2  %l2 = add %l1, %p contract  yield %g, %l2 }
    %r = div %m9, %l9  store %out[i, c], %r } }"""


@pytest.mark.parametrize("number", [None, np.nan, -np.inf, np.inf])
@pytest.mark.parametrize("place", [0, 3])
def test_what_is_rescaled_only_where_the_maximum_grows(number: float | None, place: int) -> None:
    """Twice an infinity is NaN in both; -inf in front is NaN as it is written, and weighs nothing in the field."""

    def change(x: Any, v: Any) -> None:
        if number is not None:
            x[1, place] = number
            x[2, [place, 6]] = number if number != -np.inf else 1.0

    if number == -np.inf and place == 0:
        lift(nest(GROWN, PARAMETERS))
        return
    field = means(GROWN, change=change)
    assert "reduce max" in operations(field)


@pytest.mark.parametrize("changed", [("gt %x, %m", "lt %x, %m"), ("sub %m, %x", "sub %x, %m"), ("yield %l, %m", "yield %p0, %m")])
def test_other_branches_keep_their_loops(changed: tuple[str, str]) -> None:
    with pytest.raises(Refused):
        lift(nest(GROWN.replace("%grows =", "%p0 = exp %x  %grows =").replace(*changed), PARAMETERS))
