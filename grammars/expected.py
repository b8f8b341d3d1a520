"""Syntax errors in words: what could stand where the parser stopped, and what the tables of slips know better."""

from grammars.faults import Fault
from grammars.slip_tables import SLIPS
from grammars.slips import Meant, Stop, meant_by
from grammars.words import HARD, Words, kinds

_EXPRESSION = kinds(
    "NUMBER STRING FSTRING TRUE FALSE LPAR LSQB LITBRACE MINUS BANG NOT AWAIT IF MATCH TRY DEF COMPUTE EXTERN"
    " IMPORT NAME MODEL STREAM LBRACE"
)
_STATEMENT = _EXPRESSION | kinds(
    "LET MUT VAR WHILE FOR RETURN BREAK CONTINUE THROW AT FN ASYNC STRUCT ENUM TRAIT IMPL TYPE FROM PARAM CONFIG"
    " TEST PIPELINE MODULE EFFECT HANDLER ABSTRACT YIELD SHARED RENDER"
    " USE CONST CURRENCY INSTRUMENT RISK STRATEGY ACCOUNTING SIGNAL STATE EMIT WARMUP ON_EVENT"
)
_TYPE = frozenset(["NAME", "LPAR", "LSQB", "QPRE", "LITBRACE"])
_OPERATORS = kinds(
    "PLUS MINUS STAR SLASH PERCENT AT CARET STARSTAR SHL SHR EQ NE LT LE GT GE IN AND OR ANDAND OROR COALESCE PIPE"
    " AMP RANGE RANGE_TO QTERN IFX AS DOT DOUBLECOLON QPOST STRUCTBRACE GEN_LT LPAR LSQB STEP TIMEOUT FATARROW FORX"
    " SUM_OP PRODUCT_OP MONEY"
)
_SINGLE = {
    "NAME": "a name",
    "NUMBER": "a number",
    "INT": "a number",
    "STRING": "a string",
    "RPAR": "`)`",
    "RSQB": "`]`",
    "RBRACE": "`}`",
    "LPAR": "`(`",
    "LSQB": "`[`",
    "COMMA": "`,`",
    "EQUAL": "`=`",
    "COLON": "`:`",
    "TCOLON": "the `:` of `c ? a : b`",
    "ARROW": "`->`",
    "FATARROW": "`=>`",
    "DOT": "`.`",
    "DOUBLECOLON": "`::`",
    "GEN_GT": "`>`",
    "GEN_LT": "`<`",
    "IN": "`in`",
    "ELSE": "`else`",
    "ELSEX": "`else`",
    "CASE": "`case`",
    "CATCH": "`catch`",
    "IMPORT": "`import`",
    "FOR": "`for`",
    "STRUCT": "`struct`",
    "IFX": "`if`",
    "VAR": "`var`",
    "MUT": "`mut`",
    "BAR": "`|`",
    "LE": "`<=`",
    "AS": "`as`",
    "ON": "`on`",
    "AT": "an annotation",
    "WHERE": "`where`",
    "STAR": "`*`",
    "PLUS": "`+`",
    "DEF": "`def`",
    "FN": "`fn`",
    "TYPE": "`type`",
    "WITH": "`with`",
    "RANGE": "`..`",
    "TRADED_ON": "`on`",
    "MAX": "`max`",
    "EFFECTS": "`effects`",
    "CLAUSE": "a clause",
}
_END = frozenset(["NL", "SEMICOLON", "DEDENT", "$END"])
_OPERAND_ENDS = frozenset(["NAME", "NUMBER", "INT", "STRING", "FSTRING", "RPAR", "RSQB", "RBRACE", "TRUE", "FALSE", "QPOST", "GEN_GT"])


def describe_error(stop: Stop, language: Words) -> Fault:
    """The fault for a token that can't stand where it does."""
    token, previous, acceptable, text = stop.found, stop.previous, stop.acceptable, stop.text
    meant = _meant(stop, language)
    if meant is not None and meant.message:
        return Fault("0101", meant.message, meant.start, max(meant.end, meant.start + 1), "", (), meant.hint, meant.hides)
    start, end, label = token.start, token.end, ""
    match token.kind:
        case "NL" | "DEDENT" | "EMPTY":
            start, end, label = previous.end, previous.end + 1, "the line ends here"
        case "$END":
            start, end, label = previous.end, previous.end + 1, "the file ends here"
        case "$EXPRESSION_END":
            start, end, label = previous.end, previous.end + 1, "the expression ends here"
        case "INDENT":
            label = "this line is indented deeper"
        case _ if token.text in HARD:
            label = f"`{token.text}` is a reserved word"
    if previous.kind == "NL" or not previous.text:
        after = ""
    elif previous.kind in _OPERAND_ENDS and previous.end - previous.start > 20:
        after = " here"
    else:
        after = f" after `{text[previous.start : previous.end]}`"
    words = _words(acceptable)
    message = f"expected {_join(words)}{after}" if words else f"`{token.text}` can't stand here"
    return Fault("0101", message, start, max(end, start + 1), label, (), meant.hint if meant else None, meant.hides if meant else 0)


def _words(acceptable: frozenset[str]) -> list[str]:
    kinds = set(acceptable)
    words: list[str] = []
    if {"INDENT", "QPRE"} <= kinds:
        words.append("a block or a type")
        kinds -= _TYPE | {"INDENT", "EMPTY"}
    elif "INDENT" in kinds:
        words.append("a block")
        kinds -= _STATEMENT | {"INDENT", "EMPTY"}
    elif "LET" in kinds and "WHILE" in kinds:
        words.append("a statement")
        kinds -= _STATEMENT
    elif {"NUMBER", "LSQB", "FSTRING"} <= kinds:
        words.append("an expression")
        kinds -= _EXPRESSION | {"PLUS", "STAR", "SLASH", "PERCENT", "AMP", "BAR", "CARET", "AT", "OROR", "ANDAND", "OR", "AND", "LT", "GT"}
    elif {"NUMBER", "TRUE", "LPAR"} <= kinds:
        words.append("a pattern")
        kinds -= {"NUMBER", "TRUE", "FALSE", "NAME", "LPAR", "STRING", "MINUS"}
    elif {"QPRE", "LSQB", "CONST"} <= kinds:
        words.append("a type")
        kinds -= _TYPE | {"NUMBER", "LSQB", "CONST"}
    elif {"QPRE", "NUMBER"} <= kinds:
        words += ["a size", "a type"]
        kinds -= _TYPE | {"NUMBER", "MINUS"}
    elif {"NAME", "QPRE"} <= kinds:
        words.append("a type")
        kinds -= _TYPE
    operator = {"PLUS", "STAR"} <= kinds
    if operator:
        kinds -= _OPERATORS
    if kinds & {"LBRACE"} and "COLON" in kinds:
        words.append("a block (`:` or `{`)")
        kinds -= {"LBRACE", "COLON"}
    elif "LBRACE" in kinds:
        words.append("a block (`{`)")
        kinds -= {"LBRACE"}
    ends = kinds & _END
    if ends == {"SEMICOLON"}:
        words.append("`;`")
        ends = set()
    if operator and ends:
        kinds -= {"COLON"}  # `name: type = value` is not what is likely meant.
    kinds -= _END
    if "EQUAL" in kinds and "ASSIGN_OP" in kinds:
        kinds -= {"EQUAL", "ASSIGN_OP", "UNCHECKED_ASSIGN"}
    if len(kinds) > 6:
        kinds &= {"RPAR", "RSQB", "RBRACE", "COMMA", "COLON", "NAME", "EQUAL", "IN"}
    words += [_SINGLE[kind] for kind in _SINGLE if kind in kinds]
    if operator:
        words.append("an operator")
    if ends and not (words and words[0] in ("a statement", "a block")):
        words.append("the end of the line")
    return words


def _join(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _meant(stop: Stop, language: Words) -> Meant | None:
    meant = meant_by(stop, SLIPS)
    if meant is not None:
        return meant
    current, previous = stop.found, stop.previous
    for token in (previous, current):
        if token.text in language.foreign and token.kind in ("NAME", token.text.upper()):
            return Meant(f"write `{language.foreign[token.text]}` instead of `{token.text}`")
    if language.money and previous.kind == "NUMBER" and current.kind == "NAME" and current.text not in language.soft:
        return Meant("a unit stands right behind its number, as in `5ms`, and a currency in capitals, as in `5 USD`")
    return meant_by(stop, language.slips)
