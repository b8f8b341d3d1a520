"""Methods of lists that take a lambda, as the loops that they are: what the lambda says stands in the loop, and no element costs a call."""

import ast

from compiler.backends.host.emit import load
from compiler.backends.host.expressions import Expressions
from compiler.backends.host.intervals import LENGTH, marked
from compiler.backends.host.naming import DeclaredFunction, PythonVariable
from compiler.typed_ast import nodes
from compiler.typed_ast.types import BOOL, I64, ListType, RangeType, StringType
from compiler.typed_ast.walk import walk

_LOOKING = ("len", "is_empty", "contains", "contains_key", "get", "get_or", "first", "last")
_OF_PREDICATES = ("filter", "any", "all", "count")


class Iterators(Expressions):
    """`map`, `filter`, `any`, `all` and `count`."""

    def looped(self, node: nodes.Call, receiver: nodes.Expression, name: str) -> ast.expr | None:
        """The call as a loop; None where it is none of these, or its lambda can't stand in a loop as it is."""
        if not isinstance(receiver.type, ListType | RangeType) or len(node.arguments) != 1 or node.arguments[0].name is not None:
            return None
        function = node.arguments[0].value
        if not isinstance(function, nodes.Lambda) or len(function.parameters) != 1 or not self._stands_alone(function):
            return None
        element = receiver.type.element if isinstance(receiver.type, ListType) else I64
        if name == "map":
            return self.comprehension(_comprehension(node, receiver, function, function.body))
        if name not in _OF_PREDICATES or function.body.type != BOOL:
            return None
        if name == "filter":
            variable = nodes.Name(name=function.parameters[0].name, type=element, span=function.span)
            return self.comprehension(_comprehension(node, receiver, function, variable, function.body))
        return self._answered(node, receiver, function, name)

    def _stands_alone(self, function: nodes.Lambda) -> bool:
        """Whether the body is an expression that calls nothing of the program, which might look at what the loop has so far."""
        parameter = function.parameters[0]
        if parameter.annotation is not None or parameter.default is not None or parameter.mutable:
            return False
        for part in walk(function.body):
            if isinstance(part, nodes.Statement | nodes.Block | nodes.Lambda | nodes.Await | nodes.Propagate | nodes.Compute):
                return False
            if isinstance(part, nodes.Call) and (part.callee or self._is_of_program(part.function)):
                return False
        return True

    def _is_of_program(self, function: nodes.Expression) -> bool:
        match function:
            case nodes.Name(name=name):
                return isinstance(self.scope.find(name), DeclaredFunction | PythonVariable)
            case nodes.Field(value=receiver, name=name):
                return not (isinstance(receiver.type, StringType) or name in _LOOKING)
        return True

    def _answered(self, node: nodes.Call, receiver: nodes.Expression, function: nodes.Lambda, name: str) -> ast.expr:
        """`any`, `all`, `count`: a variable that the loop sets."""
        result = self.frame.temporary()
        source = self.iterated(receiver)
        start: int | bool = 0 if name == "count" else name == "all"
        self.assign(result, ast.Constant(start), node.span)
        self.frame.loop += 1
        with self.block(), self.collected() as body:
            target = self.loop_target((function.parameters[0].name,), receiver, receiver.span, source)
            test = self.condition(function.body)
            with self.collected() as then:
                if name == "count":
                    self.assign(result, ast.BinOp(load(result), ast.Add(), ast.Constant(1)), node.span)
                else:
                    self.assign(result, ast.Constant(not start), node.span)
                    self.write(ast.Break(), node.span)
            self.write(ast.If(ast.UnaryOp(ast.Not(), test) if name == "all" else test, then, []), function.span)
        self.frame.loop -= 1
        self.write(ast.For(target, source, body, []), node.span)
        return marked(load(result), LENGTH) if name == "count" else load(result)


def _comprehension(
    node: nodes.Call, source: nodes.Expression, function: nodes.Lambda, element: nodes.Expression, condition: nodes.Expression | None = None
) -> nodes.Comprehension:
    names = (function.parameters[0].name,)
    return nodes.Comprehension(element=element, names=names, source=source, condition=condition, type=node.type, span=node.span)
