"""The `test` blocks of the documentation's examples hold."""

import re
from pathlib import Path

import pytest

from tests.quantdsl.elaborate.running import Functions

DOCS = Path(__file__).parents[3] / "docs"
EXAMPLES = [
    pytest.param(text, id=f"{page.stem}-{number}")
    for page in sorted(DOCS.glob("quantdsl*.md"))
    for number, text in enumerate(re.findall(r"^```quantdsl\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
    if re.search(r'^test "', text, re.MULTILINE)
]


@pytest.mark.parametrize("text", EXAMPLES)
def test_blocks_hold(text: str) -> None:
    found = Functions(text).tests()
    assert found and all(outcome == () for outcome in found.values()), found


def test_there_are_examples() -> None:
    assert EXAMPLES
