"""Words: which are reserved, which are only where they can stand, and what must follow them. Tables only."""

from attrs import frozen


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

_NOT_OPERATOR = r"(?!(?:and|or|in|if|as|else|step|on|not)\b)"
NAME_FOLLOWS = rf"[ \t]+{_NOT_OPERATOR}[A-Za-z_]"
_OPERAND_FOLLOWS = rf"[ \t]+{_NOT_OPERATOR}[A-Za-z_\"'\[(]"
_VALUE_FOLLOWS = r"[ \t]*(?:[A-Za-z_0-9(\[\"'{!-])"


@frozen
class Soft:
    """A word that is one only at a `place` ("start" of a statement, "operand": after one, "prefix": where an operand can
    stand, "any") and when the text behind it matches `follows`."""

    kind: str
    place: str
    follows: str


COMMON_SOFT = {
    "var": Soft("VAR", "start", rf"[ \t]+{_NOT_OPERATOR}[A-Za-z_(]"),
    "step": Soft("STEP", "operand", _VALUE_FOLLOWS),
    "as": Soft("AS", "operand", r"[ \t]*[A-Za-z_(?{]"),
    "on": Soft("ON", "operand", r"[ \t]*[\"']"),
    "type": Soft("TYPE", "start", NAME_FOLLOWS),
    "where": Soft("WHERE", "operand", r"\s+[A-Za-z_]\w*[ \t]*:"),
    "async": Soft("ASYNC", "start", r"[ \t]+(?:def|fn)\b"),
    "await": Soft("AWAIT", "prefix", rf"[ \t]+{_NOT_OPERATOR}[A-Za-z_(\[]"),
    "try": Soft("TRY", "prefix", r"[ \t]*(?:\{|:[ \t]*\r?\n)"),
    "catch": Soft("CATCH", "closed", r"[ \t]*[A-Za-z_(]"),
    "throw": Soft("THROW", "start", r"[ \t]+(?!(?:and|or|in|if|as|else|step|on)\b)[A-Za-z_\"'\[(0-9]"),
    "extern": Soft("EXTERN", "prefix", NAME_FOLLOWS),
    "with": Soft("WITH", "operand", NAME_FOLLOWS),
    "timeout": Soft("TIMEOUT", "operand", _VALUE_FOLLOWS),
}

_ZYNML_SOFT = {
    "compute": Soft("COMPUTE", "prefix", r"[ \t]*\("),
    "yield": Soft("YIELD", "start", r"[ \t]*(?![=.)+*/%@:]|-=)[^\s]"),
    "shared": Soft("SHARED", "start", r"[ \t]+var\b"),
    "render": Soft("RENDER", "start", rf"[ \t]+{_NOT_OPERATOR}[A-Za-z_\"'\[]"),
    "stream": Soft("STREAM", "prefix", _OPERAND_FOLLOWS),
    "config": Soft("CONFIG", "start", r"[ \t]*(?:\{|:[ \t]*\r?\n)"),
    "pipeline": Soft("PIPELINE", "start", r"[ \t]+[A-Za-z_]\w*[ \t]*[<(]"),
    "param": Soft("PARAM", "start", NAME_FOLLOWS),
    "test": Soft("TEST", "start", r"[ \t]+[\"']"),
    "module": Soft("MODULE", "start", NAME_FOLLOWS),
    "model": Soft("MODEL", "prefix", r"[ \t]*\([^()\n]*\)[ \t]*\{"),
    "effect": Soft("EFFECT", "start", NAME_FOLLOWS),
    "handler": Soft("HANDLER", "start", NAME_FOLLOWS),
    "abstract": Soft("ABSTRACT", "start", NAME_FOLLOWS),
}

HEADERS = {"IF", "ELIF", "WHILE", "FOR", "MATCH", "CASE", "CATCH", "COMPUTE", "RENDER"}
DECLARATIONS = {"STRUCT", "ENUM", "TRAIT", "IMPL", "EFFECT", "HANDLER", "ABSTRACT", "PIPELINE", "CONFIG", "TEST"}


@frozen
class Words:
    """The words of one language, as the layout filter needs them."""

    soft: dict[str, Soft]
    headers: frozenset[str]
    declarations: frozenset[str]


ZYNML = Words(COMMON_SOFT | _ZYNML_SOFT, frozenset(HEADERS), frozenset(DECLARATIONS))
BY_LANGUAGE = {"zynml": ZYNML}
