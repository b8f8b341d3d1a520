"""Links of the site: pages keep theirs, files of the repository become their paths, and what leads nowhere stays for the build to find."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("outside_links", ROOT / "docs" / "site" / "outside_links.py")
assert _SPEC is not None and _SPEC.loader is not None
outside_links = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(outside_links)


def shown(markdown: str, page: str = "zynml.md") -> str:
    return str(outside_links.on_page_markdown(markdown, SimpleNamespace(file=SimpleNamespace(src_uri=page)), None, None))


def test_pages_keep_their_links() -> None:
    assert shown("[a](gpu.md), [b](gpu.md#out), [c](#out), ![d](stages.svg)") == "[a](gpu.md), [b](gpu.md#out), [c](#out), ![d](stages.svg)"


def test_files_of_the_repository_become_their_paths() -> None:
    assert shown("[driver.py](../compiler/driver.py)") == "`compiler/driver.py`"
    assert shown("[the driver](../compiler/driver.py)") == "the driver (`compiler/driver.py`)"
    assert shown("[matmul](../../programs/zynml/matmul.zynml)", "decisions/0001.md") == "matmul (`programs/zynml/matmul.zynml`)"


def test_links_that_lead_nowhere_stay() -> None:
    assert shown("[gone](../compiler/gone.py)") == "[gone](../compiler/gone.py)"


def test_every_page_is_in_the_contents() -> None:
    contents = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"{page.name}\n" not in contents] == []
