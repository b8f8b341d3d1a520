"""The formatter: a program in the layout of the house, without a change of its meaning.

It works on the tokens of the layout filter, so it knows which block a line belongs to, and keeps what tokens don't have: comments, and the
lines as the program breaks them. It sets indentation, the spaces inside of lines, empty lines and the columns of comments at the ends of
lines. A text that is formatted already stays as it is."""

import re

from grammars.faults import Token
from grammars.grammar import Grammar
from grammars.recorded import Recorded, recorded
from grammars.spacing import CLOSERS, OPENERS, blank_between
from grammars.trivia import Comment, trivia
from grammars.words import kinds
from runtime.records import define

_GOES_ON = kinds("ELSE ELIF CATCH")
_HEADS = kinds("IF ELIF ELSE WHILE FOR MATCH CASE COMPUTE STRUCT ENUM TRAIT IMPL DEF FN TRY CATCH TEST FATARROW STREAM")
_FIRST_INDENTED = re.compile(r"^([ \t]+)[^\s]", re.MULTILINE)
_MEMBER_END = "_arm_sep"
_CONDITIONAL = "python_conditional"
_MOST_EMPTY = 2
_MOST_EMPTY_INSIDE = 1
_COMMENT_GAP = 2
_CLAUSE_GAP = 2


class NotTheSame(Exception):
    """The formatted text would mean something else: a fault of the formatter."""


def formatted(text: str, grammar: Grammar) -> str:
    """The text in the layout of the house. Raises ParseFailure for one with syntax errors, and NotTheSame."""
    program = recorded(text, grammar)
    result = _Writer(program, grammar).result()
    if result != text and recorded(result, grammar).meaning != program.meaning:
        raise NotTheSame
    return result


def tidied(text: str) -> str:
    """The text without white space at the ends of lines and of the file: what is known of every language."""
    return re.sub(r"[ \t\f]+(?=\r?\n|\Z)", "", text).rstrip("\r\n") + "\n" if text.strip() else ""


@define
class _Frame:
    """An open bracket or block. Its lines begin at `indent`, the line of its closer at `close`; `head` is the indentation of the line where
    the construct begins that stands in it now, `statement` that of the statement around it. In the program its first line, or for a bracket
    its first token, begins at `source_column`. `aligned` is the column under which lines stand that are aligned with it."""

    opener: Token
    indent: int
    close: int
    head: int
    statement: int
    source_column: int = -1
    aligned: int | None = None
    hanging: bool = False
    element_column: int = -1

    @property
    def is_block(self) -> bool:
        return self.opener.kind in ("", "LBRACE", "INDENT")


@define
class _Line:
    """A line as it is written: its text without the comment that ends it, and where that stood in the program."""

    text: str
    comment: str = ""
    comment_column: int = -1


class _Writer:
    def __init__(self, program: Recorded, grammar: Grammar) -> None:
        self.program, self.text = program, program.text
        self.words = grammar.words
        self.step = _step(program.masked)
        self.heads = _HEADS | self.words.headers | self.words.declarations
        nothing = Token("", "", 0, 0)
        self.frames = [_Frame(nothing, 0, 0, 0, 0, 0)]
        self.statement = 0
        self.lines: list[_Line] = []
        self.line = ""
        self.line_indent = 0
        self.before = nothing
        self.virtual: list[str] = []
        self.popped: list[_Frame] = []

    def result(self) -> str:
        for token in self.program.tokens:
            if not token.text:
                self._unwritten(token)
            else:
                self._write(token)
        self._end()
        _align_comments(self.lines)
        text = "\n".join(line.text + line.comment for line in self.lines)
        return text + "\n" if text else ""

    # ---- tokens -----------------------------------------------------------------------------------------------------------

    def _unwritten(self, token: Token) -> None:
        """A token that opens or closes a block, or ends a line."""
        self.virtual.append(token.kind)
        if token.kind == "INDENT":
            column = self.statement + self.step
            self.frames.append(_Frame(token, column, self.statement, column, self.statement, token.end - token.start))
        elif token.kind == "DEDENT":
            frame = self.frames.pop()
            self.statement = frame.statement
            self.popped.append(frame)

    def _write(self, token: Token) -> None:
        found = trivia(self.text, self.before.end, token.start)
        if token.kind in CLOSERS and self.before.kind == "INDENT":
            self.before = token
        first = self._is_first(token, found.breaks)
        if first:
            indentation = self._indentation(token)
            self._comments(found.comments, indentation, token)
            self._new_line(token, indentation, found.last_breaks)
        else:
            for comment in found.comments:
                self.line += f" {comment.text}"
            if self.before.text and (found.comments or self._blank(token)):
                self.line += self._gap(token, bool(found.comments))
        self._place(token, first)
        self.line += self.text[token.start : token.end]
        self.before = token
        self.virtual, self.popped = [], []

    def _is_first(self, token: Token, breaks: int) -> bool:
        return breaks > 0 or not self.before.text

    def _blank(self, token: Token) -> bool:
        apart = token.start > self.before.end
        return blank_between(self.before, token, self.program.roles, self.frames[-1].opener, self.words, apart)

    def _gap(self, token: Token, commented: bool) -> str:
        """The white space before a token inside of a line: clauses may stand in columns."""
        written = token.start - self.before.end
        if token.kind == "CLAUSE" and self.before.kind not in ("LBRACE", "SEMICOLON", "COMMA") and not commented:
            return " " * max(written, _CLAUSE_GAP)
        return " "

    def _place(self, token: Token, first: bool) -> None:
        """Follow the brackets and blocks that a token opens or closes, before it is written."""
        frame = self.frames[-1]
        column = _width(self.line)
        if self.before is frame.opener and not frame.is_block:
            frame.hanging = first
            frame.source_column = _column(self.text, token.start)
            frame.aligned = column
            frame.element_column = frame.source_column
        if token.kind in self.heads:
            frame.head = self.line_indent
        if token.kind in CLOSERS:
            closed = self.frames.pop()
            if closed.opener.kind == "LBRACE":
                self.statement = closed.statement
        elif token.kind in OPENERS:
            base = frame.head if token.kind == "LBRACE" else self.line_indent
            self.frames.append(_Frame(token, base + self.step, base, base, self.statement))

    # ---- lines ------------------------------------------------------------------------------------------------------------

    def _indentation(self, token: Token) -> int:
        """The indentation of the line that begins with this token."""
        frame = self.frames[-1]
        if token.kind in CLOSERS:
            return self._of_closer(frame, token)
        if not frame.is_block:
            return self._in_brackets(frame, token)
        begins = "NL" in self.virtual or "INDENT" in self.virtual or self.before.kind in ("", "LBRACE", "SEMICOLON")
        if begins:
            self.statement = frame.indent
        elif token.kind in _GOES_ON and self.program.roles.get(token.start) != _CONDITIONAL:
            self.statement = self.popped[-1].statement if self.popped else self.statement
        elif token.kind == "LBRACE":
            return frame.head
        elif self.popped:
            return self.popped[-1].statement
        elif self.before.kind == "COMMA" and self.program.roles.get(self.before.start) == _MEMBER_END:
            self.statement = frame.indent
        else:
            deeper = self.statement + self.step
            if token.kind in _GOES_ON:
                self.statement = deeper
            return deeper
        frame.head = self.statement
        return self.statement

    def _of_closer(self, frame: _Frame, token: Token) -> int:
        aligned = not frame.is_block and not frame.hanging and self.before is not frame.opener
        if aligned and _column(self.text, token.start) == frame.source_column and frame.aligned is not None:
            return frame.aligned
        return frame.close

    def _in_brackets(self, frame: _Frame, token: Token) -> int:
        column = _column(self.text, token.start)
        if self.before is frame.opener:
            base = frame.indent
        elif not frame.hanging and frame.aligned is not None and column == frame.source_column:
            base = frame.aligned
        else:
            base = frame.indent
            if self.before.kind in ("COMMA", "SEMICOLON"):
                frame.element_column = column
            elif frame.hanging and column > frame.element_column >= 0:
                base += self.step
        frame.head = base
        return base

    def _new_line(self, token: Token | None, indentation: int, breaks: int) -> None:
        """End the line that is being written, and begin another."""
        self._finish_line()
        if token is not None:
            self._empty_lines(breaks, closing=token.kind in CLOSERS)
        self.line = " " * indentation
        self.line_indent = indentation

    def _finish_line(self) -> None:
        if self.line.strip():
            self.lines.append(_Line(self.line.rstrip(" ")))
        self.line = ""

    def _empty_lines(self, breaks: int, closing: bool = False) -> None:
        opened = self.before.kind in (*OPENERS, "INDENT") or (self.before.kind == "COLON" and "INDENT" in self.virtual)
        after_comment = bool(self.lines) and self.lines[-1].text.strip() == "" and self.lines[-1].comment != ""
        if not self.lines or closing or (opened and not after_comment):
            return
        most = _MOST_EMPTY if len(self.frames) == 1 else _MOST_EMPTY_INSIDE
        self.lines += [_Line("") for _ in range(min(breaks - 1, most))]

    # ---- comments ---------------------------------------------------------------------------------------------------------

    def _comments(self, comments: list[Comment], indentation: int, token: Token | None) -> None:
        """The comments before a line: those at the end of the line before, and those on lines of their own."""
        closed = 0
        for comment in comments:
            if comment.breaks == 0 and self.before.text:
                if not self.line:
                    self._append(comment)
                else:
                    self.lines.append(_Line(self.line.rstrip(" "), comment.text, comment.column))
                    self.line = ""
                continue
            self._finish_line()
            self._empty_lines(comment.breaks)
            column, closed = self._comment_column(comment, indentation, closed, token)
            self.lines.append(_Line(" " * column, comment.text))

    def _append(self, comment: Comment) -> None:
        """Another comment on a line that one ends already."""
        self.lines[-1].comment += f" {comment.text}"

    def _comment_column(self, comment: Comment, indentation: int, closed: int, token: Token | None) -> tuple[int, int]:
        """Where a comment of its own line stands: in the innermost of the blocks that end here that it isn't left of, without those that
        ended before an earlier comment. How many have ended then."""
        for number, frame in enumerate(self.popped[closed:], closed):
            if comment.column >= frame.source_column:
                return frame.indent, number
        if token is not None and token.kind in CLOSERS and self.frames[-1].indent != indentation:
            return self.frames[-1].indent, len(self.popped)
        return indentation, len(self.popped)

    def _end(self) -> None:
        """What stands behind the last token."""
        found = trivia(self.text, self.before.end, len(self.text))
        self._comments(found.comments, 0, None)
        self._finish_line()


def _step(masked: str) -> int:
    """By how many columns a program indents its blocks: 4, or 2 where its first indented line says so."""
    first = _FIRST_INDENTED.search(masked)
    return 2 if first is not None and first[1] == "  " else 4


def _align_comments(lines: list[_Line]) -> None:
    """Set the columns of comments behind code: those of lines that follow each other and are aligned stay so."""
    number = 0
    while number < len(lines):
        line = lines[number]
        if not line.comment or not line.text.strip():
            number += 1
            continue
        end = number + 1
        while end < len(lines) and lines[end].comment_column == line.comment_column and lines[end].text.strip():
            end += 1
        column = max(_width(each.text) for each in lines[number:end]) + _COMMENT_GAP
        for each in lines[number:end]:
            each.text += " " * (column - _width(each.text))
        number = end


def _column(text: str, offset: int) -> int:
    return offset - (text.rfind("\n", 0, offset) + 1)


def _width(line: str) -> int:
    """The column behind a line, whose tokens may contain line ends."""
    return len(line) - (line.rfind("\n") + 1)
