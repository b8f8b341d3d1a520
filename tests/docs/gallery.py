"""The page of the gallery: each program by what its first sentence says, by language, with pictures that some of them draw.

`python -m tests.docs.gallery docs/gallery.md` writes it."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LANGUAGES = {"zynml": "ZynML", "imagepipe": "ImagePipe", "quantdsl": "QuantDSL"}
PICTURES = {"mandelbrot": "The Mandelbrot set", "photo_edges": "Edges of a photograph", "digits_confusion": "Digits that were confused"}
ABOUT = """# Gallery

The programs of [programs/](../programs), by what their first lines say. Each states its output, and `zyntax test programs` runs them all. Those
on real data read files of [programs/data](../programs/data/README.md).

"""


def sentence(program: Path) -> str:
    """What the program says of itself first."""
    lines = []
    for line in program.read_text(encoding="utf-8").splitlines():
        if not line.startswith("//") or re.match(r"// *(prints|run|on the emulator|zyntax)\b", line):
            break
        lines.append(line.removeprefix("//").strip())
    return re.split(r"(?<=\.) (?=[A-Z`])", " ".join(lines).strip())[0]


def page() -> str:
    """The page in Markdown."""
    parts = [ABOUT, *(f"![{words}](pictures/{name}.png)\n" for name, words in PICTURES.items())]
    for folder, language in LANGUAGES.items():
        programs = sorted(path for path in (ROOT / "programs" / folder).glob("*") if path.suffix in (".zynml", ".qdsl", ".imgpipe"))
        if programs:
            parts.append(f"\n## {language}\n\n| program | what it does |\n| --- | --- |\n")
            parts += [f"| [{path.stem}](../programs/{folder}/{path.name}) | {sentence(path)} |\n" for path in programs]
    return "".join(parts)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
