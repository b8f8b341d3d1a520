"""What the names of a program stand for while code is generated, and which Python names they get. Blocks of a program scope
lexically and may shadow; Python functions have one scope each: every binding therefore gets a Python name of its own."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from compiler.typed_ast.library import LibraryFunction
from compiler.typed_ast.types import UNKNOWN, Type
from runtime.records import Factory, define, field

if TYPE_CHECKING:
    from compiler.typed_ast import nodes

MARK = "·"
"""In every generated name and in none of a program's."""

_FORBIDDEN = frozenset({"None", "True", "False", "__debug__"})


@define(eq=False)
class PythonVariable:
    """A variable of the program. `loop` is the depth of loops at its declaration within its frame: a variable of a loop's body is
    a new one in each iteration. `boxed`: it lives in a one-element list, since closures capture it and it changes. `waits`: it holds a
    block that waits for those that read its value."""

    name: str
    python: str
    frame: "PythonFrame"
    type: Type = UNKNOWN
    mutable: bool = False
    loop: int = 0
    boxed: bool = False
    is_global: bool = False
    waits: bool = False
    interval: tuple[int, int] | None = None
    """The bounds of an int that never changes, where they are known."""


@define(eq=False)
class DeclaredFunction:
    """A `def` of the program."""

    name: str
    python: str
    frame: "PythonFrame"
    node: "nodes.Function"
    loop: int = 0
    is_global: bool = False
    trusting: str = ""
    """The same function for callers whose arguments have the declared types already, if looking at lists and maps would take long."""


@define(eq=False)
class ImportedModule:
    """An imported module: `python` is the generated name of its namespace, `names` what it offers."""

    name: str
    python: str
    names: Mapping[str, str]


@define(eq=False)
class ModuleMember:
    """One name out of an imported module."""

    name: str
    module: ImportedModule

    @property
    def key(self) -> str:
        return self.module.names[self.name]


@define(eq=False)
class LibraryName:
    """A library function under a name of the program's choice (`from zynml.vector import cosine`, `extern`)."""

    name: str
    function: LibraryFunction


@define(eq=False)
class LibraryModule:
    """A module of the library under an alias: `import tensor as t`."""

    name: str


Binding = PythonVariable | DeclaredFunction | ImportedModule | ModuleMember | LibraryName | LibraryModule


@define(eq=False)
class PythonFrame:
    """One Python function being generated. `captured` are variables of enclosing frames' loops that it reads and that a factory
    has to bind per iteration; `globals` and `nonlocals` are names that it assigns and does not own."""

    parent: "PythonFrame | None" = None
    result: Type = UNKNOWN
    is_module: bool = False
    is_top: bool = False
    loop: int = 0
    taken: set[str] = Factory(set)
    captured: dict[str, PythonVariable | DeclaredFunction] = Factory(dict)
    globals: set[str] = Factory(set)
    nonlocals: set[str] = Factory(set)
    _temporaries: int = 0

    def temporary(self) -> str:
        self._temporaries += 1
        return f"{MARK}{self._temporaries}"

    def python_name(self, name: str) -> str:
        """A Python name for a new binding: the program's own where no enclosing frame and no earlier binding has it."""
        candidate, number = name, 1
        while candidate in _FORBIDDEN or self._is_taken(candidate):
            number += 1
            candidate = f"{name}{MARK}{number}"
        self.taken.add(candidate)
        return candidate

    def parameter_name(self, name: str) -> str:
        """Parameters keep their names, so that callers can use keywords."""
        python = f"{name}{MARK}" if name in _FORBIDDEN else name
        self.taken.add(python)
        return python

    def _is_taken(self, name: str) -> bool:
        frame: PythonFrame | None = self
        while frame is not None:
            if name in frame.taken:
                return True
            frame = frame.parent
        return False


@define(eq=False)
class PythonScope:
    """The names of one block; lookups go outwards."""

    parent: "PythonScope | None" = None
    names: dict[str, Binding] = field(factory=dict)

    def find(self, name: str) -> Binding | None:
        scope: PythonScope | None = self
        while scope is not None:
            binding = scope.names.get(name)
            if binding is not None:
                return binding
            scope = scope.parent
        return None
