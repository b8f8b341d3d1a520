"""ZynML's grammar, and the words that are only words where they can stand."""

from grammars.grammar import COMMON, Grammar
from grammars.slip_tables import GENERAL
from grammars.words import COMMON_SOFT, DECLARATIONS, FOREIGN, HEADERS, NAME_FOLLOWS, NOT_OPERATOR, Soft, Words, kinds
from zynml.slips import SLIPS

_SOFT = {
    "render": Soft("RENDER", "start", rf"[ \t]+{NOT_OPERATOR}[A-Za-z_\"'\[]"),
    "stream": Soft("STREAM", "prefix", rf"[ \t]+{NOT_OPERATOR}[A-Za-z_0-9\"'\[(]"),
    "config": Soft("CONFIG", "start", r"[ \t]*(?:\{|:[ \t]*\r?\n)"),
    "pipeline": Soft("PIPELINE", "start", r"[ \t]+[A-Za-z_]\w*[ \t]*[<(]"),
    "model": Soft("MODEL", "prefix", r"[ \t]*\([^()\n]*\)[ \t]*\{"),
    "effect": Soft("EFFECT", "start", NAME_FOLLOWS),
    "handler": Soft("HANDLER", "start", NAME_FOLLOWS),
    "abstract": Soft("ABSTRACT", "start", NAME_FOLLOWS),
}

WORDS = Words(
    COMMON_SOFT | _SOFT,
    HEADERS | {"RENDER"},
    DECLARATIONS | kinds("TRAIT EFFECT HANDLER ABSTRACT PIPELINE CONFIG"),
    foreign=FOREIGN,
    slips=(*SLIPS, *GENERAL),
)
GRAMMAR = Grammar("zynml", (COMMON, COMMON.with_name("zynml.lark")), WORDS)
