"""What the desk looks at in the market: the best prices, and the mark that they give."""

from compiler.hir.instruction import Value
from quantdsl.engine.book import mid2
from quantdsl.native.build import FunctionCode
from quantdsl.native.values import Optional


def good_mark(b: FunctionCode, desk: Value) -> Optional:
    """The mid of a good book with both sides, in half ticks."""
    book = b.at(desk, "book")
    found = mid2(b, book)
    return Optional(b.both(found.present, b.negate(b.get(book, "suspect"))), found.value)
