"""Fits what stands in a clause to the clause's form."""

import re
from collections.abc import Sequence

from compiler.source import Span
from compiler.typed_ast.nodes import BoolLiteral, Expression, FieldValue, Name
from runtime.records import frozen

_PIECE = re.compile(r"\[|\]|->|<(\w+)(?::([\w|]+))?>|\w+")


@frozen
class LinkWord:
    """A word or arrow that stands for itself inside a clause."""

    text: str
    span: Span


@frozen
class _Word:
    text: str

    def fits(self, part: "Part") -> bool:
        return isinstance(part, LinkWord) and part.text == self.text


@frozen
class _Slot:
    name: str
    choices: tuple[str, ...]

    def fits(self, part: "Part") -> bool:
        if isinstance(part, LinkWord) or not self.choices:
            return not isinstance(part, LinkWord)
        return isinstance(part, Name) and part.name in self.choices


Part = Expression | LinkWord
_Piece = _Word | _Slot
_Form = list["_Piece | _Form"]


@frozen
class FormFit:
    """The values of a form's slots, how many parts they and the words between them took, and whether the form is whole."""

    values: tuple[FieldValue, ...]
    taken: int
    whole: bool


def fit(form: str, parts: Sequence[Part]) -> FormFit:
    """Fits parts to a form from left to right; an optional group is taken when its first piece fits."""
    values: list[FieldValue] = []
    taken, whole = _fit(_pieces(form), parts, 0, values)
    return FormFit(tuple(values), taken, whole)


def _fit(pieces: "_Form", parts: Sequence[Part], at: int, values: list[FieldValue]) -> tuple[int, bool]:
    for piece in pieces:
        if isinstance(piece, list):
            first = piece[0]
            assert not isinstance(first, list), "an optional group begins with a word or a slot"
            if at < len(parts) and first.fits(parts[at]):
                if len(piece) == 1 and isinstance(first, _Word):
                    values.append(FieldValue(name=first.text, value=BoolLiteral(value=True, span=parts[at].span), span=parts[at].span))
                at, whole = _fit(piece, parts, at, values)
                if not whole:
                    return at, False
            continue
        if at >= len(parts) or not piece.fits(parts[at]):
            return at, False
        part = parts[at]
        if isinstance(piece, _Slot) and isinstance(part, Expression):
            values.append(FieldValue(name=piece.name, value=part, span=part.span))
        at += 1
    return at, True


def _pieces(form: str) -> _Form:
    stack: list[_Form] = [[]]
    for match in _PIECE.finditer(form):
        match match.group():
            case "[":
                stack.append([])
            case "]":
                optional = stack.pop()
                stack[-1].append(optional)
            case word if match[1] is None:
                stack[-1].append(_Word(word))
            case _:
                stack[-1].append(_Slot(match[1], tuple(match[2].split("|")) if match[2] else ()))
    return stack[0]
