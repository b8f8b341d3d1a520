"""`zyntax.compile`: a program of any language."""

from pathlib import Path
from typing import Any

USUAL = "zynml"
"""The language of a text that comes from no file, where none is named."""


def compile(source: str | Path, language: str | None = None, **options: Any) -> Any:
    """Compile a program: a `Path`, a text that names a file, or the program's text itself. `language` is the name of its language, which
    the ending of a file says, and without which a text is ZynML. `options` are the keywords of the language's own `compile`."""
    from compiler.languages import endings, language_named, language_with

    ending = Path(source).suffix if isinstance(source, Path) or "\n" not in source else ""
    is_file = isinstance(source, Path) or ending in endings()
    if language is not None:
        return language_named(language).compile(Path(source) if is_file else source, **options)
    found = language_with(ending) if ending in endings() else language_named(USUAL)
    return found.compile(Path(source) if is_file else source, **options)
