"""Whether schedules are tried out on a device where estimates lie too near each other, and for how long."""

import os
from collections.abc import Callable

from attrs import field, frozen

from compiler.diagnostics import Diagnostic, ZyntaxError

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
