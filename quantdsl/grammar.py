"""QuantDSL's grammar, and the words that are only words where they can stand."""

from grammars.clauses import CLAUSES, LINKS
from grammars.grammar import COMMON, Grammar
from grammars.slip_tables import GENERAL, QUANTDSL_SLIPS
from grammars.words import COMMON_SOFT, DECLARATIONS, FOREIGN, HEADERS, NAME_FOLLOWS, STATEMENT_VALUE_FOLLOWS, Soft, Words, kinds

_SOFT: dict[str, Soft | tuple[Soft, ...]] = {
    "use": Soft("USE", "start", NAME_FOLLOWS),
    "currency": Soft("CURRENCY", "start", NAME_FOLLOWS),
    "instrument": Soft("INSTRUMENT", "start", NAME_FOLLOWS),
    "risk": Soft("RISK", "start", NAME_FOLLOWS),
    "strategy": Soft("STRATEGY", "start", NAME_FOLLOWS),
    "accounting": Soft("ACCOUNTING", "start", NAME_FOLLOWS),
    "signal": Soft("SIGNAL", "start", r"[ \t]+[A-Za-z_]\w*[ \t]*[<(]"),
    "state": Soft("STATE", "start", r"[ \t]+[A-Za-z_]\w*[ \t]*(?:[:;}\n\r]|=(?!=)|$)"),
    "emit": Soft("EMIT", "start", STATEMENT_VALUE_FOLLOWS),
    "warmup": Soft("WARMUP", "start", STATEMENT_VALUE_FOLLOWS),
    "const": (Soft("CONST", "start", NAME_FOLLOWS), Soft("CONST", "type", NAME_FOLLOWS)),
    "on": (Soft("ON_EVENT", "start", NAME_FOLLOWS), Soft("ON", "operand", r"[ \t]*[\"']"), Soft("TRADED_ON", "operand", NAME_FOLLOWS)),
    "max": Soft("MAX", "operand", r"[ \t]+[\w(]"),
    "effects": Soft("EFFECTS", "operand", r"[ \t]*\("),
}

_FOREIGN = {word: ours for word, ours in FOREIGN.items() if ours != "import" and word != "const"}
_FOREIGN |= {"class": "struct", "switch": "match"}
_FOREIGN |= {"import": "use", "from": "use", "include": "use", "using": "use", "trait": "struct"}

WORDS = Words(
    {**COMMON_SOFT, **_SOFT},
    HEADERS | {"ON_EVENT"},
    DECLARATIONS | kinds("CURRENCY INSTRUMENT RISK STRATEGY SIGNAL"),
    {declaration.upper(): frozenset(forms) for declaration, forms in CLAUSES.items()},
    LINKS,
    money=True,
    foreign=_FOREIGN,
    spaced_arguments=True,
    slips=(*QUANTDSL_SLIPS, *GENERAL),
)
GRAMMAR = Grammar("quantdsl", (COMMON, COMMON.with_name("quantdsl.lark")), WORDS)
