"""The examples of a page: fenced programs, what stands under them, and what the program above a fenced stage gives there.

`python -m tests.docs.examples` writes all of that anew (and the pages made from declarations); read the difference before you commit it."""

import contextlib
import io
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from attrs import evolve, frozen

from compiler.diagnostics import ZyntaxError, render
from compiler.driver import CompileOptions, Session
from compiler.machines.cpu import CpuMachine
from compiler.source import Source, Sources
from zynml.api import open_source

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "errors.md")]
"""The error index has programs that are wrong on purpose, and tests of its own."""

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STAGE = re.compile(r"--emit ([\w=-]+)(?: --target (\w+))?(?: --like '([^']+)')?")
MACHINE = CpuMachine(512, 32)
"""For which the pages show schedules, wherever they are read."""


@frozen
class Example:
    """A fenced text. Of an output, a `text` right under a program, and of a stage, a `hir` or `schedule`, `program` is what it belongs to."""

    page: str
    line: int
    language: str
    text: str
    program: str = ""
    stage: str = ""
    target: str | None = None
    like: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}{' ' + self.stage if self.stage else ''}"

    @property
    def renewed(self) -> str:
        """What should stand there."""
        match self.language:
            case "text" if self.program:
                return outcome(self.program, self.stage == "sanitize")
            case "hir" | "schedule":
                return stage_of(self.program, self.stage, self.target, self.like)
            case _:
                return self.text


def examples(path: Path) -> list[Example]:
    """All fenced texts of a page, in order."""
    text = path.read_text(encoding="utf-8")
    found = []
    program, end = "", 0
    for fence in FENCE.finditer(text):
        language, between = fence[1], text[end : fence.start()]
        made = Example(path.name, text.count("\n", 0, fence.start()) + 2, language, fence[2])
        if language == "zynml":
            program = fence[2]
        elif language in ("hir", "schedule"):
            stage, target, like = STAGE.findall(between)[-1]
            made = evolve(made, program=program, stage=stage, target=target or None, like=(like,) if like else ())
        elif language == "text" and "`zyntax run --sanitize" in between:
            made = evolve(made, program=program, stage="sanitize")
        elif language == "text" and not between.strip() and found and found[-1].language == "zynml":
            made = evolve(made, program=program)
        found.append(made)
        end = fence.end()
    return found


def outcome(text: str, sanitize: bool = False) -> str:
    """What a program prints on the CPU, or with `--sanitize`, and the messages that it ends with."""
    output = io.StringIO()
    sources = Sources()
    try:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(output):
            _session(text, sources, sanitize).run()
    except ZyntaxError as error:
        return output.getvalue() + "\n\n".join(render(one, sources) for one in error.diagnostics) + "\n"
    return output.getvalue()


def stage_of(text: str, stage: str, target: str | None = None, like: tuple[str, ...] = ()) -> str:
    """A program at a stage, on the machine of the pages or for a GPU, where a call is described as in that call."""
    session = _session(text, Sources())
    session.kernel_options = evolve(session.kernel_options, machine=MACHINE)
    return str(session.emit(stage, target, like)).rstrip("\n") + "\n"


def _session(text: str, sources: Sources, sanitize: bool = False) -> Session:
    return open_source(sources.add(Source("example.zynml", text)), CompileOptions(threads=2, sanitize=sanitize), sources, lambda warning: None)


def renew(path: Path) -> None:
    """Writes the page's outputs and stages anew."""
    fresh = iter([example.renewed for example in examples(path)])
    text = path.read_text(encoding="utf-8")
    path.write_text(FENCE.sub(lambda fence: f"```{fence[1]}\n{next(fresh)}```", text), encoding="utf-8")


if __name__ == "__main__":
    from compiler.hir import reference as instructions
    from zynml.stdlib import reference as functions

    made: dict[str, Callable[[], str]] = {"library.md": functions.markdown, "hir-instructions.md": instructions.markdown}
    for name, markdown in made.items():
        (ROOT / "docs" / name).write_text(markdown(), encoding="utf-8")
    for page in PAGES:
        sys.stderr.write(f"{page.name}\n")
        renew(page)
