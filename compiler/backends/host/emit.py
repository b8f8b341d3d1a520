"""What all generation of Python code shares: the list of statements being written, temporaries, places, constants, and the
order of evaluation when an expression needs statements of its own."""

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from compiler.backends.host.intervals import FULL, Interval, interval, marked
from compiler.backends.host.layouts import RecordLayouts
from compiler.backends.host.naming import MARK, Binding, DeclaredFunction, PythonFrame, PythonScope, PythonVariable
from compiler.backends.host.positions import Positions
from compiler.backends.host.value_ranges import ValueRanges
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.declarations import Declarations, is_method
from compiler.typed_ast.error_types import error_types
from compiler.typed_ast.library import Library
from compiler.typed_ast.resolve_types import TypeResolver, top_numbers
from compiler.typed_ast.types import UNKNOWN, Type

MAX_DEPTH = 40
"""Deeper Python expressions are cut by a temporary: Python's own compiler recurses over them."""

Tree = TypeVar("Tree", bound=ast.AST)
PLAIN_CONSTANTS = (int, float, bool, str, type(None))


def not_supported(construct: str, span: Span, instead: str) -> ZyntaxError:
    return ZyntaxError(Diagnostic("0109", f"{construct} is valid, but not supported yet", span, hint=instead))


class Emitter:
    """One file's generation."""

    def __init__(self, program: nodes.Program, library: Library, positions: Positions) -> None:
        self.program = program
        self.library = library
        self.positions = positions
        self.body: list[ast.stmt] = []
        self.frame = PythonFrame(is_module=True)
        self.scope = PythonScope()
        self.constants: dict[str, Any] = {}
        self._constant_names: dict[int, str] = {}
        self.declared = Declarations((nodes.Function,))
        kinds = nodes.TypeAlias | nodes.Struct | nodes.EnumDeclaration | nodes.Impl
        self.declared.declare_all(s for s in program.statements if isinstance(s, kinds) or is_method(s))
        self.declared.declare_all(error_types(program.statements), own=False)
        self._types = TypeResolver(lambda diagnostic: None, self.declared, numbers=top_numbers(program))
        self.layouts = RecordLayouts(self.declared, self._types)
        self.method_names = {id(function): name for name, function in self.declared.functions.items() if "::" in name}
        self.methods: dict[str, DeclaredFunction] = {}
        self.target: tuple[nodes.Expression, Type] | None = None
        """The expression before an `as`, and the type behind it, while the expression's own code is made."""
        self.ranges: ValueRanges | None = None
        """Of the function whose code is made, where that is all of it."""
        self.unread: nodes.Expression | None = None
        """A call whose value nobody reads, while its code is made."""

    def resolve(self, syntax: nodes.TypeSyntax | None) -> Type:
        """A written type; Unknown for none and for what the checker has objected to."""
        return UNKNOWN if syntax is None else self._types.resolve(syntax)

    def range_of(self, node: nodes.Expression) -> Interval:
        """Between which bounds an int lies."""
        return FULL if self.ranges is None else self.ranges.of(node)

    # ---- statements ----------------------------------------------------------------------------------------------

    @contextmanager
    def collected(self) -> Iterator[list[ast.stmt]]:
        """Statements written inside go to the list that is given, not to the current one."""
        outer, self.body = self.body, []
        try:
            yield self.body
        finally:
            self.body = outer

    @contextmanager
    def block(self) -> Iterator[None]:
        self.scope = PythonScope(self.scope)
        try:
            yield
        finally:
            assert self.scope.parent is not None
            self.scope = self.scope.parent

    def write(self, statement: ast.stmt, span: Span) -> None:
        self.body.append(self.at(statement, span))

    def assign(self, python: str, value: ast.expr, span: Span) -> None:
        self.write(ast.Assign([ast.Name(python, ast.Store())], value), span)

    # ---- expressions -----------------------------------------------------------------------------------------------

    def at(self, tree: Tree, span: Span) -> Tree:
        """The tree, placed where the program says it; what lies below and has no place yet gets it at the end."""
        line, column, end_line, end_column = self.positions.position(span)
        tree.lineno, tree.col_offset, tree.end_lineno, tree.end_col_offset = line, column, end_line, end_column  # type: ignore[attr-defined]
        return tree

    def made(self, tree: ast.expr, span: Span, *parts: ast.expr) -> ast.expr:
        """A composed expression over `parts`; one that got too deep becomes a temporary."""
        depth = 1 + max((getattr(part, "depth", 0) for part in parts), default=0)
        self.at(tree, span)
        tree.depth = depth  # type: ignore[attr-defined]
        return self.keep(tree, span) if depth > MAX_DEPTH else tree

    def help(self, name: str, span: Span, *arguments: ast.expr) -> ast.expr:
        """A call of a helper."""
        return self.made(ast.Call(load(MARK + name), list(arguments), []), span, *arguments)

    def constant(self, value: Any) -> ast.expr:
        """A value known while code is made: written down if Python can, else by a name in the program's globals."""
        if isinstance(value, PLAIN_CONSTANTS) and type(value) in PLAIN_CONSTANTS:
            return ast.Constant(value)
        if type(value) is tuple and not value:
            return ast.Tuple([], ast.Load())
        name = self._constant_names.get(id(value))
        if name is None:
            name = self._constant_names[id(value)] = f"{MARK}c{len(self.constants)}"
            self.constants[name] = value
        return load(name)

    def keep(self, value: ast.expr, span: Span) -> ast.expr:
        """The value in a place that nothing changes: itself, if it is a constant or a temporary, else a new temporary."""
        if is_stable(value):
            return value
        name = self.frame.temporary()
        self.assign(name, value, span)
        return marked(load(name), interval(value))

    def in_order(self, makers: Sequence[Callable[[], ast.expr]], span: Span) -> list[ast.expr]:
        """Expressions evaluated one after the other, also when a later one writes statements first: what comes before those is
        kept in temporaries."""
        values: list[ast.expr] = []
        for make in makers:
            with self.collected() as written:
                value = make()
            if written:
                values = [self.keep(v, span) for v in values]
                self.body.extend(written)
            values.append(value)
        return values

    # ---- names -------------------------------------------------------------------------------------------------------

    def declare(self, name: str, type_: Type = UNKNOWN, mutable: bool = False, boxed: bool = False) -> PythonVariable:
        """A new variable of the current block."""
        variable = PythonVariable(name, self.frame.python_name(name), self.frame, type_, mutable, self.frame.loop, boxed)
        self.scope.names[name] = variable
        return variable

    def enter(self, name: str, binding: Binding) -> None:
        self.scope.names[name] = binding


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def is_stable(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) or (isinstance(value, ast.Name) and value.id.startswith(MARK))


def place_all(tree: ast.Module) -> None:
    """Gives each node without a place that of the node around it."""
    waiting: list[tuple[ast.AST, tuple[int, int, int, int]]] = [(tree, (1, 0, 1, 0))]
    while waiting:
        node, position = waiting.pop()
        if "lineno" in node._attributes:
            own = getattr(node, "lineno", None)
            if own is None:
                node.lineno, node.col_offset, node.end_lineno, node.end_col_offset = position  # type: ignore[attr-defined]
            else:
                position = (own, node.col_offset, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        waiting.extend((child, position) for child in ast.iter_child_nodes(node))
