"""An author's file of kernels: functions in the language that the author's builds on, which actions call. In the program's tree they have
names that no program can write, so that they hide none of its own and none hides them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import attrs

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import Source, display_path
from compiler.typed_ast import nodes
from compiler.typed_ast.walk import walk
from runtime.records import evolve, frozen

INLINE = "inline"
N = TypeVar("N", bound=nodes.Node)
_TYPES = (nodes.Struct, nodes.EnumDeclaration, nodes.TypeAlias, nodes.Trait, nodes.Impl)
_DECLARATIONS = (nodes.Function, *_TYPES, nodes.Constant, nodes.Import)


@frozen(eq=False)
class KernelFile:
    """`names`: the functions by their names in the file, with those in the tree."""

    source: Source
    names: Mapping[str, str]
    declarations: tuple[nodes.Statement, ...]

    @property
    def path(self) -> str:
        return self.source.path


def read_kernels(path: Path, language: str, parse: Any, inline: bool) -> KernelFile:
    """The kernels of a file, which `parse` parses. Raises ZyntaxError."""
    from compiler.syntax.read import read_source

    read = read_source(path)
    source = Source(display_path(path), read.text)
    program: nodes.Program = parse(source)
    for statement in program.statements:
        if not isinstance(statement, _DECLARATIONS):
            message = f"the kernels of `{language}` have a statement: a file of kernels only declares"
            raise ZyntaxError(Diagnostic("0110", message, statement.span, hint="write it inside of a function"))
    names = {one.name: f"{language}.{one.name}" for one in program.statements if isinstance(one, nodes.Function)}
    declarations = tuple(_renamed(one, names, inline) for one in program.statements)
    return KernelFile(source, names, declarations)


def _renamed(statement: nodes.Statement, names: Mapping[str, str], inline: bool) -> nodes.Statement:
    own = {*_bound(statement)}
    changed = _change(statement, {name: hidden for name, hidden in names.items() if name not in own})
    if not isinstance(changed, nodes.Function):
        return changed
    annotations = changed.annotations
    if inline and not any(annotation.name == INLINE for annotation in annotations):
        annotations = (*annotations, nodes.Annotation(name=INLINE, span=changed.name_span))
    return evolve(changed, name=names[changed.name], annotations=annotations)


def _bound(statement: nodes.Statement) -> set[str]:
    """The names that a declaration binds for itself."""
    found: set[str] = set()
    for node in walk(statement):
        match node:
            case nodes.Parameter(name=name) | nodes.BindingPattern(name=name):
                found.add(name)
            case nodes.ForClause(names=names) | nodes.Comprehension(names=names):
                found.update(names)
    return found


def _change(node: N, names: Mapping[str, str]) -> N:
    """The node with names that mean kernels changed."""
    return renamed_where(node, names, lambda node, name: isinstance(node, nodes.Name))


def renamed_where(node: N, names: Mapping[str, str], is_meant: Callable[[nodes.Node, str], bool]) -> N:
    """The node with other names in it, where they are meant."""
    changes: dict[str, Any] = {}
    if isinstance(node, nodes.Name | nodes.BindingPattern) and node.name in names and is_meant(node, node.name):
        changes["name"] = names[node.name]
    cls: Any = type(node)
    for field in attrs.fields(cls):
        value = getattr(node, field.name)
        if isinstance(value, nodes.Node):
            changes[field.name] = renamed_where(value, names, is_meant)
        elif type(value) is tuple and any(isinstance(item, nodes.Node) for item in value):
            made = (renamed_where(item, names, is_meant) if isinstance(item, nodes.Node) else item for item in value)
            changes[field.name] = tuple(made)
    return evolve(node, **changes) if changes else node
