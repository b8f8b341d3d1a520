"""Options of commands that replay market data into QuantDSL strategies, declared once, and which options go with which programs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

_data = click.option("--data", multiple=True, metavar="[SYMBOL=]FILE...", help="Market data, in the order in which ties are broken.")
_map = click.option("--map", "mapped", multiple=True, metavar="[FILE:]FIELD=NAME", help="What a file calls a field, or doesn't say.")
_strategy = click.option("--strategy", metavar="NAME", help="Which strategy, where the program has several.")
_fills = click.option(
    "--fills", type=click.Choice(["next", "touch", "queue"]), help="How orders fill. Default: touch; next for data without a book."
)
_latency = click.option("--latency", metavar="OUT/BACK", help="Time of an order to the market and of its reports: 50us/80us.")
_on_bad = click.option("--on-bad", type=click.Choice(["stop", "skip"]), default="stop", show_default=True, help="Rows that are no good.")
_on_cross = click.option(
    "--on-cross",
    type=click.Choice(["refuse", "trim"]),
    default="refuse",
    show_default=True,
    help="Updates after which bids meet asks; trim drops the older side.",
)
_from = click.option(
    "--from", "begin", metavar="TIME", help="Handlers see events from here on: 2024-08-08T13:30:00, UTC, or ns since 1970."
)
_to = click.option("--to", "end", metavar="TIME", help="Events before this.")
_reorder = click.option("--reorder", metavar="DURATION", help="Rows within this time may stand in any order: 5ms.")
_pnl_every = click.option(
    "--pnl-every", metavar="DURATION", help="Between records of profit and loss beside those at fills.  [default: 1s]"
)
_seed = click.option("--seed", type=click.IntRange(0, 2**63 - 1), metavar="N", help="Value of the program's `param seed`.")
_out = click.option("--out", metavar="FOLDER", type=click.Path(file_okay=False), help="Where tables, summary and report go.")
_png = click.option("--png", is_flag=True, help="With --out: the report's charts as PNG files, too.")
_events = click.option(
    "--events", type=click.IntRange(1, 10**8), default=5_000_000, show_default=True, help="So many at least, the data repeated."
)
_rounds = click.option("--rounds", type=click.IntRange(1, 1000), default=5, show_default=True, help="Runs, of which the median counts.")

REPLAY = (_data, _map, _strategy, _from, _to, _fills, _latency, _out, _png, _on_bad, _on_cross, _reorder, _seed, _pnl_every)
"""Of a replay, in the order of `--help`."""
BENCH = (_data, _map, _strategy, _from, _to, _fills, _latency, _on_bad, _on_cross, _reorder, _seed, _events, _rounds)

MEASURED = (
    click.option("--latency-all", is_flag=True, help="Time every event, not one in 64."),
    click.option(
        "--enforce",
        type=click.Choice(["p50", "p99", "p99.9", "max"]),
        help="Exit with 4 where this percentile of the handlers' latency is above their @target_latency.",
    ),
    click.option("--audit", is_flag=True, help="Count system calls, page faults and context switches of the event loop, in a run before."),
)


def replaying(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of commands that replay."""
    return with_options(command, (*REPLAY, *MEASURED))


_DATA = "--data"


class RunsBoth(click.Command):
    """A command for programs that run by themselves and for strategies that are replayed, some of whose options only go with one of them.
    What follows `--data` up to the next option are files, too."""

    def __init__(self, *args: Any, of_replays: Sequence[Any] = (), of_programs: Sequence[Any] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.of_replays, self.of_programs = names_of(of_replays), names_of(of_programs)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(context, spread(args))

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        parts: dict[str, list[tuple[str, str]]] = {"Options": [], "Options of programs": [], "Options of replays": []}
        for parameter in self.get_params(context):
            record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
            if record is not None:
                title = "Options of replays" if parameter.name in self.of_replays else "Options"
                parts["Options of programs" if parameter.name in self.of_programs else title].append(record)
        for title, records in parts.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def spread(args: Sequence[str]) -> list[str]:
    """`--data a b` as `--data a --data b`. A program among them stays what it is."""
    if not any(arg == _DATA or arg.startswith(f"{_DATA}=") for arg in args):
        return [*args]
    from compiler.languages import endings

    programs = endings()
    spread_out: list[str] = []
    inside = False
    for arg in args:
        if inside and not arg.startswith("-") and not arg.endswith(programs) and spread_out[-1] != _DATA:
            spread_out.append(_DATA)
        elif arg.startswith("-") and spread_out[-1:] != [_DATA]:
            inside = arg == _DATA or arg.startswith(f"{_DATA}=")
        elif arg.endswith(programs):
            inside = False
        spread_out.append(arg)
    return spread_out


def with_options(command: Callable[..., Any], options: Sequence[Any]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


def names_of(options: Sequence[Any]) -> frozenset[str]:
    """The names of options that weren't put on a command yet."""

    def probe() -> None: ...

    with_options(probe, options)
    return frozenset(parameter.name for parameter in getattr(probe, "__click_params__", ()))


def require_kind(context: click.Context, path: str, *, replayed: bool) -> None:
    """Refuses options that are given and go with the other kind of program. Raises ZyntaxError."""
    command = context.command
    assert isinstance(command, RunsBoth)
    foreign = command.of_programs if replayed else command.of_replays
    for parameter in command.params:
        given = parameter.name is not None and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
        if given and parameter.name in foreign:
            from compiler.diagnostics import Diagnostic, ZyntaxError
            from compiler.languages import endings
            from zyntax.languages import language_of

            option = parameter.opts[0]
            if replayed:
                message, hint = f"`{option}` goes with programs that run by themselves, and `{path}` is replayed on `--data`", None
            elif Path(path).suffix in endings() and language_of(path).replays:
                message, hint = f"`{option}` goes with a replay, and there is no `--data`", "--data trades.csv names market data"
            else:
                message, hint = f"`{option}` goes with strategies of QuantDSL, and `{path}` is none", None
            hint = hint or f"`zyntax {context.info_name} --help` lists what goes with what"
            raise ZyntaxError(Diagnostic("0505", message, hint=hint))
