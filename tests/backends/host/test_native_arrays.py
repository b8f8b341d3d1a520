"""Arrays of numbers go between Python and native functions by their address: the same values, dtypes and messages as on Python."""

from typing import Any

import numpy as np
import pytest
from native_programs import Natively, native_of, opened, outcome

DTYPES = {"i8": "int8", "i16": "int16", "i32": "int32", "int": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64"}
DTYPES |= {"f32": "float32", "f64": "float64", "bool": "bool"}

MOVED = """fn back(a: [int; 5]) -> [int; 5] {
    var b = a
    for i in 0..5 { b[i] = a[4 - i] }
    b
}
fn swapped(mut a: [int; 5]) -> [int; 5] {
    let x = a[0]
    a[0] = a[1]
    a[1] = x
    for i in 0..1 { a[2] = a[3] }
    a
}
fn both(a: [int; 5]) -> (int, int) {
    let b = swapped(a)
    var last = a[0]
    for x in b { last = x }
    (last, a[0])
}
"""
SUMS = """fn sum(a: [int; 4], by: int = 2) -> int {
    var total = 0
    for x in a { total += x * by }
    total
}
fn at(a: [f64; 4], i: int) -> f64 {
    var total = 0.0
    for j in 0..2 { total += a[i] }
    total
}
fn more(mut self: [int; 4], by: int) -> int {
    for i in 0..4 { self[i] += by }
    self[3]
}
fn kept(a: [int; 4]) -> [int; 4] {
    var b = a
    for i in 0..4 { b[i] += 1 }
    let last = b.more(10)
    println(last, sum(a), sum(b))
    b
}
"""


@pytest.mark.parametrize("type", DTYPES)
def test_arrays_of_all_numbers_cross(type: str) -> None:
    text = MOVED.replace("[int;", f"[{type};").replace("(int, int)", f"({type}, {type})")
    given = np.array([1, 0, 3, 1, 7]).astype(DTYPES[type])
    before = given.copy()
    natively, program = Natively(text), opened(text)
    for functions in (natively.functions, program.functions):
        for name, expected in (("back", given[::-1]), ("swapped", given[[1, 0, 3, 3, 4]])):
            found = functions[name](given)
            assert found.dtype == given.dtype and np.array_equal(found, expected)
            assert found.flags.writeable and found.base is None
        assert functions["both"](given) == (given[4], given[0])
        assert np.array_equal(given, before)
    native = native_of(program)
    assert native is not None and set(native.python) == {"back", "swapped", "both"}


def _given() -> dict[str, Any]:
    """Arguments for an array of four ints."""
    whole = np.arange(8)
    fixed = np.arange(4)
    fixed.flags.writeable = False
    uneven = np.zeros(33, np.uint8)[1:].view(np.int64)
    uneven[:] = [5, 6, 7, 8]
    found = {"whole": whole[:4], "with gaps": whole[::2], "backwards": whole[3::-1], "fixed": fixed, "at an uneven address": uneven}
    found |= {"of bytes turned round": whole.astype(">i8")[:4], "int32": whole[:4].astype(np.int32), "uint64": whole[:4].astype(np.uint64)}
    found |= {"floats": whole[:4] / 2, "short": whole[:3], "empty": whole[:0], "of rows": whole.reshape(4, 2), "a number": np.array(3)}
    found |= {"a list": [1, 2, 3, 4], "a tuple": (1, 2, 3, 4), "a range": range(4), "a short list": [1], "a bool in it": [1, 2, 3, True]}
    return found | {"a float in it": [1, 2, 3, 4.5], "no array": 5, "nothing": None, "text": "abcd", "overflow": [2**62, 2**62, 1, 1]}


@pytest.mark.parametrize("name", _given())
def test_other_arrays_are_taken_or_refused_as_on_python(name: str) -> None:
    given = _given()[name]
    assert outcome(opened(SUMS), "sum", (given,)) == outcome(opened(SUMS, "none"), "sum", (given,))


@pytest.mark.parametrize("name", ["with gaps", "backwards", "fixed", "at an uneven address", "of bytes turned round", "int32", "short", "of rows"])
def test_arrays_that_lie_otherwise_are_left_to_python(name: str) -> None:
    natively = Natively(SUMS)
    assert natively("sum", _given()["whole"], 3) == 3 * 6
    with pytest.raises(AssertionError, match="`sum` is called on Python"):
        natively("sum", _given()[name], 3)


def test_an_index_outside_of_an_array_that_was_given() -> None:
    python, program = opened(SUMS, "none"), opened(SUMS)
    given = np.array([0.5, 1.5, 2.5, 3.5])
    assert [program.at(given, i) for i in range(4)] == [1.0, 3.0, 5.0, 7.0]
    for i in (4, -1, 2**40):
        assert outcome(program, "at", (given, i)) == outcome(python, "at", (given, i))
        assert f"index {i} is out of range: the array has 4, indices go from 0 to 3" in outcome(program, "at", (given, i))[1]


def test_a_method_that_changes_an_array_is_called_on_python(capsys: pytest.CaptureFixture[str]) -> None:
    program = opened(SUMS, "all")
    assert program.kept([1, 2, 3, 4]).tolist() == [12, 13, 14, 15]
    assert capsys.readouterr().out == "15 20 108\n"
    native = native_of(program)
    assert native is not None and set(native.python) == {"sum", "at"} and native.found.functions["[]::more"].is_static


def test_threads_share_an_array_that_is_only_read() -> None:
    from concurrent.futures import ThreadPoolExecutor

    program = opened(MOVED)
    given = np.arange(5)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: program.back(given), range(64)))
    assert all(one.tolist() == [4, 3, 2, 1, 0] for one in found) and len({id(one) for one in found}) == 64
