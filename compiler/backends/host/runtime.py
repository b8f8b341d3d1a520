"""What code of tier 0 asks of whoever runs it."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from compiler.backends.host.values import Bounds
from compiler.source import Span
from runtime.futures import PendingValue


class ImportedProgram(Protocol):
    """The program of a module that another one imports."""

    @property
    def names(self) -> Mapping[str, str]:
        """What can be imported: names of the program and their keys in `namespace`."""

    @property
    def namespace(self) -> dict[str, Any]: ...

    def start(self) -> None:
        """Runs the top-level statements, unless they have run."""


class HostRuntime(Protocol):
    """What a running program asks of whoever runs it."""

    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]:
        """Functions for `extern name(...)` that are not in the library."""

    def compute(self, site: int, values: dict[str, Any]) -> Any:
        """Runs the program's `compute_sites[site]`. `values`: the inputs by name, and every outer variable that the block
        mentions."""

    def compute_later(self, site: int, values: dict[str, Any], readers: int) -> Any:
        """The same for a block whose value later blocks read: something to hand to these, which are run by `compute_chain`. `readers`:
        how many there are, 0 where something else looks at the value, too, by `settled`."""

    def compute_chain(self, site: int, values: dict[str, Any]) -> Any:
        """Runs a block, and those before it that wait for it."""

    def settled(self, value: Any) -> Any:
        """The value of a block that waited."""

    def coming_back(self, name: str, function: Callable[..., Any], changes: Callable[[], int]) -> Callable[..., Any]:
        """A straight function (see `straight_functions`), by its name in the namespace, as the program calls it. `changes` counts the
        arguments that were converted to other values until now."""

    def note(self, future: PendingValue) -> None:
        """Remembers a future of the program's own code, whose faults must not be lost."""

    def render(self, value: Any, form: str, options: dict[str, Any], span: Span) -> None:
        """`render value { ... }`."""

    def parameter(self, name: str, default: Any, bounds: Bounds | None, span: Span) -> Any:
        """The value of `param name`: what the user set, else the default."""

    def configure(self, entries: dict[str, Any], span: Span) -> None:
        """`config { ... }`."""

    def module(self, path: tuple[str, ...], span: Span) -> ImportedProgram | None:
        """The program that `import a.b` means; None for a module of the library."""

    def settle(self, program_ends: bool) -> None:
        """Called when a program or one of its functions has ended: raises what went wrong in blocks that nobody awaits any more."""
