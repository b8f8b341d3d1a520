"""Pages made from declarations are up to date and leave nothing out."""

from pathlib import Path

from compiler.hir import reference as instructions
from compiler.hir.instructions import INSTRUCTIONS
from zynml.stdlib import NAMES, library
from zynml.stdlib import reference as functions

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_the_page_of_the_library_is_up_to_date() -> None:
    assert (DOCS / "library.md").read_text(encoding="utf-8") == functions.markdown(), "run python -m zynml.stdlib.reference docs/library.md"


def test_the_names_of_the_library_are_up_to_date() -> None:
    assert NAMES.read_text(encoding="utf-8") == functions.names(), "run python -m zynml.stdlib.reference docs/library.md"


def test_the_page_of_the_instructions_is_up_to_date() -> None:
    page = (DOCS / "hir-instructions.md").read_text(encoding="utf-8")
    assert page == instructions.markdown(), "run python -m compiler.hir.reference docs/hir-instructions.md"


def test_the_page_of_the_library_names_every_method() -> None:
    page = functions.markdown()
    for _, name in library().methods:
        assert f"x.{name}(" in page or f"`{name}`" in page or "tensor_" in name, name


def test_the_page_of_the_instructions_names_every_instruction() -> None:
    page = instructions.markdown()
    for mnemonic in INSTRUCTIONS:
        assert f"`{mnemonic}`" in page, mnemonic
