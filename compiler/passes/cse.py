"""Equal pure instructions become one, within a region and from the regions around it. Loads are left alone: what they read may
change. Making the function again does it, since the builder makes equal instructions once."""

from compiler.hir.module import HirFunction
from compiler.passes.rewrite import Rebuild


def cse(function: HirFunction) -> HirFunction:
    """The function with common subexpressions computed once."""
    return Rebuild(function).run()
