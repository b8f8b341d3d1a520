"""Lists, ranges, iterators and text."""

import math
from typing import Any

import numpy as np
import pytest

from runtime.tensor import Tensor


def test_lists_change_in_place(call: Any) -> None:
    xs: list[Any] = [1, 2]
    call.method(xs, "push", 3)
    call.method(xs, "insert", 0, 0)
    call.method(xs, "insert", 4, 4)
    assert xs == [0, 1, 2, 3, 4]
    assert call.method(xs, "pop") == 4
    assert call.method(xs, "remove", 1) == 1
    call.method(xs, "extend", range(2))
    call.method(xs, "reverse")
    assert xs == [1, 0, 3, 2, 0]
    call.method(xs, "sort")
    assert xs == [0, 0, 1, 2, 3]
    call.method(xs, "set", -1, 9)
    assert call.method(xs, "last") == 9 and call.method(xs, "first") == 0
    call.method(xs, "clear")
    assert call.method(xs, "is_empty") is True


def test_list_faults(call: Any) -> None:
    assert call.method_fault([], "pop") == ("0801", "`pop` of an empty list")
    assert call.method_fault([1], "remove", 1) == ("0801", "index 1 is out of range: the list has 1, indices go from 0 to 0")
    assert call.method_fault([], "first") == ("0801", "index 0 is out of range: the list is empty")
    assert call.method_fault([1], "insert", 3, 0)[0] == "0801"
    assert call.method_fault([1, "a"], "sort") == ("0208", "`<` is not defined for String and i64")
    assert call.method_fault([1], "map", 3) == ("0203", "a function is expected here, not i64")
    assert call.method_fault([1], "filter", lambda x: x) == ("0203", "the function answers with a bool here, not i64")
    assert call.method_fault([1], "take", -1) == ("0801", "a number of elements can't be negative: -1")
    assert call.method_fault([1], "repeat", 10**13)[0] == "0804"
    assert call.method_fault(range(10**13), "collect")[0] == "0804"


def test_sorting_is_stable_with_nan_last(call: Any) -> None:
    found = call.method([2.0, math.nan, 1.0], "sorted")
    assert found[:2] == [1.0, 2.0] and math.isnan(found[2])
    found = call.method([2.0, math.nan, 1.0], "sorted", descending=True)
    assert found[:2] == [2.0, 1.0] and math.isnan(found[2])
    pairs = [(2, "a"), (1, "b"), (2, "c"), (1, "d")]
    assert call.method(pairs, "sorted", lambda p: p[0]) == [(1, "b"), (1, "d"), (2, "a"), (2, "c")]
    assert call.method(pairs, "sorted", lambda p: p[0], descending=True) == [(2, "a"), (2, "c"), (1, "b"), (1, "d")]
    assert call.method(pairs, "sorted") == sorted(pairs)
    assert call.method(["b", "a"], "sorted", descending=True) == ["b", "a"]
    assert call.method([True, False], "sorted") == [False, True]


def test_iterators(call: Any) -> None:
    xs = [1, 2, 3, 4]
    assert call.method(xs, "map", lambda x: x * 2) == [2, 4, 6, 8]
    assert call.method(range(4), "filter", lambda x: x > 1) == [2, 3]
    assert call.method(xs, "take", 2) == [1, 2] and call.method(xs, "skip", 3) == [4]
    assert call.method(range(10), "take", 2) == range(2)
    assert call.method(xs, "enumerate") == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert call.method(xs, "zip", ["a", "b"]) == [(1, "a"), (2, "b")]
    assert call("zip", xs, range(9), "ab") == [(1, 0, "a"), (2, 1, "b")]
    assert call("enumerate", "ab") == [(0, "a"), (1, "b")]
    assert call.method(xs, "fold", 0, lambda a, b: a + b) == 10
    assert call.method(xs, "chain", range(2)) == [1, 2, 3, 4, 0, 1]
    assert call.method(range(3), "collect") == [0, 1, 2]
    assert call.method(xs, "any", lambda x: x > 3) is True and call.method(xs, "all", lambda x: x > 3) is False
    assert call.method([], "all") is True and call.method([True], "any") is True
    assert call.method(xs, "count") == 4 and call.method(xs, "count", lambda x: x % 2 == 0) == 2
    assert call.method(range(10), "step_by", 4) == range(0, 10, 4)
    assert call.method(xs, "rev") == [4, 3, 2, 1]
    assert call.method(xs, "sum") == 10 and call.method([0.5, 0.25], "sum") == 0.75
    assert call.method([1, 2], "mean") == 1.5
    assert call.method(xs, "max") == 4 and call.method(range(3), "min") == 0


def test_ranges_and_lengths(call: Any) -> None:
    assert call("range", 3) == range(3) and call("range", 3, 0, -1) == range(3, 0, -1)
    assert call.fault("range", 0, 3, 0) == ("0806", "the step of a range can't be 0")
    assert call.fault("range", 1.5) == ("0203", "the bounds of a range are ints, not f64")
    for value, length in (([1, 2], 2), ("héé", 3), (range(0, 10, 3), 4), (Tensor(np.zeros((5, 2))), 5), ((1, 2), 2)):
        assert call("len", value) == length and call.method(value, "len") == length
    assert call.fault("len", 5) == ("0203", "i64 has no length")
    assert call.fault("len", Tensor(np.array(1.0))) == ("0301", "a tensor of rank 0 has no length")


def test_membership_and_copies(call: Any) -> None:
    x = Tensor(np.array([1, 2]))
    assert call("operator in", 2, [1, 2]) is True and call("operator in", 5, range(0, 10, 2)) is False
    assert call("operator in", "el", "hello") is True
    assert call("operator in", 2, x) is True
    assert call.method([x], "contains", Tensor(np.array([1, 2]))) is True
    assert call.method([3, 4], "index_of", 4) == 1 and call.method([3], "index_of", 4) == -1
    nested = [[1], x]
    copy = call.method(nested, "clone")
    copy[0].append(2)
    copy[1].array[0] = 9
    assert nested[0] == [1] and x.array[0] == 1
    assert call.fault("operator in", 1, 2) == ("0208", "`in` is not defined for i64 and i64")
    assert call("operator add", [1], [2]) == [1, 2]


def test_assertions(call: Any) -> None:
    call("assert", True)
    assert call.fault("assert", False) == ("0808", "assertion failed")
    assert call.fault("assert", 1 > 2, "one is small") == ("0808", "assertion failed: one is small")
    assert call.fault("assert", 1) == ("0203", "`assert` tests a bool, not i64")


@pytest.mark.parametrize(
    ("text", "method", "arguments", "expected"),
    [
        ("a,b,,c", "split", (",",), ["a", "b", "", "c"]),
        ("  a  b ", "split", (), ["a", "b"]),
        ("abc", "split", ("",), ["a", "b", "c"]),
        ("a\nb\n", "lines", (), ["a", "b"]),
        ("héy", "chars", (), ["h", "é", "y"]),
        (", ", "join", ([1, 2.5, "x"],), "1, 2.5, x"),
        ("  x ", "trim", (), "x"),
        ("aB", "to_upper", (), "AB"),
        ("aB", "to_lower", (), "ab"),
        ("banana", "replace", ("an", "-"), "b--a"),
        ("ab", "repeat", (3,), "ababab"),
        ("hello", "contains", ("ell",), True),
        ("hello", "starts_with", ("he",), True),
        ("hello", "ends_with", ("he",), False),
        ("hello", "index_of", ("l",), 2),
        ("hello", "get", (-1,), "o"),
        ("7", "pad_left", (3, "0"), "007"),
        ("7", "pad_right", (3,), "7  "),
        (" -42 ", "to_int", (), -42),
        ("2.5e3", "to_float", (), 2500.0),
        ("ab", "concat", ("cd",), "abcd"),
        ("", "is_empty", (), True),
    ],
)
def test_text_methods(call: Any, text: str, method: str, arguments: tuple[Any, ...], expected: Any) -> None:
    assert call.method(text, method, *arguments) == expected


def test_text_faults(call: Any) -> None:
    assert call.method_fault("x1", "to_int") == ("0807", '"x1" is no i64')
    assert call.method_fault("9" * 20, "to_int")[0] == "0807"
    assert call.method_fault("1_0", "to_float") == ("0807", '"1_0" is no number')
    assert call.method_fault("ab", "repeat", 10**12)[0] == "0804"
    assert call.method_fault("ab", "contains", 1) == ("0203", "a String is expected here, not i64")
    assert call.method_fault("ab", "get", 2)[0] == "0801"
    assert call("string_concat", "a", "b") == "ab"
    assert call("concat", "a", "", "bc") == "abc"
    assert call.fault("concat", "a", 3) == ("0203", "a String is expected here, not i64")
    assert call.fault("Tensor::concat", "a", "b")[0] == "0203"
    assert call.method([1, "a"], "join", "-") == "1-a"


def test_every_entry_says_what_it_does(call: Any) -> None:
    entries = list(call.library.functions.values()) + list(call.library.methods.values())
    assert [entry.name for entry in entries if not entry.doc] == []
    assert len({parameter.name for entry in entries for parameter in entry.parameters if not parameter.name.isidentifier()}) == 0


def test_maps_keep_the_order_in_which_keys_came_in(call: Any) -> None:
    ages = {"b": 1, "a": 2}
    call.method(ages, "insert", "c", 3)
    call.method(ages, "insert", "b", 9)
    assert call.method(ages, "items") == [("b", 9), ("a", 2), ("c", 3)]
    assert call.method(ages, "keys") == ["b", "a", "c"] and call.method(ages, "values") == [9, 2, 3]
    assert call.method(ages, "get_or", "d", 0) == 0 and call.method(ages, "contains_key", "a") is True
    assert str(call.method(ages, "get", "a")) == "Some(2)" and str(call.method(ages, "get", "d")) == "None"
    assert str(call.method(ages, "remove", "a")) == "Some(2)" and str(call.method(ages, "remove", "a")) == "None"
    assert call.method(ages, "take", 1) == [("b", 9)] and call.method(ages, "map", lambda pair: pair[1]) == [9, 3]
    assert call.method(ages, "len") == 2
    copy = call.method(ages, "clone")
    call.method(copy, "clear")
    assert len(ages) == 2 and call.method(copy, "is_empty") is True


def test_sets_are_those_of_python(call: Any) -> None:
    left, right = {3, 1, 4, 5}, {9, 2, 6, 5, 3}
    one, two = call("HashSet::from", list(left)), call("HashSet::from", list(right))
    for name in ("union", "intersection", "difference", "symmetric_difference"):
        assert set(call.method(one, name, two)) == getattr(left, name)(right)
    assert call.method(one, "is_subset", [*left, 7]) is True and call.method(one, "is_superset", two) is False
    assert call.method(one, "add", 7) is True and call.method(one, "add", 7) is False
    assert call.method(one, "remove", 7) is True and call.method(one, "remove", 7) is False


def test_what_no_key_can_be(call: Any) -> None:
    for key in (1.5, [1], (1, 2.5), Tensor(np.zeros(2))):
        assert call.method_fault({}, "insert", key, 0)[0] == "0203"
    assert call.fault("HashMap::from", [1]) == ("0203", "a map is made of pairs `(key, value)`, not of i64")
