"""`zyntax cache`: what is kept of compiled code between runs."""

import json
from datetime import datetime
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from runtime.cache.store import CacheStore


@click.group("cache")
def command() -> None:
    """List the code that is kept between runs, remove it, or look whether it is whole.

    It lies in the folder that ZYNTAX_CACHE_DIR names, or in the system's own for caches. ZYNTAX_CACHE=off turns the cache off."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="As JSON: the folder, its cap in bytes, and a list of entries.")
def listing(as_json: bool) -> int:
    """List the entries, those used last first: what each holds, its size, when it was used."""
    from runtime.cache.inventory import entries_of

    cache = _store()
    if cache is None:
        return 1
    entries = entries_of(cache)
    if as_json:
        rows = [{"key": e.path.stem, "holds": e.holds, "state": e.state, "bytes": e.size, "used": e.used} for e in entries]
        print(json.dumps({"folder": str(cache.folder), "most_bytes": cache.largest, "entries": rows}, indent=2))
        return 0
    total = sum(entry.size for entry in entries)
    print(f"{cache.folder}: {_counted(len(entries))}, {_amount(total)} of at most {_amount(cache.largest)}")
    texts = [(entry.holds or f"({entry.state})", _amount(entry.size), _time(entry.used), entry.path.stem[:12]) for entry in entries]
    widths = [max((len(text[column]) for text in texts), default=0) for column in (0, 1)]
    for holds, size, used, key in texts:
        print(f"  {holds.ljust(widths[0])}  {size.rjust(widths[1])}  {used}  {key}")
    return 0


@command.command("clear")
def clearing() -> int:
    """Remove all entries. Running processes keep what they have loaded, and make the rest again."""
    from runtime.cache.inventory import clear

    cache = _store()
    if cache is None:
        return 1
    try:
        count, size = clear(cache)
    except OSError as error:
        click.echo(f"the cache {cache.folder} can't be cleared: {(error.strerror or str(error)).lower()}", err=True)
        return 1
    print(f"removed {_counted(count)}, {_amount(size)}")
    return 0


@command.command("verify")
def verifying() -> int:
    """Read every entry, and compare it with its hash. Exits with 1 when one isn't whole; such entries are never used."""
    from runtime.cache.inventory import OTHER_VERSION, WHOLE, entries_of

    cache = _store()
    if cache is None:
        return 1
    entries = entries_of(cache)
    whole = sum(entry.state == WHOLE for entry in entries)
    bad = [entry for entry in entries if entry.state not in (WHOLE, OTHER_VERSION)]
    for entry in bad:
        print(f"{entry.path} is {entry.state}")
    others = len(entries) - whole - len(bad)
    print(f"{_counted(whole)} whole, {len(bad)} not{f', {others} of another version' if others else ''}")
    return 1 if bad else 0


def _store() -> "CacheStore | None":
    """The user's cache; None, and the reason on standard error, where it isn't used."""
    from runtime.cache.store import store

    cache = store(tell=lambda words: click.echo(words, err=True))
    if cache is None:
        click.echo("the cache is off: ZYNTAX_CACHE says so", err=True)
        return None
    return cache if cache.is_ours() else None


def _counted(count: int) -> str:
    return f"{count} {'entry' if count == 1 else 'entries'}"


def _amount(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB" if size >= 1 << 20 else f"{size / (1 << 10):.1f} KiB"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
