"""What the names of a program's code stand for, but for its own constants."""

from collections.abc import Callable
from functools import partial
from typing import Any

from compiler.backends.host.faults import POSITIONS
from compiler.backends.host.layouts import RecordLayouts
from compiler.backends.host.naming import MARK
from compiler.backends.host.positions import Positions
from compiler.backends.host.runtime import HostRuntime
from compiler.backends.host.support import helpers
from compiler.typed_ast.library import Library
from runtime.futures import PendingValue
from runtime.host_tasks import beside, one_at_a_time


def namespace_of(positions: Positions, library: Library, layouts: RecordLayouts, runtime: HostRuntime, runs_beside: bool) -> dict[str, Any]:
    """`runs_beside`: the program has functions that run beside it."""
    blocks = {f"{MARK}{name}": getattr(runtime, name) for name in ("compute", "compute_later", "compute_chain", "settled")}
    return {
        "__builtins__": {},
        "__name__": positions.path,
        POSITIONS: positions,
        **helpers(library, layouts),
        **(one_at_a_time(blocks) | {f"{MARK}beside": partial(_beside, runtime)} if runs_beside else blocks),
        f"{MARK}render": runtime.render,
        f"{MARK}parameter": runtime.parameter,
        f"{MARK}configure": runtime.configure,
    }


def _beside(runtime: HostRuntime, work: Callable[[], Any]) -> PendingValue:
    future = beside(work)
    runtime.note(future)
    return future
