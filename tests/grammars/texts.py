"""All programs of the repository: files, and the blocks of pages."""

import re
from functools import cache
from pathlib import Path

from grammars.faults import ParseFailure
from grammars.grammar import Grammar
from grammars.recorded import Recorded, recorded
from quantdsl.grammar import GRAMMAR as QUANTDSL
from zynml.grammar import GRAMMAR as ZYNML

ROOT = Path(__file__).parents[2]
ENDINGS = {".zynml": "zynml", ".qdsl": "quantdsl"}
GRAMMARS: dict[str, Grammar] = {"zynml": ZYNML, "quantdsl": QUANTDSL}
_BLOCK = re.compile(r"^```(zynml|quantdsl)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_FOLDERS = ("programs", "tests", "docs", "zynml", "quantdsl", "bench")


@cache
def parsed(text: str, language: str) -> Recorded | None:
    """The tokens of a program; None for one with syntax errors."""
    try:
        return recorded(text, GRAMMARS[language])
    except ParseFailure:
        return None


@cache
def texts() -> tuple[tuple[str, str, str], ...]:
    """Name, language and text of every program without a syntax error."""
    found: list[tuple[str, str, str]] = []
    for folder in _FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = str(path.relative_to(ROOT))
            if path.suffix in ENDINGS:
                found.append((name, ENDINGS[path.suffix], path.read_bytes().decode("utf-8", "replace")))
            elif path.suffix == ".md":
                blocks = _BLOCK.finditer(path.read_text(encoding="utf-8"))
                found += ((f"{name}:{number}", block[1], block[2]) for number, block in enumerate(blocks))
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    found += ((f"README.md:{number}", block[1], block[2]) for number, block in enumerate(_BLOCK.finditer(page)))
    return tuple(program for program in found if parsed(program[2], program[1]) is not None)
