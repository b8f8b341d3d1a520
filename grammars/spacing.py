"""White space between two tokens of one line, as the formatter writes it."""

from grammars.faults import Token
from grammars.words import Words, kinds

OPENERS = kinds("LPAR LSQB LBRACE LITBRACE STRUCTBRACE PATTERNBRACE")
CLOSERS = kinds("RPAR RSQB RBRACE")
_TIGHT_AROUND = kinds("DOUBLECOLON")
_SIGNS = kinds("MINUS BANG PLUS")
_CALLS = kinds(
    "arguments signature lambda_ variant_tuple variant_pattern compute model import_value impl_abstract abstract"
    " extern_with_effects shape_annotation"
)
_INDEXES = frozenset(["index", "bracket_type", "shared_variable"])
_PREFIXED = frozenset(["struct_base", "rest_pattern"])
_ANNOTATIONS = frozenset(["annotation", "kernel_annotation", "shape_annotation"])
_SINGLE = frozenset(["unary", "negative_number"])
_SPACED_COLONS = frozenset(["instrument"])
_SPACED = frozenset(["record_type", "model"])


def blank_between(before: Token, after: Token, roles: dict[int, str], opener: Token, words: Words, apart: bool) -> bool:
    """Whether a space stands between two tokens; `opener` is the bracket that is open between them. `apart`: the program has white
    space there."""
    first, second = before.kind, after.kind
    role, next_role = roles.get(before.start, ""), roles.get(after.start, "")
    if first in OPENERS or second in CLOSERS:
        return _inside(before, after, roles, opener)
    if second in ("COMMA", "SEMICOLON", "QPOST", "GEN_LT", "GEN_GT") or first in ("GEN_LT", "QPRE"):
        return False
    if first in ("COMMA", "SEMICOLON"):
        return True
    if first in _TIGHT_AROUND or second in _TIGHT_AROUND or first == "DOT" or (second == "DOT" and first != "PIPE"):
        return False
    if first in ("RANGE", "RANGE_TO"):
        return False
    if second in ("RANGE", "RANGE_TO"):
        return next_role in _PREFIXED
    if "COLON" in (first, second):
        return _around_colon(before, after, role, next_role, apart)
    if first in _SIGNS and role in _SINGLE:
        return False
    if first == "AT" and role in _ANNOTATIONS:
        return False
    if "EQUAL" in (first, second) and "named_argument" in (role if first == "EQUAL" else "", next_role if second == "EQUAL" else ""):
        return words.spaced_arguments
    if second == "LPAR":
        return next_role not in _CALLS
    if second == "LSQB":
        return next_role not in _INDEXES
    return True


def _inside(before: Token, after: Token, roles: dict[int, str], opener: Token) -> bool:
    """Between a bracket and what it holds."""
    if opener.kind in ("LPAR", "LSQB"):
        return False
    if opener.kind == "LITBRACE":
        role = roles.get(opener.start)
        return role in _SPACED and not (before is opener and after.kind == "RBRACE")
    return True


def _around_colon(before: Token, after: Token, role: str, next_role: str, apart: bool) -> bool:
    if before.kind == after.kind and role == next_role == "slice":
        return apart
    if after.kind == "COLON":
        return next_role in _SPACED_COLONS
    return role != "slice"
