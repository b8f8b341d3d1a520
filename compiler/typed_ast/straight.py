"""Functions that do nothing but compute blocks, one after the other: no branch, no loop, nothing printed or changed, nothing looked at
but their parameters. What such a function does with arrays of some kinds it does with all arrays of those kinds."""

from collections.abc import Container, Mapping

from compiler.typed_ast import nodes
from compiler.typed_ast.free_names import free_names
from compiler.typed_ast.walk import walk

QUIET_CALLS = frozenset({"shape", "numel", "rank", "len", "sqrt", "float", "int"})
"""Calls that only look at the sizes of their arguments, or at numbers."""


def is_straight(function: nodes.Function, functions: Mapping[str, nodes.Function], globals: Container[str]) -> bool:
    """`functions` are those of the program, `globals` its names for whatever stands outside of functions."""
    return _Straight(functions, globals).function(function)


class _Straight:
    def __init__(self, functions: Mapping[str, nodes.Function], globals: Container[str]) -> None:
        self.functions, self.globals = functions, globals
        self.known: dict[str, bool] = {}

    def function(self, function: nodes.Function) -> bool:
        if function.name not in self.known:
            self.known[function.name] = False  # as seen from inside itself: whatever calls itself isn't straight
            own = {parameter.name for parameter in function.parameters}
            self.known[function.name] = (
                not function.is_async
                and function.body is not None
                and all(self._statement(statement, own) for statement in function.body.statements)
            )
        return self.known[function.name]

    def _statement(self, statement: nodes.Statement, own: set[str]) -> bool:
        """`own` are the names that the function has given so far."""
        match statement:
            case nodes.Let(pattern=nodes.BindingPattern(name=name), mutable=False, value=nodes.Expression() as value):
                straight = self._value(value, own)
                own.add(name)
                return straight
            case nodes.Return(value=nodes.Expression() as value) | nodes.ExpressionStatement(value=value):
                return self._value(value, own)
            case _:
                return False

    def _value(self, value: nodes.Expression, own: set[str]) -> bool:
        match value:
            case nodes.Compute(inputs=inputs, kernel=kernel):
                if any(entry.mutable for entry in inputs) or (kernel is not None and (kernel.is_async or kernel.parallel is not None)):
                    return False
                known = {*own, *(entry.name for entry in inputs), *self.functions}
                if any(name in self.globals and name not in known for name in free_names(value)):
                    return False
                return all(self._value(entry.value, own) for entry in inputs)
            case nodes.TupleLiteral(elements=elements):
                return all(self._value(element, own) for element in elements)
            case nodes.Call(function=nodes.Name(name=name), arguments=arguments) if name in self.functions and name not in own:
                return all(self._value(a.value, own) for a in arguments) and self.function(self.functions[name])
            case _:
                return all(self._is_quiet(node, own) for node in walk(value))

    def _is_quiet(self, node: nodes.Node, own: set[str]) -> bool:
        match node:
            case nodes.Call(function=nodes.Name(name=name) | nodes.Field(name=name)):
                return name in QUIET_CALLS and name not in own and name not in self.functions
            case nodes.Name(name=name):
                return name in own or name not in self.globals
            case nodes.IntLiteral() | nodes.FloatLiteral() | nodes.BoolLiteral():
                return True
            case nodes.Binary() | nodes.Unary() | nodes.Cast() | nodes.Field() | nodes.Argument() | nodes.TypeSyntax():
                return True
            case _:
                return False
