"""The page of kinds and annotations has an example of each that there is."""

import re

from compiler.typed_ast.annotation_arguments import BLOCK_ANNOTATIONS, LOOP_ANNOTATIONS
from compiler.typed_ast.kernel import KernelType
from tests.docs.examples import ROOT

PAGE = (ROOT / "docs" / "annotations.md").read_text(encoding="utf-8")
HEADINGS = " ".join(re.findall(r"^### (.*)$", PAGE, re.MULTILINE))


def test_every_kind_has_an_example() -> None:
    assert [kind.value for kind in KernelType if not re.search(rf"\b{kind.value}\b", HEADINGS)] == []


def test_every_annotation_has_an_example() -> None:
    assert [name for name in (*BLOCK_ANNOTATIONS, *LOOP_ANNOTATIONS) if f"@{name}" not in HEADINGS] == []
