"""Every program of the pages runs, and prints what the page says; one that doesn't compile shows the message that the page shows."""

import contextlib
import io
from pathlib import Path

import pytest

from compiler.diagnostics import ZyntaxError, render
from compiler.driver import DriverOptions
from compiler.source import Source, Sources
from tests.docs.examples import Example, examples
from zynml.api import open_source

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "errors.md")]
"""The error index has programs that are wrong on purpose, and tests of its own."""


def of(language: str) -> list[Example]:
    return [example for page in PAGES for example in examples(page, language)]


def outcome(text: str) -> str:
    """What a program prints on the CPU, and the messages that it ends with."""
    sources, output = Sources(), io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            open_source(sources.add(Source("example.zynml", text)), DriverOptions(threads=2), sources, lambda warning: None).run()
    except ZyntaxError as error:
        return output.getvalue() + "\n\n".join(render(one, sources) for one in error.diagnostics) + "\n"
    return output.getvalue()


@pytest.mark.parametrize("example", of("zynml"), ids=lambda example: example.name)
def test_programs_do_what_the_page_says(example: Example) -> None:
    found = outcome(example.text)
    if example.output is None:
        assert "error[" not in found
    else:
        assert found == example.output


@pytest.mark.parametrize("example", of("python"), ids=lambda example: example.name)
def test_python_runs(example: Example) -> None:
    exec(compile(example.text, example.name, "exec"), {})  # noqa: S102


def test_the_language_page_shows_every_output() -> None:
    assert all(example.output is not None for example in examples(ROOT / "docs" / "zynml.md", "zynml"))
