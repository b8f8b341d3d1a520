"""What the language has, as the programs of `programs/` show it: each names in its first line the part of the language and the feature.

    // feature: 4 | try, catch and throw

`python -m tests.language.features docs/features.md` writes the table."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from runtime.records import frozen

FOLDER = Path(__file__).parent / "programs"
PARTS = {
    1: "Text and layout",
    2: "Literals",
    3: "Types",
    4: "Functions and statements",
    5: "Compute blocks",
    6: "The library",
}
_HEAD = re.compile(r"// feature: (\d) \| (\S.*)")
_ABOUT = """# What ZynML has, feature by feature

Each row is a program of [tests/language/programs](../tests/language/programs), which states its own output. The tests run it on Python and
natively, and programs with compute blocks on the emulated GPU, too. [zynml.md](zynml.md) explains the language.
"""


@frozen
class ShownFeature:
    """A feature and the program that shows it."""

    part: int
    words: str
    path: Path


def programs() -> list[Path]:
    """The programs by name; those of a folder are modules of the program beside it."""
    return sorted(FOLDER.glob("*.zynml"))


def feature_of(path: Path) -> ShownFeature:
    """The feature that a program shows. Raises ValueError for a head that names none."""
    first = path.read_text(encoding="utf-8").split("\n", 1)[0]
    found = _HEAD.fullmatch(first)
    if found is None or int(found[1]) not in PARTS:
        raise ValueError(f"{path.name} begins with `{first}`, and not with `// feature: PART | WORDS`")
    return ShownFeature(int(found[1]), found[2], path)


def page() -> str:
    """The table in Markdown, by parts of the language."""
    features = [feature_of(path) for path in programs()]
    lines = [_ABOUT]
    for part, name in PARTS.items():
        lines += [f"## {name}", "", "| feature | program |", "| --- | --- |"]
        lines += [_row(feature) for feature in features if feature.part == part]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _row(feature: ShownFeature) -> str:
    words = feature.words.replace("|", "\\|")
    return f"| {words} | [{feature.path.stem}](../tests/language/programs/{feature.path.name}) |"


def main(arguments: Sequence[str]) -> None:
    Path(arguments[0]).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
