"""How a replay is to be run, from the texts that a command line or a call from Python gives."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from compiler.diagnostics import Diagnostic, ZyntaxError
from quantdsl.engine.layout import NEXT, QUEUE, TOUCH
from runtime.records import Factory, frozen

FILLS = {"next": NEXT, "touch": TOUCH, "queue": QUEUE}
SAMPLE = 64
"""One event in so many is timed, unless each is to be."""
PNL_EVERY = 10**9
UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|ms|s|m|h)")
_SYMBOL = re.compile(r"([A-Za-z_][\w.\-]*)=(.+)", re.DOTALL)
_LONGEST = 10**9 * 86_400 * 366


@frozen
class Input:
    """A file, or a table that is in memory: `symbol` says what it is about where it doesn't itself, `mapped` what else it doesn't say."""

    path: Path
    symbol: str | None = None
    table: Any = None
    mapped: Mapping[str, str] = Factory(dict)


@frozen
class RunOptions:
    """`begin`, `end`: ns since 1970 UTC; `fills` None: by the data; `out`, `back`: ns to the market and from it; `reorder`: ns;
    `skip`: bad rows are listed and left out; `trim`: books that cross lose their older side; `sample`: one event in so many is timed, 0:
    none; `pnl_every`: ns between records of profit and loss beside those at fills, 0: no others; `progress_every`, `checkpoint_every`:
    seconds of the clock between reports of progress, and between checkpoints of the outputs."""

    data: tuple[Input, ...]
    begin: int | None = None
    end: int | None = None
    fills: str | None = None
    out: int = 0
    back: int = 0
    skip: bool = False
    trim: bool = False
    reorder: int = 0
    sample: int = SAMPLE
    pnl_every: int = PNL_EVERY
    progress_every: float = 0.1
    checkpoint_every: float = 2.0


def fills_of(options: RunOptions, has_book: bool) -> str:
    """How orders fill: as the options say, else by the data."""
    return options.fills or ("touch" if has_book else "next")


def refused(message: str, hint: str | None = None) -> ZyntaxError:
    return ZyntaxError(Diagnostic("0505", message, hint=hint))


def duration(text: str, what: str) -> int:
    """`50us` in ns. Raises ZyntaxError."""
    found = _DURATION.fullmatch(text.strip())
    ns = Decimal(found[1]) * UNITS[found[2]] if found else None
    if ns is None or ns != int(ns) or ns > _LONGEST:
        raise refused(f"{what}: `{text}` is no duration", "write a number and a unit: 500ns, 50us, 5ms, 1s, 1m, 1h")
    return int(ns)


def latency(text: str, what: str) -> tuple[int, int]:
    """`50us/80us`, out and back; one duration is both. Raises ZyntaxError."""
    out, slash, back = text.partition("/")
    there = duration(out, what)
    return there, duration(back, what) if slash else there


def moment(text: str, what: str) -> int:
    """A date, a time (without a zone: UTC), or ns since 1970 UTC. Raises ZyntaxError."""
    if re.fullmatch(r"-?[0-9]{1,19}", text) and len(text) > 8:
        return int(text)
    from runtime.replay.columns import parsed_times

    values, good = parsed_times([text.replace(" ", "T", 1)])
    if not good[0]:
        raise refused(f"{what}: `{text}` is no time", f"write {what} 2024-08-08T13:30:00, UTC, or ns since 1970")
    return int(values[0])


def inputs(data: Sequence[str], mapped: Sequence[str] = ()) -> tuple[Input, ...]:
    """Files as a command line names them, with what `--map` says: `FIELD=NAME` of all, `FILE:FIELD=NAME` of one. Raises ZyntaxError."""
    found = []
    for text in data:
        if not text:
            raise refused("--data names no file", "--data trades.csv")
        named = _SYMBOL.fullmatch(text)
        found.append(Input(Path(named[2]), named[1]) if named else Input(Path(text)))
    maps: list[dict[str, str]] = [{} for _ in found]
    for text in mapped:
        where, equals, name = text.partition("=")
        file, colon, column = where.rpartition(":")
        if not equals or not name or not column:
            raise refused(f"--map {text}: write FIELD=NAME, or FILE:FIELD=NAME", "--map price=px says which column is the price")
        require_field(column, f"--map {text}")
        places = [place for place, one in enumerate(found) if not colon or file in (str(one.path), one.path.name)]
        if not places:
            raise refused(f"--map {text}: there is no --data `{file}`")
        for place in places:
            maps[place][column] = name
    return tuple(Input(one.path, one.symbol, None, of_it) for one, of_it in zip(found, maps, strict=True))


def require_field(name: str, said: str) -> None:
    """Raises ZyntaxError where data has no field of that name."""
    from runtime.replay.tables import MAPPED

    if name not in MAPPED:
        raise refused(f"{said}: no field is called `{name}`", f"the fields are {', '.join(MAPPED)}")


def tables(data: Any) -> tuple[Input, ...]:
    """What a call from Python gives: a file name, a table, or several; by symbol in a mapping from names to either."""
    if isinstance(data, str | Path):
        return inputs([str(data)])
    if isinstance(data, list | tuple):
        return tuple(one for part in data for one in tables(part))
    if isinstance(data, Mapping) and data and all(map(_is_data, data.values())):
        return tuple(Input(one.path, symbol, one.table) for symbol, part in data.items() for one in tables(part))
    return (Input(Path("data"), None, data),)


def _is_data(value: Any) -> bool:
    """Whether a value of a mapping is a file, a table or several; else it is a column, and the mapping the table."""
    if isinstance(value, list | tuple):
        return bool(value) and all(map(_is_data, value))
    return (
        isinstance(value, str | Path | Mapping)
        or hasattr(value, "schema")
        or getattr(getattr(value, "dtype", None), "names", None) is not None
    )
