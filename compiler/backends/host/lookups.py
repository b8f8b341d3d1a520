"""Lookups that failed as Python's own instructions: what the library says of them."""

import ast
import copy
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from compiler.backends.host.positions import DirectLookup
from compiler.source import Span
from compiler.typed_ast.library import LibraryFault


def looked_up_again(
    frame: FrameType, lookups: Mapping[Span, DirectLookup], span: Span | None, get: Callable[..., Any]
) -> LibraryFault | None:
    """What the library says of an index or a key that isn't there; None where the frame looked nothing up at that place."""
    lookup = lookups.get(span) if span is not None else None
    if lookup is None:
        return None
    try:
        get(*(_value(tree, frame.f_globals, frame.f_locals) for tree in (lookup.container, lookup.index)))
    except LibraryFault as fault:
        return fault
    return None


def _value(tree: ast.expr, names: dict[str, Any], local: Any) -> Any:
    expression = ast.fix_missing_locations(ast.Expression(copy.deepcopy(tree)))
    return eval(compile(expression, "<again>", "eval"), names, dict(local))
