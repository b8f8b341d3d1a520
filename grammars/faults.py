"""What the grammar layer finds wrong with a text, as plain offsets: frontends turn faults into their diagnostics."""

from runtime.records import frozen


@frozen
class Fault:
    """A syntax error: its code, the message, characters `start` to `end`, and what else the message shows. Those that begin before
    `hides` only follow from it."""

    code: str
    message: str
    start: int
    end: int
    label: str = ""
    others: tuple[tuple[int, int, str], ...] = ()
    hint: str | None = None
    hides: int = 0


class Token:
    """A piece of text with its kind, as the lexer or the layout filter names it. `depth` is the number of blocks open
    around it; a token that opens or closes a block counts as outside. Written out, for a text has many."""

    __slots__ = ("depth", "end", "kind", "start", "text")

    def __init__(self, kind: str, text: str, start: int, end: int, depth: int = 0) -> None:
        self.kind = kind
        self.text = text
        self.start = start
        self.end = end
        self.depth = depth


class ParseFailure(Exception):
    """Carries all the faults of one text."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("; ".join(f"{fault.code}: {fault.message}" for fault in faults))
        self.faults = faults
