"""The typed tree, for authors of languages and of tools: the classes of its nodes and types, JSON, and how a tree is gone over and changed.

    program = zyntax.ast.parse("println(1)")
    [node.value for node in zyntax.ast.walk(program) if isinstance(node, zyntax.ast.IntLiteral)]    # [1]

Nodes are frozen; `span` says where one stands, `type` what an expression is once the program was checked."""

import importlib
import json
import pathlib
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import attrs

from compiler.source import Source as Source
from compiler.source import Span as Span
from compiler.typed_ast import nodes as _nodes
from compiler.typed_ast import types as _types
from compiler.typed_ast.json import SHARED_MODULES, TreeJson
from compiler.typed_ast.nodes import *  # noqa: F403
from compiler.typed_ast.nodes import Node, Program
from compiler.typed_ast.types import *  # noqa: F403
from compiler.typed_ast.walk import walk as walk

SCHEMA = 1
"""Raised when a tree's JSON changes so that a reader of the earlier form would take it wrongly."""

N = TypeVar("N", bound=Node)


def _public(module: Any) -> dict[str, Any]:
    return {name: cls for name, cls in vars(module).items() if isinstance(cls, type) and cls.__module__.startswith(module.__name__)}


globals().update(_public(_types) | _public(_nodes))


def parse(source: str | pathlib.Path, language: str | None = None) -> Program:
    """The tree of a text, or of the file that a `Path` names, before it is checked. A text without a language is ZynML. Raises
    ZyntaxError."""
    from compiler.languages import language_named, language_of
    from compiler.syntax.read import read_source

    if isinstance(source, pathlib.Path):
        found = language_of(str(source)) if language is None else language_named(language)
        return found.parse(read_source(source))
    return language_named(language or "zynml").parse(Source("<program>", source))


def rebuild(node: N, change: Callable[[Node], Node | None]) -> N:
    """The tree with what `change` gives in place of each node, the parts of a node before itself; where it gives None, or the node, that
    stays. What has not changed is shared with the old tree."""
    changes: dict[str, Any] = {}
    cls: Any = type(node)
    for field in attrs.fields(cls):
        value = getattr(node, field.name)
        if isinstance(value, Node):
            made: Any = rebuild(value, change)
        elif type(value) is tuple:
            made = tuple(rebuild(item, change) if isinstance(item, Node) else item for item in value)
            made = value if all(new is old for new, old in zip(made, value, strict=True)) else made
        else:
            continue
        if made is not value:
            changes[field.name] = made
    new = attrs.evolve(node, **changes) if changes else node
    return change(new) or new  # type: ignore[return-value]


def to_json(node: Node, indent: int | None = None) -> str:
    """A tree as JSON. Each object has the name of its class under `is`; the outermost has `schema`."""
    return json.dumps({"schema": SCHEMA, **_trees().to_data(node)}, indent=indent, ensure_ascii=False, allow_nan=False)


def from_json(text: str) -> Any:
    """The tree that was saved, as `to_json` or `zyntax compile --emit ast` does it. Raises ValueError on text that is no saved tree, or one
    of another schema."""
    data = json.loads(text)
    schema = data.pop("schema", SCHEMA) if isinstance(data, dict) else SCHEMA
    if schema != SCHEMA:
        raise ValueError(f"a tree of schema {schema}, and this zyntax reads {SCHEMA}")
    return _trees().from_data(data)


@cache
def _trees() -> TreeJson:
    """JSON of the trees of all languages that are installed."""
    from compiler.languages import languages

    own = [importlib.import_module(name) for language in languages() for name in language.tree_modules]
    return TreeJson(*SHARED_MODULES, *own)
