"""What stands between two tokens: comments, and how many lines end there."""

import re

from grammars.scan import comment_end
from runtime.records import frozen

_COMMENT = re.compile(r"//|/\*")


@frozen
class Comment:
    """A comment as written, without white space behind it; the number of line ends before it, since the token or comment before; its column
    in the program."""

    text: str
    breaks: int
    column: int


@frozen
class Trivia:
    """`breaks` counts the line ends, those inside of comments not; `last_breaks` those behind the last comment."""

    comments: list[Comment]
    breaks: int
    last_breaks: int


def trivia(text: str, start: int, end: int) -> Trivia:
    """What stands in a text from `start` to `end`, which holds white space and comments only."""
    comments: list[Comment] = []
    position, breaks = start, 0
    while match := _COMMENT.search(text, position, end):
        ends = text.count("\n", position, match.start())
        breaks += ends
        column = match.start() - (text.rfind("\n", 0, match.start()) + 1)
        if match.group() == "//":
            line_end = text.find("\n", match.start(), end)
            position = end if line_end < 0 else line_end
        else:
            position = comment_end(text, match.start())
        comments.append(Comment(text[match.start() : position].rstrip(), ends, column))
    last = text.count("\n", position, end)
    return Trivia(comments, breaks + last, max(last, 1) if comments else last)
