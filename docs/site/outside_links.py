"""For the site: a link from a page to a file of the repository that is no page becomes the file's path.

Links that lead nowhere stay, and fail the build."""

import posixpath
import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+)(#[^)\s]*)?\)")
ROOT = Path(__file__).parents[2]


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The page's text with such links as paths."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def shown(link: re.Match[str]) -> str:
        words, target = link[1], link[2]
        if "://" in target:
            return link[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        if path.startswith("docs/") and (path.endswith((".md", ".svg", ".png"))):
            return link[0]
        if not (ROOT / path).exists():
            return link[0]
        name = words.strip("`")
        return f"`{path}`" if path.endswith(name) else f"{words} (`{path}`)"

    return LINK.sub(shown, markdown)
