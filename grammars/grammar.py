"""A grammar as frontends declare theirs: where its text is, and which words the layout filter knows."""

from functools import cached_property
from pathlib import Path

from grammars.words import Words
from runtime.records import frozen

COMMON = Path(__file__).with_name("common.lark")
"""What languages share that have the layout of `layout.py`: expressions, types, functions, blocks and plain statements."""

NO_WORDS = Words({}, frozenset(), frozenset())


@frozen(eq=False)
class Grammar:
    """`files` make up the text, one behind the other. `words`: those of the layout filter. Without `layout` there is no filter: the
    terminals are what stands in a text. `starts`: rules that may be parsed."""

    name: str
    files: tuple[Path, ...]
    words: Words = NO_WORDS
    starts: tuple[str, ...] = ("program", "expression_only")
    layout: bool = True
    more: str = ""
    """What stands behind the files."""

    @cached_property
    def text(self) -> str:
        return "".join(file.read_text(encoding="utf-8") for file in self.files) + self.more
