"""What an author of a language writes against. A package outside of this repository imports this, `zyntax.ast`, `zyntax.diagnostics` and
`zyntax.testing`, and nothing else of ours: all else is private and may change in any version."""

from compiler.authoring import build as build
from compiler.authoring.actions import AuthorActions as Actions
from compiler.authoring.language import AuthoredLanguage as Language
from compiler.authoring.tokens import TextToken as Token
from compiler.language import API as API
from compiler.typed_ast.library import LibraryFault as LibraryFault
from compiler.typed_ast.library import LibraryFunction as LibraryFunction
from compiler.typed_ast.library import TypeFault as TypeFault
from compiler.typed_ast.nodes import Node as Node
from zynml.stdlib.family import FunctionFamily as Library

__all__ = ["API", "Actions", "Language", "Library", "LibraryFault", "LibraryFunction", "Node", "Token", "TypeFault", "build"]
