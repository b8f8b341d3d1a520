"""Every program of the pages runs and prints what the page says, or shows the message that the page shows; stages are what `--emit` gives."""

import pytest

from tests.docs.examples import PAGES, ROOT, Example, examples, outcome

ALL = [example for page in PAGES for example in examples(page)]


def of(*languages: str) -> list[Example]:
    return [example for example in ALL if example.language in languages and (example.program or example.language != "text")]


@pytest.mark.parametrize("example", of("zynml"), ids=lambda example: example.name)
def test_programs_run(example: Example) -> None:
    if not any(other.program == example.text for other in of("text")):
        assert "error[" not in outcome(example.text)


@pytest.mark.parametrize("example", of("text"), ids=lambda example: example.name)
def test_programs_print_what_the_page_says(example: Example) -> None:
    assert example.renewed == example.text


@pytest.mark.parametrize("example", of("hir", "schedule"), ids=lambda example: example.name)
def test_stages_are_what_the_page_shows(example: Example) -> None:
    assert example.renewed == example.text, "if that is meant, run python -m tests.docs.examples"


@pytest.mark.parametrize("example", of("python"), ids=lambda example: example.name)
def test_python_runs(example: Example) -> None:
    exec(compile(example.text, example.name, "exec"), {})


def test_the_language_page_shows_every_output() -> None:
    page = examples(ROOT / "docs" / "zynml.md")
    shown = {example.program for example in page}
    assert all(example.text in shown for example in page if example.language == "zynml")
