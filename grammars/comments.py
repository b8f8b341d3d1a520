"""Comments that were meant as divisions: `7 // 2` is `7` and a comment. What is said of them, where they lie inside brackets, which they
then leave open, and where they end a line that is right without them.

A line that is right is only suspected when nothing else can be meant: its value is a number, a name, an element, a size or a group in
parentheses, one space or none stands on both sides of `//`, and all that follows is a number, or an expression that begins with one. A word
behind `//`, or a value behind a call, is a comment."""

import re

from grammars.faults import Fault
from grammars.slips import LONGEST_LINE
from runtime.records import evolve, frozen

_NAME = r"[A-Za-z_]\w*"
_INDEXED = rf"{_NAME}(?:\.{_NAME})*(?:\[[^\[\]\n]*\])?"
_GROUP = r"(?<![\w)\]])\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)"
_SIZE = rf"\blen\([^()\n]*\)|{_INDEXED}\.(?:len|numel|size|ndim)\(\)|{_INDEXED}\.shape(?:\(\d*\))?(?:\[\d+\])?"
_ASSIGNED = rf"(?:(?:let|mut|var)\b[^=\n]*|{_INDEXED}\s*[-+*/%^]?)=(?!=)|\b(?:return|yield)\b"
_SUSPECT = (
    rf"^(?:(?:.*[{{:;])?\s*)(?:(?:{_ASSIGNED})\s*(?P<alone>\d+|{_INDEXED})|(?:{_ASSIGNED}).*?(?P<part>{_GROUP}|{_SIZE}))(?P<space> ?)$"
)
_ASSIGNING = rf"^(?:.*[{{:;])?\s*(?P<alone>{_INDEXED}) ?$"
_DIVISOR = r" ?(?P<divisor>\d*[2-9]\d*|1\d+)(?:\s*[-+*/%]\s*(?:[\w.\[\]]+|\([^()]*\)))*\s*[-+*/%]?\s*$"
_ASSIGNED_DIVISOR = rf"=\s*(?P<divisor>\d+|{_INDEXED})\s*;?\s*$"
_OPERAND = rf"(?:{_GROUP}|{_INDEXED}\([^()\n]*\)|{_INDEXED}|\d[\w.]*)\s*$"
_COMMENTED_OPERAND = rf"\s*(?P<divisor>{_NAME}(?:\.{_NAME})*(?:\([^()\n]*\)|\[[^\[\]\n]*\])?|\d[\w.]*)"
_CLOSERS = {"(": ")", "[": "]"}


@frozen
class Division:
    """A comment from `start` to `end` that was likely meant to divide `left` by what it begins with; `assigns`: it is
    `left //= divisor`."""

    left: str
    divisor: str
    start: int
    end: int
    assigns: bool = False

    @property
    def meant(self) -> str:
        return f"{self.left} {'/=' if self.assigns else '/'} {self.divisor}"


_CHEAP = re.compile(r"[\w)\]] ?//(?: ?\d|=)")


def suspected(text: str, masked: str | None = None) -> list[Division]:
    """The comments of a text that parses which were likely meant as divisions."""
    if not _CHEAP.search(text):
        return []
    if masked is None:
        from grammars.scan import mask

        masked, _ = mask(text)
    divisions = []
    for candidate in _CHEAP.finditer(text):
        start = text.index("//", candidate.start())
        if masked[start] == "/" or masked[candidate.start()] != text[candidate.start()]:
            continue
        begin = text.rfind("\n", 0, start) + 1
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if masked[start:end].strip():
            continue
        code, comment = masked[begin:start], text[start + 2 : end]
        if len(code) + len(comment) > LONGEST_LINE:
            continue
        assigns = re.match(_ASSIGNED_DIVISOR, comment)
        left = re.match(_ASSIGNING if assigns else _SUSPECT, code)
        divisor = assigns or re.match(_DIVISOR, comment)
        if left is None or divisor is None:
            continue
        groups = left.groupdict()
        divisions.append(Division(groups["alone"] or groups["part"], divisor["divisor"], start, end, assigns is not None))
    return divisions


def explained(fault: Fault, text: str, masked: str) -> Fault:
    """A bracket that is never closed because a comment took the rest of its line, as such; any other fault as it is."""
    if fault.code != "0102" or text[fault.start : fault.end] not in _CLOSERS:
        return fault
    end = text.find("\n", fault.start)
    end = len(text) if end < 0 else end
    start = text.find("//", fault.end, end) if end - fault.end <= LONGEST_LINE else -1
    while start >= 0 and masked[start] != " ":
        start = text.find("//", start + 1, end)
    if start < 0 or _CLOSERS[text[fault.start]] not in text[start:end]:
        return fault
    left, divisor = re.search(_OPERAND, masked[fault.end : start]), re.match(_COMMENTED_OPERAND, text[start + 2 : end])
    if left is None or divisor is None:
        return fault
    hint = f"write `{left.group().strip()} / {divisor['divisor']}`: `/` divides ints, and rounds toward zero"
    return evolve(fault, others=((start, end, "`//` begins a comment"),), hint=hint)
