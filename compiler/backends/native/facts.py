"""What is to be known of a compiled module besides its code: how its functions are called, what it needs from others, and what its
failures mean. Goes to and from JSON, so that a module can be kept without its HIR."""

from collections.abc import Mapping
from typing import Any

from compiler.backends.native.record import FaultPoint
from compiler.diagnostics import Label
from compiler.hir.sites import FaultSite
from compiler.source import Span
from runtime.records import frozen


@frozen
class NativeParameter:
    """`dtype` is `ptr` for an address of `size` bytes (0: an open array) aligned to `align`."""

    name: str
    dtype: str
    size: int = 0
    align: int = 1


@frozen
class NativeEntry:
    """A function as seen from outside: its symbol, parameters, and where its results (dtype and offset) stand in `size` bytes."""

    name: str
    symbol: str
    parameters: tuple[NativeParameter, ...]
    results: tuple[tuple[str, int], ...] = ()
    size: int = 0


@frozen
class ModuleFacts:
    """`calls`: functions of C that it may call; `declared`: those of them that the program asked for."""

    name: str
    exports: Mapping[str, NativeEntry]
    imports: Mapping[str, NativeEntry]
    calls: frozenset[str]
    points: tuple[FaultPoint, ...]
    sites: Mapping[str, tuple[FaultSite, ...]]
    declared: frozenset[str] = frozenset()
    callers: tuple[Span | None, ...] = ()
    """Where calls stand, by the numbers that records use, of a module whose records tell."""


def to_json(facts: ModuleFacts) -> Any:
    """As lists, dicts, numbers and texts."""
    return {
        "name": facts.name,
        "exports": [_entry(entry) for entry in facts.exports.values()],
        "imports": [_entry(entry) for entry in facts.imports.values()],
        "calls": sorted(facts.calls),
        "declared": sorted(facts.declared),
        "points": [[p.function, p.site, list(p.dtypes), p.code, p.undo, _span(p.span)] for p in facts.points],
        "callers": [_span(span) for span in facts.callers],
        "sites": {name: [_site(site) for site in sites] for name, sites in facts.sites.items()},
    }


def from_json(data: Any) -> ModuleFacts:
    """The facts again; KeyError, TypeError or ValueError where the data aren't some."""
    exports, imports = ({entry[0]: _to_entry(entry) for entry in data[key]} for key in ("exports", "imports"))
    return ModuleFacts(
        data["name"],
        exports,
        imports,
        frozenset(data["calls"]),
        tuple(_to_point(point) for point in data["points"]),
        {name: tuple(map(_to_site, sites)) for name, sites in data["sites"].items()},
        frozenset(data["declared"]),
        tuple(span and Span(*span) for span in data["callers"]),
    )


def _to_point(point: Any) -> FaultPoint:
    function, site, dtypes, code, undo, span = point
    return FaultPoint(function, site, tuple(dtypes), code, undo, span and Span(*span))


def _entry(entry: NativeEntry) -> Any:
    parameters = [[p.name, p.dtype, p.size, p.align] for p in entry.parameters]
    return [entry.name, entry.symbol, parameters, [list(result) for result in entry.results], entry.size]


def _to_entry(data: Any) -> NativeEntry:
    name, symbol, parameters, results, size = data
    return NativeEntry(
        name, symbol, tuple(NativeParameter(*p) for p in parameters), tuple((dtype, offset) for dtype, offset in results), size
    )


def _span(span: Span | None) -> Any:
    return None if span is None else [span.path, span.start, span.end]


def _site(site: FaultSite) -> Any:
    return [site.code, _span(site.span), site.message, site.label, site.hint, [[_span(o.span), o.text] for o in site.others]]


def _to_site(data: Any) -> FaultSite:
    code, span, message, label, hint, others = data
    return FaultSite(code, span and Span(*span), message, label, hint, tuple(Label(Span(*position), text) for position, text in others))
