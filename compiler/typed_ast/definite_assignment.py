"""Variables declared without a value: whether every path to where one is read assigns it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from compiler.typed_ast import nodes
from compiler.typed_ast.walk import parts, walk

Assigned = frozenset[int] | None
"""The declarations, by identity, that have a value on every path to here; None where no path leads."""


def early_reads(body: nodes.Node, begins_unset: Callable[[nodes.Let], bool]) -> list[tuple[nodes.Name, nodes.Let]]:
    """Reads of variables that may have no value yet, each variable once, with its declaration."""
    if not any(isinstance(node, nodes.Let) and node.value is None for node in walk(body)):
        return []
    flow = _Flow(begins_unset)
    flow.visit(body)
    return flow.early


def _meet(a: Assigned, b: Assigned) -> Assigned:
    return b if a is None else a if b is None else a & b


class _Flow:
    """Follows a body in the order in which it runs. `names` says which of the declarations a name stands for, if any."""

    def __init__(self, begins_unset: Callable[[nodes.Let], bool]) -> None:
        self.begins_unset = begins_unset
        self.names: dict[str, nodes.Let | None] = {}
        self.assigned: Assigned = frozenset()
        self.breaks: Assigned = None
        self.early: list[tuple[nodes.Name, nodes.Let]] = []

    def visit(self, node: nodes.Node) -> None:
        match node:
            case nodes.Name():
                self.read(node)
            case nodes.Let():
                self.let(node)
            case nodes.Assign():
                self.assign(node)
            case nodes.Block():
                with self.scope():
                    self.visit_parts(node)
            case nodes.If(condition=condition, then=then, otherwise=otherwise) | nodes.Conditional(
                condition=condition, then=then, otherwise=otherwise
            ):
                with self.scope():
                    self.visit(condition)
                    self.branches([then] if otherwise is None else [then, otherwise], may_skip=otherwise is None)
            case nodes.Match(subject=subject, arms=arms):
                self.visit(subject)
                self.branches(arms, may_skip=False)
            case nodes.Try():
                self.try_(node)
            case nodes.Arm(pattern=pattern):
                with self.scope():
                    self.hide(pattern)
                    self.visit_parts(node)
            case nodes.LetCondition(pattern=pattern, value=value):
                self.visit(value)
                self.hide(pattern)
            case nodes.Binary(operator="and" | "or" | "??", left=left, right=right):
                self.visit(left)
                self.branches([right], may_skip=True)
            case nodes.While():
                self.while_(node)
            case nodes.For():
                self.for_(node)
            case nodes.Compute(inputs=inputs, body=body):
                with self.scope():
                    for given in inputs:
                        self.visit(given.value)
                        self.names[given.name] = None
                    self.branches([body], may_skip=True)
            case nodes.Break():
                self.breaks = _meet(self.breaks, self.assigned)
                self.assigned = None
            case nodes.Continue() | nodes.Return() | nodes.Throw():
                self.visit_parts(node)
                self.assigned = None
            case nodes.Function() | nodes.Lambda():
                pass
            case _:
                self.visit_parts(node)

    def visit_parts(self, node: nodes.Node) -> None:
        for part in parts(node):
            self.visit(part)

    @contextmanager
    def scope(self) -> Iterator[None]:
        before = self.names
        self.names = dict(before)
        yield
        self.names = before

    def hide(self, pattern: nodes.Pattern) -> None:
        for bound in walk(pattern):
            if isinstance(bound, nodes.BindingPattern):
                self.names[bound.name] = None

    # ---- variables ----

    def read(self, node: nodes.Name) -> None:
        declared = self.names.get(node.name)
        if declared is not None and self.assigned is not None and id(declared) not in self.assigned:
            self.early.append((node, declared))
            self.assigned |= {id(declared)}

    def let(self, node: nodes.Let) -> None:
        if node.value is not None:
            self.visit(node.value)
        self.hide(node.pattern)
        if node.value is None and isinstance(node.pattern, nodes.BindingPattern) and self.begins_unset(node):
            self.names[node.pattern.name] = node
            self.assigned = self.assigned - {id(node)} if self.assigned is not None else None

    def assign(self, node: nodes.Assign) -> None:
        targets = node.target.elements if isinstance(node.target, nodes.TupleLiteral) else (node.target,)
        whole = [target for target in targets if isinstance(target, nodes.Name) and node.operator is None]
        for target in targets:
            if target not in whole:
                self.visit(target)
        self.visit(node.value)
        declared = [self.names.get(target.name) for target in whole]
        if self.assigned is not None:
            self.assigned |= {id(one) for one in declared if one is not None}

    # ---- paths ----

    def branches(self, ways: "list[nodes.Expression] | tuple[nodes.Arm, ...]", may_skip: bool) -> None:
        before = self.assigned
        joined: Assigned = before if may_skip else None
        for way in ways:
            self.assigned = before
            self.visit(way)
            joined = _meet(joined, self.assigned)
        self.assigned = joined

    def try_(self, node: nodes.Try) -> None:
        """A fault may end the body before it has assigned anything."""
        before = self.assigned
        self.visit(node.body)
        joined = self.assigned
        for handler in node.handlers:
            self.assigned = before
            with self.scope():
                if handler.name is not None:
                    self.names[handler.name] = None
                self.visit(handler.body)
            joined = _meet(joined, self.assigned)
        self.assigned = joined

    def while_(self, node: nodes.While) -> None:
        if node.bound is not None:
            self.visit(node.bound)
        self.visit(node.condition)
        holds = isinstance(node.condition, nodes.BoolLiteral) and node.condition.value and node.bound is None
        behind = None if holds else self.assigned
        self.assigned = _meet(behind, self.loop(node.body))

    def for_(self, node: nodes.For) -> None:
        with self.scope():
            for clause in node.clauses:
                self.visit(clause.source)
                self.names |= dict.fromkeys(clause.names)
            before = self.assigned
            self.assigned = _meet(before, self.loop(node.body))

    def loop(self, body: nodes.Block) -> Assigned:
        """Follows a body; gives what is assigned where a `break` leaves it."""
        outer, self.breaks = self.breaks, None
        self.visit(body)
        left, self.breaks = self.breaks, outer
        return left
