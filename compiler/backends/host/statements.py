"""Statements to Python statements: bindings, assignments, loops, and blocks whose value goes to a destination."""

import ast
from collections.abc import Callable, Mapping, Sequence

from compiler.backends.host.destination import DISCARD, Destination
from compiler.backends.host.emit import load, not_supported
from compiler.backends.host.intervals import interval
from compiler.backends.host.naming import MARK, PythonVariable
from compiler.backends.host.operators import inferred
from compiler.backends.host.record_values import RECORD_TYPES
from compiler.backends.host.tries import Tries
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import NOWHERE, Span
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.types import I64, UNKNOWN, Scalar, TupleType, Type
from runtime.records import evolve


class Statements(Tries):
    """One method a kind of statement."""

    def declaration(self, node: nodes.Declaration) -> None:
        raise AssertionError("defined by the generator")

    def into(self, node: nodes.Expression, destination: Destination) -> None:
        """Evaluates an expression for its destination; choices and blocks become Python statements. Where nothing is wanted of these, each
        of their ends gives a number of the type that they have together."""
        if isinstance(node, nodes.If | nodes.Match | nodes.Try) and destination != DISCARD and destination.to == UNKNOWN:
            destination = evolve(destination, to=inferred(node.type)) if isinstance(node.type, Scalar) else destination
        match node:
            case nodes.Block():
                self.block_into(node, destination)
            case nodes.If():
                self.if_into(node, destination)
            case nodes.Match():
                self.match_into(node, destination)
            case nodes.Try():
                self.try_into(node, destination)
            case _:
                self.unread = node if destination == DISCARD else None
                self.deliver(self.converted(node, destination.to), node.span, destination)

    def deliver(self, value: ast.expr, span: Span, destination: Destination) -> None:
        if destination.to_caller:
            self.write(ast.Return(value), span)
        elif destination.store is not None:
            self.assign(destination.store, value, span)
        elif not isinstance(value, (ast.Constant, ast.Name)):
            self.write(ast.Expr(value), span)

    def value_of_block(self, node: nodes.Expression, to: Type | None = None) -> ast.expr:
        name = self.frame.temporary()
        self.into(node, Destination(store=name, to=inferred(node.type) if to is None else to))
        return load(name)

    def block_into(self, node: nodes.Block, destination: Destination) -> None:
        with self.block():
            *front, last = node.statements if node.statements else (None,)
            for statement in front:
                assert statement is not None
                self.statement(statement)
            if isinstance(last, nodes.ExpressionStatement):
                self.into(last.value, destination)
                return
            if isinstance(last, nodes.Inlined) and isinstance(last.written[-1], nodes.ExpressionStatement | nodes.Return):
                self.inlined(last, destination)
                return
            if last is not None:
                self.statement(last)
            if destination != DISCARD and not isinstance(last, (nodes.Return, nodes.Break, nodes.Continue, nodes.Throw)):
                self.deliver(ast.Constant(None), node.span, destination)

    def if_into(self, node: nodes.If, destination: Destination) -> None:
        """An `elif` chain is walked in a loop: it may be long."""
        body = self.body
        current: nodes.If | None = node
        outer_bodies: list[list[ast.stmt]] = []
        while current is not None:
            inside = destination if current.otherwise is not None else DISCARD
            if isinstance(current.condition, nodes.LetCondition):
                test, then = self.let_condition(current.condition, current.then, inside)
            else:
                test = self.condition(current.condition)
                with self.collected() as then:
                    self.block_into(current.then, inside)
            rest: list[ast.stmt] = []
            self.write(ast.If(test, then or [self.at(ast.Pass(), current.then.span)], rest), current.span)
            otherwise = current.otherwise
            if otherwise is None:
                if destination != DISCARD:
                    self.deliver(ast.Constant(None), current.span, destination)
                break
            outer_bodies.append(self.body)
            self.body = rest
            match otherwise.statements:
                case (nodes.ExpressionStatement(value=nodes.If() as chained),):
                    current = chained
                case _:
                    self.block_into(otherwise, destination)
                    current = None
        self.body = body

    # ---- statements ------------------------------------------------------------------------------------------------

    def statement(self, node: nodes.Statement) -> None:
        match node:
            case nodes.ExpressionStatement(value=value):
                self.into(value, DISCARD)
            case nodes.Let():
                self.let(node)
            case nodes.Inlined():
                self.inlined(node, DISCARD)
            case nodes.Assign():
                self.assignment(node)
            case nodes.While():
                self.while_(node)
            case nodes.For():
                self.for_(node)
            case nodes.Break() | nodes.Continue() if self.frame.loop == 0:
                word = "break" if isinstance(node, nodes.Break) else "continue"
                raise ZyntaxError(Diagnostic("0101", f"`{word}` stands outside of a loop", node.span))
            case nodes.Break():
                self.write(ast.Break(), node.span)
            case nodes.Continue():
                self.write(ast.Continue(), node.span)
            case nodes.Return() if self.frame.is_top:
                raise ZyntaxError(Diagnostic("0101", "`return` stands outside of a function", node.span))
            case nodes.Return(value=value):
                if value is None:
                    self.write(ast.Return(ast.Constant(None)), node.span)
                else:
                    self.into(value, Destination(to_caller=True, to=self.frame.result))
            case nodes.Render():
                self.render(node)
            case nodes.Declaration():
                self.declaration(node)
            case nodes.Throw():
                self.throw(node)
            case nodes.Yield():
                raise ZyntaxError(Diagnostic("0408", "`yield` stands outside a compute block", node.span))
            case nodes.SharedVariable():
                raise ZyntaxError(Diagnostic("0413", "`shared var` stands outside a compute block", node.span))
            case nodes.LaterStatement(feature=feature):
                raise not_supported(feature, node.span, "leave it out")
            case _:
                raise ZyntaxError(Diagnostic("0901", f"tier 0 does not know the node {type(node).__name__}", node.span))

    def let(self, node: nodes.Let) -> None:
        declared = self.resolve(node.annotation)
        if node.value is None:
            self._without_value(node, declared)
            return
        type_of_name = declared if declared != UNKNOWN else strong(node.value.type)
        value = self.converted(node.value, declared if declared != UNKNOWN else inferred(type_of_name))
        if isinstance(node.pattern, nodes.TuplePattern):
            self.bind(node.pattern, self.keep(value, node.value.span), type_of_name, node.mutable)
            return
        # What a mutable variable of no declared type holds may change in shape and element type; the type of a number, and of
        # what is a value of its own, stays.
        stays = declared != UNKNOWN or not node.mutable or isinstance(type_of_name, (Scalar, *RECORD_TYPES))
        type_ = type_of_name if stays else UNKNOWN
        match node.pattern:
            case nodes.BindingPattern(name=name):
                self.bind_name(name, value, type_, node.mutable, node.span)
                variable = self.scope.find(name)
                if not node.mutable and type_ == I64 and isinstance(variable, PythonVariable):
                    variable.interval = interval(value)
            case nodes.WildcardPattern():
                self.write(ast.Expr(value), node.span)
            case _:
                self.bind(node.pattern, self.keep(value, node.value.span), type_of_name, node.mutable)

    def _without_value(self, node: nodes.Let, declared: Type) -> None:
        """Nothing is stored: reading the variable before it has a value is a fault."""
        if not isinstance(node.pattern, nodes.BindingPattern):
            raise not_supported("this pattern without a value", node.pattern.span, "give it one")
        name = node.pattern.name
        boxed = self.frame.loop > 0 and name in self.closure_names
        variable = self.declare(name, declared, True, boxed)
        if boxed:
            raise not_supported("a variable of a loop without a first value that a closure captures", node.span, "give it one")
        if self.frame.loop > 0:
            # The value of the turn before must not show.
            self.assign(variable.python, ast.Constant(None), node.span)
            self.write(ast.Delete([ast.Name(variable.python, ast.Del())]), node.span)

    def bind(self, pattern: nodes.Pattern, value: ast.expr, type_: Type, mutable: bool) -> None:
        """Takes a value in a stable place apart."""
        match pattern:
            case nodes.BindingPattern(name=name):
                self.bind_name(name, value, strong(type_), mutable, pattern.span)
            case nodes.WildcardPattern():
                pass
            case nodes.TuplePattern(elements=elements):
                is_list = isinstance(pattern, nodes.ListPattern)
                if is_list:
                    types: Sequence[Type] | None = (getattr(type_, "element", UNKNOWN),) * len(elements)
                else:
                    types = type_.elements if isinstance(type_, TupleType) and len(type_.elements) == len(elements) else None
                helper = "unpack list" if is_list else "unpack"
                parts = value if types and not is_list else self.help(helper, pattern.span, value, ast.Constant(len(elements)))
                names = [self.frame.temporary() for _ in elements]
                self.write(ast.Assign([ast.Tuple([ast.Name(n, ast.Store()) for n in names], ast.Store())], parts), pattern.span)
                for index, (element, name) in enumerate(zip(elements, names, strict=True)):
                    self.bind(element, load(name), types[index] if types else UNKNOWN, mutable)
            case _:
                self.bind_parts(pattern, value, type_, mutable)

    def bind_name(self, name: str, value: ast.expr, type_: Type, mutable: bool, span: Span) -> None:
        boxed = mutable and self.frame.loop > 0 and name in self.closure_names
        variable = self.declare(name, type_, mutable, boxed)
        self.assign(variable.python, ast.List([value], ast.Load()) if boxed else value, span)

    # ---- copies of calls ----------------------------------------------------------------------------------------------

    def inlined(self, node: nodes.Inlined, destination: Destination) -> None:
        """The copies; where anything goes wrong in them, all anew as it was written, which goes wrong as it should. `destination` is that
        of a last expression."""
        lets = {s.pattern.name: s for s in node.written if isinstance(s, nodes.Let) and isinstance(s.pattern, nodes.BindingPattern)}
        names = {name: self.frame.temporary() for name in lets}
        with self.collected() as copies:
            waits = self._in_block(node.statements, names, destination, node.span)
        with self.collected() as written:
            self._in_block(node.written, names, destination, node.span)
        clause = ast.ExceptHandler(load(f"{MARK}exception!"), None, written)
        self.write(ast.Try(copies, [clause], [], []), node.span)
        for name, let in lets.items():
            declared = self.resolve(let.annotation)
            assert let.value is not None
            type_ = declared if declared != UNKNOWN else strong(let.value.type)
            self.bind_name(name, load(names[name]), type_, False, let.span)
            variable = self.scope.find(name)
            assert isinstance(variable, PythonVariable)
            variable.waits = name in waits

    def _in_block(
        self, statements: tuple[nodes.Statement, ...], names: Mapping[str, str], destination: Destination, span: Span
    ) -> set[str]:
        """Writes statements as a block of their own; what they declare under these names goes to variables outside. Gives the names that
        wait."""
        waits = set()
        with self.block():
            *front, last = statements
            for statement in front:
                self.statement(statement)
            if isinstance(last, nodes.ExpressionStatement):
                self.into(last.value, destination)
            else:
                self.statement(last)
            for name, python in names.items():
                variable = self.scope.find(name)
                assert isinstance(variable, PythonVariable)
                if variable.waits:
                    waits.add(name)
                self.assign(python, self.at(load(variable.python), span), span)
        return waits

    # ---- loops --------------------------------------------------------------------------------------------------------

    def while_(self, node: nodes.While) -> None:
        """With `max n` the condition may hold n times; when it holds once more the program stops."""
        bound = self.keep(self.expression(node.bound), node.bound.span) if node.bound is not None else None
        rounds = self.frame.temporary() if bound is not None else ""
        if bound is not None:
            self.assign(rounds, ast.Constant(0), node.span)
        self.frame.loop += 1
        with self.collected() as head:
            test = self.condition(node.condition)
        with self.collected() as body:
            if head:
                self.body.extend(head)
                self.write(ast.If(ast.UnaryOp(ast.Not(), test), [self.at(ast.Break(), node.condition.span)], []), node.condition.span)
                test = ast.Constant(True)
            if bound is not None:
                self.assign(rounds, self.help("round", node.condition.span, load(rounds), bound), node.condition.span)
            self.block_into(node.body, DISCARD)
        self.frame.loop -= 1
        self.write(ast.While(test, body or [self.at(ast.Pass(), node.span)], []), node.span)

    def for_(self, node: nodes.For) -> None:
        """Several clauses nest; a later one may use the variables of those before."""
        with self.block():
            self._clauses(node, 0)

    def _clauses(self, node: nodes.For, position: int) -> None:
        clause = node.clauses[position]
        source = self.iterated(clause.source, len(clause.names), node.body, *node.clauses[position + 1 :])
        self.frame.loop += 1
        with self.collected() as body:
            target = self.loop_target(clause.names, clause.source, clause.span, source)
            if position + 1 < len(node.clauses):
                self._clauses(node, position + 1)
            else:
                self.block_into(node.body, DISCARD)
        self.frame.loop -= 1
        span = clause.span if clause.span != NOWHERE else node.span
        self.write(ast.For(target, source, body or [self.at(ast.Pass(), node.span)], []), span)

    def render(self, node: nodes.Render) -> None:
        makers: list[Callable[[], ast.expr]] = [lambda: self.expression(node.value)]
        makers += [self.maker(o.value) for o in node.options]
        value, *options = self.in_order(makers, node.span)
        entries = ast.Dict([ast.Constant(o.name) for o in node.options], options)
        arguments = [value, ast.Constant(node.form), entries, self.constant(node.span)]
        self.write(ast.Expr(self.made(ast.Call(load(f"{MARK}render"), arguments, []), node.span, value, *options)), node.span)

