"""What `zyntax explain softmax` says of a function of the library: how it is called, what it gives, and its text where it is in ZynML."""

import re
from pathlib import Path

from zynml.stdlib import StdlibSettings, library
from zynml.stdlib.reference import lines_of

FOLDER = Path(__file__).parent


def explained(name: str) -> str | None:
    """The page of the functions and methods of that name; None where the library has none."""
    lines = lines_of(name)
    text = _written(name)
    if not lines and not text:
        return None
    shown = ["In ZynML, as the library has it:", "", text] if text else []
    return "\n".join([*lines, *([""] if lines and text else []), *shown]) + "\n"


def names() -> list[str]:
    """All that can be explained."""
    known = library(StdlibSettings())
    return sorted({*known.functions, *(method for _, method in known.methods)})


def _written(name: str) -> str:
    """The function's text with the comment over it, from the files of the library that are written in ZynML."""
    head = rf"(?:^//[^\n]*\n)*^def {re.escape(name)}\("
    for path in sorted(FOLDER.glob("*.zynml")):
        found = re.search(rf"{head}(?:[^\n]*}}\n|.*?^}}\n)", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        if found is not None:
            return found[0].rstrip()
    return ""
