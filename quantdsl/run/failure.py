"""What a checked failure of a handler looks like to its author: the line, the operands, the row of data, what the strategy remembered."""

from typing import Any

from compiler.backends.host.stopped_natively import ENDS, TOO_DEEP
from compiler.backends.native.link import Linked
from compiler.backends.native.record import HostFault
from compiler.diagnostics import Diagnostic
from quantdsl.engine.interface import EVENTS
from quantdsl.run.engine_state import EngineState
from quantdsl.run.shapes import said
from runtime.records import evolve
from runtime.replay.outputs.charts import moment

SHOWN = 24
"""States that a message lists."""


def words(fault: HostFault, linked: Linked) -> Diagnostic:
    """The failure as a message."""
    site = linked.site(fault)
    if site is None:
        message, hint = ("interrupted", None) if fault.code == "0809" else (TOO_DEEP, ENDS)
        return Diagnostic(fault.code, message, fault.span, hint=hint, running=True)
    message, label = site.message.format(*fault.values), site.label.format(*fault.values)
    return Diagnostic(site.code, message, site.span, label, site.others, hint=site.hint, running=True)


def of_engine(fault: HostFault, linked: Linked) -> Diagnostic:
    """A failure of the engine itself: a limit of its memory, money that no longer fits, or a fault of ours."""
    site = linked.site(fault)
    text = site.message.format(*fault.values) if site is not None else fault.code
    if site is not None and site.code == "0812":
        return Diagnostic(site.code, text, hint=site.hint, running=True)
    if site is not None and site.code == "0806":
        hint = "a currency of a smaller scale, or smaller orders"
        return Diagnostic("0806", f"the position's money doesn't fit 64 bits: {text}", hint=hint, running=True)
    return Diagnostic("0901", f"the engine failed in {fault.function}: {text}")


def halted(fault: HostFault, linked: Linked, engine: EngineState, files: list[str]) -> Diagnostic:
    """The failure that halted a strategy, with the event that it happened at."""
    failed: Any = engine["failed"]
    stream = int(failed["stream"])
    file = files[stream] if stream < len(files) else "the data"
    at = f"in `on {EVENTS[int(failed['handler'])]}`, at {file}: row {int(failed['row'])}, {moment(int(failed['ts']))} UTC"
    kept = [f"`state {shape.name}` is {said(shape, engine.state, engine.metadata.market)}" for shape in engine.metadata.state]
    notes = [at, *kept[:SHOWN], *([f"and {len(kept) - SHOWN} more"] if len(kept) > SHOWN else [])]
    return evolve(words(fault, linked), notes=tuple(notes))
