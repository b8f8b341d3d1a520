"""`Language` as authors make theirs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.authoring.front import AuthoredFront, LanguageDescription
from compiler.language import API, Language, NewerApi

if TYPE_CHECKING:
    from compiler.authoring.actions import AuthorActions

LAYOUTS = (None, "blocks")


class AuthoredLanguage(Language):
    """A language by its grammar in Lark's notation and a class of actions. The names of files are beside that class's module.

    `name`: by which commands and Python know it; `title`: how messages write it. `endings`: of its files, the usual one first. `start`: the
    grammar's first rule. `layout`: None for a grammar of whole texts, "blocks" for one that adds to ZynML's expressions, functions and
    blocks. `kernels`: a file of functions that actions may call, in the language that this one builds on; with `inline` they are inlined,
    so that chains of them become one kernel. `library`: the name of that language, and collections of functions of the author's own.
    `words`: terminals in words, for "expected ..."; `codes`: a file that explains the codes of its own errors. `comment`: the sign that
    begins a comment which ends with the line. `api`: the version of `zyntax.language` that it was written for."""

    def __init__(
        self,
        name: str,
        endings: Sequence[str],
        *,
        grammar: str | Path | None = None,
        actions: "type[AuthorActions] | None" = None,
        title: str = "",
        start: str = "program",
        layout: str | None = None,
        kernels: str | Path | None = None,
        library: Sequence[Any] = ("zynml",),
        inline: bool = False,
        words: Mapping[str, str] | None = None,
        codes: str | Path | None = None,
        comment: str = "//",
        api: int = API,
        **newer: Any,
    ) -> None:
        if api > API:
            raise NewerApi(name, api)
        if newer:
            raise TypeError(f"Language() has no keyword `{next(iter(newer))}`")
        if grammar is None or actions is None:
            raise TypeError(f"the language `{name}` needs a `grammar` and `actions`")
        if layout not in LAYOUTS:
            raise TypeError(f"layout={layout!r}: it is None or {LAYOUTS[1]!r}")
        self.declared = LanguageDescription(grammar, actions, start, layout, kernels, tuple(library), inline, dict(words or {}))
        front = AuthoredFront(self, self.declared)
        known = front.folder / codes if codes is not None else None
        super().__init__(
            name, endings, front=front, syntax=front.syntax, title=title, words=words, codes=known, comment=comment, api=api
        )
        self.inline = inline

    def pygments_lexer(self) -> Any:
        """A class for Pygments, made of the grammar's terminals. Needs the package Pygments."""
        from compiler.authoring.lexers import pygments_lexer

        return pygments_lexer(self)

    def textmate(self) -> dict[str, Any]:
        """A TextMate grammar, made of the grammar's terminals, as plain data for JSON."""
        from compiler.authoring.lexers import textmate

        return textmate(self)
