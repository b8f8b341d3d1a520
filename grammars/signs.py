"""Characters that no spelling begins with: what they are elsewhere, and what is written instead. A table."""

import re

from grammars.faults import Fault
from runtime.records import frozen


@frozen
class Sign:
    """A spelling that begins with such a character. `hint` and `message` are filled with the groups of `pattern`; with `rest` nothing else
    on the line is reported."""

    pattern: str
    hint: str
    message: str = ""
    rest: bool = False


def _sign(pattern: str, hint: str, message: str = "", rest: bool = False) -> Sign:
    return Sign(pattern, hint, message, rest)


_QUOTES = "a string stands in straight quotes"
_OPERAND = r"[\w.]+(?:\[[^\[\]\n]*\]|\([^()\n]*\))?"

SIGNS = (
    _sign(
        '[\u201c\u201d\u201e\u00ab](?P<inside>[^\u201c\u201d\u201e\u00bb"\n]*)[\u201c\u201d\u00bb"]',
        'write `"{inside}"`',
        _QUOTES,
        rest=True,
    ),
    _sign("[\u2018\u2019\u201a](?P<inside>[^\u2018\u2019'\"\n]*)[\u2018\u2019']", 'write `"{inside}"`', _QUOTES, rest=True),
    _sign("[\u201c\u201d\u201e\u2018\u2019\u201a\u00ab\u00bb]", 'write `"` instead', _QUOTES, rest=True),
    _sign(
        r"#[ \t]*include\b[^\n]*", "leave the line out: the library is always there", "`#include` has no meaning in a program", rest=True
    ),
    _sign(
        r"#[ \t]*define[ \t]+(?P<name>[A-Za-z_]\w*)[ \t]+(?P<value>[^\n]*[^\s])",
        "write `let {name} = {value}`",
        "`#define` has no meaning in a program",
        rest=True,
    ),
    _sign(r"#[ \t]*(?P<comment>[^\n]{0,60}[^\s])[ \t]*$", "write `// {comment}`", "a comment begins with `//`", rest=True),
    _sign(r"#[^\n]*", "write `//`", "a comment begins with `//`", rest=True),
    _sign(r"`(?P<inside>[^`\n\"]*)`", 'write `"{inside}"`', "a string stands in quotes, not in backticks", rest=True),
    _sign(r"\r", "end lines with a line feed, as editors do for Unix or Windows", "a carriage return alone ends no line", rest=True),
    _sign(r"`", "remove it", "a backtick has no meaning in a program"),
    _sign(rf"~[ \t]*(?P<operand>{_OPERAND})", "write `-{operand} - 1`, or `not` for a bool", "`~` isn't an operator"),
    _sign("\u00d7|\u00b7|\u2217", "write `*`"),
    _sign("\u00f7|\u2215", "write `/`"),
    _sign("\u2212|\u2013|\u2014", "write `-`"),
    _sign("\u2264", "write `<=`"),
    _sign("\u2265", "write `>=`"),
    _sign("\u2260", "write `!=`"),
    _sign("\u2192", "write `->`"),
    _sign("\u21d2", "write `=>`"),
    _sign("\u2026", "write `..`"),
    _sign(r"\\[ \t]*$", "remove it: a line goes on behind an operator, and inside brackets", "`\\` doesn't join lines"),
    _sign("\u00a0|[\u2000-\u200b]|\u202f|\u3000|\ufeff", "write a plain space instead"),
)


def fault_of_sign(text: str, position: int) -> Fault:
    """The fault for the character at `position`, which can't begin anything."""
    character = text[position]
    line_end = text.find("\n", position)
    line_end = len(text) if line_end < 0 else line_end
    shown = f"`{character}`" if character.isprintable() and not character.isspace() else f"the character U+{ord(character):04X}"
    plain = f"{shown} has no meaning in a program"
    for sign in SIGNS:
        match = re.compile(sign.pattern).match(text, position, line_end)
        if match is not None:
            words = match.groupdict()
            message = sign.message.format_map(words) or plain
            return Fault("0101", message, position, match.end(), hint=sign.hint.format_map(words), hides=line_end if sign.rest else 0)
    return Fault("0101", plain, position, position + 1, hint="remove it")
