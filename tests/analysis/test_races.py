"""Races are errors with two concrete iterations; what has a sequential meaning that can be kept is none."""

import pytest
from nests import kernel, words

from compiler.analysis.races import check_races
from compiler.typed_ast.kernel import KernelType

XY = "N: index; M: index; X: mem<NxMxf32, readonly>; out: mem<NxMxf32>"
ROW = "N: index; M: index; X: mem<NxMxf32, readonly>; out: mem<Nxf32>"
FLAT = "N: index; X: mem<Nxf32, readonly>; out: mem<Nxf32>"


def test_a_loop_variable_missing_from_the_write_is_shown_with_two_iterations() -> None:
    (found,) = check_races(kernel("for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32  store %out[i], %x } }", ROW))
    assert words(found) == [
        "ZYN0404: two iterations write one element of `out`",
        "i = 0, j = 0 and i = 0, j = 1 both write out[0]",
        "`j` is in no index of the write",
        "hint: add them up with `out[...] += ...` or a `reduce`; in a `custom` kernel `atomic_add` does it",
    ]


def test_a_diagonal_index_collides() -> None:
    text = "for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32  store %out[i+j], %x } }"
    (found,) = check_races(kernel(text, ROW))
    assert words(found) == [
        "ZYN0404: two iterations write one element of `out`",
        "i = 0, j = 1 and i = 1, j = 0 both write out[1]",
        "hint: let each iteration write an element of its own; sums go through `out[...] += ...` or a `reduce`",
    ]


def test_coefficients_far_apart_still_collide_when_the_inner_loop_may_be_long() -> None:
    text = "for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32  store %out[1000*i+j], %x } }"
    (found,) = check_races(kernel(text, ROW))
    assert found.label == "i = 0, j = 1000 and i = 1, j = 0 both write out[1000]"


def test_digits_of_a_mixed_radix_do_not_collide() -> None:
    text = "for i in 0..N { for j in 0..64 { %x = load %X[i, j] : f32  store %out[64*i+j], %x } }"
    assert check_races(kernel(text, ROW)) == ()


def test_steps_and_offsets_are_shown_as_the_variables_of_the_program() -> None:
    text = "for i in 4..N step 3 { for j in 0..M { %x = load %X[i, j] : f32  store %out[2*i], %x } }"
    (found,) = check_races(kernel(text, ROW))
    assert found.label == "i = 4, j = 0 and i = 4, j = 1 both write out[8]"


def test_an_accumulation_in_any_order_is_no_race() -> None:
    text = "for j in 0..M { for i in 0..N { %x = load %X[i, j] : f32 %o = load %out[i] : f32 %s = add %o, %x reassoc store %out[i], %s } }"
    assert check_races(kernel(text, ROW)) == ()


def test_writing_one_constant_twice_is_no_race() -> None:
    text = """for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32  %z = const 0.0 : f32  %p = gt %x, %z : i1
        if %p { %one = const 1.0 : f32  store %out[i], %one } } }"""
    assert check_races(kernel(text, ROW)) == ()


def test_a_guard_that_leaves_one_writer_is_no_race() -> None:
    text = """for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32  %a = index of=i : index
        %b = index of=j : index  %p = eq %a, %b : i1
        if %p { store %out[i], %x } } }"""
    assert check_races(kernel(text, ROW)) == ()


def test_an_inner_loop_of_a_body_with_more_in_it_stays_in_order() -> None:
    text = "for i in 0..N { %z = const 0.0 : f32 store %out[i], %z for j in 0..M { %x = load %X[i, j] : f32  store %out[i], %x } }"
    assert check_races(kernel(text, ROW)) == ()


def test_a_recurrence_through_out_shows_distance_and_scan() -> None:
    text = "for i in 1..N { %x = load %X[i] : f32  %o = load %out[i-1] : f32  %s = add %o, %x  store %out[i], %s }"
    (found,) = check_races(kernel(text, FLAT))
    assert words(found) == [
        "ZYN0405: an iteration depends on another one through `out`",
        "i = 2 reads out[1], which i = 1 wrote, 1 iteration of `i` apart",
        "hint: a value handed from one iteration to the next is a `scan`; in a `fused` kernel the loops run in order",
    ]


def test_reading_what_a_later_iteration_overwrites_is_shown() -> None:
    text = "for i in 0..N { %o = load %out[i+2] : f32  store %out[i], %o }"
    (found,) = check_races(kernel(text, FLAT))
    assert words(found) == [
        "ZYN0405: an iteration depends on another one through `out`",
        "i = 0 reads out[2], which i = 2 writes later, 2 iterations of `i` apart",
        "hint: write the new values to another result; in a `fused` kernel the loops run in order",
    ]


def test_a_sum_that_is_no_monoid_is_carried_through_out() -> None:
    text = """for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32  %o = load %out[i] : f32  %h = const 0.5 : f32
        %p = mul %h, %o  %s = add %p, %x  store %out[i], %s } }"""
    (found,) = check_races(kernel(text, ROW))
    assert words(found) == [
        "ZYN0405: an iteration depends on another one through `out`",
        "i = 0, j = 1 reads out[0], which i = 0, j = 0 wrote, 1 iteration of `j` apart",
        "hint: a value handed from one iteration to the next is a `scan`; in a `fused` kernel the loops run in order",
    ]


def test_updating_an_element_in_place_is_fine() -> None:
    assert check_races(kernel("for i in 0..N { %o = load %out[i] : f32 %s = mul %o, %o store %out[i], %s }", FLAT)) == ()


def test_even_elements_may_be_computed_from_odd_ones() -> None:
    assert check_races(kernel("for i in 0..N { %o = load %out[2*i+1] : f32 store %out[2*i], %o }", FLAT)) == ()


@pytest.mark.parametrize("kind", [KernelType.FUSED, KernelType.CUSTOM, KernelType.SCAN])
def test_kinds_with_an_order_of_their_own_have_no_races(kind: KernelType) -> None:
    assert check_races(kernel("for i in 1..N { %o = load %out[i-1] : f32  store %out[i], %o }", FLAT, kind)) == ()
