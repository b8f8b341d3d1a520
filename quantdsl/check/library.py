"""The modules of `std`, written in QuantDSL: of each only the declarations that a program uses are read, and those that they use. Inside
the library they call each other as `std.name`, which no program can hide."""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from compiler.diagnostics import Diagnostic
from compiler.source import Source, Span
from compiler.syntax.parse import parse_with
from compiler.typed_ast import nodes
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.walk import walk
from quantdsl import nodes as quant
from quantdsl.actions import QuantActions
from runtime.records import evolve

_FOLDER = Path(__file__).parents[1] / "std"
_HEAD = re.compile(r"^(?:signal|fn) (\w+)", re.MULTILINE)
INSIDE = "std."
MODULES = tuple(sorted(f"std.{file.stem}" for file in _FOLDER.glob("*.qdsl")))


@cache
def source(module: str) -> Source:
    """The text of a module, under the name by which its spans know it."""
    return Source(f"<{module}>", (_FOLDER / f"{module.removeprefix('std.')}.qdsl").read_text(encoding="utf-8"))


@cache
def _places() -> dict[str, tuple[str, int, int]]:
    """Of each declaration its module and where it stands there: every one begins a line, and nothing else does with these words."""
    found: dict[str, tuple[str, int, int]] = {}
    for module in MODULES:
        text = source(module).text
        heads = list(_HEAD.finditer(text))
        for head, following in zip(heads, [*heads[1:], None], strict=True):
            found[head[1]] = (module, head.start(), following.start() if following else len(text))
    return found


def holds(span: Span) -> bool:
    """Whether a place is one of the library's."""
    return span.path.startswith("<std.")


def module_of(name: str) -> str | None:
    """The module that declares a name; None for names that none does."""
    return _places()[name][0] if name in _places() else None


def names() -> frozenset[str]:
    """All that the modules declare."""
    return frozenset(_places())


class _LibraryActions(QuantActions):
    def call(self, start: int, end: int, function: nodes.Expression, arguments: tuple[nodes.Argument, ...]) -> nodes.Expression:
        if isinstance(function, nodes.Name) and function.name in _places():
            function = evolve(function, name=INSIDE + function.name)
        return super().call(start, end, function, arguments)


@cache
def _declaration(name: str) -> nodes.Function | quant.Signal:
    module, start, end = _places()[name]
    program = parse_with(_LibraryActions(f"<{module}>", source(module).text[start:end], start), "program")
    (made,) = program.statements
    assert isinstance(made, nodes.Function | quant.Signal)
    return made


def used_by(statements: Iterable[nodes.Statement]) -> dict[str, nodes.Function | quant.Signal]:
    """The declarations that these may call, and those that they call, by name."""
    found: dict[str, nodes.Function | quant.Signal] = {}
    waiting = list(statements)
    while waiting:
        for node in walk(waiting.pop()):
            if isinstance(node, nodes.Call) and isinstance(node.function, nodes.Name):
                name = node.function.name.removeprefix(INSIDE)
                if name in _places() and name not in found:
                    found[name] = _declaration(name)
                    waiting.append(found[name])
    return found


def of_tensors(found: Mapping[str, nodes.Function | quant.Signal]) -> set[str]:
    """Those of the declarations that take or give tensors, and those that call them: they run in programs with a `main` only."""
    tensors = {name for name, declaration in found.items() if any(isinstance(n, nodes.TensorTypeSyntax) for n in walk(declaration))}
    calls = {name: set(used_by((declaration,))) for name, declaration in found.items()} if tensors else {}
    return tensors | {name for name, called in calls.items() if called & tensors}


def refused(node: nodes.Import) -> Diagnostic | None:
    """What is wrong with a `use`. Modules of `std` are known without one; others aren't read yet."""
    name = ".".join(node.module)
    if node.module[0] != "std":
        message = f"`use {name}`: modules beside `std` are valid, but not supported yet"
        return Diagnostic("0109", message, node.span, hint="write its declarations into this file")
    if name not in MODULES:
        hint = did_you_mean(name, MODULES) or f"modules are {', '.join(f'`{known}`' for known in MODULES)}"
        return Diagnostic("0202", f"there is no module `{name}`", node.span, hint=hint)
    if node.alias is not None:
        hint = f"`use {name}` is enough: its names are known without a prefix"
        return Diagnostic("0109", "a module under another name is valid, but not supported yet", node.span, hint=hint)
    return None
