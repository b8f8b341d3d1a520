"""What order a loop needs: by hand, and by turning loops round in random nests."""

import numpy as np
import pytest
from nests import nest
from random_nests import FAMILIES, RandomNest, random_nest

from compiler.analysis.dependence import LoopFacts, LoopKind, analyse
from compiler.emulator.interpret import interpret
from compiler.hir.control import For
from compiler.hir.module import HirFunction
from compiler.hir.text import print_function
from compiler.passes.slots_to_carried import slots_to_carried

P, R, C, S = LoopKind.PARALLEL, LoopKind.REDUCTION, LoopKind.SCAN, LoopKind.SERIAL
ROW = "N: index; M: index; X: mem<NxMxf32, readonly>; out: mem<Nxf32>"
FLAT = "N: index; X: mem<Nxf32, readonly>; I: mem<Nxi64, readonly>; out: mem<Nxf32>"


def facts_of(function: HirFunction) -> dict[str, LoopFacts]:
    return {facts.op.variable.name: facts for facts in analyse(function).loops.values()}


def kinds(function: HirFunction) -> dict[str, LoopKind]:
    return {name: facts.kind for name, facts in facts_of(function).items()}


def test_each_element_for_itself_is_parallel() -> None:
    assert kinds(nest("for i in 0..N { %x = load %X[i] : f32  store %out[i], %x }", FLAT)) == {"i": P}


def test_a_gather_of_memory_that_nobody_writes_is_parallel() -> None:
    text = "for i in 0..N { %k = load %I[i] : i64 %g = cast %k to=index : index %x = load %X[g] : f32  store %out[i], %x }"
    assert kinds(nest(text, FLAT)) == {"i": P}


def test_a_scatter_is_serial_with_the_reason() -> None:
    text = "for i in 0..N { %k = load %I[i] : i64 %g = cast %k to=index : index %x = load %X[i] : f32  store %out[g], %x }"
    facts = facts_of(nest(text, FLAT))["i"]
    assert (facts.kind, facts.reason) == (S, "two iterations write one element of `out`")


PICKED = "N: index; M: index; X: mem<NxMxf32, readonly>; I: mem<Nxi64, readonly>; J: mem<Mxi64, readonly>; out: mem<NxMxf32>"


@pytest.mark.parametrize(("at", "kind"), [
    ("g, j", P),  # each column for itself, whichever row it is
    ("g, j+g", P),
    ("j, g", P),
    ("g, 0", S),
    ("g, h", S),  # columns that data choose, too
    ("g, j+h", S),
    ("h, j", P),
])
def test_columns_of_a_row_that_data_choose(at: str, kind: LoopKind) -> None:
    text = f"""for i in 0..N {{ %k = load %I[i] : i64 %g = cast %k to=index : index
        for j in 0..M {{ %l = load %J[j] : i64 %h = cast %l to=index : index
            %x = load %X[i, j] : f32  store %out[{at}], %x }} }}"""
    assert kinds(nest(text, PICKED)) == {"i": S, "j": kind}


def test_a_sum_in_a_slot_is_a_reduction() -> None:
    text = """for i in 0..N { %z = const 0.0 : f32  %s = slot %z : slot<f32>
        for j in 0..M { %x = load %X[i, j] : f32  %o = get %s : f32  %a = add %o, %x reassoc  set %s, %a }
        %r = get %s : f32  store %out[i], %r }"""
    facts = facts_of(nest(text, ROW))
    assert [(f.monoid, f.reorders, f.in_memory) for f in facts["j"].folds] == [("add", True, False)]
    assert kinds(nest(text, ROW)) == {"i": P, "j": R}


def test_a_float_sum_without_permission_keeps_its_order() -> None:
    text = "for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32 %o = load %out[i] : f32 %s = add %o, %x store %out[i], %s } }"
    (fold,) = facts_of(nest(text, ROW))["j"].folds
    assert (fold.monoid, fold.reorders, fold.in_memory) == ("add", False, True)


def test_a_running_sum_that_is_stored_is_a_scan() -> None:
    text = """%z = const 0.0 : f32  %s = slot %z : slot<f32>
        for i in 0..N { %x = load %X[i] : f32  %o = get %s : f32  %a = add %o, %x reassoc  set %s, %a  store %out[i], %a }"""
    function = nest(text, FLAT)
    assert kinds(function) == {"i": C}
    assert kinds(slots_to_carried(function)) == {"i": C}


def test_a_recurrence_says_what_is_carried() -> None:
    text = """%z = const 0.0 : f32  %s = slot %z : slot<f32>
        for i in 0..N { %x = load %X[i] : f32  %o = get %s : f32  %h = mul %o, %x  %a = add %h, %x  set %s, %a }
        %r = get %s : f32  store %out[0], %r"""
    facts = facts_of(nest(text, FLAT))["i"]
    assert facts.kind is S
    assert facts.reason == "`s` carries a value from one iteration to the next that is no sum, product, min or max"


def test_a_neighbour_that_is_also_written_makes_a_distance() -> None:
    text = "for i in 1..N { %x = load %out[i-1] : f32  store %out[i], %x }"
    assert facts_of(nest(text, FLAT))["i"].reason == "an iteration reads an element of `out` that another one writes, 1 apart"


@pytest.mark.parametrize(("apart", "kind"), [(1, S), (2, S), (3, P), (4, P)])
@pytest.mark.parametrize("turned", [False, True])
def test_a_distance_counts_up_to_the_last_iteration(apart: int, kind: LoopKind, turned: bool) -> None:
    """Of three iterations the last is two from the first: what is further apart never meets."""
    read, written = (f"i+{apart}", "i") if turned else ("i", f"i+{apart}")
    text = f"for i in 0..3 {{ %x = load %out[{read}] : f32  store %out[{written}], %x }}"
    assert kinds(nest(text, "out: mem<9xf32>")) == {"i": kind}


def test_break_makes_a_loop_serial_and_not_the_one_around_it() -> None:
    text = """for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32  %z = const 0.0 : f32  %p = lt %x, %z : i1  if %p { break }
        store %out[i], %x } }"""
    assert kinds(nest(text, ROW)) == {"i": P, "j": S}


def test_a_scratch_row_belongs_to_each_iteration() -> None:
    text = """%t = alloc : mem<Mxf32, local>
        for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32  store %t[j], %x }
        for k in 0..M { %y = load %t[k] : f32  %o = load %out[i] : f32  %s = add %o, %y reassoc  store %out[i], %s } }"""
    facts = facts_of(nest(text, ROW))
    assert (facts["i"].kind, [w.name for w in facts["i"].workspaces]) == (P, ["t"])
    assert (facts["j"].kind, facts["k"].kind) == (P, R)


def test_a_scratch_row_that_is_read_before_it_is_written_hands_on() -> None:
    text = """%t = alloc : mem<Mxf32, local>
        for i in 0..N { for k in 0..M { %y = load %t[k] : f32  %o = load %out[i] : f32  %s = add %o, %y reassoc  store %out[i], %s }
        for j in 0..M { %x = load %X[i, j] : f32  store %t[j], %x } }"""
    facts = facts_of(nest(text, ROW))["i"]
    assert (facts.kind, facts.workspaces) == (S, ())


def test_a_variable_that_is_summed_up_and_multiplied_keeps_its_order() -> None:
    text = """%z = const 0.0 : f32  %s = slot %z : slot<f32>
        for i in 0..N { %x = load %X[i] : f32  %o = get %s : f32  %a = add %o, %x reassoc  set %s, %a
        %g = get %s : f32  %m = mul %g, %x reassoc  set %s, %m }
        %r = get %s : f32  store %out[0], %r"""
    facts = facts_of(nest(text, FLAT))["i"]
    assert (facts.kind, facts.reason) == (S, "`s` is updated by add and mul")


def test_a_variable_that_only_some_iterations_set_is_handed_on() -> None:
    text = """%z = const 0.0 : f32  %s = slot %z : slot<f32>
        for i in 0..N { %x = load %X[i] : f32  %p = gt %x, %z : i1  if %p { set %s, %x }  %o = get %s : f32  store %out[i], %o }"""
    facts = facts_of(nest(text, FLAT))["i"]
    assert (facts.kind, facts.private) == (S, ())


def test_blocks_of_digits_do_not_meet() -> None:
    text = "for b in 0..N { for t in 0..64 { %x = load %X[b, t] : f32  store %out[64*b+t], %x } }"
    assert kinds(nest(text, ROW)) == {"b": P, "t": P}


def turned(function: HirFunction, op: For) -> None:
    """Make a loop run from its last iteration to its first."""
    span = op.high - op.low if op.step > 0 else op.low - op.high
    trips = span.ceildiv(abs(op.step))
    sign = 1 if op.step > 0 else -1
    op.low, op.high, op.step = op.low + (trips - 1) * op.step, op.low - sign, -op.step


def free_loops(made: RandomNest) -> list[int]:
    """Numbers of the loops that are found to need no order."""
    found = []
    for number, facts in enumerate(analyse(made.function).loops.values()):
        if facts.kind is P or (facts.kind is R and all(fold.reorders for fold in facts.folds)):
            found.append(number)
    return found


@pytest.mark.parametrize("family", [*FAMILIES, "wild"])
def test_loops_found_free_of_order_may_run_backwards(family: str) -> None:
    for seed in range(40):
        expected = None
        for number in free_loops(random_nest(seed, family)):
            made = random_nest(seed, family)
            if expected is None:
                expected = made.arguments(seed)
                interpret(made.function, expected)
            op = list(analyse(made.function).loops)[number]
            turned(made.function, op)
            found = made.arguments(seed)
            interpret(made.function, found)
            for a, b in zip(expected, found, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=f"seed {seed}, {op.variable}\n{print_function(made.function)}")


def test_a_running_sum_through_two_loops_is_a_scan_along_both() -> None:
    text = """%z = const 0.0 : f32  %s = slot %z : slot<f32>
        for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32  %o = get %s : f32  %a = add %o, %x reassoc  set %s, %a
        store %out[i, j], %a } }"""
    function = nest(text, "N: index; M: index; X: mem<NxMxf32, readonly>; out: mem<NxMxf32>")
    assert kinds(function) == {"i": C, "j": C}
    assert kinds(slots_to_carried(function)) == {"i": C, "j": C}


def test_several_terms_added_one_after_the_other_are_one_sum() -> None:
    text = """%z = const 0.0 : f32  %s = slot %z : slot<f32>
        for i in 0..N { %x = load %X[i] : f32  %o = get %s : f32  %a = add %o, %x reassoc  %b = sub %a, %z reassoc  set %s, %b }
        %r = get %s : f32  store %out[0], %r"""
    function = nest(text, FLAT)
    assert kinds(function) == {"i": R}
    assert kinds(slots_to_carried(function)) == {"i": R}
