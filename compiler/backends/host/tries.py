"""`try` and `throw` to Python's own: a handler asks what the fault is as a value, and each `catch` in turn whether it takes that."""

import ast

from compiler.backends.host.destination import Destination
from compiler.backends.host.emit import load
from compiler.backends.host.naming import MARK
from compiler.backends.host.places import Places
from compiler.typed_ast import nodes
from compiler.typed_ast.error_kinds import ANY_ERROR
from compiler.typed_ast.types import UNKNOWN, StructType, Type


class Tries(Places):
    """The expression `try` and the statement `throw`."""

    def throw(self, node: nodes.Throw) -> None:
        value = self.expression(node.value)
        self.write(ast.Expr(self.help("throw", node.span, value)), node.span)

    def try_into(self, node: nodes.Try, destination: Destination) -> None:
        self.tries += 1
        with self.collected() as body:
            self.block_into(node.body, destination)
        self.tries -= 1
        raised, caught = self.frame.temporary(), self.frame.temporary()
        with self.collected() as handler:
            self.assign(caught, ast.Call(load(f"{MARK}caught"), [load(raised)], []), node.span)
            outer, self.body = self.body, []
            innermost = chain = self.body
            for one in node.handlers:
                test = self._takes(one, caught)
                with self.block(), self.collected() as inside:
                    if one.name is not None:
                        self.bind_name(one.name, self._caught_as(one, caught), self._caught_type(one), False, one.span)
                    self.block_into(one.body, destination)
                rest: list[ast.stmt] = []
                innermost.append(self.at(ast.If(test, inside or [self.at(ast.Pass(), one.span)], rest), one.span))
                innermost = rest
            innermost.append(self.at(ast.Raise(), node.span))
            self.body = outer
            self.body.extend(chain)
        clause = ast.ExceptHandler(load(f"{MARK}exception!"), raised, handler)
        self.write(ast.Try(body or [self.at(ast.Pass(), node.span)], [clause], [], []), node.span)

    def _caught_type(self, handler: nodes.Catch) -> Type:
        return UNKNOWN if handler.error is None else self.resolve(handler.error)

    def _takes(self, handler: nodes.Catch, caught: str) -> ast.expr:
        if handler.error is None:
            return ast.Constant(True)
        type_ = self._caught_type(handler)
        if self._is_any_error(type_):
            return self.help("is error", handler.span, load(caught))
        case = self.layouts.cases(type_)
        classes: list[ast.expr] = [load(f"{MARK}str!")] if not case else [self.constant(one.values) for one in case.values()]
        return self.help("is one of", handler.span, load(caught), *classes)

    def _caught_as(self, handler: nodes.Catch, caught: str) -> ast.expr:
        if self._is_any_error(self._caught_type(handler)):
            return self.help("as error", handler.span, load(caught))
        return load(caught)

    def _is_any_error(self, type_: Type) -> bool:
        return type_ == StructType(ANY_ERROR) and ANY_ERROR not in self.declared.own
