"""The same mistake has the same code and words in both languages, at the same place."""

import pytest

from tests.core.dialects import Stopped, outcome

RENAME = "rename one of them"
MISTAKES = [
    ("fn f() { }\nfn f() { }", Stopped("0210", "`f` is defined twice", RENAME, "f")),
    ("fn f(a: int, a: int) -> int { a }", Stopped("0210", "parameter `a` is defined twice", RENAME, "a: int")),
    ("type T = int\ntype T = f64\nfn f() { }", Stopped("0210", "type `T` is defined twice", RENAME, "type T = f64")),
]


@pytest.mark.parametrize(("text", "expected"), MISTAKES, ids=[expected.message for _, expected in MISTAKES])
@pytest.mark.parametrize("dialect", ["Z", "H", "N"])
def test_a_mistake_has_the_same_words(dialect: str, text: str, expected: Stopped) -> None:
    assert outcome(dialect, text + "\n", ()) == expected
