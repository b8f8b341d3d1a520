"""What accounting needs of the market: the best prices, and the mark that they give."""

from compiler.hir.native_build import FunctionCode
from compiler.hir.native_expressions import Optional, Record
from quantdsl.engine.book import mid2


def good_mark(b: FunctionCode, engine: Record) -> Optional:
    """The mid of a good book with both sides, in half ticks."""
    book = engine.book
    mid = mid2(b, book)
    return Optional(mid.present & ~book.suspect, mid.value)
