"""What the user of the command or API sets."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import Source
from compiler.typed_ast.levels import OptimizationLevel
from runtime.records import Factory, field, frozen

TIERS = ("auto", "0", "1")
"""Tiers of machine code that a kernel may begin in (see `launch.tiers`)."""

TIER = "ZYNTAX_TIER"
"""Variable of the environment: the tier where nothing else is asked for."""


@frozen
class CompileOptions:
    """How a program is compiled and run. `device` overrides every `@device`; `threads` 0: all cores; `parameters`: texts
    of `--set`."""

    device: str | None = None
    strict: bool = False
    threads: int = 0
    level: OptimizationLevel = OptimizationLevel.O3
    parameters: Mapping[str, str] = Factory(dict)
    render_folder: str = "out"
    render_page: str | None = None
    """The html file that collects all renderings of a run; None: each has a file of its own."""
    explain: Callable[[str], None] | None = field(default=None, eq=False)
    """Told where each compute block runs, and why, once for each of its sizes."""
    floats: str | None = None
    """What may be done with floats in blocks that don't say it themselves, over what the program's `config` says."""
    products: str | None = None
    """How factors of f32 are multiplied in blocks that don't say it themselves, over what the program's `config` says."""
    sanitize: bool = False
    """Compute blocks run on the emulator, which looks for all that their threads do wrong."""
    tune: bool = True
    """Schedules are tried out on a GPU where estimates are too near each other to settle which is faster."""
    tier: str = "auto"
    """In which tier kernels on the CPU begin, one of `TIERS`: those of little work in tier 0, all that can in tier 0 for good, or in 1."""
    explain_tiers: Callable[[str], None] | None = field(default=None, eq=False)
    """Told in which tier each kernel on the CPU begins, and when it has code of the next."""
    tuned: Callable[[str], None] | None = field(default=None, eq=False)
    """Told what each of these runs came to, a line; else the log of `zyntax.tuning` is."""
    launched: Callable[[Any], None] | None = field(default=None, eq=False)
    """Told of each kernel that a compute block runs as (`compiler.launch.recorded.LaunchedKernel`), once for each of its sizes."""
    dry: bool = False
    """Kernels are compiled and don't run: results are zeros, and nothing is rendered."""
    native: str = "paying"
    """Which static functions Python calls natively: those where that is "paying", "all", or "none". All give the same."""
    doing: Callable[[str], None] = field(default=lambda activity: None, eq=False)
    """Told what is going on, in words, whenever that changes."""

    @property
    def told(self) -> str:
        """All that decides what programs come to."""
        parameters = sorted(self.parameters.items())
        return repr((self.device, self.strict, self.threads, self.level.value, parameters, self.sanitize, self.floats, self.products))


def tier_of(options: CompileOptions) -> str:
    """The tier that kernels begin in, as the options or the environment have it. Raises ZyntaxError (0505) for one that there isn't."""
    asked = os.environ.get(TIER) if options.tier == TIERS[0] else options.tier
    if asked in (None, "", *TIERS):
        return asked or TIERS[0]
    raise ZyntaxError(Diagnostic("0505", f"{TIER}={asked} can't be: a kernel begins in one of {', '.join(TIERS)}"))


def origin(source: Source, options: CompileOptions) -> tuple[str, ...]:
    """All that a program is made of besides the compiler and the machine, where it is one file that only declares."""
    return source.path, source.text, options.told, "tuned" if is_on(options.tune) else "as estimated"


# ---- tuning runs on a device --------------------------------------------------------------------------------------------

LONGEST = 20.0
"""Seconds that one run may take at most."""

USUAL = 2.0

SWITCH, BUDGET = "ZYNTAX_TUNE", "ZYNTAX_TUNE_BUDGET"
"""Variables of the environment: `off` or `0` for no runs, and the seconds of one."""


def log(words: str) -> None:
    """What a run came to, for those who use the library."""
    import logging

    logging.getLogger("zyntax.tuning").info(words)


@frozen
class Tuning:
    """`seconds`: of one run at most; `tell` hears what each came to, a line."""

    seconds: float = USUAL
    tell: Callable[[str], None] = field(default=log, eq=False)


def is_on(wanted: bool) -> bool:
    """Whether there are runs at all."""
    return wanted and os.environ.get(SWITCH) not in ("off", "0")


def tuning(wanted: bool, tell: Callable[[str], None] = log) -> Tuning | None:
    """The settings as the environment has them; None for no runs. Raises ZyntaxError (0505) for a number of seconds that can't be."""
    if not is_on(wanted):
        return None
    text = os.environ.get(BUDGET)
    if text is None:
        return Tuning(tell=tell)
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= LONGEST:
        message = f"{BUDGET}={text} can't be: a tuning run takes more than 0 and at most {LONGEST:g} seconds"
        raise ZyntaxError(Diagnostic("0505", message, hint=f"`--no-tune`, or {SWITCH}=off, for none"))
    return Tuning(seconds, tell)
