"""What actions get from the text: strings that know where they stand."""

from compiler.source import NOWHERE, Span


class TextToken(str):
    """A token: its text, as a string, with its kind (the terminal's name) and its place."""

    __slots__ = ("kind", "span")
    kind: str
    span: Span

    def __new__(cls, text: str, kind: str = "", span: Span = NOWHERE) -> "TextToken":
        token = super().__new__(cls, text)
        token.kind, token.span = kind, span
        return token

    def __reduce__(self) -> tuple[type, tuple[str, str, Span]]:
        return TextToken, (str(self), self.kind, self.span)
