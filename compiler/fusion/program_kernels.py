"""The compute blocks of a program as built kernels with names of their own: what is shown of a program is made of these."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.launch.kernels import BuiltKernel, build
from compiler.launch.signature import assumed_signature
from compiler.source import Source
from compiler.typed_ast import nodes
from compiler.typed_ast.free_names import free_names
from compiler.typed_ast.walk import walk

if TYPE_CHECKING:
    from compiler.driver import Session


def kernels(session: "Session") -> Iterator[tuple[nodes.Compute, BuiltKernel]]:
    """Every compute block of the program and of the files that it imports, built for the types that are known; where a dtype is only
    known at run time, for f32 and the rank that the block's indices show."""
    yield from _of_file(session, "")
    for module in session.imported():
        path = os.path.relpath(Path(module.source.path).with_suffix(""), Path(session.source.path).parent)
        yield from _of_file(module, f"{_word(path)}_")


def _of_file(session: "Session", before: str) -> Iterator[tuple[nodes.Compute, BuiltKernel]]:
    program = session.check()
    functions = {s.name: s for s in program.statements if isinstance(s, nodes.Function)}
    for compute, name in named_blocks(program, session.source):
        kernel = session.built(compute)
        if kernel is None:
            signature = assumed_signature(compute, session.scope_of(compute), free_names(compute), functions)
            kernel = build(compute, signature, session.kernel_options)
        yield compute, kernel.named(before + name)


def place_of(session: "Session", compute: nodes.Compute) -> str:
    """Where a block stands: `norms.zynml:2:5`."""
    source = session.sources.get(compute.span.path) or session.source
    line, column = source.line_and_column(compute.span.start)
    return f"{source.path}:{line}:{column}"


def named_blocks(program: nodes.Program, source: Source) -> list[tuple[nodes.Compute, str]]:
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
    found = []
    for compute in blocks:
        line, column = source.line_and_column(compute.span.start)
        given = compute.kernel.name if compute.kernel is not None else None
        name = _word(given) if given else f"{_word(owners.get(compute.span, 'kernel'))}_line{line}"
        if name in taken:
            name = f"{_word(given or owners.get(compute.span, 'kernel'))}_line{line}_column{column}"
        taken.add(name)
        found.append((compute, name))
    return found


def _word(name: str) -> str:
    """The name with what the HIR's text and PTX can hold."""
    word = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    return word if not word[0].isdigit() else f"kernel_{word}"


def module_name(session: "Session") -> str:
    return Path(session.source.path).stem or "program"
