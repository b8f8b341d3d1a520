"""What each pass does, and what it keeps."""

import pytest

from compiler.hir.module import HirFunction
from compiler.hir.parse import parse_function
from compiler.hir.text import print_function
from compiler.passes.canonicalize import canonicalize
from compiler.passes.cse import cse
from compiler.passes.dce import dce
from compiler.passes.hoist import hoist
from compiler.passes.slots_to_carried import kept_slots, slots_to_carried

HEAD = "func @f(%X: mem<Nxf32, readonly>, %I: mem<Nxi32, readonly>, %out: mem<Nxf32>, %ints: mem<Nxi32>, %N: index, %D: i32) form=A {\n"


def function(text: str) -> HirFunction:
    return parse_function(HEAD + text + "\n}")


def lines(made: HirFunction) -> list[str]:
    return [line.strip() for line in print_function(made).strip().split("\n")[1:-1]]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("%r = add %i, %zero : i32", "%i"),
        ("%r = mul %one, %i : i32", "%i"),
        ("%n = neg %i : i32 %r = neg %n : i32", "%i"),
        ("%r = sub %i, %i : i32", "%zero"),
        ("%r = and %i, %i : i32", "%i"),
        ("%w = cast %i to=i64 : i64 %r = cast %w to=i32 : i32", "%i"),
        ("%p = lt %zero, %one : i1 %r = select %p, %i, %one : i32", "%i"),
        ("%w = cast %i to=f32 : f32 %r = cast %w to=i32 : i32", "%r"),
        ("%w = cast %i to=f64 : f64 %r = cast %w to=i32 : i32", "%i"),
        ("%n = neg %i : i32 %r = abs %n : i32", "%r"),
    ],
)
def test_exact_algebra_of_ints(expression: str, expected: str) -> None:
    text = f"%zero = const 0 : i32 %one = const 1 : i32 for k in 0..N {{ %i = load %I[k] : i32 {expression} store %ints[k], %r }}"
    assert lines(canonicalize(function(text)))[-2] == f"store %ints[k], {expected}"


def test_a_choice_between_numbers_is_made_in_the_type_that_it_is_cast_to() -> None:
    text = """for k in 0..N {
        %i = load %I[k] : i32 %one = const 1 : index %many = const 258 : index %p = lt %D, %i : i1
        %s = select %p, %one, %many : index %t = index of=s : index %c = cast %t to=u8 : u8 %r = cast %c to=i32 : i32 store %ints[k], %r
    }"""
    made = lines(canonicalize(function(text)))
    assert made[-5:-1] == ["%t3 = const 1 : i32", "%t4 = const 2 : i32", "%t5 = select %p, %t3, %t4 : i32", "store %ints[k], %t5"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("%r = sub %x, %zero : f32", "%x"),
        ("%r = mul %x, %one : f32", "%x"),
        ("%r = add %x, %zero : f32", "%r"),
        ("%r = sub %x, %x : f32", "%r"),
        ("%r = mul %x, %zero : f32", "%r"),
        ("%n = cast %x to=f16 : f16 %r = cast %n to=f32 : f32", "%r"),
    ],
)
def test_algebra_of_floats_keeps_signed_zeros_and_nans(expression: str, expected: str) -> None:
    text = f"%zero = const 0.0 : f32 %one = const 1.0 : f32 for k in 0..N {{ %x = load %X[k] : f32 {expression} store %out[k], %r }}"
    assert lines(canonicalize(function(text)))[-2] == f"store %out[k], {expected}"


def test_constants_fold_as_the_interpreter_rounds() -> None:
    text = "%a = const 0.1 : f32 %b = const 0.2 : f32 %s = add %a, %b : f32 store %out[0], %s"
    assert lines(canonicalize(function(text)))[-2] in ("%t0 = const 0.30000001192092896 : f32", "%t0 = const 0.3 : f32")


def test_a_branch_whose_condition_is_known_is_its_taken_side() -> None:
    text = "%a = const 1 : i32 %b = const 2 : i32 %p = lt %b, %a : i1 if %p { store %ints[0], %a } else { store %ints[0], %b }"
    assert [line for line in lines(canonicalize(function(text))) if "store" in line] == ["store %ints[0], %b"]


@pytest.mark.parametrize(("operator", "holds"), [("eq", 0), ("ne", 1), ("lt", 0), ("le", 0), ("gt", 0), ("ge", 0)])
def test_no_comparison_with_nan_holds_but_unequal(operator: str, holds: int) -> None:
    for left, right in (("%n", "%x"), ("%x", "%n"), ("%n", "%n")):
        text = f"""%n = const nan : f32 %x = const 1.0 : f32 %a = const 0 : i32 %b = const 1 : i32 %p = {operator} {left}, {right} : i1
            if %p {{ store %ints[0], %b }} else {{ store %ints[0], %a }}"""
        assert [line for line in lines(canonicalize(function(text))) if "store" in line] == [f"store %ints[0], %{'ab'[holds]}"]


def test_a_check_that_holds_is_dropped_and_one_that_may_fail_kept() -> None:
    text = "%p = inbounds of=2 below=4 : i1 check %p for i in 0..N { %q = inbounds of=i below=4 : i1 check %q }"
    assert [line for line in lines(canonicalize(function(text))) if "check" in line] == ["check %q"]


def test_common_subexpressions_are_computed_once_and_loads_are_not_merged() -> None:
    text = """for k in 0..N { %x = load %out[k] : f32 %a = mul %x, %x : f32 %b = mul %x, %x : f32 %s = add %a, %b : f32 store %out[k], %s
        %y = load %out[k] : f32 store %out[k], %y }"""
    made = lines(cse(function(text)))
    assert (sum("mul" in line for line in made), sum("load" in line for line in made)) == (1, 2)


def test_dead_code_goes_with_what_only_it_needed() -> None:
    text = """%z = const 0.0 : f32 %s = slot %z : slot<f32> for k in 0..N { %x = load %X[k] : f32 %y = exp %x : f32 set %s, %y }
        store %out[0], %z"""
    assert lines(dce(function(text))) == ["%z = const 0.0 : f32", "store %out[0], %z"]


def test_stores_checks_and_endless_loops_stay() -> None:
    text = "%p = inbounds of=N below=4 : i1 check %p %z = const 0.0 : f32 store %out[0], %z while { condition %p } do { yield }"
    assert len(lines(dce(function(text)))) == len(lines(function(text)))


def test_invariants_leave_loops_and_faults_stay_inside() -> None:
    text = """%d = cast %D to=i32 : i32 for i in 0..N { for k in 0..N { %a = add %D, %D : i32 %b = div %a, %D : i32 %x = load %I[k] : i32
        %c = mul %x, %b : i32 store %ints[k], %c } }"""
    made = lines(hoist(function(text)))
    assert made.index("%a = add %D, %D : i32") < made.index("for i in 0..N {")
    assert made.index("%b = div %a, %D : i32") > made.index("for k in 0..N {")


def test_what_a_loop_carries_replaces_a_slot() -> None:
    text = """%z = const 0.0 : f32 %s = slot %z : slot<f32> for k in 0..N { %x = load %X[k] : f32 %p = gt %x, %z : i1
        if %p { %o = get %s : f32 %a = add %o, %x : f32 set %s, %a } } %r = get %s : f32 store %out[0], %r"""
    made = lines(slots_to_carried(function(text)))
    assert not any("slot" in line for line in made)
    assert made[1] == "%s2 = for k in 0..N carry(%s0 = %z) {" or "carry(" in made[1]


def test_a_slot_that_break_reads_past_stays_with_a_reason() -> None:
    text = """%z = const 0.0 : f32 %s = slot %z : slot<f32> for k in 0..N { %x = load %X[k] : f32 set %s, %x %p = gt %x, %z : i1 if %p { break } }
        %r = get %s : f32 store %out[0], %r"""
    source = function(text)
    assert list(kept_slots(source).values()) == ["it is set in a loop that `break` or `continue` leaves"]
    assert sum("slot" in line for line in lines(slots_to_carried(source))) == 1
