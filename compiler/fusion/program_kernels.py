"""The compute blocks of a program as built kernels with names of their own: what is shown of a program is made of these."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from compiler.launch.checked_blocks import CheckedBlocks
from compiler.launch.kernels import BuiltKernel
from compiler.source import Source, Sources
from compiler.typed_ast import nodes
from compiler.typed_ast.program_functions import functions_of
from compiler.typed_ast.walk import walk


class ProgramFile(Protocol):
    """A file of a program whose kernels are shown."""

    @property
    def source(self) -> Source: ...

    @property
    def sources(self) -> Sources:
        """The program's files and those of its library."""

    @property
    def blocks(self) -> CheckedBlocks:
        """The file's compute blocks, once it is checked."""

    def check(self) -> nodes.Program:
        """The typed tree. Raises ZyntaxError."""

    def inlined(self) -> nodes.Program:
        """The typed tree as it runs, with calls inlined. Raises ZyntaxError."""

    def imported(self) -> "Iterator[ProgramFile]":
        """The files that the program imports, and those that they import. Raises ZyntaxError."""


def kernels(program: ProgramFile) -> Iterator[tuple[nodes.Compute, BuiltKernel]]:
    """Every compute block of the program and of the files that it imports, with its kernel. Raises ZyntaxError."""
    yield from _of_file(program, "")
    for module in program.imported():
        path = os.path.relpath(Path(module.source.path).with_suffix(""), Path(program.source.path).parent)
        yield from _of_file(module, f"{_word(path)}_")


def _of_file(file: ProgramFile, before: str) -> Iterator[tuple[nodes.Compute, BuiltKernel]]:
    program = file.check()
    functions = functions_of(program)
    for compute, name in named_blocks(program, lambda path: file.sources.get(path) or file.source):
        yield compute, file.blocks.shown(compute, functions).named(before + name)


def position_of(program: ProgramFile, compute: nodes.Compute) -> str:
    """Where a block stands, or the call that a copy of one stands for: `norms.zynml:2:5`."""
    span = compute.inlined_at or compute.span
    source = program.sources.get(span.path) or program.source
    line, column = source.line_and_column(span.start)
    return f"{source.path}:{line}:{column}"


def named_blocks(program: nodes.Program, source_of: Callable[[str], Source]) -> list[tuple[nodes.Compute, str]]:
    """Each compute block with a name that no other has and that stays while its line does: the one that the program gives it, else
    the function it stands in and its line, `norms_line2`."""
    blocks = [node for node in walk(program) if isinstance(node, nodes.Compute)]
    owners = {
        inner.span: outer.name
        for outer in walk(program)
        if isinstance(outer, nodes.Function)
        for inner in walk(outer)
        if isinstance(inner, nodes.Compute)
    }
    taken: set[str] = set()
    named = []
    for compute in blocks:
        line, column = source_of(compute.span.path).line_and_column(compute.span.start)
        given = compute.kernel.name if compute.kernel is not None else None
        name = _word(given) if given else f"{_word(owners.get(compute.span, 'kernel'))}_line{line}"
        if name in taken:
            name = f"{_word(given or owners.get(compute.span, 'kernel'))}_line{line}_column{column}"
        taken.add(name)
        named.append((compute, name))
    return named


def _word(name: str) -> str:
    """The name with what the HIR's text and PTX can hold."""
    word = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    return word if not word[0].isdigit() else f"kernel_{word}"


def module_name(program: ProgramFile) -> str:
    return Path(program.source.path).stem or "program"
