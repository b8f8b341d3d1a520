"""Slips: what people write who come from Python, NumPy or C, and what this language writes instead: how the tables are asked.

It is asked only where the parser already stopped, so it makes nothing wrong that is right, and costs nothing while a text parses."""

import re
from collections.abc import Callable

from grammars.faults import Token
from grammars.words import kinds
from runtime.records import frozen

# What is generated is no slip, and patterns may take long on it.
LONGEST_LINE = 500
LINE_ENDS = kinds("NL DEDENT INDENT EMPTY $END")


@frozen
class Stop:
    """Where the parser stopped: at `found`, behind `previous`. `line` is the line's text with comments blank and strings masked, which
    begins at the offset `begin` of `text`; `headers` are the words whose block is awaited."""

    found: Token
    previous: Token
    acceptable: frozenset[str]
    headers: tuple[str, ...]
    text: str
    line: str
    begin: int


Groups = dict[str, str]


@frozen
class Slip:
    """One mistake: all conditions that are given must hold.

    `line` matches the part of the line around the stop, `found` and `previous` are kinds or spellings of the two tokens, `allows` and
    `forbids` kinds that could and couldn't stand there, `header` the innermost header. `hint` is filled with the groups of `line`, as the
    program writes them, and with what `words` makes of them; `message` replaces the parser's words, which then point at the whole match.
    On the line and those below, `rest` of them in all, nothing else is reported."""

    name: str
    hint: str
    line: str = ""
    found: frozenset[str] = frozenset()
    previous: frozenset[str] = frozenset()
    allows: frozenset[str] = frozenset()
    forbids: frozenset[str] = frozenset()
    header: frozenset[str] = frozenset()
    words: Callable[[Groups], Groups | None] | None = None
    message: str = ""
    rest: int = 0


@frozen
class Meant:
    """What a slip says: a hint, and, where it knows better than the parser, a message with its offsets. Faults before `hides` follow
    from it."""

    hint: str
    message: str = ""
    start: int = 0
    end: int = 0
    hides: int = 0


def meant_by(stop: Stop, slips: tuple[Slip, ...]) -> Meant | None:
    """The first slip of a table that fits, or None."""
    for slip in slips:
        fit = _fit(slip, stop)
        if fit is None:
            continue
        words, start, end = fit
        hides = stop.begin
        for _ in range(slip.rest):
            line_end = stop.text.find("\n", hides + 1)
            hides = line_end if line_end >= 0 else len(stop.text)
        hides = hides if slip.rest else 0
        return Meant(slip.hint.format_map(words), slip.message.format_map(words), start, end, hides)
    return None


def _fit(slip: Slip, stop: Stop) -> tuple[Groups, int, int] | None:
    for asked, token in ((slip.found, stop.found), (slip.previous, stop.previous)):
        if asked and token.kind not in asked and token.text not in asked:
            return None
    if not slip.allows <= stop.acceptable or slip.forbids & stop.acceptable:
        return None
    if slip.header and (not stop.headers or stop.headers[-1] not in slip.header):
        return None
    words = {"found": stop.found.text, "previous": stop.previous.text}
    words["before"] = stop.text[stop.begin : stop.found.start].strip()
    words["after"] = _statement(stop.text[stop.found.start : stop.begin + len(stop.line.rstrip())])
    start, end = stop.found.start, stop.found.end
    if slip.line:
        if len(stop.line) > LONGEST_LINE:
            return None
        around = next((m for m in re.finditer(slip.line, stop.line) if _is_around(m, stop)), None)
        if around is None:
            return None
        start, end = stop.begin + around.start(), stop.begin + around.end()
        for group, value in around.groupdict().items():
            first, last = around.span(group)
            words[group] = stop.text[stop.begin + first : stop.begin + last].strip() if value is not None else ""
    if slip.words is not None:
        more = slip.words(words)
        if more is None:
            return None
        words |= more
    return words, start, end


def _statement(text: str) -> str:
    return text.partition(";")[0].rstrip()


def _is_around(match: re.Match[str], stop: Stop) -> bool:
    """Whether a match takes in the token before the stop, or that of the stop."""
    first, last = match.start() + stop.begin, match.end() + stop.begin
    return first <= stop.found.start and last >= stop.previous.end and last > first
