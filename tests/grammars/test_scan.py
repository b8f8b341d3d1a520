"""Masking of comments and strings: offsets stay, contents go."""

import pytest

from grammars.scan import mask


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a // b\nc", "a     \nc"),
        ("a /* b\n /* c */ */ d", "a" + 18 * " " + "d"),
        ('x = "a // b"', 'x = "______"'),
        ("x = 'it\\'s' + y", "x = '_____' + y"),
        ('x = """a\n" b""" + y', 'x = "_________" + y'),
        ('f"{m.get("a")} }}" + y', 'f"_______________" + y'),
        ('f"{f"{a}"}" + y', 'f"________" + y'),
        ('ff"a" + y', 'ff"_" + y'),
        ('"/*" + y', '"__" + y'),
        ("// \"\n'a'", "    \n'_'"),
    ],
)
def test_comments_are_blanked_and_strings_masked(text: str, expected: str) -> None:
    masked, faults = mask(text)
    assert (masked, faults) == (expected, ())
    assert len(masked) == len(text)


@pytest.mark.parametrize(
    ("text", "code", "start"), [('x = "abc\ny', "0105", 4), ("a /* b", "0102", 2), ('"""a\n', "0105", 0), ('f"{', "0105", 1)]
)
def test_what_is_never_closed_is_reported_where_it_opens(text: str, code: str, start: int) -> None:
    masked, (fault,) = mask(text)
    assert (fault.code, fault.start, len(masked)) == (code, start, len(text))


def test_an_unclosed_string_ends_at_its_line() -> None:
    masked, _ = mask('x = "abc\ny = 1')
    assert masked.endswith("\ny = 1")
