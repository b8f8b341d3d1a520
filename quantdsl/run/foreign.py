"""Data that has nothing for the program: files that are about other instruments, a window without a row."""

from collections.abc import Sequence

from compiler.diagnostics import Diagnostic, ZyntaxError
from quantdsl.run.options import RunOptions
from runtime.replay.bad_rows import Why
from runtime.replay.batches import DataSource
from runtime.replay.feed import Feed
from runtime.replay.outputs.summary import iso
from runtime.replay.rules import Tally

SHOWN = 5
"""Symbols of a file that a message names."""
_ITS_OWN = (".itch50", ".itch50.gz")
"""Ends of names of files whose symbols are looked for by name even where the file is bound to an instrument."""


def require_rows(feed: Feed, options: RunOptions, instrument: str) -> None:
    """Raises ZyntaxError where rows were read and none is for the program."""
    files = list(zip(feed.sources, feed.tallies, strict=True))
    inside = [tally for _, tally in files if tally.begin is not None]
    late = options.begin is not None and all(tally.end is not None and tally.end < options.begin for tally in inside)
    if inside and late:  # of books what comes before is used, so that they are whole when the window begins
        raise ZyntaxError(_outside(inside, options))
    if any(tally.used and not tally.is_foreign for _, tally in files):
        return
    strangers = [(source, tally) for source, tally in files if tally.is_foreign]
    if strangers and all(tally.is_foreign or tally.rows == tally.reasons[Why.REPEATED_FILE] for _, tally in files):
        raise ZyntaxError(*(_foreign(source, tally, instrument) for source, tally in strangers))
    if inside and any(edge is not None for edge in (options.begin, options.end)):
        raise ZyntaxError(_outside(inside, options))


def foreign_notes(feed: Feed, instrument: str) -> tuple[str, ...]:
    """Of the files beside others that are about other instruments."""
    strangers = [(source, tally) for source, tally in zip(feed.sources, feed.tallies, strict=True) if tally.is_foreign]
    return tuple(
        f"{_message(source, tally, instrument)}; `{_way(source, tally, instrument)}` takes it for that" for source, tally in strangers
    )


def _foreign(source: DataSource, tally: Tally, instrument: str) -> Diagnostic:
    return Diagnostic("0807", _message(source, tally, instrument), hint=_way(source, tally, instrument), data=True)


def _message(source: DataSource, tally: Tally, instrument: str) -> str:
    named = ", ".join(f"`{symbol}`" for symbol in tally.strangers[:SHOWN])
    more = " and others" if len(tally.strangers) > SHOWN else ""
    wanted = source.mapped.get("symbol", instrument)
    return f"{source.name}: no row is about `{wanted}`; the file has {named}{more}"


def _way(source: DataSource, tally: Tally, instrument: str) -> str:
    """How the file is bound to the program's instrument."""
    alone = len(tally.strangers) == 1 and not source.name.lower().endswith(_ITS_OWN)
    symbol = "" if alone else f" --map symbol={tally.strangers[0]}"
    return f"--data {instrument}={source.path}{symbol}"


def _outside(tallies: Sequence[Tally], options: RunOptions) -> Diagnostic:
    window = " ".join(f"--{word} {iso(ns)}" for word, ns in (("from", options.begin), ("to", options.end)) if ns is not None)
    first = min(tally.begin for tally in tallies if tally.begin is not None)
    last = max(tally.end for tally in tallies if tally.end is not None)
    if options.begin is not None and last < options.begin:
        where = f"the data ends at {iso(last)}"
    elif options.end is not None and first >= options.end:
        where = f"the data begins at {iso(first)}"
    else:
        where = f"the data has rows before and behind it, from {iso(first)} on"
    return Diagnostic("0807", f"no row is in the window {window}", hint=where, data=True)
