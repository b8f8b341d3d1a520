"""How editors and Pygments colour a language, by the terminals of its grammar."""

import re
from typing import TYPE_CHECKING, Any

from runtime.records import frozen

if TYPE_CHECKING:
    from compiler.language import Language

_PYGMENTS = {"comment": "Comment", "string": "String", "number": "Number", "keyword": "Keyword", "name": "Name", "operator": "Operator"}
_SCOPES = {
    "comment": "comment.line",
    "string": "string.quoted",
    "number": "constant.numeric",
    "keyword": "keyword.control",
    "name": "variable.other",
    "operator": "keyword.operator",
}
_SAMPLES = {"string": ('"a b"', "'a b'"), "number": ("12", "1.5", "-3"), "name": ("abc", "x1")}


@frozen
class ColouredTerminal:
    """A terminal with what it is to a reader: one of the words of `_SCOPES`."""

    what: str
    pattern: str


def coloured(language: "Language") -> list[ColouredTerminal]:
    """The terminals of a language in the order in which they are looked for. Words stand before what names match."""
    from compiler.authoring.conflicts import tables_of

    grammar = language.grammar
    tables = tables_of(grammar, language)
    found = [ColouredTerminal("comment", re.escape(language.comment) + r"[^\n]*")]
    if tables.lexicon is None:
        from grammars.words import HARD

        words = sorted({*HARD, *grammar.words.soft})
        pattern = r"\b(?:" + "|".join(map(re.escape, words)) + r")\b"
        found += [ColouredTerminal("string", r"[fF]?\"[^\"\n]*\"|'[^'\n]*'"), ColouredTerminal("keyword", pattern)]
        return [*found, ColouredTerminal("number", r"\b\d[\w.]*"), ColouredTerminal("name", r"[A-Za-z_]\w*")]
    literals = tables.lexicon.literals
    words = sorted((text for text in literals.values() if re.fullmatch(r"\w+", text)), key=len, reverse=True)
    signs = sorted((text for text in literals.values() if not re.fullmatch(r"\w+", text)), key=len, reverse=True)
    patterns = [pattern for name, pattern in tables.lexicon.patterns.items() if name not in literals]
    for what in ("string", "number"):
        found += [ColouredTerminal(what, pattern) for pattern in patterns if _is(what, pattern)]
    if words:
        found.append(ColouredTerminal("keyword", r"\b(?:" + "|".join(map(re.escape, words)) + r")\b"))
    found += [ColouredTerminal("name", pattern) for pattern in patterns if _is("name", pattern) and not _is("number", pattern)]
    if signs:
        found.append(ColouredTerminal("operator", "|".join(map(re.escape, signs))))
    return found


def _is(what: str, pattern: str) -> bool:
    return any(re.fullmatch(pattern, sample) for sample in _SAMPLES[what]) and (what != "string" or not re.fullmatch(pattern, "ab"))


def pygments_lexer(language: "Language") -> Any:
    """A class for Pygments. Raises ImportError where Pygments isn't installed. The grammar is read when a text is to be coloured."""
    from pygments import token
    from pygments.lexer import RegexLexer, RegexLexerMeta

    class Made(RegexLexerMeta):  # type: ignore[misc]
        """Fills in the rules when the class is first asked for a lexer."""

        def __call__(cls: Any, *given: Any, **named: Any) -> Any:
            if not cls.tokens:
                rules = [(one.pattern, getattr(token, _PYGMENTS[one.what])) for one in coloured(language)]
                cls.tokens = {"root": [*rules, (r"\s+", token.Text), (r".", token.Text)]}
            return super().__call__(*given, **named)

    fields = {
        "name": language.title,
        "aliases": [language.name],
        "filenames": [f"*{ending}" for ending in language.endings],
        "tokens": {},
        "flags": re.MULTILINE,
        "__doc__": f"Programs of {language.title}.",
        "__module__": language.name,
    }
    return Made(f"{language.name.capitalize()}Lexer", (RegexLexer,), fields)


def textmate(language: "Language") -> dict[str, Any]:
    """A TextMate grammar as plain data. Patterns have the syntax that Oniguruma shares with Python's `re`."""
    patterns = [{"name": f"{_SCOPES[one.what]}.{language.name}", "match": _oniguruma(one.pattern)} for one in coloured(language)]
    return {
        "name": language.title,
        "scopeName": f"source.{language.name}",
        "fileTypes": [ending.removeprefix(".") for ending in language.endings],
        "patterns": patterns,
    }


def _oniguruma(pattern: str) -> str:
    """Python's `(?P<name>` and flags of groups, as Oniguruma writes them."""
    return re.sub(r"\(\?s:", "(?m:", pattern.replace("(?P<", "(?<"))
