"""The order in which the modules of a program are compiled: each behind those that it imports. Knows files and places, no languages."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from compiler.diagnostics import Diagnostic, Label, ZyntaxError
from compiler.source import Span, display_path

Imports = Callable[[Path], Iterable[tuple[Span, Path]]]
"""What a file imports, and where it says so."""


def module_order(program: Path, imports: Imports) -> tuple[Path, ...]:
    """All files that a program imports and those that they import, none before what it imports itself, without the program. Raises
    ZyntaxError (0211) where files import each other."""
    order: list[Path] = []
    done: set[Path] = set()
    chain = [program]
    links: list[Span] = []
    waiting: list[Iterator[tuple[Span, Path]]] = [iter(imports(program))]
    while waiting:
        span, file = next(waiting[-1], (None, program))
        if span is None:
            waiting.pop()
            done.add(chain[-1])
            order.append(chain.pop())
            del links[-1:]
        elif file in chain:
            first = chain.index(file)
            raise ZyntaxError(_cycle([*chain[first:], file], [*links[first:], span]))
        elif file not in done:
            chain.append(file)
            links.append(span)
            waiting.append(iter(imports(file)))
    return tuple(order[:-1])


def _cycle(files: Sequence[Path], links: Sequence[Span]) -> Diagnostic:
    names = [f"`{display_path(file)}`" for file in files]
    others = tuple(Label(span, f"{a} imports {b} here") for span, a, b in zip(links[:-1], names, names[1:], strict=False))
    if len(links) == 1:
        return Diagnostic("0211", f"{names[0]} imports itself", links[-1], hint="leave the import out: a program knows its own names")
    message = f"modules import each other: {' -> '.join(names)}"
    hint = "move what both need into a module of its own"
    return Diagnostic("0211", message, links[-1], f"{names[-2]} imports {names[-1]} here", others, hint=hint)
