"""A program of tier 0 whose code is loaded."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from compiler.backends.host.faults import translated_faults
from compiler.backends.host.naming import MARK
from compiler.diagnostics import Diagnostic, ZyntaxError
from runtime.records import define, field, frozen

if TYPE_CHECKING:
    from compiler.backends.host.hot_loops import LoopFunctions
    from compiler.backends.host.layouts import RecordLayouts
    from compiler.backends.host.native_functions import NativeFunctions
    from compiler.backends.host.positions import Positions
    from compiler.typed_ast import nodes
    from compiler.typed_ast.types import FunctionType


@frozen
class MainFunction:
    """`main`, by its name in the namespace. `refused`: why it can't be called without arguments."""

    python: str
    is_async: bool = False
    refused: Diagnostic | None = None


@frozen(eq=False)
class HostCode:
    """`head`: what the names of the code stand for, as JSON has it; `code`: the code object, as Python writes it into files of its own."""

    head: Mapping[str, Any]
    code: bytes


@define(eq=False)
class HostProgram:
    """A program ready to run. `functions` and `tests` can be called from Python; the top-level statements run once, before the
    first of them or in `run`."""

    path: str
    compute_sites: "list[nodes.Compute]"
    names: Mapping[str, str]
    """What other modules can import: names of the program and their keys in `namespace`."""
    namespace: dict[str, Any] = field(repr=False)
    positions: "Positions"
    layouts: "RecordLayouts" = field(repr=False)
    functions: dict[str, Callable[..., Any]] = field(factory=dict)
    types: "dict[str, FunctionType]" = field(factory=dict)
    """What the functions declare; Unknown where they say nothing."""
    declarations: "dict[str, nodes.Function]" = field(factory=dict)
    tests: dict[str, Callable[[], None]] = field(factory=dict)
    main: MainFunction | None = None
    code: Any = field(default=None, repr=False)
    settle: Callable[[bool], None] = field(default=lambda program_ends: None, repr=False)
    native: "NativeFunctions | None" = None
    loops: "LoopFunctions | None" = None
    straight: list[str] = field(factory=list)
    """The functions whose runs may come back, by their names in the namespace."""
    portable: HostCode | None = None
    """The code as other processes may load it; None where it holds what only this one has."""
    _started: bool = False

    def run(self) -> None:
        """The top-level statements, then `main()` if there is one."""
        with translated_faults():
            self.start()
            if self.main is not None:
                if self.main.refused is not None:
                    raise ZyntaxError(self.main.refused)
                value = self.namespace[self.main.python]()
                if self.main.is_async:
                    value.value()
            self.settle(True)

    def start(self) -> None:
        """The top-level statements, unless they have run."""
        if not self._started:
            self._started = True
            self.namespace[f"{MARK}top"]()

    def value(self, name: str) -> Any:
        """The value of a top-level variable, after the statements ran."""
        return self.namespace[f"{MARK}settled"](self.namespace[self.names[name]])
