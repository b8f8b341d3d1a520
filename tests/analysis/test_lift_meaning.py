"""A field means what its nest means, or there is none: branches with updates on either side, ties, NaN, elements that are read and set
in between. What comes out is compared with NumPy, for the nest as written and for its field."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from nests import nest

from compiler.analysis.lift import Refused, lift
from compiler.emulator.interpret import interpret

Array = npt.NDArray[Any]

N, M = 5, 7
ROWS = "N: index; M: index; X: mem<NxMxf32, readonly>; out: mem<Nxf32>"
PLACES = f"{ROWS}; at: mem<Nxi64>"
FLAT = "N: index; X: mem<Nxf32, readonly>; Y: mem<Nxf32, readonly>; out: mem<Nxf32>"


def numbers(*shape: int, seed: int = 0) -> Array:
    """Small integers, some of them equal."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def means(text: str, parameters: str, expected: dict[str, Array], lifts: bool = True, **memories: Array) -> None:
    """The nest leaves what is expected, and so does its field; without `lifts` there may be none."""
    functions = [nest(text, parameters)]
    try:
        functions.append(lift(nest(text, parameters), zeroed=frozenset(expected)))
    except Refused:
        assert not lifts
    for function in functions:
        known: dict[str, Any] = {"N": N, "M": M, **memories, **{name: np.zeros_like(value) for name, value in expected.items()}}
        interpret(function, [known[parameter.name] for parameter in function.parameters])
        for name, value in expected.items():
            np.testing.assert_array_equal(known[name], value)


BEST = """for i in 0..N {{ %low = const {start} : f32  %none = const 0 : i64
    %b9, %a9 = for j in 0..M carry(%best = %low, %place = %none) {{ %x = load %X[i, j] : f32  %c = {sign} %x, %best : i1
        %g = select %c, %x, %best : f32  %k = index of=j : index  %n = cast %k to=i64 : i64  %p = select %c, %n, %place : i64
        yield %g, %p }}
    store %out[i], %b9  store %at[i], %a9 }}"""


@pytest.mark.parametrize("sign", ["gt", "ge"])
def test_the_place_of_an_extreme_is_that_of_the_first_of_equals_or_of_the_last(sign: str) -> None:
    x = numbers(N, M)
    at = x.argmax(axis=1) if sign == "gt" else M - 1 - x[:, ::-1].argmax(axis=1)
    assert (at != x.argmax(axis=1)).any() == (sign == "ge")
    means(BEST.format(start="-inf", sign=sign), PLACES, {"out": x.max(axis=1), "at": at}, lifts=sign == "gt", X=x)


@pytest.mark.parametrize("start", ["-inf", "nan"])
def test_nothing_beats_nan_and_nan_beats_nothing(start: str) -> None:
    best = f"""for i in 0..N {{ %low = const {start} : f32  %b9 = for j in 0..M carry(%best = %low) {{ %x = load %X[i, j] : f32
        %c = gt %x, %best : i1  %g = select %c, %x, %best : f32  yield %g }}  store %out[i], %b9 }}"""
    x = numbers(N, M)
    x[1, 2] = x[3, 0] = x[3, M - 1] = np.nan
    expected = np.nanmax(x, axis=1) if start == "-inf" else np.full(N, np.nan, np.float32)
    means(best, ROWS, {"out": expected}, lifts=start == "-inf", X=x)


def test_a_store_in_either_side_of_a_branch() -> None:
    text = """for i in 0..N { %x = load %X[i] : f32  %y = load %Y[i] : f32  %z = const 0.0 : f32  %c = gt %x, %z : i1
        if %c { store %out[i], %x } else { store %out[i], %y } }"""
    x, y = numbers(N), numbers(N, seed=1)
    means(text, FLAT, {"out": np.where(x > 0, x, y)}, X=x, Y=y)


def test_a_sum_that_only_the_other_side_adds_to() -> None:
    text = """for i in 0..N { %z = const 0.0 : f32  %s9 = for j in 0..M carry(%s = %z) { %x = load %X[i, j] : f32  %c = gt %x, %z : i1
        %n = if %c : f32 { yield %s } else { %a = add %s, %x reassoc  yield %a }  yield %n }  store %out[i], %s9 }"""
    x = numbers(N, M)
    means(text, ROWS, {"out": np.where(x > 0, 0, x).sum(axis=1)}, X=x)


def test_an_element_that_only_the_other_side_adds_to() -> None:
    text = """for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32  %z = const 0.0 : f32  %c = gt %x, %z : i1
        %o = load %out[i] : f32  %a = add %o, %x reassoc  %v = select %c, %o, %a : f32  store %out[i], %v } }"""
    x = numbers(N, M)
    means(text, ROWS, {"out": np.where(x > 0, 0, x).sum(axis=1)}, X=x)


def test_what_is_taken_from_an_element_is_not_added() -> None:
    text = """for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32  %o = load %out[i] : f32  %a = sub %o, %x reassoc
        store %out[i], %a } }"""
    x = numbers(N, M)
    means(text, ROWS, {"out": -x.sum(axis=1)}, X=x)


def test_a_sum_that_goes_on_from_another_element_isnt_one_of_its_own() -> None:
    text = """for j in 0..M { for i in 0..N { %x = load %X[i, j] : f32  %o = load %out[N-1-i] : f32  %a = add %o, %x reassoc
        store %out[i], %a } }"""
    x, expected = numbers(N, M), np.zeros(N, np.float32)
    for j in range(M):
        for i in range(N):
            expected[i] = expected[N - 1 - i] + x[i, j]
    means(text, ROWS, {"out": expected}, lifts=False, X=x)


def test_an_element_that_is_set_between_its_read_and_its_sum_goes_on_from_what_was_read() -> None:
    text = """for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32  %o = load %out[i] : f32  %t = add %x, %x  store %out[i], %t
        %a = add %o, %x reassoc  store %out[i], %a } }"""
    x = numbers(N, M)
    means(text, ROWS, {"out": x.sum(axis=1)}, lifts=False, X=x)


def test_what_a_tile_counts_behind_the_edge_is_counted() -> None:
    text = """for i in 0..N { %z = const 0.0 : f32  %one = const 1.0 : f32  %m = index of=M : index
        %s = for t in 0..floor((M+3)/4) carry(%a = %z) { %u = for r in 0..4 carry(%b = %a) { %k = index of=4*t+r : index
            %c = lt %k, %m : i1  %v = if %c : f32 { %x = load %X[i, 4*t+r] : f32  %y = add %x, %x  yield %y } else { yield %one }
            %w = add %b, %v reassoc  yield %w } yield %u } store %out[i], %s }"""
    x = numbers(N, M)
    means(text, ROWS, {"out": 2 * x.sum(axis=1) + -M % 4}, X=x)


def test_scores_that_a_sum_with_minus_infinity_hides_make_nan_as_written() -> None:
    """The first score is -inf by arithmetic: -inf - -inf is NaN, which a second pass over the row wouldn't have."""
    text = """for i in 0..N { %m0 = const -inf : f32  %z = const 0.0 : f32  %m9, %l9 = for j in 0..M carry(%m = %m0, %l = %z) {
        %x = load %X[i, j] : f32  %k = index of=j : index  %one = index of=1 : index  %c = ge %k, %one : i1
        %h = select %c, %z, %m0 : f32  %s = add %x, %h  %g = max %m, %s  %d1 = sub %m, %g  %keep = exp %d1  %d2 = sub %s, %g
        %p = exp %d2  %l1 = mul %l, %keep contract  %l2 = add %l1, %p contract  yield %g, %l2 }  store %out[i], %l9 }"""
    means(text, ROWS, {"out": np.full(N, np.nan, np.float32)}, lifts=False, X=numbers(N, M))


@pytest.mark.parametrize("lows", [("0", "i-2"), ("i-9", "0"), ("2*i-3", "i-1"), ("0",), ("i",)])
@pytest.mark.parametrize("highs", [("M", "i+3"), ("i+1", "M"), ("M-i", "2*i+1"), ("M",), ("M", "i-2")])
def test_bounds_that_are_the_largest_or_the_least_of_several(lows: tuple[str, ...], highs: tuple[str, ...]) -> None:
    """Long turns between such bounds have an axis as long as what bounds them all: here each is a sum down a column."""

    def bound(name: str, forms: tuple[str, ...], operator: str) -> str:
        lines = [f"%{name}{number} = index of={form} : index" for number, form in enumerate(forms)]
        return "  ".join([*lines, f"%{name} = {operator} {', '.join(f'%{name}{number}' for number in (0, len(forms) - 1))}"])

    text = f"""for i in 0..N {{ %s0 = const 0.0 : f32  %s = slot %s0 : slot<f32>
        {bound("low", lows, "max")}  {bound("high", highs, "min")}
        for j in low..high {{ for k in 0..N {{ WHERE %x = load %Y[k, j] where=%w pad=0.0 : f32  %g = get %s : f32  %t = add %g, %x reassoc
        set %s, %t }} }}
        %r = get %s : f32  store %out[i], %r }}""".replace("WHERE", "%w = inbounds of=j below=M : i1")
    y, sums = numbers(N, M), np.zeros(N, np.float32)
    for i in range(N):
        places = [[eval(form, {"i": i, "M": M}) for form in forms] for forms in (lows, highs)]
        sums[i] = y[:, [j for j in range(max(places[0]), min(places[1])) if 0 <= j < M]].sum()
    means(text, "N: index; M: index; Y: mem<NxMxf32, readonly>; out: mem<Nxf32>", {"out": sums}, Y=y)
