"""Finds the examples of a page: each fenced program with the output that stands under it, or none."""

import re
from pathlib import Path

from attrs import frozen

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@frozen
class Example:
    """`output` None: it only has to run."""

    page: str
    line: int
    language: str
    text: str
    output: str | None

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"


def examples(path: Path, language: str) -> list[Example]:
    """The page's examples in a language, in order."""
    text = path.read_text(encoding="utf-8")
    found = list(FENCE.finditer(text))
    out = []
    for here, after in zip(found, [*found[1:], None], strict=False):
        if here[1] == language:
            follows = after is not None and after[1] == "text" and not text[here.end() : after.start()].strip()
            out.append(
                Example(path.name, text.count("\n", 0, here.start()) + 2, language, here[2], after[2] if after is not None and follows else None)
            )
    return out
