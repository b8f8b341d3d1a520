"""Functions of a program's code that do nothing but hand values on to compute blocks, and to functions that do no more. No branch, loop or
element of a tensor; nothing that is printed, drawn, kept or changed but by blocks. What such a function launches follows from the types
and layouts of its arguments and from the ints among them alone, and its floats go to launches as they came."""

import ast
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from compiler.backends.host.conversions import Conversions
from compiler.backends.host.naming import MARK
from compiler.backends.host.runtime import HostRuntime
from compiler.typed_ast import nodes
from compiler.typed_ast.types import BOOL, I64
from runtime.lazy_numpy import np
from runtime.records import Factory, define
from runtime.values import RecordValue

BLOCKS = tuple(f"{MARK}{name}" for name in ("compute", "compute_later", "compute_chain"))

OF_NUMBERS = frozenset(MARK + name for name in ("div·i64", "rem·i64", "div·f64", "rem·f64", "overflow", "float!", "cast"))
"""Helpers whose value follows from those of their arguments, where these are numbers."""

LIBRARY_OF_NUMBERS = frozenset({"abs", "ceil", "exp", "floor", "log", "max", "min", "pow", "sqrt"})
"""Functions of the library of which that is so."""

SEVERAL = 2
"""Blocks from which on a function's runs are worth more than its blocks' calls."""

DEEPEST = 100
"""Calls inside of each other beyond which a function counts as not straight, so that looking at it doesn't nest without bound."""

OF_SIZES = frozenset({"numel", "rank", "shape"})
"""Functions of the library that look at the extents of their first argument alone."""


def straight_functions(module: ast.Module, constants: Mapping[str, Any], sites: Sequence[nodes.Compute]) -> dict[str, int]:
    """The straight functions among those of generated code, with how many blocks each calls, those of its callees counted with it."""
    named = [each.name for each in module.body if isinstance(each, ast.FunctionDef)]
    named += [target.id for each in module.body for target in _targets(each) if isinstance(target, ast.Name)]
    functions = {each.name: each for each in module.body if isinstance(each, ast.FunctionDef) and named.count(each.name) == 1}
    straight = _Straight(functions, constants, sites)
    return {name: count for name in functions if (count := straight.blocks(name))}


def let_come_back(names: Sequence[str], namespace: dict[str, Any], runtime: HostRuntime) -> None:
    """Has the program call straight functions as the runtime has them. `namespace`: that of its code, which is loaded."""
    conversions: Conversions = namespace[f"{MARK}convert"].__self__
    for name in names:
        namespace[name] = runtime.coming_back(name, namespace[name], lambda: conversions.changes)


def _targets(statement: ast.stmt) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else []


class _Crooked(Exception):
    """The function isn't straight."""


@define(eq=False)
class _Straight:
    functions: Mapping[str, ast.FunctionDef]
    constants: Mapping[str, Any]
    sites: Sequence[nodes.Compute]
    known: dict[str, int | None] = Factory(dict)
    depth: int = 0

    def blocks(self, name: str) -> int | None:
        """How many blocks a function calls; None where it isn't straight."""
        if name not in self.known:
            self.known[name] = None  # as seen from inside itself: whatever calls itself isn't straight
            self.depth += 1
            if self.depth <= DEEPEST:
                with suppress(_Crooked):
                    self.known[name] = _Body(self, self.functions[name]).blocks
            self.depth -= 1
        return self.known[name]


class _Body:
    """The body of one function. `fixed`: names of numbers that follow from layouts and ints alone; `held`: all that the function has a
    value for."""

    def __init__(self, program: _Straight, function: ast.FunctionDef) -> None:
        self.program, self.blocks = program, 0
        arguments = function.args
        plain = [argument.arg for argument in arguments.args]
        if function.decorator_list or arguments.defaults or arguments.vararg or arguments.kwonlyargs or arguments.kwarg:
            raise _Crooked
        self.held, self.fixed = set(plain), set[str]()
        for statement in function.body:
            self.statement(statement)

    # ---- statements ----

    def statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.bind(name, self.value(value))
            case ast.Assign(targets=[ast.Tuple(elts=elements)], value=value):
                is_fixed = self.value(value)
                for element in elements:
                    if not isinstance(element, ast.Name):
                        raise _Crooked
                    self.bind(element.id, is_fixed)
            case ast.Return(value=None) | ast.Pass():
                pass
            case ast.Return(value=ast.expr() as value) | ast.Expr(value=value):
                self.value(value)
            case ast.If(test=test, body=body, orelse=[]):
                self.look(test, body)
            case ast.Try(body=body, handlers=[ast.ExceptHandler(body=otherwise)], orelse=[], finalbody=[]):
                self.either(body, otherwise)
            case _:
                raise _Crooked

    def either(self, body: list[ast.stmt], otherwise: list[ast.stmt]) -> None:
        """Blocks as one kernel, and one by one where a fault of theirs is to be told."""
        held, fixed = set(self.held), set(self.fixed)
        for statement in body:
            self.statement(statement)
        blocks, after = self.blocks, set(self.fixed)
        self.held, self.fixed = self.held | held, fixed
        for statement in otherwise:
            self.statement(statement)
        self.blocks, self.fixed = blocks, self.fixed & after

    def bind(self, name: str, is_fixed: bool) -> None:
        self.held.add(name)
        (self.fixed.add if is_fixed else self.fixed.discard)(name)

    def look(self, test: ast.expr, body: list[ast.stmt]) -> None:
        """Arguments are made what is declared. Whoever records a run sees whether that changed one of them."""
        match test, body:
            case ast.Compare(left=ast.Name(id=name), ops=[ast.Is()]), [ast.Assign(value=ast.Tuple()), *rest] if name in self.fixed:
                for statement in rest:
                    self.first_look(statement)
            case ast.Compare(left=ast.Attribute(value=ast.Name(id=name), attr="__class__"), ops=[ast.IsNot()]), [statement]:
                converted, to = self.converted(statement)
                if converted != name:
                    raise _Crooked
                if to in (I64, BOOL):
                    self.fixed.add(name)
            case ast.Compare(left=ast.Call(func=ast.Name(id=helper), args=[ast.Name(id=name)]), ops=[ast.NotIn()]), [statement]:
                if helper != f"{MARK}type!" or self.converted(statement)[0] != name:
                    raise _Crooked
            case _:
                raise _Crooked

    def first_look(self, statement: ast.stmt) -> None:
        """At arguments that are laid out in another way than those before: conversions, and the sizes that the signature names."""
        match statement:
            case ast.If(orelse=[]):
                self.look(statement.test, statement.body)
            case ast.Assign(value=ast.Call(func=ast.Name(id=helper))) if helper == f"{MARK}sizes":
                pass
            case ast.Assign(value=ast.Tuple(elts=[])):
                pass
            case ast.Expr(value=ast.Call(func=ast.Name(id=helper))) if helper == f"{MARK}passed":
                pass
            case ast.Assign():
                self.converted(statement)
            case _:
                raise _Crooked

    def converted(self, statement: ast.stmt) -> tuple[str, Any]:
        """The argument that a statement converts, and to what."""
        match statement:
            case ast.Assign([ast.Name(id=name)], ast.Call(ast.Name(id=helper), [ast.Name(id=same), ast.Name(id=to)])):
                if helper == f"{MARK}convert" and name == same and name in self.held and to in self.program.constants:
                    return name, self.program.constants[to]
        raise _Crooked

    # ---- expressions ----

    def value(self, value: ast.expr) -> bool:
        """Looks through an expression; whether its value is a number, or a list of some, that follows from layouts and ints alone."""
        match value:
            case ast.Name(id=name) if name in self.held:
                return name in self.fixed
            case ast.Name(id=name) if name in self.program.constants:
                if isinstance(self.program.constants[name], int | float | np.generic):
                    return True
                raise _Crooked
            case ast.Constant(value=int() | float() | str() | None):
                return True
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                are_fixed = [self.value(element) for element in elements]
                if isinstance(value, ast.List) and not all(are_fixed):
                    raise _Crooked  # lists may grow
                return all(are_fixed)
            case ast.Subscript(value=of, slice=ast.Constant(value=int())):
                return self.value(of)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self.call(name, arguments)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=seen), attr="get"), args=[ast.Tuple(elts=likes)], keywords=[]):
                is_memory = self.program.constants.get(seen).__class__ is dict
                if not is_memory or not all(self.is_like(each) for each in likes):
                    raise _Crooked
                return True
            case ast.NamedExpr(target=ast.Name(id=name), value=inside):
                if not self.value(inside):
                    raise _Crooked
                self.bind(name, True)
                return True
            case ast.BinOp() | ast.UnaryOp() | ast.BoolOp() | ast.Compare() | ast.IfExp():
                if not all(self.value(part) for part in ast.iter_child_nodes(value) if isinstance(part, ast.expr)):
                    raise _Crooked
                return True
        raise _Crooked

    def is_like(self, value: ast.expr) -> bool:
        match value:
            case ast.Call(func=ast.Name(id=helper), args=[ast.Name(id=name)]):
                return helper == f"{MARK}like" and name in self.held
        return False

    def call(self, name: str, arguments: list[ast.expr]) -> bool:
        constants = self.program.constants
        if name in self.program.functions:
            blocks = self.program.blocks(name)
            if blocks is None:
                raise _Crooked
            self.each(arguments)
            self.blocks += blocks
            return False
        if name in BLOCKS:
            self.block(arguments)
            return False
        if name == f"{MARK}settled":
            self.each(arguments)
            return False
        if name == f"{MARK}sizes":
            return True  # of parameters, by their shapes
        if name == f"{MARK}convert":
            self.each(arguments[:1])
            return False
        if (record := constants.get(name)).__class__ is type and issubclass(record, RecordValue):
            self.each(arguments)
            return False
        if name in OF_NUMBERS:
            return self.of_fixed(arguments)
        if name.startswith(f"{MARK}library{MARK}"):
            return self.library(name.split(MARK)[2], arguments)
        raise _Crooked

    def library(self, name: str, arguments: list[ast.expr]) -> bool:
        if name in LIBRARY_OF_NUMBERS:
            return self.of_fixed(arguments)
        if name in OF_SIZES:
            self.value(arguments[0])
            return self.of_fixed(arguments[1:])
        if name == "reshape":
            self.value(arguments[0])
            self.of_fixed(arguments[1:])
            return False
        raise _Crooked

    def block(self, arguments: list[ast.expr]) -> None:
        match arguments:
            case [site, ast.Dict(values=values), *_]:
                number = self.program.constants.get(site.id) if isinstance(site, ast.Name) else getattr(site, "value", None)
                kernel = self.program.sites[number].kernel if number.__class__ is int else None
                if number.__class__ is not int or (kernel is not None and (kernel.is_async or kernel.parallel is not None)):
                    raise _Crooked
                self.each(values)
                self.blocks += 1
            case _:
                raise _Crooked

    def each(self, values: Sequence[ast.expr]) -> None:
        for value in values:
            self.value(value)

    def of_fixed(self, arguments: Sequence[ast.expr]) -> bool:
        """All of them follow from layouts and ints, or are types and the like."""
        for argument in arguments:
            if isinstance(argument, ast.Name) and argument.id in self.program.constants:
                continue
            if not self.value(argument):
                raise _Crooked
        return True
