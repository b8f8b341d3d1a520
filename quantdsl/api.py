"""QuantDSL from Python: `quantdsl.compile("cross.qdsl", fast=20).run("trades.csv")`."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict

from compiler.codes.packages import package_missing
from compiler.diagnostics import Diagnostic, ZyntaxError, render
from compiler.source import Source, Sources
from compiler.syntax.read import read_source
from compiler.typed_ast.levels import OptimizationLevel
from quantdsl.run import options as of
from quantdsl.run.open import CompileRequest, open_source
from quantdsl.run.options import RunOptions
from quantdsl.run.program import LinkedStrategy
from quantdsl.run.replay import Replay
from runtime.extras import PackageMissing
from runtime.records import define, evolve, frozen
from runtime.replay.outputs.kept import KeptRecords
from runtime.replay.outputs.records import Records, RunDescription
from runtime.replay.outputs.summary import Totals
from zynml.pickled import require_version, version
from zynml.words import in_pythons_words

FLAG = re.compile(r"^( *--> )--set ", re.MULTILINE)

if TYPE_CHECKING:
    from runtime.replay.outputs.folder import Outputs


class QuantError(Exception):
    """What is wrong with a program, its data or its options: the messages of the command as text, and the diagnostics. `bad_data`: it is
    the data."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...], sources: Sources) -> None:
        self.diagnostics = tuple(map(in_pythons_words, diagnostics))
        # the text of a parameter's value is a source named by its flag
        super().__init__(FLAG.sub(r"\1", "\n\n".join(render(found, sources) for found in self.diagnostics)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _same_error, (str(self), self.diagnostics), self.__dict__

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(found.full_code for found in self.diagnostics)

    @property
    def bad_data(self) -> bool:
        return bool(self.diagnostics) and all(found.data for found in self.diagnostics)


def _same_error(message: str, diagnostics: tuple[Diagnostic, ...]) -> QuantError:
    """An error that was pickled."""
    error = QuantError.__new__(QuantError, message)
    error.diagnostics = diagnostics
    return error


@define(repr=False)
class Result:
    """What a run left. `summary` is `summary.json` as a dict, its decimals exact; `failure` is the message of the checked failure that
    halted the strategy, None where there was none."""

    summary: dict[str, Any]
    failure: str | None
    _kept: KeptRecords

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(records)} {name}" for name, records in self._kept.records.items())
        return f"<quantdsl.Result: {counts}{', failed' if self.failure is not None else ''}>"

    def records(self, name: str) -> Records:
        """One of `orders`, `fills`, `rejects`, `pnl`, `latency` as a structured array in the engine's units: ticks, lots, money at its
        scale, ns (`runtime.replay.outputs.records`). Raises ValueError for another name."""
        return self._kept.records[_one_of(name, (*self._kept.records,))]

    def table(self, name: str) -> Any:
        """A table as Arrow has it, times and exact decimals; also `bad_rows`, and `log` of what `log_ring` noted. Raises ValueError for
        another name, QuantError where Arrow isn't installed."""
        _one_of(name, (*self._kept.records, "bad_rows", "log"))
        with _told(Sources()):
            return self._kept.table(name)


def _one_of(name: str, names: tuple[str, ...]) -> str:
    if name not in names:
        raise ValueError(f"a run leaves no `{name}` here, but {', '.join(f'`{each}`' for each in names)}")
    return name


@frozen
class StrategyOrigin:
    """What a program was compiled from; `settings` are texts of its `param`s."""

    path: str
    text: str
    strategy: str | None
    level: str
    settings: Mapping[str, str]


@define(repr=False)
class Program:
    """A compiled strategy; it may run any number of times."""

    strategy: LinkedStrategy
    warnings: tuple[str, ...]
    _sources: Sources
    _made_of: StrategyOrigin

    def __repr__(self) -> str:
        metadata = self.metadata
        given = "".join(f", {name}={value}" for name, value in metadata.parameters.items())
        return f"<quantdsl.Program {self._made_of.path}: strategy {metadata.strategy} on {metadata.market.name}{given}>"

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"

    def __reduce__(self) -> tuple[Any, ...]:
        return opened_again, (version(), asdict(self._made_of))

    @property
    def metadata(self) -> Any:
        return self.strategy.metadata

    def run(
        self,
        data: Any,
        *,
        fills: str | None = None,
        latency: str | tuple[int, int] = (0, 0),
        begin: str | int | None = None,
        end: str | int | None = None,
        on_bad: str = "stop",
        on_cross: str = "refuse",
        reorder: str | int = 0,
        mapped: Mapping[str, str] | None = None,
        latency_all: bool = False,
        pnl_every: str | int = of.PNL_EVERY,
        out: str | Path | None = None,
        png: bool = False,
    ) -> Result:
        """Replay data: the name of a file, an Arrow table, arrays by column, a structured array, an array of `EVENT`, a list of these
        (merged by time), or a dict from symbols to these. The keywords are the options of `zyntax run`; times and durations are texts, or
        ns. With `out` the same files are written as by `--out`, and by `--png` where `png` is True. Raises QuantError."""
        with _told(self._sources):
            if png and out is None:
                raise of.refused("png=True writes into the folder of `out`, which isn't given", "out='folder'")
            options = _options(data, fills, latency, begin, end, on_bad, on_cross, reorder, mapped or {}, latency_all, pnl_every)
            sinks: list[Any] = []

            def sink(about: RunDescription) -> Any:
                if out is None:
                    sinks.append(KeptRecords(about))
                else:
                    from runtime.replay.outputs.folder import OutputOptions, Outputs  # and so Arrow, for those who want tables

                    sinks.append(_Both(KeptRecords(about), Outputs(Path(out), about, OutputOptions(png=png))))
                return sinks[0]

            ending = Replay(self.strategy, options).run(sink)
        kept = sinks[0].first if isinstance(sinks[0], _Both) else sinks[0]
        failure = render(ending.failure, self._sources) if ending.failure is not None else None
        return Result(ending.summary, failure, kept)


def compile(source: str | Path, *, strategy: str | None = None, level: str | int = "latency", **settings: Any) -> Program:
    """Compile the strategy of a program: a path, or the text of a program (anything with a line break). Keywords are values of its
    `param`s. Raises QuantError with all errors."""
    levels = [one.value for one in OptimizationLevel]
    if str(level) not in levels:
        raise ValueError(f"level={level!r}: levels are {', '.join(levels)}")
    sources = Sources()
    texts = {name: _text(value) for name, value in settings.items()}
    with _told(sources):
        is_text = isinstance(source, str) and "\n" in source
        held = Source("<program>", str(source)) if is_text else read_source(source)
        return _compiled(StrategyOrigin(held.path, held.text, strategy, str(level), texts), sources)


def opened_again(pickled: str, made_of: dict[str, Any]) -> Program:
    """A program that was pickled. Raises UnpicklingError for one of another version, QuantError where it doesn't compile here."""
    require_version(pickled, f"the program {made_of['path']}")
    sources = Sources()
    with _told(sources):
        return _compiled(StrategyOrigin(**made_of), sources)


def _compiled(made_of: StrategyOrigin, sources: Sources) -> Program:
    """The program of a text. Raises ZyntaxError."""
    warnings: list[str] = []
    held = sources.add(Source(made_of.path, made_of.text))
    wishes = CompileRequest(made_of.settings, made_of.strategy, made_of.level)
    made = open_source(held, wishes, sources, _noting(warnings, sources), lambda activity: None)
    return Program(made, tuple(warnings), sources, made_of)


def _noting(warnings: list[str], sources: Sources) -> Callable[[Diagnostic], None]:
    return lambda found: warnings.append(render(found, sources))


def _text(value: Any) -> str:
    """A value of Python as a program writes it."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def _options(
    data: Any,
    fills: str | None,
    latency: str | tuple[int, int],
    begin: str | int | None,
    end: str | int | None,
    on_bad: str,
    on_cross: str,
    reorder: str | int,
    mapped: Mapping[str, str],
    latency_all: bool,
    pnl_every: str | int,
) -> RunOptions:
    for name, value, legal in (
        ("fills", fills, (*of.FILLS, None)),
        ("on_bad", on_bad, ("stop", "skip")),
        ("on_cross", on_cross, ("refuse", "trim")),
    ):
        if value not in legal:
            raise of.refused(f"{name} is {value!r}", f"it is one of {', '.join(str(one) for one in legal if one)}")
    if not isinstance(latency, str | tuple):
        raise of.refused(f"latency is {latency!r}", 'write "50us", "50us/80us", or two ints of ns')
    out, back = of.latency(latency, "latency") if isinstance(latency, str) else latency
    for name in mapped:
        of.require_field(name, "mapped")
    found = tuple(evolve(one, mapped={**one.mapped, **mapped}) for one in of.tables(data))
    return RunOptions(
        data=found,
        begin=of.moment(begin, "begin") if isinstance(begin, str) else begin,
        end=of.moment(end, "end") if isinstance(end, str) else end,
        fills=fills,
        out=out,
        back=back,
        skip=on_bad == "skip",
        trim=on_cross == "trim",
        reorder=of.duration(reorder, "reorder") if isinstance(reorder, str) else reorder,
        sample=1 if latency_all else of.SAMPLE,
        pnl_every=of.duration(pnl_every, "pnl_every") if isinstance(pnl_every, str) else pnl_every,
    )


@define
class _Both:
    """Records that go to two places; the first one's summary counts."""

    first: KeptRecords
    second: "Outputs"

    def add(self, table: str, records: Records) -> None:
        self.first.add(table, records)
        self.second.add(table, records)

    def add_bad_rows(self, rows: Any) -> None:
        self.first.add_bad_rows(rows)
        self.second.add_bad_rows(rows)

    def add_log(self, rows: Any) -> None:
        self.first.add_log(rows)
        self.second.add_log(rows)

    def checkpoint(self) -> None:
        self.second.checkpoint()

    def finish(self, totals: Totals) -> dict[str, Any]:
        self.second.finish(totals)
        return self.first.finish(totals)

    def stop(self, reason: str) -> None:
        self.first.stop(reason)
        self.second.stop(reason)


@contextmanager
def _told(sources: Sources) -> Iterator[None]:
    """Errors inside become QuantErrors."""
    try:
        yield
    except ZyntaxError as error:
        raise QuantError(error.diagnostics, sources) from None
    except PackageMissing as missing:
        raise QuantError((package_missing(missing),), sources) from None
