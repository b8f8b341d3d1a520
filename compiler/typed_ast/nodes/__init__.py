"""The nodes of the tree. Fields only: what a program says, where it says it (`span`), and, after the checker, the type of
each expression (`type`). The parser's actions build them; the checker returns the tree anew with its types filled in.

Nodes and the instructions of the HIR that they become are one family: `For`, `If`, `Call` and others have one class here and one
there, under one name on purpose. `nodes.For` says which is meant."""

from compiler.typed_ast.nodes.bases import *  # noqa: F403
from compiler.typed_ast.nodes.compute import *  # noqa: F403
from compiler.typed_ast.nodes.declarations import *  # noqa: F403
from compiler.typed_ast.nodes.expressions import *  # noqa: F403
from compiler.typed_ast.nodes.patterns import *  # noqa: F403
from compiler.typed_ast.nodes.statements import *  # noqa: F403
from compiler.typed_ast.nodes.streams import *  # noqa: F403
from compiler.typed_ast.nodes.type_syntax import *  # noqa: F403
