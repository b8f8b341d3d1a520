"""Loops that go on natively while they run. Python does their first turns, some at a time; where they go on for longer, the function that
is made of the rest of the loop takes the variables as they are, and gives back those that it assigned."""

import ast
from collections.abc import Mapping
from functools import partial
from time import perf_counter
from typing import Any

from compiler.backends.host import loop_heat
from compiler.backends.host.destination import DISCARD
from compiler.backends.host.emit import load
from compiler.backends.host.loop_heat import LoopHeat
from compiler.backends.host.naming import DeclaredFunction, PythonVariable
from compiler.backends.host.native_functions import NativeFunctions, called_by_python
from compiler.backends.host.statements import Statements
from compiler.source import NOWHERE, Source
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.effects import effects
from compiler.typed_ast.function_effects import ProgramEffects
from compiler.typed_ast.hot_loops import HotLoop
from compiler.typed_ast.native_calls import has_native_code
from runtime.records import Factory, define

DEEPEST = 5
"""How many hot loops may stand inside each other: each is two of Python's blocks, of which no more than 20 do."""


class HotLoops(Statements):
    """Loops of either kind."""

    hot_loops: Mapping[int, HotLoop]
    eager: bool
    heats: dict[str, LoopHeat]
    _depth = 0

    def while_(self, node: nodes.While) -> None:
        hot = self._hot(node)
        if hot is None:
            super().while_(node)
            return
        self.frame.loop += 1
        self._depth += 1
        with self.collected() as turn:
            test = self.condition(node.condition)
            self.write(ast.If(ast.UnaryOp(ast.Not(), test), [self.at(ast.Break(), node.condition.span)], []), node.condition.span)
            self.block_into(node.body, DISCARD)
        self._depth -= 1
        self.frame.loop -= 1
        turns = ast.Call(load("·range!"), [ast.Constant(self._turns)], [])
        began = self._begun(node)
        with self.collected() as between:
            self._go_on(node, hot, [], began)
        target = ast.Name(self.frame.temporary(), ast.Store())
        self._in_parts(ast.For(target, turns, turn, between), node)

    def _clauses(self, node: nodes.For, position: int) -> None:
        hot = self._hot(node) if position == 0 else None
        if hot is None:
            super()._clauses(node, position)
            return
        clause = node.clauses[0]
        span = clause.span if clause.span != NOWHERE else node.span
        source = self.iterated(clause.source, len(clause.names), node.body, *node.clauses[1:])
        numbers, part = self.frame.temporary(), self.frame.temporary()
        self.frame.loop += 1
        self._depth += 1
        with self.collected() as turn:
            target = self.loop_target(clause.names, clause.source, clause.span, source)
            if len(node.clauses) > 1:
                self._clauses(node, 1)
            else:
                self.block_into(node.body, DISCARD)
        self._depth -= 1
        self.frame.loop -= 1
        self.assign(numbers, source, span)
        first = ast.Slice(None, ast.Constant(self._turns), None)
        began = self._begun(node)
        self.assign(part, ast.Subscript(load(numbers), first, ast.Load()), span)
        with self.collected() as between:
            rest = ast.Slice(ast.Constant(self._turns), None, None)
            self.assign(numbers, ast.Subscript(load(numbers), rest, ast.Load()), span)
            self.write(ast.If(ast.UnaryOp(ast.Not(), load(numbers)), [self.at(ast.Break(), span)], []), span)
            ends: list[ast.expr] = [ast.Subscript(load(numbers), ast.Constant(at), ast.Load()) for at in (0, -1)]
            self._go_on(node, hot, ends, began)
            first = ast.Slice(None, ast.Constant(self._turns), None)
            self.body.insert(-1, self.at(ast.Assign([ast.Name(part, ast.Store())], ast.Subscript(load(numbers), first, ast.Load())), span))
        self._in_parts(ast.For(target, load(part), turn or [self.at(ast.Pass(), node.span)], between), node)

    @property
    def _turns(self) -> int:
        return 1 if self.eager else loop_heat.TURNS

    def _hot(self, node: nodes.While | nodes.For) -> HotLoop | None:
        """What goes on with a loop; None where nothing does, or not all that it takes is a variable here."""
        hot = self.hot_loops.get(id(node))
        if hot is None or self._depth >= DEEPEST or not isinstance(self._function(hot), DeclaredFunction):
            return None
        variables = {name: self.scope.find(name) for name in hot.taken}
        if not all(isinstance(variable, PythonVariable) for variable in variables.values()):
            return None
        return hot if all(self._is_own(variables[name]) for name in hot.left) else None

    def _is_own(self, variable: object) -> bool:
        """Whether nobody sees a variable when the code that it stands in has failed."""
        assert isinstance(variable, PythonVariable)
        return not variable.boxed and (variable.frame is self.frame or (self.frame.is_top and variable.is_global))

    def _function(self, hot: HotLoop) -> object:
        return self.scope.find(hot.function.name)

    def _begun(self, node: nodes.While | nodes.For) -> str:
        """The variable that has the time at which a loop began."""
        began = self.frame.temporary()
        self.assign(began, ast.Call(self.constant(perf_counter), [], []), node.span)
        return began

    def _go_on(self, node: nodes.While | nodes.For, hot: HotLoop, ends: list[ast.expr], began: str) -> None:
        """Behind some turns: the rest natively, or some more."""
        declared = self._function(hot)
        assert isinstance(declared, DeclaredFunction)
        heat = self.heats.setdefault(declared.python, LoopHeat(eager=self.eager))
        span = node.span
        with self.collected() as natively:
            variables = {name: self.scope.find(name) for name in hot.taken}
            taken = [self.variable(variable, span) for variable in variables.values() if isinstance(variable, PythonVariable)]
            value: ast.expr = self.at(ast.Call(load(declared.python), [*ends, *taken], []), span)
            left = [self.frame.temporary() for _ in hot.left]
            targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in left]
            self.write(ast.Assign([targets[0] if len(left) == 1 else ast.Tuple(targets, ast.Store())], value), span)
            for name, python in zip(hot.left, left, strict=True):
                variable = variables[name]
                assert isinstance(variable, PythonVariable)
                self.store(variable, load(python), span)
            self.write(ast.Break(), span)
        self.write(ast.If(ast.Call(self.constant(heat), [load(began)], []), natively, []), span)
        self.write(ast.Continue(), span)

    def _in_parts(self, some_turns: ast.For, node: nodes.While | nodes.For) -> None:
        """The loop around some turns, which ends where these do before their end."""
        body = [self.at(some_turns, node.span), self.at(ast.Break(), node.span)]
        self.write(ast.While(ast.Constant(True), body, []), node.span)


@define(eq=False)
class LoopFunctions:
    """The functions of a program's hot loops, each made when its loop is hot."""

    checker: Checker
    program: nodes.Program
    source: Source | None
    namespace: dict[str, Any]
    _found: ProgramEffects | None = None
    ready: list[str] = Factory(list)
    """Those that loops have gone on with."""

    def wait_for(self, heats: Mapping[str, LoopHeat], names: Mapping[str, str]) -> None:
        """`names`: the functions by the names that they are called by."""
        for name, python in names.items():
            if python in heats:
                heats[python].prepare = partial(self.prepare, name, python)

    def prepare(self, name: str, python: str) -> bool:
        """Whether the function is native, and ready."""
        if self._found is None:
            self._found = effects(self.checker, self.program, has_native_code)
        if name not in called_by_python(self.checker, self._found, [name], True):
            return False
        made = NativeFunctions(self.checker, self._found, self.source, self.namespace, {name: python}, of_loop=True)
        made.install()
        made.ready()
        if not self._found.functions[name].is_static:
            return False
        self.ready.append(name)
        return True
