"""The pages made from the registry: one code as text, all of them as Markdown. `python -m compiler.codes.page docs/errors.md` writes
the error index; a test checks that it is up to date."""

import sys
from pathlib import Path

from compiler.codes import CODES, FAMILIES
from compiler.codes.entry import Code


def explanation(code: Code) -> str:
    """One code as `zyntax explain` shows it."""
    parts = [f"{code.full}: {code.title}", "", *_wrapped(code.explanation)]
    if code.absent:
        parts += ["", *_wrapped(f"This version never gives it: {code.absent}.")]
    for heading, program in (("Wrong:", code.wrong), ("Right:", code.right)):
        if program:
            parts += ["", heading, "", *(f"    {line}".rstrip() for line in program.splitlines())]
    return "\n".join(parts) + "\n"


def listing() -> str:
    """All codes, a line each, by family."""
    out = []
    for family, codes in FAMILIES.items():
        out += [f"{family}:", *(f"  {code.full}  {code.title}" for code in codes), ""]
    return "\n".join([*out, "`zyntax explain CODE` says more about one of them.", ""])


def markdown() -> str:
    """The error index, docs/errors.md."""
    out = [
        "# Errors",
        "",
        "Every message begins with a code. This page is made from `compiler/codes` by `python -m compiler.codes.page docs/errors.md`;",
        "`zyntax explain CODE` shows one entry. Compile errors and wrong usage end a command with exit code 2, faults at run time",
        "(08xx, 09xx) with 1, bad data with 3, an interruption with 130. Of several the first counts: interrupted, doesn't compile, bad",
        "data, failed. A fault of a run that the compiler sees coming is a compile error. `--strict` makes warnings errors.",
    ]
    for family, codes in FAMILIES.items():
        out += ["", f"## {family}"]
        for code in codes:
            out += ["", f"### {code.full}: {code.title}", "", code.explanation]
            if code.absent:
                out += ["", f"*This version never gives it*: {code.absent}."]
            for heading, program in (("Wrong", code.wrong), ("Right", code.right)):
                if program:
                    out += ["", f"{heading}:", "", f"```{code.language}", program.rstrip("\n"), "```"]
    never = [code for code in CODES.values() if code.absent]
    out += ["", "## Codes that this version never gives", ""]
    out += [f"* {code.full} ({code.title}): {code.absent}." for code in never]
    return "\n".join(out) + "\n"


def _wrapped(text: str) -> list[str]:
    from textwrap import wrap

    return wrap(text, 100)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown(), encoding="utf-8")
