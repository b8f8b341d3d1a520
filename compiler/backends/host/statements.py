"""Statements to Python statements: bindings, assignments, loops, and blocks whose value goes to a destination."""

import ast
from collections.abc import Callable

from compiler.backends.host.calls import Calls
from compiler.backends.host.emit import load, not_supported
from compiler.backends.host.naming import MARK, PythonVariable
from compiler.backends.host.operators import inferred
from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.source import NOWHERE, Span
from compiler.typed_ast import nodes
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.types import UNKNOWN, DType, ListType, Scalar, TupleType, Type
from runtime.records import frozen


@frozen
class Destination:
    """Where the value of a block goes: nowhere, to the caller, or to a temporary."""

    store: str | None = None
    to_caller: bool = False
    to: Type = UNKNOWN


DISCARD = Destination()


class Statements(Calls):
    """One method a kind of statement."""

    closure_names: frozenset[str] = frozenset()
    """Names that some lambda or inner function mentions."""

    def declaration(self, node: nodes.Declaration) -> None:
        raise AssertionError("defined by the generator")

    def into(self, node: nodes.Expression, destination: Destination) -> None:
        """Evaluates an expression for its destination; choices and blocks become Python statements."""
        match node:
            case nodes.Block():
                self.block_into(node, destination)
            case nodes.If():
                self.if_into(node, destination)
            case _:
                self.deliver(self.converted(node, destination.to), node.span, destination)

    def deliver(self, value: ast.expr, span: Span, destination: Destination) -> None:
        if destination.to_caller:
            self.write(ast.Return(value), span)
        elif destination.store is not None:
            self.assign(destination.store, value, span)
        elif not isinstance(value, (ast.Constant, ast.Name)):
            self.write(ast.Expr(value), span)

    def value_of_block(self, node: nodes.Expression) -> ast.expr:
        name = self.frame.temporary()
        self.into(node, Destination(store=name, to=inferred(node.type)))
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
            if last is not None:
                self.statement(last)
            if destination != DISCARD and not isinstance(last, (nodes.Return, nodes.Break, nodes.Continue)):
                self.deliver(ast.Constant(None), node.span, destination)

    def if_into(self, node: nodes.If, destination: Destination) -> None:
        """An `elif` chain is walked in a loop: it may be long."""
        body = self.body
        current: nodes.If | None = node
        outer_bodies: list[list[ast.stmt]] = []
        while current is not None:
            test = self.condition(current.condition)
            with self.collected() as then:
                self.block_into(current.then, destination if current.otherwise is not None else DISCARD)
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
                raise not_supported("`throw`", node.span, 'stop with `assert(false, "text")`')
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
        # What a mutable variable of no declared type holds may change in shape and element type; a number's type stays.
        type_ = type_of_name if declared != UNKNOWN or isinstance(type_of_name, Scalar) or not node.mutable else UNKNOWN
        match node.pattern:
            case nodes.BindingPattern(name=name):
                self.bind_name(name, value, type_, node.mutable, node.span)
            case nodes.WildcardPattern():
                self.write(ast.Expr(value), node.span)
            case _:
                raise not_supported("this pattern", node.pattern.span, "take the parts by name")

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
                types = type_.elements if isinstance(type_, TupleType) and len(type_.elements) == len(elements) else None
                parts = value if types else self.help("unpack", pattern.span, value, ast.Constant(len(elements)))
                names = [self.frame.temporary() for _ in elements]
                self.write(ast.Assign([ast.Tuple([ast.Name(n, ast.Store()) for n in names], ast.Store())], parts), pattern.span)
                for index, (element, name) in enumerate(zip(elements, names, strict=True)):
                    self.bind(element, load(name), types[index] if types else UNKNOWN, mutable)
            case _:
                raise not_supported("this pattern", pattern.span, "take the parts by name")

    def bind_name(self, name: str, value: ast.expr, type_: Type, mutable: bool, span: Span) -> None:
        boxed = mutable and self.frame.loop > 0 and name in self.closure_names
        variable = self.declare(name, type_, mutable, boxed)
        self.assign(variable.python, ast.List([value], ast.Load()) if boxed else value, span)

    # ---- assignment ---------------------------------------------------------------------------------------------------

    def assignment(self, node: nodes.Assign) -> None:
        match node.target:
            case nodes.Name(name="_") if node.operator is None:
                self.write(ast.Expr(self.expression(node.value)), node.span)
            case nodes.Name(name=name):
                variable = self.assigned_variable(name, node.target.span)
                if node.operator is None:
                    self.store(variable, self.converted(node.value, variable.type), node.span)
                else:
                    self.store(variable, self._updated(node, variable), node.span)
            case nodes.Index() as target:
                self.index_assignment(node, target)
            case nodes.TupleLiteral(elements=elements):
                if node.operator is not None:
                    raise ZyntaxError(Diagnostic("0203", "a tuple of targets takes `=` only", node.span))
                whole = self.expression(node.value)
                parts = self.help("unpack", node.value.span, whole, ast.Constant(len(elements)))
                names = [self.frame.temporary() for _ in elements]
                self.write(ast.Assign([ast.Tuple([ast.Name(n, ast.Store()) for n in names], ast.Store())], parts), node.span)
                types = node.value.type.elements if isinstance(node.value.type, TupleType) else (UNKNOWN,) * len(elements)
                for element, name, type_ in zip(elements, names, types, strict=True):
                    self._assign_made(element, load(name), type_, node.span)
            case nodes.Field():
                raise not_supported("an assignment to a field", node.target.span, "make a new tuple")
            case _:
                raise ZyntaxError(Diagnostic("0205", "this can't be assigned to", node.target.span))

    def _assign_made(self, target: nodes.Expression, value: ast.expr, have: Type, span: Span) -> None:
        match target:
            case nodes.Name(name="_"):
                pass
            case nodes.Name(name=name):
                variable = self.assigned_variable(name, target.span)
                self.store(variable, self.convert(value, have, variable.type, span), span)
            case nodes.Index():
                makers: list[Callable[[], ast.expr]] = [lambda: self.expression(target.value)]
                makers += [self._index_maker(i) for i in target.indices]
                base, *indices = self.in_order(makers, target.span)
                stored = self.convert(value, have, _stored_type(target), span)
                self.write(ast.Expr(self.help("set", target.span, base, *indices, stored)), span)
            case _:
                raise ZyntaxError(Diagnostic("0205", "this can't be assigned to", target.span))

    def assigned_variable(self, name: str, span: Span) -> PythonVariable:
        variable = self.scope.find(name)
        if not isinstance(variable, PythonVariable):
            problem = f"there is no `{name}` here" if variable is None else f"`{name}` is no variable"
            raise ZyntaxError(Diagnostic("0201" if variable is None else "0205", problem, span))
        return variable

    def store(self, variable: PythonVariable, value: ast.expr, span: Span) -> None:
        if variable.boxed:
            self.note_use(variable)
            target: ast.expr = ast.Subscript(load(variable.python), ast.Constant(0), ast.Store())
            self.write(ast.Assign([target], value), span)
            return
        if variable.frame is not self.frame:
            self.note_use(variable)
        if variable.is_global:
            self.frame.globals.add(variable.python)
        elif variable.frame is not self.frame:
            self.frame.nonlocals.add(variable.python)
        self.assign(variable.python, value, span)

    def _updated(self, node: nodes.Assign, variable: PythonVariable) -> ast.expr:
        """`x += e` as `x + e`, in the variable's type."""
        assert node.operator is not None
        type_ = variable.type if isinstance(variable.type, Scalar) else node.target.type
        left = nodes.Name(name=variable.name, type=type_, span=node.target.span)
        whole = nodes.Binary(operator=node.operator, left=left, right=node.value, span=node.span)
        result = self.binary(whole)
        if isinstance(variable.type, Scalar) and not self._keeps_type(variable.type, node):
            return self.help("convert", node.span, result, self.constant(variable.type))
        return result

    def _keeps_type(self, to: Scalar, node: nodes.Assign) -> bool:
        """Whether `x op e` surely has x's type."""
        have = node.value.type
        if not isinstance(have, Scalar):
            return False
        return have.dtype is to.dtype or (have.weak and (to.dtype.is_float or have.dtype.is_int)) or (
            to.dtype is DType.F64 and have.dtype is DType.I64
        )

    def index_assignment(self, node: nodes.Assign, target: nodes.Index) -> None:
        """Base, indices, value: each evaluated once, as written."""
        makers: list[Callable[[], ast.expr]] = [lambda: self.expression(target.value), *[self._index_maker(i) for i in target.indices]]
        if node.operator is None:
            parts = self.in_order([*makers, lambda: self.converted(node.value, _stored_type(target))], node.span)
            self.write(ast.Expr(self.help("set", target.span, *parts)), node.span)
            return
        base, *indices = [self.keep(v, target.span) for v in self.in_order(makers, target.span)]
        old = self.keep(self.help("get", target.span, base, *indices), target.span)
        [value] = self.in_order([lambda: self.expression(node.value)], node.span)
        weak = self.is_weak(node.value)
        result = self.operate(node.operator, old, value, target.type, node.value.type, False, weak, node.span)
        if isinstance(target.type, Scalar):
            result = self.help("convert", node.span, result, self.constant(target.type))
        self.write(ast.Expr(self.help("set", target.span, base, *indices, result)), node.span)

    # ---- loops --------------------------------------------------------------------------------------------------------

    def while_(self, node: nodes.While) -> None:
        self.frame.loop += 1
        with self.collected() as head:
            test = self.condition(node.condition)
        with self.collected() as body:
            if head:
                self.body.extend(head)
                self.write(ast.If(ast.UnaryOp(ast.Not(), test), [self.at(ast.Break(), node.condition.span)], []), node.condition.span)
                test = ast.Constant(True)
            self.block_into(node.body, DISCARD)
        self.frame.loop -= 1
        self.write(ast.While(test, body or [self.at(ast.Pass(), node.span)], []), node.span)

    def for_(self, node: nodes.For) -> None:
        """Several clauses nest; a later one may use the variables of those before."""
        with self.block():
            self._clauses(node, 0)

    def _clauses(self, node: nodes.For, position: int) -> None:
        clause = node.clauses[position]
        source = self.iterated(clause.source)
        self.frame.loop += 1
        with self.collected() as body:
            target = self.loop_target(clause.names, clause.source, clause.span)
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


def _stored_type(target: nodes.Index) -> Type:
    """What an element must be; a slice of a tensor takes numbers and tensors alike."""
    return target.type if isinstance(target.type, Scalar) or isinstance(target.value.type, ListType) else UNKNOWN
