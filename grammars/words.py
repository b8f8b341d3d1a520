"""Words: which are reserved, which are only where they can stand, and what must follow them. Tables only."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from runtime.records import frozen


def kinds(text: str) -> frozenset[str]:
    """The kinds of token named in a text, for tables that read as a list of words."""
    return frozenset(text.split())


HARD = {
    word: word.upper()
    for word in [
        "def",
        "fn",
        "let",
        "mut",
        "if",
        "elif",
        "else",
        "while",
        "for",
        "in",
        "return",
        "break",
        "continue",
        "match",
        "case",
        "struct",
        "enum",
        "trait",
        "impl",
        "import",
        "from",
        "true",
        "false",
        "and",
        "or",
        "not",
    ]
}

NOT_OPERATOR = r"(?!(?:and|or|in|if|as|else|step|on|not)\b)"
NAME_FOLLOWS = rf"[ \t]+{NOT_OPERATOR}[A-Za-z_]"
_OPERAND_FOLLOWS = rf"[ \t]+{NOT_OPERATOR}[A-Za-z_\"'\[(]"
STATEMENT_VALUE_FOLLOWS = r"[ \t]+(?!=)[\w(\[\"'{!-]"
_VALUE_FOLLOWS = r"[ \t]*(?:[A-Za-z_0-9(\[\"'{!-])"


@frozen
class Soft:
    """A word that is one only at a `place` ("start" of a statement, "operand": after one, "prefix": where an operand can
    stand, "closed": after a block, "type": after a `:`, "parameter": first in parentheses or after a comma there) and when the text
    behind it matches `follows`."""

    kind: str
    place: str
    follows: str


COMMON_SOFT: dict[str, Soft | tuple[Soft, ...]] = {
    "var": (
        Soft("VAR", "start", rf"[ \t]+(?:{NOT_OPERATOR}[A-Za-z_(]|(?:as|step|on)[ \t]*(?::|=(?!=)))"),
        Soft("VAR", "parameter", rf"[ \t]+{NOT_OPERATOR}[A-Za-z_]\w*[ \t]*[:,=)\r\n]"),
    ),
    "step": Soft("STEP", "operand", _VALUE_FOLLOWS),
    "as": Soft("AS", "operand", r"[ \t]*[A-Za-z_(?{]"),
    "on": Soft("ON", "operand", r"[ \t]*[\"']"),
    "type": Soft("TYPE", "start", NAME_FOLLOWS),
    "where": Soft("WHERE", "operand", r"\s+[A-Za-z_]\w*[ \t]*:"),
    "async": Soft("ASYNC", "start", r"[ \t]+(?:def|fn)\b"),
    "await": Soft("AWAIT", "prefix", rf"[ \t]+{NOT_OPERATOR}[A-Za-z_(\[]"),
    "try": Soft("TRY", "prefix", r"[ \t]*(?:\{|:[ \t]*\r?\n)"),
    "catch": Soft("CATCH", "closed", r"[ \t]*[A-Za-z_(]"),
    "throw": Soft("THROW", "start", r"[ \t]+(?!(?:and|or|in|if|as|else|step|on)\b)[A-Za-z_\"'\[(0-9]"),
    "extern": Soft("EXTERN", "prefix", NAME_FOLLOWS),
    "with": Soft("WITH", "operand", NAME_FOLLOWS),
    "timeout": Soft("TIMEOUT", "operand", _VALUE_FOLLOWS),
    "compute": Soft("COMPUTE", "prefix", r"[ \t]*\("),
    "yield": Soft("YIELD", "start", r"[ \t]*(?![=.)+*/%@:]|-=)[^\s]"),
    "shared": Soft("SHARED", "start", r"[ \t]+var\b"),
    "param": Soft("PARAM", "start", rf"(?:{NAME_FOLLOWS}|[ \t]+step[ \t]*:)"),
    "test": Soft("TEST", "start", r"[ \t]+[\"']"),
    "module": Soft("MODULE", "start", NAME_FOLLOWS),
}

# Words of other languages, with what is written instead; slip_tables.py has what needs more than another word.
FOREIGN = {
    "func": "def",
    "function": "def",
    "fun": "def",
    "proc": "def",
    "const": "let",
    "val": "let",
    "auto": "let",
    "elseif": "elif",
    "elsif": "elif",
    "unless": "if not",
    "foreach": "for",
    "loop": "while true",
    "repeat": "while true",
    "use": "import",
    "include": "import",
    "using": "import",
}

HEADERS = kinds("IF ELIF WHILE FOR MATCH CASE CATCH COMPUTE")
DECLARATIONS = kinds("STRUCT ENUM IMPL TEST")


@frozen
class Words:
    """The words of one language, as the layout filter needs them.

    `headers` are words whose line the first `{` at its depth ends, `declarations` those of them that declare. In the blocks of the
    declarations named in `clauses` lines consist of clauses, which begin with the words listed there (at a line's start with any) and
    need no separator; `links` are words inside them. With `money` a word in capitals behind a number is its currency. `foreign` has words
    that people take from elsewhere, with what this language writes instead. The formatter puts spaces around the `=` of
    `f(name = value)` where `spaced_arguments` says so. `slips`: what is written in
    its own way in other ways than by a word (`slips.Slip`)."""

    soft: Mapping[str, Soft | tuple[Soft, ...]]
    headers: frozenset[str]
    declarations: frozenset[str]
    clauses: Mapping[str, frozenset[str]] = {}
    links: frozenset[str] = frozenset()
    money: bool = False
    foreign: Mapping[str, str] = {}
    spaced_arguments: bool = False
    slips: tuple[Any, ...] = ()

    @cached_property
    def special(self) -> frozenset[str]:
        """All that may be more than names."""
        return frozenset([*HARD, *self.soft, "kernel"])

    def softs(self, word: str) -> tuple[Soft, ...]:
        """The ways in which a word is one."""
        tokens = self.soft.get(word, ())
        return tokens if isinstance(tokens, tuple) else (tokens,)
