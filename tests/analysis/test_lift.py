"""What nests become: the shape of their fields, and the reason of every refusal."""

import itertools

import pytest
from nests import nest

from compiler.analysis.lift import Refused, lift
from compiler.hir.affine import Affine
from compiler.hir.module import HirFunction
from compiler.hir.text import print_function

ROW = "N: index; M: index; X: mem<NxMxf32, readonly>; out: mem<Nxf32>"
SAME = "N: index; M: index; X: mem<NxMxf32, readonly>; out: mem<NxMxf32>"
FLAT = "N: index; X: mem<Nxf32, readonly>; out: mem<Nxf32>"
PRODUCT = "M: index; N: index; K: index; A: mem<MxKxf32, readonly>; B: mem<KxNxf32, readonly>; out: mem<MxNxf32>"


def body(function: HirFunction) -> list[str]:
    """The instructions of a field, in words, without the names of values."""
    return [line.split(" = ")[-1].strip() for line in print_function(function).strip().split("\n")[1:-1]]


def reason(text: str, parameters: str) -> str:
    with pytest.raises(Refused) as refused:
        lift(nest(text, parameters))
    return refused.value.reason


# ---- fields ----


@pytest.mark.parametrize("order", list(itertools.permutations("ijk")))
def test_a_matrix_product_in_any_order_is_one_contraction(order: tuple[str, ...]) -> None:
    extents = {"i": "M", "j": "N", "k": "K"}
    loops = "".join(f"for {v} in 0..{extents[v]} {{ " for v in order)
    text = f"""{loops} %a = load %A[i, k] : f32  %b = load %B[k, j] : f32  %p = mul %a, %b contract  %o = load %out[i, j] : f32
        %s = add %o, %p reassoc contract  store %out[i, j], %s {"} " * 3}"""
    field = lift(nest(text, PRODUCT), zeroed=frozenset({"out"}))
    assert list(field.axes) == ["i", "j", "k"]
    assert [line.split(" %")[0] for line in body(field)] == ["load", "load", "contract", "store"]
    assert body(field)[2].endswith("over=[k] : tile<i:M, j:N, f32>")


def test_a_product_that_adds_to_what_was_there_keeps_it() -> None:
    text = """for i in 0..M { for j in 0..N { for k in 0..K { %a = load %A[i, k] : f32  %b = load %B[k, j] : f32  %p = mul %a, %b contract
        %o = load %out[i, j] : f32  %s = add %o, %p reassoc  store %out[i, j], %s } } }"""
    assert [line.split(" %")[0] for line in body(lift(nest(text, PRODUCT)))] == ["load", "load", "load", "contract", "add", "store"]


def test_sibling_loops_share_an_axis_and_a_row_is_loaded_once() -> None:
    text = """for i in 0..N { %n = const -inf : f32  %m = slot %n : slot<f32>
        for j in 0..M { %x = load %X[i, j] : f32  %o = get %m : f32  %a = max %o, %x  set %m, %a }
        for t in 0..M { %y = load %X[i, t] : f32  %g = get %m : f32  %d = sub %y, %g  %e = exp %d  store %out[i, t], %e } }"""
    field = lift(nest(text, SAME))
    assert list(field.axes) == ["i", "j"]
    assert [line.split(" %")[0] for line in body(field)] == ["load", "reduce max", "sub", "exp", "store"]


def test_an_axis_is_left_to_the_loop_inside_that_runs_where_it_does() -> None:
    """Queries, keys and values are thirds of one tensor, with as many elements each: the loop over elements of values is not that of
    queries, which stands inside of it once more."""
    score = """%z# = const 0.0 : f32  %s# = slot %z# : slot<f32>
        for e# in 0..D { %a# = load %X[i, 0, e#] : f32  %b# = load %X[j#, 1, e#] : f32  %p# = mul %a#, %b# contract
            %o# = get %s# : f32  %t# = add %o#, %p# reassoc contract  set %s#, %t# }
        %x# = get %s# : f32"""
    first, second = (score.replace("#", number) for number in "12")
    text = f"""for i in 0..N {{ %n = const -inf : f32  %m = slot %n : slot<f32>
        for j1 in 0..N {{ {first}  %g = get %m : f32  %h = max %g, %x1  set %m, %h }}  %most = get %m : f32
        for d in 0..D {{ %y = const 0.0 : f32  %w = slot %y : slot<f32>
            for j2 in 0..N {{ {second}  %k = sub %x2, %most  %q = exp %k  %v = load %X[j2, 2, d] : f32  %r = mul %q, %v contract
                %u = get %w : f32  %c = add %u, %r reassoc contract  set %w, %c }}
            %l = get %w : f32  store %out[i, d], %l }} }}"""
    field = lift(nest(text, "N: index; D: index; X: mem<Nx3xDxf32, readonly>; out: mem<NxDxf32>"))
    assert [line.split(" %")[0] for line in body(field)].count("contract") == 2
    assert len(field.axes) == 4


def test_nested_sums_merge() -> None:
    text = """%z = const 0.0 : f32  %s = slot %z : slot<f32>
        for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32  %o = get %s : f32  %a = add %o, %x reassoc  set %s, %a } }
        %r = get %s : f32  store %out[0], %r"""
    assert body(lift(nest(text, ROW)))[1].split(" : ")[0].endswith("over=[i, j] reassoc")


def test_a_constant_factor_leaves_a_sum() -> None:
    text = """%c = const 3.0 : f32  for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32  %y = mul %x, %c contract
        %o = load %out[i] : f32  %a = add %o, %y reassoc  store %out[i], %a } }"""
    lines = body(lift(nest(text, ROW), zeroed=frozenset({"out"})))
    assert [line.split(" %")[0] for line in lines] == ["const 3.0 : f32", "load", "reduce add", "mul", "store"]


def test_a_guard_that_is_the_border_becomes_a_pad() -> None:
    text = """for i in 0..N { %at = index of=i-1 : index  %zero = index of=0 : index  %p = ge %at, %zero : i1
        %v = if %p : f32 { %x = load %X[i-1] : f32 yield %x } else { %z = const 0.0 : f32 yield %z } store %out[i], %v }"""
    assert body(lift(nest(text, FLAT))) == ["load %X[i-1] pad=0.0 : tile<i:N, f32>", "store %out[i], %x0"]


def test_a_guard_that_says_less_than_the_border_stays_a_condition() -> None:
    text = """for i in 0..N { %at = index of=i-1 : index  %one = index of=1 : index  %p = ge %at, %one : i1
        %v = if %p : f32 { %x = load %X[i-1] : f32 yield %x } else { %z = const 0.0 : f32 yield %z } store %out[i], %v }"""
    assert "where=%p" in body(lift(nest(text, FLAT)))[-2]


def test_a_triangle_is_a_whole_axis_under_a_condition() -> None:
    text = """for i in 0..N { for j in 0..i+1 { %x = load %X[i, j] : f32  %o = load %out[i] : f32  %a = add %o, %x reassoc
        store %out[i], %a } }"""
    lines = body(lift(nest(text, "N: index; X: mem<NxNxf32, readonly>; out: mem<Nxf32>"), zeroed=frozenset({"out"})))
    assert lines[0] == "inbounds of=j below=i+1 : tile<i:N, j:N, i1>"
    assert [line.split(" %")[0] for line in lines[1:]] == ["load", "const 0.0 : f32", "select", "reduce add", "store"]


def test_steps_and_offsets_move_into_the_index() -> None:
    field = lift(nest("for i in 3..N step 2 { %x = load %X[i] : f32  store %out[i], %x }", FLAT))
    assert field.axes["i"] == (Affine.of("N") - 3).ceildiv(2)
    assert body(field)[-1] == "store %out[2*i+3], %x"


def test_scratch_memory_vanishes() -> None:
    text = """%t = alloc : mem<Nxf32, local>  for i in 0..N { %x = load %X[i] : f32  %y = exp %x  store %t[i], %y }
        for k in 0..N { %u = load %t[k] : f32  %v = mul %u, %u  store %out[k], %v }"""
    assert [line.split(" %")[0] for line in body(lift(nest(text, FLAT)))] == ["load", "exp", "mul", "store"]


def test_a_running_sum_is_a_scan() -> None:
    text = """%z = const 0.0 : f32  %s = slot %z : slot<f32>
        for i in 0..N { %x = load %X[i] : f32  %o = get %s : f32  %a = add %o, %x reassoc  set %s, %a  store %out[i], %a }"""
    assert [line.split(" %")[0] for line in body(lift(nest(text, FLAT)))] == ["load", "scan add", "store"]


def test_narrow_operands_go_into_the_contraction() -> None:
    text = """for i in 0..M { for j in 0..N { for k in 0..K { %a = load %A[i, k] : bf16  %b = load %B[k, j] : bf16
        %c = cast %a to=f32 : f32  %d = cast %b to=f32 : f32  %p = mul %c, %d contract  %o = load %out[i, j] : f32  %s = add %o, %p reassoc
        store %out[i, j], %s } } }"""
    lines = body(lift(nest(text, PRODUCT.replace("MxKxf32", "MxKxbf16").replace("KxNxf32", "KxNxbf16")), zeroed=frozenset({"out"})))
    assert [line.split(" %")[0] for line in lines] == ["load", "load", "contract", "store"]


# ---- refusals ----


def test_a_recurrence_is_refused() -> None:
    text = """for i in 0..N { %z = const 0.0 : f32  %s = slot %z : slot<f32>  for j in 0..M { %x = load %X[i, j] : f32  %o = get %s : f32
        %h = mul %o, %x  %a = add %h, %x  set %s, %a }  %r = get %s : f32  store %out[i], %r }"""
    assert reason(text, ROW) == "`s` carries a value from one iteration of `j` to the next that is no sum, product, min or max"


def test_a_recurrence_that_nobody_needs_is_not_refused() -> None:
    text = """for i in 0..N { %z = const 0.0 : f32  %s = slot %z : slot<f32>  for j in 0..M { %x = load %X[i, j] : f32  %o = get %s : f32
        %h = mul %o, %x  %a = add %h, %x  set %s, %a }  store %out[i], %z }"""
    assert [line.split(" %")[0] for line in body(lift(nest(text, ROW)))] == ["const 0.0 : f32", "store"]


def test_two_iterations_on_one_element_are_refused() -> None:
    text = "for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32  store %out[i], %x } }"
    assert reason(text, ROW) == "iterations of `j` write the same element of `out`"


def test_a_diagonal_is_refused() -> None:
    text = "for i in 0..N { for j in 0..M { %x = load %X[i, j] : f32  store %out[i+j], %x } }"
    assert reason(text, ROW) == "iterations write the same element of `out`"


def test_a_data_dependent_place_is_refused() -> None:
    text = "for i in 0..N { %k = load %I[i] : i64 %g = cast %k to=index : index %x = load %X[i] : f32  store %out[g], %x }"
    parameters = "N: index; X: mem<Nxf32, readonly>; I: mem<Nxi64, readonly>; out: mem<Nxf32>"
    assert reason(text, parameters) == "the index at which `out` is written depends on data"


def test_data_dependent_bounds_are_refused() -> None:
    text = """for i in 0..N { %k = load %I[i] : i64 %g = cast %k to=index : index
        for j in 0..g { %x = load %X[j] : f32  %o = load %out[i] : f32 %a = add %o, %x reassoc store %out[i], %a } }"""
    parameters = "N: index; X: mem<Nxf32, readonly>; I: mem<Nxi64, readonly>; out: mem<Nxf32>"
    assert reason(text, parameters) == "the bounds of the loop over `j` depend on data"


def test_while_break_and_checks_are_refused() -> None:
    loop = "for i in 0..N { %x = load %X[i] : f32  %z = const 0.0 : f32  %p = lt %x, %z : i1  BODY  store %out[i], %x }"
    assert reason(loop.replace("BODY", "if %p { break }"), FLAT) == "`break` makes the number of iterations depend on the data"
    assert reason(loop.replace("BODY", "while { condition %p } do { yield }"), FLAT) == "how often a `while` runs isn't known beforehand"
    assert (
        reason(loop.replace("BODY", "check %p"), FLAT)
        == "a check that is made as the program runs reports the first fault in the order of the loops"
    )


def test_a_value_of_an_earlier_iteration_in_memory_is_refused() -> None:
    text = """%t = alloc : mem<Nxf32, local>  for i in 0..N { %x = load %X[i] : f32  store %t[i], %x  %y = load %t[i-1] : f32
        store %out[i], %y }"""
    assert reason(text, FLAT) == "`t` is read as it was written 1 iteration of `i` before"


def test_a_recurrence_through_out_is_refused() -> None:
    text = "for i in 1..N { %x = load %out[i-1] : f32  store %out[i], %x }"
    assert reason(text, FLAT) == "`out` is read as an earlier iteration of `i` wrote it"


def test_a_read_beside_the_place_of_the_write_is_refused() -> None:
    text = "for i in 0..N { %x = load %out[i+1] : f32  store %out[i], %x }"
    assert reason(text, FLAT) == "`out` is read at other places than where it is written"


def test_a_partial_sum_in_memory_is_refused() -> None:
    text = """for j in 0..M { for i in 0..N { %x = load %X[i, j] : f32  %o = load %out[i] : f32  %a = add %o, %x reassoc  store %out[i], %a
        %r = load %out[i] : f32  store %two[i, j], %r } }"""
    assert reason(text, ROW + "; two: mem<NxMxf32>") == "`out` is read while the loop over `j` still adds to it"


def test_scratch_that_nobody_wrote_is_refused() -> None:
    text = "%t = alloc : mem<Nxf32, local>  for i in 0..N { %x = load %t[i] : f32  store %out[i], %x }"
    assert reason(text, FLAT) == "`t` is read where nothing was written"


def test_the_last_value_of_a_loop_is_refused() -> None:
    text = """%z = const 0.0 : f32  %s = slot %z : slot<f32>  for i in 0..N { %x = load %X[i] : f32  set %s, %x }
        %r = get %s : f32  store %out[0], %r"""
    assert reason(text, FLAT) == "`s` is used after the loop over `i` as its last iteration left it"


def test_a_float_sum_in_fixed_order_that_starts_somewhere_is_refused() -> None:
    text = """%z = const 1.0 : f32  %s = slot %z : slot<f32>  for i in 0..N { %x = load %X[i] : f32  %o = get %s : f32  %a = add %o, %x
        set %s, %a }  %r = get %s : f32  store %out[0], %r"""
    assert reason(text, FLAT) == "the order in which `s` is summed up is fixed"


def test_memory_that_may_be_shared_is_refused() -> None:
    text = "for i in 0..N { %x = load %X[i] : f32  store %out[i], %x }"
    assert reason(text, FLAT.replace("out: mem<Nxf32>", "out: mem<Nxf32, alias>")) == "`out` may share its memory with another input"


def test_setting_and_adding_in_one_loop_is_refused() -> None:
    text = """for j in 0..M { for i in 0..N { %x = load %X[i, j] : f32  %o = load %out[i] : f32  %a = add %o, %x reassoc  store %out[i], %a
        %q = load %out[i] : f32  %h = mul %q, %q  store %out[i], %h } }"""
    assert reason(text, ROW) in ("`out` is summed up and set in the same loop", "iterations of `j` write the same element of `out`")
