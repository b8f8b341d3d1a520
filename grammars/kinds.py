"""Kinds: what a word, a brace, a `?`, `<` or `:` is where it stands, decided from the open brackets, the last token and a
pattern on the text behind it. The blocks are layout.py's business."""

import re

from grammars.faults import Token
from grammars.words import HARD, Words, kinds

MAX_NESTING = 200

# After these a line end separates nothing.
CONTINUES = kinds(
    "COMMA EQUAL ASSIGN_OP FATARROW ARROW DOT DOUBLECOLON PIPE BAR AMP COALESCE QTERN TCOLON OROR ANDAND BANG EQ NE"
    " LT LE GT GE SHL SHR PLUS MINUS STAR SLASH PERCENT AT CARET STARSTAR RANGE RANGE_TO AND OR NOT IN IFX ELSE ELSEX STEP"
    " AS GEN_LT QPRE SUM_OP PRODUCT_OP UNCHECKED_ASSIGN"
)
_OPERAND_ENDS = frozenset(
    ["NAME", "NUMBER", "INT", "STRING", "FSTRING", "RPAR", "RSQB", "RBRACE", "TRUE", "FALSE", "QPOST", "GEN_GT", "MONEY"]
)
_EXPRESSION_FOLLOWS = CONTINUES | {"LPAR", "LSQB", "LITBRACE", "RETURN", "YIELD", "COLON", "THROW", "STRUCTBRACE"}

_STRUCT_BEHIND = re.compile(r"\{\s*(?:\}|[A-Za-z_]\w*\s*(?::(?!:)|,)|\.\.)|\{\s*[A-Za-z_]\w*\s*\}")
_LITERAL_BEHIND = re.compile(
    r"\{\s*(?:\}|[A-Za-z_]\w*\s*:(?!:)|[fF]?[\"'][^\"'\n]*[\"']\s*:(?!:)|-?\d[\w.]*\s*:(?!:)|\([^(){}\n]*\)\s*:(?!:)"
    r"|[^{};\n]{0,100}:[^{};\n]{0,100}\bfor\b[^{};\n]{0,100}\bin\b)"
)
_VALUE_AT_START = re.compile(  # No block is empty here, or begins with a literal before `:`, or a name before `:` and a value without `=`.
    rf"\{{\s*(?:\}}|[fF]?[\"'][^\"'\n]*[\"']\s*:(?!:)|-?\d[\w.]*\s*:(?!:)|(?!(?:{'|'.join(HARD)}|try)\b)[A-Za-z_]\w*\s*:(?!:)[^=;\n{{}}]+[,}}])"
)
_AFTER_PATTERN = re.compile(r"[ \t]*(?::|\{|if\b|=>|\|(?![>|]))")
_AFTER_ARROW_PATTERN = re.compile(r"[ \t]*(?:if\b[^\n]*=>|=>|=(?!=)|\|(?![>|]))")
_AFTER_GENERICS = re.compile(r"[ \t]*(?:[(),>{}=:;?\]\n\r+]|$|(?:where|on|for|in|effects)\b)")
_INSIDE_GENERICS = re.compile(r"(?!.*\b(?:and|or|not|if|in)\b)[\w\s,:;?+\[\](){}.=>*-]*$")
_TERNARY_REST = re.compile(r"[ \t]+[^\s)\]},;=]|[^\S\n]*[^\s)\]},;=]")
_TERNARY_TIGHT = re.compile(r"[A-Za-z_0-9(\"']")
_IN_GENERICS = re.compile(r"[<>()\[\]\"'{};\n]")
_LONGEST_GENERICS = 400
_RECORD_TYPE_STARTS = re.compile(r"[<,(\[:]\s*\Z")
_NESTED_GENERICS = re.compile(r"(?:[A-Za-z_]\w*<){20,300}")
_KERNEL_WORD = re.compile(rf"[ \t]+(?!(?:{'|'.join(HARD)})\b)[A-Za-z_]")
_COLON_BEHIND = re.compile(r"[ \t]*:")
_SLICE_STEP = re.compile(r"\s*[-\d(\],:]")


_BLOCKS = frozenset(["{", "indent", "file"])


class Frame:
    """An open bracket or block. `kind` is "(", "[", "literal" (a brace of an expression), "{" (a block), "indent" or "file"."""

    __slots__ = (
        "base",
        "branches",
        "chain",
        "chain_base",
        "clauses",
        "colons",
        "column",
        "declaration",
        "generics",
        "headers",
        "indentation",
        "is_block",
        "kind",
        "line_start",
        "opener",
        "starts",
    )

    def __init__(self, kind: str, opener: Token, column: int, chain: int, line_start: int) -> None:
        self.kind = kind
        self.is_block = kind in _BLOCKS
        self.opener = opener
        self.column = column
        self.line_start = line_start
        self.base = -1
        self.indentation = ""
        self.headers: list[str] = []
        self.declaration = ""  # The kind of the last word here that declares something with a block.
        self.clauses: frozenset[str] | None = None  # The words that begin clauses, in a block of clauses.
        self.colons: list[str] = []
        self.generics = 0
        self.chain = self.chain_base = chain
        self.branches = 0  # `elif`s of the statement so far.
        self.starts = opener.end


class Kinds:
    """What the layout filter knows of the statement it is in, and the kinds that follow from it."""

    def __init__(self, text: str, words: Words) -> None:
        self.text = text
        self.words = words
        self.frames = [Frame("file", Token("", "", 0, 0), 0, 0, 0)]
        self.last = self.before_last = Token("", "", 0, 0)
        self.at_start = True
        self.block_colon = False
        self.statement_is_annotated = False
        self.model_open = False

    def _word(self, text: str, start: int, end: int) -> str:
        last = self.last.kind
        if last in ("DOT", "DOUBLECOLON") or (last == "AT" and self.last.end == start):
            if last == "AT" and text == "kernel" and _KERNEL_WORD.match(self.text, end):
                return "KERNEL_AT"
            return "NAME"
        after_operand = last in _OPERAND_ENDS
        hard = HARD.get(text)
        if hard is not None and last in ("DEF", "FN") and self.text[end : end + 1] in ("(", "<"):
            return "NAME"
        if hard == "IF":
            return "IFX" if after_operand else "IF"
        if hard == "ELSE":
            # Behind `timeout 1s` it is what `await` gives instead, unless a one-line `if` goes on.
            return "ELSEX" if self.before_last.kind == "TIMEOUT" and not _COLON_BEHIND.match(self.text, end) else "ELSE"
        if hard == "FOR":
            return "FORX" if after_operand and not self.frames[-1].is_block else "FOR"
        if hard is not None:
            return hard
        if self.frames[-1].clauses is not None:
            return self._clause_word(text, self.frames[-1].clauses)
        if last in ("DEF", "FN", "LET", "MUT"):
            return "NAME"
        for soft in self.words.softs(text):
            if self._stands(soft.place) and re.compile(soft.follows).match(self.text, end):
                return soft.kind
        return "MONEY" if self.words.money and last == "NUMBER" and text.isupper() else "NAME"

    def _stands(self, position: str) -> bool:
        """Whether a word of this place can be one here."""
        last = self.last.kind
        match position:
            case "start":
                annotated = self.statement_is_annotated and last in ("RPAR", "NAME")
                return self.at_start or annotated or last in ("SHARED", "EXTERN", "ASYNC")
            case "operand":
                return last in _OPERAND_ENDS
            case "closed":
                return last in ("RBRACE", "DEDENT") or last in _OPERAND_ENDS
            case "type":
                return last == "COLON"
            case "parameter":
                return last in ("LPAR", "COMMA") and self.frames[-1].kind == "("
            case _:
                return last not in _OPERAND_ENDS

    def _clause_word(self, text: str, clauses: frozenset[str]) -> str:
        """A word directly in a block of clauses: at a line's start, or known and behind something whole, it begins a clause."""
        if self.at_start or self.last.kind == "COMMA" or (text in clauses and self.last.kind in _OPERAND_ENDS):
            return "CLAUSE"
        if text in self.words.links:
            return "LINK"
        return "MONEY" if self.words.money and self.last.kind == "NUMBER" and text.isupper() else "NAME"

    def _colon(self, end: int) -> str:
        frame = self.frames[-1]
        meaning = frame.colons.pop() if frame.colons and not frame.generics else ""
        if meaning == "ternary":
            return "TCOLON"
        if frame.generics:
            return "COLON"
        if meaning != "lambda" and frame.headers and frame.is_block:
            header = frame.headers[-1]
            if header == "def":
                frame.headers[-1] = "typed def"
            elif header != "declaration" or re.compile(r"[ \t]*(?:\r?\n|$)").match(self.text, end):
                frame.headers.pop()
            self.block_colon = True
        elif self.last.kind in ("ELSE", "TRY"):
            self.block_colon = True
        return "COLON"

    def _question(self, start: int, end: int) -> str:
        if self.last.kind not in _OPERAND_ENDS:
            return "QPRE"
        blank = start > 0 and self.text[start - 1] in " \t\n"
        if blank:
            return "QTERN" if _TERNARY_REST.match(self.text, end) else "QPOST"
        return "QTERN" if _TERNARY_TIGHT.match(self.text, end) else "QPOST"

    def _brace(self, start: int) -> str:
        last, frame = self.last.kind, self.frames[-1]
        text = self.text
        if frame.generics:
            return "LITBRACE"
        if frame.headers:
            if frame.headers[-1] == "CASE" and last == "NAME" and self._closes_before(start, _AFTER_PATTERN):
                return "PATTERNBRACE"
            is_result = frame.headers[-1] in ("def", "typed def") and last in ("COLON", "ARROW")
            return "LITBRACE" if is_result and frame.is_block else "LBRACE"
        if last == "NAME" and self._in_pattern():
            return "PATTERNBRACE"
        if last == "RPAR" and self.model_open:
            self.model_open = False
            return "LITBRACE"
        if self.at_start and _VALUE_AT_START.match(text, start):
            return "LITBRACE"
        if (self.at_start and last != "COLON") or last in ("RPAR", "ELSE", "TRY", "RBRACE"):
            return "LBRACE"
        if last in ("NAME", "GEN_GT") and _STRUCT_BEHIND.match(text, start):
            return "PATTERNBRACE" if self._closes_before(start, _AFTER_ARROW_PATTERN) else "STRUCTBRACE"
        if (last == "FATARROW" or (last == "COLON" and frame.kind != "literal")) and re.compile(r"\{\s*\}").match(text, start):
            return "LBRACE"
        if last in _EXPRESSION_FOLLOWS and _LITERAL_BEHIND.match(text, start):
            return "LITBRACE"
        return "LBRACE"

    def _in_pattern(self) -> bool:
        """Whether the innermost brackets are those of a pattern: after `case`, or before the `=>` of an arm."""
        outer = -1
        while self.frames[outer].kind in ("(", "literal"):
            outer -= 1
        if outer == -1:
            return False
        if self.frames[outer].headers:
            return self.frames[outer].headers[-1] == "CASE"
        return self._closes_before(self.frames[outer + 1].opener.start, _AFTER_ARROW_PATTERN)

    def _closes_before(self, start: int, behind: re.Pattern[str]) -> bool:
        """Whether `behind` stands after the bracket that closes the one at `start`."""
        depth = 0
        for match in re.compile(r"[({;})]").finditer(self.text, start, start + 2000):
            if match.group() == ";":
                return False
            depth += 1 if match.group() in "({" else -1
            if depth == 0:
                return behind.match(self.text, match.end()) is not None
        return False

    def _opens_generics(self, start: int, end: int) -> bool:
        if self.last.kind == "IMPL":
            return True
        if self.last.kind not in ("NAME", "DOUBLECOLON") or self.last.end != start:
            return False
        nested = _NESTED_GENERICS.match(self.text, end)
        if nested is not None and nested.group().count("<") >= MAX_NESTING:
            return True
        depth, round_ = 1, 0
        for match in _IN_GENERICS.finditer(self.text, end, end + (_LONGEST_GENERICS if nested is None else 4 * len(nested.group()))):
            match match.group():
                case "<":
                    depth += 1
                case ">" if self.text[match.start() - 1] not in "-=":
                    depth -= 1
                    if depth == 0:
                        inside = self.text[end : match.start()].replace("<", " ")
                        return round_ == 0 and _INSIDE_GENERICS.match(inside) is not None and self._ends_generics(match.end())
                case "(" | "[":
                    round_ += 1
                case "{" if _RECORD_TYPE_STARTS.search(self.text, end - 1, match.start()):
                    round_ += 1
                case ")" | "]" | "}":
                    round_ -= 1
                    if round_ < 0:
                        return False
                case ";" if round_ > 0:
                    continue
                case '"' | "'" | "{" | ";" | "\n":
                    return False
        return False

    def _ends_generics(self, position: int) -> bool:
        return _AFTER_GENERICS.match(self.text, position) is not None

    def _is_slice_step(self, end: int) -> bool:
        return self.last.kind in ("LSQB", "COMMA") or _SLICE_STEP.match(self.text, end) is not None
