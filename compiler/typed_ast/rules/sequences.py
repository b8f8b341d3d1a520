"""Operators on texts and lists."""

from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.conversions import clash, fits, join
from compiler.typed_ast.meaning import TypeRules, always
from compiler.typed_ast.nodes import Binary
from compiler.typed_ast.rules.operators import COMPARISONS, EQUALITIES
from compiler.typed_ast.types import BOOL, STRING, CharType, DictType, ListType, RangeType, Scalar, SetType, StringType, Type, UnitType


def _texts(checker: Checker, node: Binary, left: Type, right: Type) -> Type | None:
    both = isinstance(left, StringType | CharType) and isinstance(right, StringType | CharType)
    if node.operator == "in":
        return BOOL if both else None
    if node.operator in COMPARISONS and both:
        return BOOL
    return STRING if node.operator == "+" and both else None


def _instead_of_texts(checker: Checker, node: Binary, left: Type, right: Type) -> str | None:
    return 'an f-string joins text and values: f"{a}{b}"' if node.operator == "+" else None


def _lists(checker: Checker, node: Binary, left: Type, right: Type) -> Type | None:
    if node.operator == "in":
        return BOOL
    if not isinstance(left, ListType) or not isinstance(right, ListType) or clash(left, right):
        return None
    if node.operator in EQUALITIES:
        return BOOL
    return join(left, right) if node.operator == "+" else None


def _instead_of_lists(checker: Checker, node: Binary, left: Type, right: Type) -> str | None:
    return "`tensor([...])` makes a tensor, which calculates element by element"


def _text_cast(checker: Checker, type_: Type, target: Type) -> Type | None:
    """All values have a text; that of one letter is also its number."""
    is_int = isinstance(target, Scalar) and target.dtype.is_int
    if isinstance(target, CharType):
        return target if isinstance(type_, Scalar | StringType | CharType) else None
    return target if isinstance(target, StringType) or is_int else None


def _list_cast(checker: Checker, type_: Type, target: Type) -> Type | None:
    return target if fits(type_, target) else None


_TEXT = TypeRules(operator=_texts, has_equality=always, instead=_instead_of_texts, cast=_text_cast)
CORE.kinds |= {
    StringType: _TEXT,
    CharType: _TEXT,
    ListType: TypeRules(operator=_lists, has_equality=always, instead=_instead_of_lists, cast=_list_cast),
    **dict.fromkeys((DictType, SetType, RangeType, UnitType), TypeRules(has_equality=always)),
}
