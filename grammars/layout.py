"""The filter between lexer and parser: makes both block styles one, and gives words and braces their kinds.

It keeps a stack of open brackets and blocks and the last token, is pushed one token at a time and never pulls one ahead:
what needs a look forward is a pattern on the masked text. It finds the faults of layout; the grammar finds the others."""

import re

from grammars.faults import Fault, Token
from grammars.kinds import CONTINUES, MAX_NESTING, Frame, Kinds
from grammars.words import Words, kinds

MAX_CHAIN = 2000

_CLOSERS = {"RPAR": "(", "RSQB": "[", "RBRACE": "{"}
_ROUND_OR_SQUARE = kinds("RPAR RSQB")
_SHOWN_OPENERS = {"(": ")", "[": "]", "{": "}", "literal": "}"}
_AT_START = frozenset(["", "NL", "INDENT", "DEDENT", "SEMICOLON", "EMPTY"])
_CHAINING = CONTINUES - {"COMMA"} | {"DOT", "LPAR", "LSQB", "IF", "ELIF", "ELSE", "FOR", "WHILE", "MATCH", "DEF", "QPOST", "AWAIT"}
_TRACKED = kinds(
    "LPAR LSQB LBRACE LITBRACE STRUCTBRACE PATTERNBRACE COLON SEMICOLON QTERN DEF FN WHERE ARROW EQUAL IFX FATARROW COMMA MODEL FOR"
    " STRUCT ENUM"
)
# What may mean something else for the layout than it says.
_PONDERED = kinds("NEWLINE QUESTION LT DOUBLECOLON RPAR RSQB RBRACE")
_CLOSES_GENERICS = kinds("GT SHR GE")
_OPENS_PARAMETERS = re.compile(r"[ \t]*\(")
_BLANKS = re.compile(r"[ \t]*")
_CONTINUING_LINE = re.compile(
    r"\|>|\.[A-Za-z_]|\?\?|\?(?![A-Za-z_])|:(?!:)|&&|\|\||(?:and|or|else|elif)\b|[})\]]|catch[ \t]+[A-Za-z_(][\w:. \t<>,()]*[{:]"
)
_COMPUTE_LINE = re.compile(r"@|->|\{")
_NEVER_IN_BRACKETS = re.compile(r"(?:def|fn)[ \t]+[A-Za-z_]|(?:let|struct|enum|trait|impl|return|while|import|break|continue)\b")


class Layout(Kinds):
    """The filter for one text; a new one for each parse."""

    def __init__(self, text: str, words: Words) -> None:
        super().__init__(text, words)
        self.tracked = _TRACKED | words.headers | words.declarations
        self.eventful = self.tracked - {"COMMA"} | _PONDERED
        self.faults: list[Fault] = []
        self.panic = False
        self.too_deep = False
        self.every_line_ends = False  # Set after a syntax error: then a line end counts even behind an operator.
        self.line_start = 0
        self.column = len(text) - len(text.lstrip(" \t"))
        self.content_end = 0
        self.block_depth = 0
        self.suspects: list[tuple[Token, Token]] = []

    # ---- tokens in, tokens out ----------------------------------------------------------------------------------------

    def push(self, kind: str, start: int, end: int) -> list[Token]:
        """The tokens that this one of the lexer becomes."""
        text, frame = self.text[start:end], self.frames[-1]
        words = self.words
        if kind == "NAME" and (text in words.special or frame.clauses is not None or (words.money and self.last.kind == "NUMBER")):
            kind = self._word(text, start, end)
        if not (self.at_start or kind in self.eventful or (frame.generics and kind in _CLOSES_GENERICS)):  # The most of all.
            if kind in _CHAINING:
                self._chain(frame, start, end)
            elif kind == "COMMA":
                frame.chain = frame.chain_base
            token = Token(kind, text, start, end, self.block_depth)
            self.content_end = end
            self.before_last, self.last = self.last, token
            return [token]
        if kind == "NEWLINE":
            return self._newline(start, end)
        if kind in _ROUND_OR_SQUARE and frame.kind == _CLOSERS[kind] and not self.at_start:
            self.frames.pop()
            token = Token(kind, text, start, end, self.block_depth)
            self.content_end = end
            self.before_last, self.last = self.last, token
            return [token]
        out: list[Token] = []
        match kind:
            case "LBRACE":
                kind = self._brace(start)
            case "QUESTION":
                kind = self._question(start, end)
            case "LT" if self._opens_generics(start, end):
                kind = "GEN_LT"
                frame.generics += 1
                if frame.generics > MAX_NESTING:
                    self._too_deep(Token(kind, "<", start, end), "name the inner type with `type`")
            case "GT" | "SHR" | "GE" if frame.generics:
                frame.generics -= 1
                first = Token("GEN_GT", ">", start, start + 1, self.block_depth)
                self._remember(first)
                return [first] if kind == "GT" else [first, *self.push("GT" if kind == "SHR" else "EQUAL", start + 1, end)]
            case "COLON":
                kind = self._colon(end)
            case "DOUBLECOLON" if frame.kind == "[" and self._is_slice_step(end):
                first = Token("COLON", ":", start, start + 1, self.block_depth)
                self._remember(first)
                return [first, *self.push("COLON", start + 1, end)]
            case "RPAR" | "RSQB" | "RBRACE":
                closing = self._close(kind, Token(kind, text, start, end))
                if closing is None:
                    return []
                out = closing
        token = Token(kind, text, start, end, self.block_depth)
        self.content_end = end
        self._track(token)
        self._remember(token)
        out.append(token)
        return out

    def finish(self) -> list[Token]:
        """The tokens that end the text, after its last token was pushed."""
        end = len(self.text)
        out: list[Token] = []
        if self.last.kind == "COLON" and self.frames[-1].is_block and not self._in_expression_colon():
            out.append(self._empty_block())
        unclosed = [frame for frame in self.frames if frame.kind in _SHOWN_OPENERS]
        if unclosed:
            self._report_unclosed(unclosed)
            self.panic = True
        while len(self.frames) > 1:
            self._pop(out)
        out.append(Token("NL", "", end, end, 0))
        return out

    def _pop(self, out: list[Token]) -> Frame:
        frame = self.frames.pop()
        if frame.is_block:
            self.block_depth -= 1
        if frame.kind == "indent":
            self.column = frame.column
            out.append(Token("DEDENT", "", self.content_end, self.content_end, self.block_depth))
        return frame

    def _remember(self, token: Token) -> None:
        self.before_last, self.last = self.last, token

    def _track(self, token: Token) -> None:
        """Follow what a token means for the statement it stands in: headers, starts, nesting."""
        kind = token.kind
        frame = self.frames[-1]
        if self.at_start and kind not in _AT_START:
            frame.starts = token.start
            self.statement_is_annotated = kind == "AT"
        started = self.at_start
        self.at_start = False
        if kind in _CHAINING:
            frame.branches += kind == "ELIF"
            self._chain(frame, token.start, token.end)
        if kind not in self.tracked:
            return
        match kind:
            case "LPAR" | "LSQB":
                self._open({"LPAR": "(", "LSQB": "["}[kind], token)
            case "LBRACE":
                if frame.headers:
                    frame.headers.pop()
                self._open("{", token)
                self.at_start = True
            case "LITBRACE" | "STRUCTBRACE" | "PATTERNBRACE":
                self._open("literal", token)
            case "COLON" if self.block_colon:
                self.block_colon = False
                self.at_start = True
            case "SEMICOLON":
                if frame.is_block:
                    self._new_statement(frame)
            case "QTERN":
                frame.colons.append("ternary")
            case "DEF" if _OPENS_PARAMETERS.match(self.text, token.end):
                frame.colons.append("lambda")
            case "DEF" | "FN":
                frame.headers.append("def")
            case "WHERE" if frame.headers:
                frame.headers[-1] = "declaration"
            case "ARROW" if frame.headers and frame.headers[-1] == "def":
                frame.headers[-1] = "typed def"
            case "EQUAL" if frame.headers and frame.headers[-1] in ("def", "typed def", "declaration"):
                frame.headers.pop()
            case "IFX" if frame.headers and frame.headers[-1] == "CASE":
                frame.headers[-1] = "guard"
            case "FATARROW" if frame.headers and frame.headers[-1] in ("CASE", "guard"):
                frame.headers.pop()
            case "COMMA":
                frame.chain = frame.chain_base
            case "MODEL":
                self.model_open = True
            case "FOR" if frame.headers and frame.headers[-1] == "declaration":
                pass  # `impl Trait for T`
            case _ if kind in self.words.headers:
                frame.headers.append(kind)
            case _ if kind in self.words.declarations and (started or self.statement_is_annotated or kind in ("STRUCT", "ENUM")):
                frame.headers.append("declaration")
                frame.declaration = kind

    def _chain(self, frame: Frame, start: int, end: int) -> None:
        frame.chain += 1
        if frame.chain > MAX_CHAIN:
            self.too_deep = True
            message, hint = f"this expression is too long: it nests over {MAX_CHAIN:,} terms", "name a part of it with `let`"
            if frame.branches > MAX_CHAIN // 10:
                message = f"this `if` is too long: its branches and their conditions nest over {MAX_CHAIN:,} terms"
                hint = "use a `match`, a map, or several `if`s"
            self.faults.append(Fault("0108", message, start, end, hint=hint))

    def _open(self, kind: str, token: Token) -> None:
        if len(self.frames) > MAX_NESTING:
            self._too_deep(token, "move the inner part to a `def`")
        outer = self.frames[-1]
        self.frames.append(Frame(kind, token, self.column, outer.chain, self.line_start))
        if self.frames[-1].is_block and outer.declaration:
            self.frames[-1].clauses = self.words.clauses.get(outer.declaration)
            outer.declaration = ""
        self.block_depth += self.frames[-1].is_block

    def _too_deep(self, token: Token, hint: str) -> None:
        self.too_deep = True
        self._fault("0108", f"nested too deep: more than {MAX_NESTING} brackets and blocks are open", token, hint=hint)

    def _new_statement(self, frame: Frame) -> None:
        self.at_start = True
        frame.headers.clear()
        frame.declaration = ""
        frame.colons.clear()
        frame.generics = 0
        frame.chain = frame.chain_base
        frame.branches = 0

    def _fault(self, code: str, message: str, token: Token, **shown: object) -> None:
        self.faults.append(Fault(code, message, token.start, token.end, **shown))  # type: ignore[arg-type]

    # ---- lines and blocks ---------------------------------------------------------------------------------------------

    def _newline(self, start: int, end: int) -> list[Token]:
        frame = self.frames[-1]
        if end >= len(self.text):
            return []
        self.line_start = self.text.rfind("\n", start, end) + 1
        indentation = self.text[self.line_start : end]
        column = len(indentation)
        if not frame.is_block:
            if not _NEVER_IN_BRACKETS.match(self.text, end):
                return []
            self._lines_begin_in_brackets(start, end)
            frame = self.frames[-1]
        if frame.headers and self._header_goes_on(frame, end):
            return []
        out: list[Token] = []
        if self.last.kind == "COLON" and not self._in_expression_colon():
            if column > self.column:
                return [self._indent(column, indentation, end)]
            out.append(self._empty_block())
        elif self.last.kind in CONTINUES and not self._is_import_star() and not self.every_line_ends:
            return []
        elif self.last.kind in _AT_START or self.last.kind == "LBRACE":
            self._check_indentation(indentation, end)
            if self.last.kind != "DEDENT":
                self.column = column
                return out
        dedented = False
        while frame.kind == "indent" and column <= frame.base:
            self._pop(out)
            frame = self.frames[-1]
            dedented = True
        continuing = _CONTINUING_LINE.match(self.text, end)
        if continuing:
            if continuing.group().startswith(("else", "elif", "catch")):
                self.column = column
            if dedented:
                self._remember(out[-1])
            return out
        self._check_indentation(indentation, end)
        out.append(Token("NL", "", self.content_end, self.content_end, self.block_depth))
        self._remember(out[-1])
        self.column = column
        self._new_statement(frame)
        return out

    def _indent(self, column: int, indentation: str, end: int) -> Token:
        frame = self.frames[-1]
        if frame.headers:
            frame.headers.pop()
        token = Token("INDENT", "", end - column, end, self.block_depth)
        self._open("indent", token)
        inner = self.frames[-1]
        inner.base, inner.indentation = self.column, indentation
        self._check_indentation(indentation, end)
        self.column = column
        self._remember(token)
        self.at_start = True
        return token

    def _empty_block(self) -> Token:
        frame = self.frames[-1]
        colon = self.last
        line_start = self.text.rfind("\n", 0, colon.start) + 1
        start = max(frame.starts, line_start) if frame.starts <= colon.start else line_start
        header = self.text[start : colon.start].strip().split(None, 1)
        word = header[0] if header else ""
        name = re.match(r"[A-Za-z_]+", word)
        self.faults.append(
            Fault(
                "0104",
                f"the block after `{' '.join(self.text[start : colon.end].split())}` is empty",
                start,
                colon.end,
                hint=f"indent the lines of its block deeper than `{name.group()}`, or write `{{ }}` for an empty block"
                if name
                else "indent the lines of its block deeper, or write `{ }` for an empty block",
            )
        )
        if frame.headers:
            frame.headers.pop()
        token = Token("EMPTY", "", self.content_end, self.content_end, self.block_depth)
        self._remember(token)
        return token

    def _check_indentation(self, indentation: str, end: int) -> None:
        """Report a line of an indented block that mixes tabs and spaces, or that stands left of the block's first line."""
        frame = self.frames[-1]
        if frame.kind != "indent" or self.text[end : end + 1] in ("", "}"):
            return
        first, white_space = frame.indentation, Token("", "", end - len(indentation), end)
        line_end = end + len(re.compile(r"[^\n\r]*").match(self.text, end).group())  # type: ignore[union-attr]
        line = Token("", "", end, max(end + 1, line_end))
        if (" " in indentation and "\t" in indentation) or (indentation[:1] and first[:1] and indentation[0] != first[0]):
            if frame.opener.kind != "MIXED":
                frame.opener = Token("MIXED", "", frame.opener.start, frame.opener.end)
                self._fault(
                    "0103",
                    "tabs and spaces are mixed in one block",
                    white_space,
                    label=f"{_describe(indentation)}, to column {len(indentation) + 1}",
                    others=(
                        (frame.opener.start, frame.opener.end, f"the block begins with {_describe(first)}, at column {len(first) + 1}"),
                    )
                    if frame.opener.start != white_space.start
                    else (),
                    hint="indent the whole block with spaces",
                )
        elif len(indentation) < len(first):
            self._fault(
                "0103",
                "this line ends no open block: it stands between the block's lines and the header",
                line,
                label=f"column {len(indentation) + 1}",
                others=((frame.opener.start, frame.opener.end, f"the block's lines begin at column {len(first) + 1}"),),
                hint=f"begin it at column {len(first) + 1} to stay in the block, or at column {frame.base + 1} to end it",
            )

    def _header_goes_on(self, frame: Frame, end: int) -> bool:
        header = frame.headers[-1]
        if header == "COMPUTE":
            return self.last.kind != "COLON" and _COMPUTE_LINE.match(self.text, end) is not None
        if header in ("def", "typed def", "declaration") and self.text.startswith("where", end):
            return True
        return self.last.kind != "COLON" and self.text.startswith("{", end)

    def _in_expression_colon(self) -> bool:
        """A colon of a lambda or slice inside brackets never opens an indented block there."""
        return not self.frames[-1].is_block

    def _is_import_star(self) -> bool:
        return self.last.kind == "STAR" and self.before_last.kind == "IMPORT"

    # ---- closing ------------------------------------------------------------------------------------------------------

    def _close(self, kind: str, token: Token) -> list[Token] | None:
        wanted = ("{", "literal") if kind == "RBRACE" else (_CLOSERS[kind],)
        inner = next((frame for frame in reversed(self.frames) if frame.kind in wanted), None)
        out: list[Token] = []
        if inner is None and not self.frames[-1].is_block:
            inner = self.frames[-1]
            self._unclosed(inner.opener, token.start, token.end, f"`{token.text}` stands where its `{_SHOWN_OPENERS[inner.kind]}` should")
            self._pop(out)
            self.panic = True
            return None
        if inner is None:
            self._fault(
                "0101", f"`{token.text}` closes nothing", token, hint=f"remove it, or write the `{_opener_of(token.text)}` it belongs to"
            )
            self.panic = True
            return None
        if self.frames[-1].is_block and self.last.kind == "COLON":
            out.append(self._empty_block())
        while self.frames[-1] is not inner:
            frame = self._pop(out)
            if frame.kind != "indent":
                self._unclosed(frame.opener, token.start, token.end, f"`{token.text}` comes before its `{_SHOWN_OPENERS[frame.kind]}`")
                self.panic = True
        self._pop(out)
        if inner.kind == "{":
            self._suspect(inner, token)
            self.column = inner.column
        return out

    def _suspect(self, inner: Frame, closer: Token) -> None:
        """A `}` first on its line, left of its opener's line, probably belongs to an outer `{`."""
        start, opening = self.line_start, inner.line_start
        blanks = _BLANKS.match(self.text, opening)
        assert blanks is not None
        if start != opening and closer.start - start < blanks.end() - opening and self.text[start : closer.start].strip() == "":
            self.suspects.append((inner.opener, closer))

    def _lines_begin_in_brackets(self, start: int, end: int) -> None:
        """A line that can only begin a statement ends all open brackets: the innermost one is what was forgotten."""
        word = re.compile(r"\w+").match(self.text, end)
        assert word is not None
        reported = False
        while not self.frames[-1].is_block:
            frame = self.frames.pop()
            if not reported:
                self._unclosed(frame.opener, word.start(), word.end(), f"it should be closed before this `{word.group()}`")
            reported = True
        self.panic = True
        self.last = Token("NL", "", start, start)

    def _report_unclosed(self, unclosed: list[Frame]) -> None:
        if self.suspects and unclosed[-1].kind == "{":
            opener, closer = self.suspects[0]
            self._unclosed(opener, closer.start, closer.end, "this `}` stands in the column of an outer block")
            return
        for frame in unclosed[-1:]:
            end = len(self.text.rstrip())
            self._unclosed(frame.opener, end - 1, end, f"the file ends here without its `{_SHOWN_OPENERS[frame.kind]}`")

    def _unclosed(self, opener: Token, start: int, end: int, where: str) -> None:
        closer = {"(": ")", "[": "]", "{": "}"}[opener.text]
        others = ((start, end, where),) if start > opener.start else ()
        self._fault("0102", f"`{opener.text}` is never closed", opener, others=others, hint=f"write the missing `{closer}`")


def _describe(indentation: str) -> str:
    tabs, spaces = indentation.count("\t"), indentation.count(" ")
    parts = [f"{count} {word}{'s' if count > 1 else ''}" for count, word in ((tabs, "tab"), (spaces, "space")) if count]
    return " and ".join(parts) or "nothing"


def _opener_of(closer: str) -> str:
    return {")": "(", "]": "[", "}": "{"}[closer]
