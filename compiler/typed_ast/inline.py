"""Calls of small functions become what stands in these, so that compute blocks of several functions stand in one list and may become one
kernel. Statements that gain a chain of blocks are kept beside the calls as they were written: if anything goes wrong in the copies,
the calls run instead, and say what it is as they always do."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.conversions import strong
from compiler.typed_ast.free_names import free_names
from compiler.typed_ast.handed_on import chained, is_quiet_value, shared_names, stands_alone
from compiler.typed_ast.inlinable import InlinableFunction, Resolve, inlinable_functions, is_pipeline, is_tensor_valued
from compiler.typed_ast.shapes import dims_of
from compiler.typed_ast.substitution import mapped
from compiler.typed_ast.types import UNKNOWN, DynamicShape, Scalar, TensorType, Type
from compiler.typed_ast.walk import parts, with_parts
from runtime.records import Factory, define, evolve, frozen

SIGN = "·"
"""In the names of copies, and in none of a program's."""
MOST_BLOCKS = 16
"""That one statement becomes."""
MOST_OF_PIPELINE = 256
"""The same in a `pipeline`."""

S = TypeVar("S", bound=nodes.Node)


def inlined(program: nodes.Program, checker: Checker) -> nodes.Program:
    """The program with calls inlined where that makes chains. `program` has its types, and no errors; `checker` knows those it declares."""

    def resolve(syntax: nodes.TypeSyntax | None) -> Type:
        return UNKNOWN if syntax is None else checker.resolver.resolve(syntax)

    functions = inlinable_functions(program, resolve)
    if not functions:
        return program
    own = frozenset(s.name for s in program.statements if isinstance(s, nodes.Function))
    return _Inliner(functions, resolve, own).program(program)


class _Apart(Exception):
    """A call stays a call."""


@frozen(eq=False)
class _Expanded:
    """A statement as it was, with what was hoisted before it, and with its calls inlined."""

    before: tuple[nodes.Statement, ...]
    original: nodes.Statement
    statements: tuple[nodes.Statement, ...]


@define(eq=False)
class _Inliner:
    functions: Mapping[str, InlinableFunction]
    resolve: Resolve
    own: frozenset[str]
    """The names of all functions of the program."""
    most: int = MOST_BLOCKS
    count: int = 0

    def program(self, program: nodes.Program) -> nodes.Program:
        return _with(program, statements=tuple(self._list(program.statements, shared_names(program))))

    def fresh(self, name: str) -> str:
        self.count += 1
        return f"{name.partition(SIGN)[0]}{SIGN}{self.count}"

    # ---- trees ----------------------------------------------------------------------------------------------------

    def _changed(self, node: S) -> S:
        """The tree with calls inlined inside of expressions and in the blocks below."""
        new: nodes.Node
        match node:
            case nodes.Block(statements=statements):
                new = _with(node, statements=tuple(self._list(statements)))
            case nodes.Call() if (block := self._as_block(node)) is not None:
                new = block
            case nodes.Compute(inputs=inputs):
                new = _with(node, inputs=tuple(map(self._changed, inputs)))
            case nodes.Function(is_async=True):
                new = node
            case nodes.Function() if is_pipeline(node) and self.most == MOST_BLOCKS:
                self.most = MOST_OF_PIPELINE
                try:
                    new = self._parts_changed(node)
                finally:
                    self.most = MOST_BLOCKS
            case _:
                new = self._parts_changed(node)
        return new  # type: ignore[return-value]

    def _parts_changed(self, node: nodes.Node) -> nodes.Node:
        return with_parts(node, {id(part): self._changed(part) for part in parts(node)})

    def _as_block(self, call: nodes.Call) -> nodes.Expression | None:
        """The call as a block of statements, where it makes a chain by itself."""
        statement = nodes.ExpressionStatement(value=call, span=call.span)
        expanded = self._expanded(statement)
        if expanded is None or not chained(expanded.statements, own=self.own):
            return None
        group = _group([expanded])
        return nodes.Block(statements=(*map(self._changed, expanded.before), group), type=call.type, span=call.span)

    # ---- lists of statements ---------------------------------------------------------------------------------------

    def _list(self, statements: Sequence[nodes.Statement], shared: frozenset[str] = frozenset()) -> Iterator[nodes.Statement]:
        """`shared`: names that others read."""
        run: list[_Expanded] = []
        written: list[nodes.Statement] = []
        for number, statement in enumerate(statements):
            expanded = self._expanded(statement)
            if expanded is not None and expanded.before and run:
                yield from self._run(run, written, statements[number:], shared)
                run, written = [], []
            if expanded is None:
                yield from self._run(run, written, statements[number:], shared)
                run, written = [], []
                yield self._changed(statement)
                continue
            run.append(expanded)
            written.append(statement)
        yield from self._run(run, written, (), shared)

    def _run(
        self,
        run: Sequence[_Expanded],
        written: Sequence[nodes.Statement],
        later: Sequence[nodes.Statement],
        shared: frozenset[str],
    ) -> Iterator[nodes.Statement]:
        """Statements that change nothing that others read, one after the other: as one group where calls in it make a chain."""
        while run and not any(isinstance(node, nodes.Compute) for s in run[0].statements for node in _values(s)):
            yield self._changed(written[0])
            run, written = run[1:], written[1:]
        if run and chained([s for one in run for s in one.statements], later, self.own, shared):
            yield from map(self._changed, run[0].before)
            yield _group(run)
        else:
            yield from map(self._changed, written)

    def _expanded(self, statement: nodes.Statement) -> _Expanded | None:
        """None for a statement that isn't quiet, or whose calls stay."""
        match statement:
            case nodes.Let(pattern=nodes.BindingPattern(), mutable=False, value=nodes.Expression() as value):
                pass
            case nodes.Return(value=nodes.Expression() as value) | nodes.ExpressionStatement(value=value):
                if not isinstance(value, nodes.Compute | nodes.Call):
                    return None
            case _:
                return None
        if isinstance(value, nodes.Compute) and not stands_alone(value):
            return None
        copies = _InlinedCopies(self)
        try:
            new = copies.value(value)
        except _Apart:
            return None
        hoisted = copies.hoisted
        changes: dict[str, Any] = {"value": new}
        if isinstance(statement, nodes.Let) and _is_as(new, self.resolve(statement.annotation)):
            changes["annotation"] = None

        def exchange(found: nodes.Node) -> nodes.Node:
            return hoisted[id(found)][1] if id(found) in hoisted else found

        before = tuple(let for let, _ in hoisted.values())
        return _Expanded(before, mapped(statement, exchange), (*copies.statements, evolve(statement, **changes)))


def _group(run: Sequence[_Expanded]) -> nodes.Inlined:
    written = [one.original for one in run]
    return nodes.Inlined(
        written=tuple(written),
        statements=tuple(s for one in run for s in one.statements),
        span=written[0].span.to(written[-1].span),
    )


def _values(statement: nodes.Statement) -> Iterator[nodes.Expression]:
    value = getattr(statement, "value", None)
    if isinstance(value, nodes.Expression):
        yield value


def _with(node: S, **changes: Any) -> S:
    """The node with one field of nodes exchanged; itself where they are the same."""
    ((name, new),) = changes.items()
    old = getattr(node, name)
    return node if len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True)) else evolve(node, **changes)


@define(eq=False)
class _InlinedCopies:
    """The copies that one statement becomes. `hoisted`: arguments that do more than to look at things, by their identity, each as the
    statement that stands before all others, and as its name."""

    inliner: _Inliner
    statements: list[nodes.Statement] = Factory(list)
    hoisted: dict[int, tuple[nodes.Statement, nodes.Name]] = Factory(dict)
    blocks: int = 0

    def value(self, value: nodes.Expression) -> nodes.Expression:
        """What of a statement's value is left when the rest stands before it. Raises _Apart."""
        match value:
            case nodes.Compute():
                return evolve(value, inputs=tuple(evolve(entry, value=self.operand(entry.value)) for entry in value.inputs))
            case nodes.Call() if self._callee(value) is not None:
                return self.call(value, value.span)
        if is_quiet_value(value, self.inliner.own):
            return value
        raise _Apart

    def _callee(self, call: nodes.Call) -> InlinableFunction | None:
        return self.inliner.functions.get(call.callee) if isinstance(call.function, nodes.Name) else None

    def operand(self, value: nodes.Expression) -> nodes.Expression:
        """An argument, as a name or as something that may be looked at anywhere. Raises _Apart."""
        if isinstance(value, nodes.Call) and self._callee(value) is not None:
            return self._named(self.call(value, value.span), value)
        if is_quiet_value(value, self.inliner.own):
            return value
        if self.blocks:
            raise _Apart  # it would be evaluated before blocks that stand before it
        name = nodes.Name(name=self.inliner.fresh("argument"), type=value.type, span=value.span)
        let = nodes.Let(pattern=nodes.BindingPattern(name=name.name, span=value.span), value=value, span=value.span)
        self.hoisted[id(value)] = let, name
        return name

    def _named(self, value: nodes.Expression, of: nodes.Call, name: str = "") -> nodes.Expression:
        if isinstance(value, nodes.Name):
            return value
        assert isinstance(of.function, nodes.Name)
        return self.let(name or of.function.name, value)

    def let(self, name: str, value: nodes.Expression, annotation: nodes.TypeSyntax | None = None, type_: Type = UNKNOWN) -> nodes.Name:
        """A variable of the copies."""
        fresh = self.inliner.fresh(name)
        pattern = nodes.BindingPattern(name=fresh, span=value.span)
        self.statements.append(nodes.Let(pattern=pattern, annotation=annotation, value=value, span=value.span))
        return nodes.Name(name=fresh, type=type_ if type_ != UNKNOWN else _type_of(value), span=value.span)

    def call(self, call: nodes.Call, place: Span) -> nodes.Expression:
        """The value of a call, as a block whose inputs stand before it. `place`: the call in the program. Raises _Apart."""
        callee = self._callee(call)
        assert callee is not None
        given = self._arguments(call, callee)
        own = {name: self._parameter(callee, name, value) for name, value in given.items()}
        for statement in callee.statements[:-1]:
            assert isinstance(statement, nodes.Let) and isinstance(statement.pattern, nodes.BindingPattern) and statement.value is not None
            name = statement.pattern.name
            value = self._copied(statement.value, own, place)
            own[name] = value if isinstance(value, nodes.Name) else self.let(name, value)
        value = self._copied(callee.value, own, place)
        if not _is_as(value, callee.result):
            raise _Apart
        return value

    def _arguments(self, call: nodes.Call, callee: InlinableFunction) -> dict[str, nodes.Expression]:
        order = [p.name for p in callee.function.parameters]
        given: dict[str, nodes.Expression] = {}
        for position, argument in enumerate(call.arguments):
            given[argument.name or order[position]] = self.operand(argument.value)
        for parameter in callee.function.parameters:
            if parameter.name not in given:
                if parameter.default is None:
                    raise _Apart
                given[parameter.name] = parameter.default
        return given

    def _parameter(self, callee: InlinableFunction, name: str, value: nodes.Expression) -> nodes.Name:
        type_ = callee.parameters[name]
        if isinstance(value, nodes.Name) and not isinstance(strong(value.type), Scalar) and _is_as(value, type_):
            return value
        annotation = next(p.annotation for p in callee.function.parameters if p.name == name)
        return self.let(name, value, annotation, type_)

    def _copied(self, value: nodes.Expression, own: Mapping[str, nodes.Name], place: Span) -> nodes.Expression:
        """An expression of the function with the caller's names."""

        def exchange(found: nodes.Node) -> nodes.Node:
            if isinstance(found, nodes.Name) and found.name in own:
                name = own[found.name]
                return evolve(name, type=found.type if found.type != UNKNOWN else name.type, span=found.span)
            return found

        match value:
            case nodes.Compute():
                return self._block(value, own, place)
            case nodes.Call(arguments=arguments) if self._callee(value) is not None:
                copied = tuple(evolve(a, value=self._argument(a.value, own, place)) for a in arguments)
                return self.call(evolve(value, arguments=copied), place)
        return mapped(value, exchange)

    def _argument(self, value: nodes.Expression, own: Mapping[str, nodes.Name], place: Span) -> nodes.Expression:
        copied = self._copied(value, own, place)
        return self.let("value", copied) if isinstance(copied, nodes.Compute) else copied

    def _block(self, block: nodes.Compute, own: Mapping[str, nodes.Name], place: Span) -> nodes.Compute:
        """The block where it is called: all that it takes from the function is an input of it."""
        self.blocks += 1
        if self.blocks > self.inliner.most:
            raise _Apart
        inputs = [evolve(entry, value=self._argument(entry.value, own, place)) for entry in block.inputs]
        inputs += [
            nodes.ComputeInput(name=name, value=own[name], span=block.span) for name in free_names(block) if name in own
        ]
        return evolve(block, inputs=tuple(inputs), inlined_at=place)


def _type_of(value: nodes.Expression) -> Type:
    """What is known of a value's type; a block that stores what it makes makes a tensor."""
    if isinstance(value, nodes.Compute) and value.type == UNKNOWN and is_tensor_valued(value):
        return TensorType(UNKNOWN, DynamicShape())
    return strong(value.type)


def _is_as(value: nodes.Expression, declared: Type) -> bool:
    """Whether the value is certainly one of the declared type, without being converted."""
    found = _type_of(value)
    match declared, found:
        case TensorType(), TensorType():
            if declared.element not in (UNKNOWN, found.element):
                return False
            want, have = dims_of(declared.shape), dims_of(found.shape)
            if want is None:
                return True
            if have is None or len(have) != len(want):
                return False
            return all(w is None or w.terms or w == h for w, h in zip(want, have, strict=True))
        case Scalar(), Scalar():
            return declared == found
    return declared == UNKNOWN
