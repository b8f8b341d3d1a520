"""From a check that failed on a device to the program's diagnostic."""

from collections.abc import Sequence
from typing import Any, Protocol

from compiler.diagnostics import Diagnostic
from compiler.hir.module import FaultSite
from compiler.source import Span

WITHOUT_SITE = {"0804": "out of memory inside a compute block", "0806": "division by zero"}
"""Messages of faults that no check of the program stands for."""


class SiteFault(Protocol):
    """A device's report: the fault's code, the number of its site among the function's, and the values that its message names."""

    @property
    def code(self) -> str: ...

    @property
    def site(self) -> int: ...

    @property
    def values(self) -> Sequence[Any]: ...


def diagnosed(fault: SiteFault, sites: Sequence[FaultSite], block: Span | None) -> Diagnostic:
    """The diagnostic of a fault in a block."""
    if 0 <= fault.site < len(sites):
        site = sites[fault.site]
        message, label = site.message.format(*fault.values), site.label.format(*fault.values)
        return Diagnostic(site.code, message, site.span, label, site.others, hint=site.hint)
    message = WITHOUT_SITE.get(fault.code, f"a kernel failed with code {fault.code}")
    return Diagnostic(fault.code if fault.code in WITHOUT_SITE else "0901", message, block)
