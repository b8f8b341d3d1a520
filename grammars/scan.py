"""The scan before the lexer: blanks comments and masks the insides of strings, keeping every offset.

A comment becomes spaces (its line ends too), a string keeps its outermost quotes around underscores. So no pattern of
the lexer, and no look ahead of the layout filter, can meet a comment or be fooled by what a string says."""

import re

from grammars.faults import Fault

_INTERESTING = re.compile(r"""//|/\*|(?<![A-Za-z0-9_])[fF](?=["'])|["']""")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_MAXIMUM_STRING_NESTING = 20
_MAXIMUM_COMMENT_NESTING = 200


class _TooDeep(Exception):
    """Raised inside of an f-string that holds too many others, one in the other."""


def mask(text: str) -> tuple[str, tuple[Fault, ...]]:
    """The text with comments blanked and strings masked, and what is wrong with either. No text where either nests too deep."""
    pieces: list[str] = []
    faults: list[Fault] = []
    position = copied = 0
    while match := _INTERESTING.search(text, position):
        start = match.start()
        opening = match.group()
        if opening == "/*" and (deepest := _too_deep(text, start)) >= 0:
            message = f"nested too deep: more than {_MAXIMUM_COMMENT_NESTING} comments are open"
            return "", (Fault("0108", message, deepest, deepest + 2, hint="close the outer ones before"),)
        match opening:
            case "//":
                end = text.find("\n", start)
                end = len(text) if end < 0 else end
                replacement = " " * (end - start)
            case "/*":
                end = comment_end(text, start)
                if end < 0:
                    faults.append(Fault("0102", "this comment is never closed", start, start + 2, hint="close it with `*/`"))
                    end = len(text)
                replacement = " " * (end - start)
            case "f" | "F":
                start = match.end()
                try:
                    end, replacement = _string(text, start, True, faults, 0)
                except _TooDeep:
                    message = f"nested too deep: more than {_MAXIMUM_STRING_NESTING} f-strings are open"
                    return "", (Fault("0108", message, start - 1, start, hint="name the inner part with `let`"),)
            case _:
                end, replacement = _string(text, start, False, faults, 0)
        pieces += (text[copied:start], replacement)
        position = copied = end
    pieces.append(text[copied:])
    return "".join(pieces), tuple(faults)


def quotes_of(text: str, start: int) -> str:
    """The quotes that open at `start`: one, or three of a kind."""
    triple = text[start] * 3
    return triple if text.startswith(triple, start) else text[start]


def _too_deep(text: str, start: int) -> int:
    """Where the comment that opens at `start` nests too deep; -1 where it doesn't."""
    depth = 0
    for match in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if match.group() == "/*" else -1
        if depth > _MAXIMUM_COMMENT_NESTING:
            return match.start()
        if depth == 0:
            return -1
    return -1


def comment_end(text: str, start: int) -> int:
    depth, position = 1, start + 2
    while match := _COMMENT_EDGE.search(text, position):
        position = match.end()
        depth += 1 if match.group() == "/*" else -1
        if depth == 0:
            return position
    return -1


def _string(text: str, start: int, formatted: bool, faults: list[Fault], depth: int) -> tuple[int, str]:
    end = string_end(text, start, formatted, depth)
    if end >= 0:
        return end, f"{text[start]}{'_' * (end - start - 2)}{text[start]}"
    quotes = quotes_of(text, start)
    line_end = text.find("\n", start)
    end = len(text) if line_end < 0 or len(quotes) == 3 else line_end
    name = "f-string" if formatted else "string"
    hint = f"close it with `{quotes}`" if formatted else _closed(text[start:end], quotes)
    faults.append(Fault("0105", f"this {name} is never closed", start, start + len(quotes), hint=hint, hides=end))
    length = end - start
    return end, text[start] + "_" * (length - 2) + text[start] if length > 1 else "_"


def _closed(written: str, quotes: str) -> str:
    """The hint for a string without its end: the string as it was likely meant, where that is short."""
    if len(quotes) == 3 or len(written) > 60 or "`" in written:
        return f"close it with `{quotes}`"
    inside = written.rstrip()
    tail = re.search(r"[)\]};,:\s]*$", inside)
    assert tail is not None
    return f"close it: `{inside[: max(tail.start(), 1)]}{quotes}{inside[max(tail.start(), 1) :]}`"


def string_end(text: str, start: int, formatted: bool, depth: int = 0) -> int:
    """The offset behind the string whose quotes open at `start`, or -1 when it is never closed."""
    quotes = quotes_of(text, start)
    position = start + len(quotes)
    stop = len(text)
    while position < stop:
        character = text[position]
        if text.startswith(quotes, position):
            return position + len(quotes)
        if character == "\\":
            position += 2
        elif character == "\n" and len(quotes) == 1:
            return -1
        elif formatted and character == "{":
            if text.startswith("{{", position):
                position += 2
                continue
            hole = hole_end(text, position, stop, quotes, depth)
            if hole < 0 and depth > 0:
                return -1  # No second try inside another hole: that would take exponential time.
            formatted = hole >= 0
            position = hole if hole >= 0 else position + 1
        else:
            position += 1
    return -1


def hole_end(text: str, start: int, stop: int, quotes: str, depth: int = 0) -> int:
    """The offset behind the `}` of the hole that opens at `start` in an f-string that ends before `stop`, or -1."""
    position, braces = start + 1, 1
    while position < stop:
        character = text[position]
        if character == "\n" and len(quotes) == 1:
            return -1
        if character in "\"'":
            formatted = text[position - 1] in "fF"
            if formatted and depth >= _MAXIMUM_STRING_NESTING:
                raise _TooDeep
            inner = string_end(text, position, formatted, depth + 1)
            if inner < 0 or inner > stop:
                return -1
            position = inner
            continue
        braces += (character == "{") - (character == "}")
        position += 1
        if braces == 0:
            return position
    return -1
