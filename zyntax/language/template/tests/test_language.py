"""The language as a whole: its grammar, its actions, and its programs against the output that they state."""

from pathlib import Path

from tinypipe import language

from zyntax.testing import check_language


def test_the_language() -> None:
    assert check_language(language, Path(__file__).parents[1] / "programs") == []
