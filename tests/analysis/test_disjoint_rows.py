"""Loops whose iterations are independent where the rows that they write are disjoint."""

import pytest
from nests import nest

from compiler.analysis.dependence import LoopKind, analyse
from compiler.analysis.disjoint_rows import disjoint_rows
from compiler.hir.control import For
from compiler.schedule.disjoint_rows import marked_in, with_disjoint_rows

PARAMETERS = "R: index; N: index; P: mem<(R+1)xi64, readonly>; X: mem<Nxf32, readonly>; out: mem<Nxf32>"
ROW = """for r in 0..R {{
    %a = load %P[r] : i64  %b = load %P[r+1] : i64  %low = cast %a to=index : index  %high = cast %b to=index : index
    for k in low..high {{ {body} }} }}"""


def kinds(body: str) -> tuple[LoopKind, LoopKind | None]:
    """What the loop of rows is, and what it is where they are disjoint."""
    function = nest(ROW.format(body=body), PARAMETERS)
    facts = analyse(function)
    marked, known = with_disjoint_rows(function, facts)
    (rows,) = (op for op in function.body.body if isinstance(op, For))
    (again,) = (op for op in marked.body.body if isinstance(op, For))
    return facts.loops[rows].kind, known.loops[again].kind if marked_in(again) is not None else None


@pytest.mark.parametrize("index", ["k", "k+1", "k-3"])
def test_rows_that_are_stored_are_independent_where_they_are_disjoint(index: str) -> None:
    body = f"%x = load %X[k] : f32  store %out[{index}], %x"
    assert kinds(body) == (LoopKind.SERIAL, LoopKind.PARALLEL)


@pytest.mark.parametrize("index", ["2*k", "k+r", "r"])
def test_other_elements_are_not(index: str) -> None:
    assert kinds(f"%x = load %X[k] : f32  store %out[{index}], %x")[1] is None


def test_an_iteration_may_read_its_own_row_alone() -> None:
    assert kinds("%x = load %out[k] : f32  store %out[k], %x")[1] is LoopKind.PARALLEL
    assert kinds("%x = load %out[r] : f32  store %out[k], %x")[1] is None


def test_all_accesses_of_a_row_count() -> None:
    function = nest(ROW.format(body="%x = load %out[k-1] : f32  store %out[k], %x"), PARAMETERS)
    (rows,) = (op for op in function.body.body if isinstance(op, For))
    found = disjoint_rows(analyse(function).nest, rows)
    assert found is not None
    assert [(str(span.low), str(span.high)) for span in found.spans] == [("low-1", "high-1"), ("low", "high")]


def test_bounds_that_the_nest_writes_are_not_known_before() -> None:
    text = ROW.format(body="%x = load %X[k] : f32  store %out[k], %x  %n = cast %k to=i64 : i64  store %P[r], %n")
    function = nest(text, PARAMETERS.replace("xi64, readonly", "xi64"))
    (rows,) = (op for op in function.body.body if isinstance(op, For))
    assert disjoint_rows(analyse(function).nest, rows) is None
