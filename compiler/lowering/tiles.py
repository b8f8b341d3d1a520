"""Slices as tiles (`S = A[r:r+32] @ B`, `row_max(S)`), written out as loops over elements before a block is lowered. The rows and columns
of the tile that a slice of a result gets become loops around all that computes it, so variables hold one number each; other tiles are
what their elements are, where those are needed. A tile that hangs over an edge of a tensor has fewer rows or columns there.

A variable that holds a tile is read at its own row and column here. Where it is read elsewhere (transposed, reduced, multiplied) tiles lie
in memory: `stored_tiles`."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from compiler.lowering.body import fault
from compiler.lowering.tile_shapes import Axis, Held, NodeBuilder, Shape, TileShapes, is_tiled, step_of, unsupported
from compiler.lowering.tile_sizes import same_text
from compiler.lowering.words import words
from compiler.typed_ast import nodes
from compiler.typed_ast.walk import walk
from runtime.records import Factory, define, evolve, field, fields_of

Position = tuple[nodes.Expression, ...]


@define(eq=False)
class TileWriting:
    shapes: TileShapes
    build: NodeBuilder
    taken: set[str]
    statements: "list[nodes.Statement]" = Factory(list)
    """Those before the statement that is being written."""
    position: Position = ()
    """The row and column of the result's tile."""
    axes: Shape = ()
    versions: "dict[str, int]" = field(factory=dict)

    # ---- blocks ----

    def block(self, block: nodes.Block, names: dict[str, Held]) -> nodes.Block:
        names = dict(names)
        assigned = [statement for statement in block.statements if isinstance(statement, nodes.Assign)]
        stores = [statement for statement in assigned if self.shapes.is_target(statement.target)]
        if stores and any(self.writes_elements(node) for node in walk(block)):
            raise unsupported("a slice of a result beside one of its elements", stores[0].span)
        if not stores or self.position:
            return evolve(block, statements=tuple(self.all(block.statements, names)))
        if len(stores) > 1:
            raise unsupported("two slices of results in one block", stores[1].span, "write each in a loop of its own")
        return evolve(block, statements=tuple(self.around(block.statements, stores[0], names)))

    def writes_elements(self, node: nodes.Node) -> bool:
        return isinstance(node, nodes.Assign) and isinstance(node.target, nodes.Index) and not self.shapes.is_target(node.target)

    def around(self, statements: Sequence[nodes.Statement], store: nodes.Assign, names: dict[str, Held]) -> list[nodes.Statement]:
        """The loops over the rows and columns of the tile that is stored, around everything in its block."""
        self.build.span = store.span
        shapes = dict(names)
        for _ in range(3):
            self.shapes.learn(statements, shapes)
        names.update({name: held for name, held in shapes.items() if held.expression is None})
        assert isinstance(store.target, nodes.Index)
        value = self.shapes.of(store.value, shapes)
        target = self.shapes.sliced(store.target, len(value))
        axes: list[Axis] = []
        for own, other in zip(target, (None,) * (len(target) - len(value)) + value, strict=True):
            assert own is not None
            axes.append(own if other is None else self.shapes.meet(own, other, store.value))
        variables = [self.fresh("row" if number == 0 else "column") for number, _ in enumerate(axes)]
        self.position = tuple(self.build.name(variable) for variable in variables)
        self.axes = tuple(axis.one() for axis in axes)
        inner = self.all(statements, names)
        for axis, variable in reversed(list(zip(self.axes, variables, strict=True))):
            inner = [self.loop(variable, axis, inner, store.target)]
        self.position, self.axes = (), ()
        return inner

    def loop(self, variable: str, axis: Axis | None, inner: Sequence[nodes.Statement], where: nodes.Expression) -> nodes.Statement:
        """A loop over the positions of an axis that exist."""
        axis = None if axis is None else axis.one()
        if axis is None or axis.extent is None:
            feature = f"`{words(where)}`, an axis of which nothing says how long it is,"
            raise unsupported(feature, where.span, "write both ends: `q:q+64`")
        body = tuple(inner)
        for first, extent, step in axis.limits:
            at = self.build.times(self.build.name(variable), step.value)
            condition = self.build.binary("<", self.build.plus(first, at), extent)
            then = nodes.Block(statements=body, span=self.build.span)
            body = (nodes.ExpressionStatement(value=nodes.If(condition=condition, then=then, span=self.build.span), span=self.build.span),)
        source = nodes.Range(low=self.build.number(0), high=axis.extent, span=self.build.span)
        clause = nodes.ForClause(names=(variable,), name_spans=(self.build.span,), source=source, span=self.build.span)
        return nodes.For(clauses=(clause,), body=nodes.Block(statements=body, span=self.build.span), span=self.build.span)

    # ---- statements ----

    def all(self, statements: Sequence[nodes.Statement], names: dict[str, Held]) -> list[nodes.Statement]:
        outer, self.statements = self.statements, []
        for statement in statements:
            self.build.span = statement.span
            rewritten = self.statement(statement, names)
            if rewritten is not None:
                self.statements.append(rewritten)
        written, self.statements = self.statements, outer
        return written

    def statement(self, statement: nodes.Statement, names: dict[str, Held]) -> nodes.Statement | None:
        match statement:
            case nodes.Let(pattern=nodes.BindingPattern(name=name), value=value, mutable=mutable) if value is not None:
                return self.declared(statement, name, value, mutable, names)
            case nodes.Assign(target=nodes.Name(name=name), value=value):
                self.versions[name] = self.versions.get(name, 0) + 1
                return evolve(statement, value=self.element(value, self.own(self.shapes.of(value, names), value), names))
            case nodes.Assign(target=nodes.Index() as target, value=value) if self.shapes.is_target(target):
                shape = self.shapes.of(value, names)
                position = self.position[len(self.position) - len(shape) :]
                return evolve(statement, target=self.element_of(target, self.position, names), value=self.element(value, position, names))
            case nodes.For(clauses=clauses, body=body):
                for inner in walk(body):
                    if isinstance(inner, nodes.Assign) and isinstance(inner.target, nodes.Name):
                        self.versions[inner.target.name] = self.versions.get(inner.target.name, 0) + 1
                sources = [evolve(clause, source=self.element(clause.source, (), names)) for clause in clauses]
                return evolve(statement, clauses=tuple(sources), body=self.block(body, names))
            case nodes.ExpressionStatement(value=nodes.If() as branch):
                return evolve(statement, value=self.branch(branch, names))
            case nodes.ExpressionStatement(value=nodes.Block() as inside):
                return evolve(statement, value=self.block(inside, names))
            case _:
                return self.numbers(statement, names)

    def branch(self, branch: nodes.If, names: dict[str, Held]) -> nodes.If:
        otherwise = None if branch.otherwise is None else self.block(branch.otherwise, names)
        return evolve(branch, condition=self.element(branch.condition, (), names), then=self.block(branch.then, names), otherwise=otherwise)

    def declared(self, let: nodes.Let, name: str, value: nodes.Expression, mutable: bool, names: dict[str, Held]) -> nodes.Statement | None:
        shape = self.shapes.of(value, names)
        if mutable:
            known = names.get(name)
            names[name] = Held(shape if known is None or known.expression is not None else known.shape)
            self.versions[name] = self.versions.get(name, 0) + 1
            return evolve(let, value=self.element(value, self.own(shape, value), names))
        if not shape or self.is_own(shape):
            names[name] = Held(shape)
            return evolve(let, value=self.element(value, self.own(shape, value), names))
        names[name] = Held(shape, value, self.read_by(value, names))
        return None

    def read_by(self, value: nodes.Expression, names: dict[str, Held]) -> dict[str, int]:
        versions: dict[str, int] = {}
        for node in walk(value):
            if isinstance(node, nodes.Name) and node.name in names:
                held = names[node.name]
                versions |= held.versions if held.expression is not None else {node.name: self.versions.get(node.name, 0)}
        return versions

    def is_own(self, shape: Shape) -> bool:
        """Whether a tile has the rows and columns of the result's."""
        own = self.axes[len(self.axes) - len(shape) :]
        return len(own) == len(shape) and all(
            axis is None or (mine is not None and axis.one() is mine.one()) for axis, mine in zip(shape, own, strict=True)
        )

    def own(self, shape: Shape, node: nodes.Expression) -> Position:
        if shape and not self.is_own(shape):
            feature = f"a variable with the tile `{words(node)}`, whose rows and columns aren't those of the result,"
            raise unsupported(feature, node.span)
        return self.position[len(self.position) - len(shape) :]

    # ---- elements ----

    def element(self, node: nodes.Expression, position: Position, names: dict[str, Held]) -> nodes.Expression:
        """The element of an expression at a position, after the statements that compute what it needs."""
        match node:
            case nodes.Name(name=name) if name in names:
                return self.named(node, names[name], position, names)
            case nodes.Name(name=name) if position and self.shapes.rank(name, 0):
                return nodes.Index(value=node, indices=position, span=node.span)
            case nodes.Call(function=nodes.Name(name="len" | "reduce")):
                if self.shapes.of(node, names):
                    raise unsupported(f"`{words(node)}` beside tiles", node.span, "name it first: `let t = reduce(...)`")
                return node
            case nodes.Index(value=nodes.Name(name=name)) if name in names and names[name].shape:
                return self.part(node, position, names)
            case nodes.Index(value=nodes.Name(name=name), indices=indices) if is_tiled(node) or self.shapes.rank(name, 0) > len(indices):
                return self.element_of(node, position, names)
            case nodes.Index(value=nodes.Name(), indices=indices):
                return evolve(node, indices=tuple(self.element(index, (), names) for index in indices))
            case nodes.Binary(operator="@", left=left, right=right):
                return self.product(left, right, position, names)
            case nodes.Call(function=nodes.Name(name="dot"), arguments=[a, b]):
                row, other = (self.shapes.of(side.value, names) for side in (a, b))
                if len(row) != 1 or len(other) != 1:
                    raise fault("0203", f"`{words(node)}` needs two rows", node.span)
                axis = self.shapes.common(row, other, node)[0]
                return self.summed(
                    node, axis, lambda at: self.build.binary("*", self.element(a.value, (at,), names), self.element(b.value, (at,), names))
                )
            case nodes.Call(function=nodes.Name(name="zeros")):
                return nodes.IntLiteral(value=0, span=node.span)
            case nodes.Call(function=nodes.Name(name="transpose"), arguments=[argument]):
                return self.element(argument.value, position[::-1], names)
            case nodes.Call(function=nodes.Name(name="row_max" | "row_sum" as name), arguments=[argument]):
                self.shapes.of(node, names)
                axis = self.shapes.of(argument.value, names)[-1]
                return self.summed(node, axis, lambda at: self.element(argument.value, (*position[:-1], at), names), name == "row_max")
            case _:
                return self.numbers(node, names, position)

    def numbers(self, node: "Some", names: dict[str, Held], position: Position = ()) -> "Some":
        """A node whose expressions are those of its parts' elements."""
        changes: dict[str, Any] = {}
        for attribute in fields_of(type(node)):
            value = getattr(node, attribute.name)
            if isinstance(value, nodes.Block):
                changes[attribute.name] = self.block(value, names)
            elif isinstance(value, nodes.Expression):
                changes[attribute.name] = self.element(value, self.aligned(value, position, names), names)
            elif isinstance(value, tuple) and any(isinstance(part, nodes.Expression | nodes.Argument) for part in value):
                changes[attribute.name] = tuple(
                    self.element(part, self.aligned(part, position, names), names)
                    if isinstance(part, nodes.Expression)
                    else evolve(part, value=self.element(part.value, self.aligned(part.value, position, names), names))
                    if isinstance(part, nodes.Argument)
                    else part
                    for part in value
                )
        return evolve(node, **changes) if changes else node

    def aligned(self, node: nodes.Expression, position: Position, names: dict[str, Held]) -> Position:
        shape = self.shapes.of(node, names)
        if len(shape) > len(position):
            raise fault("0203", f"`{words(node)}` is a tile where a number is needed", node.span, hint="use `row_sum` or `row_max`")
        own = position[len(position) - len(shape) :]
        return tuple(self.build.number(0) if axis is None else at for axis, at in zip(shape, own, strict=True))

    def named(self, node: nodes.Name, held: Held, position: Position, names: dict[str, Held]) -> nodes.Expression:
        if held.expression is None:
            mine = self.position[len(self.position) - len(held.shape) :]
            if any(axis is not None and not same_text(at, own) for axis, at, own in zip(held.shape, position, mine, strict=True)):
                raise unsupported(f"`{node.name}` at other rows or columns than those of the result", node.span)
            return node
        if any(self.versions.get(name, 0) != number for name, number in held.versions.items()):
            raise unsupported(f"`{node.name}`, whose variables were set since", node.span, "name it again behind the assignment")
        return self.element(held.expression, self.aligned(held.expression, position, names), names)

    def part(self, node: nodes.Index, position: Position, names: dict[str, Held]) -> nodes.Expression:
        raise unsupported(f"`{words(node)}` of a tile", node.span)

    def element_of(self, node: nodes.Index, position: Position, names: dict[str, Held]) -> nodes.Expression:
        """`X[b, q:q+64]` at a position: `X[b, q + row, column]`."""
        rest = list(position)
        indices: list[nodes.Expression] = []
        for number, index in enumerate(node.indices):
            if isinstance(index, nodes.Slice):
                assert isinstance(node.value, nodes.Name)
                at = self.build.times(rest.pop(0), step_of(index))
                indices.append(self.build.plus(self.shapes.first(node.value.name, number, index), at))
            else:
                indices.append(self.element(index, (), names))
        return evolve(node, indices=(*indices, *rest))

    def product(self, left: nodes.Expression, right: nodes.Expression, position: Position, names: dict[str, Held]) -> nodes.Expression:
        a, b = self.shapes.matrices(left, right, names)
        axis = a[-1] or b[0]

        def term(at: nodes.Expression) -> nodes.Expression:
            factors = (self.element(left, (*position[:-1], at), names), self.element(right, (at, position[-1]), names))
            return self.build.binary("*", *factors)

        return self.summed(left, axis, term)

    def summed(
        self,
        node: nodes.Expression,
        axis: Axis | None,
        term: Callable[[nodes.Expression], nodes.Expression],
        largest: bool = False,
    ) -> nodes.Expression:
        """The sum, or the largest, of an axis's elements, in a variable of its own."""
        if axis is None:
            return term(self.build.number(0))
        total, variable = self.fresh("top" if largest else "sum"), self.fresh("at")
        infinity = nodes.Unary(operator="-", operand=self.build.name("inf"), span=self.build.span)
        start = infinity if largest else self.build.number(0)
        pattern = nodes.BindingPattern(name=total, span=self.build.span)
        self.statements.append(nodes.Let(pattern=pattern, value=start, mutable=True, span=self.build.span))
        outer, self.statements = self.statements, []
        value = term(self.build.name(variable))
        if largest:
            arguments = tuple(nodes.Argument(value=argument, span=self.build.span) for argument in (self.build.name(total), value))
            value = nodes.Call(function=self.build.name("max"), arguments=arguments, span=self.build.span)
        step = nodes.Assign(target=self.build.name(total), operator=None if largest else "+", value=value, span=self.build.span)
        inner, self.statements = [*self.statements, step], outer
        self.statements.append(self.loop(variable, axis, inner, node))
        return self.build.name(total)

    def fresh(self, base: str) -> str:
        name, number = base, 0
        while name in self.taken:
            number += 1
            name = f"{base}{number}"
        self.taken.add(name)
        return name


Some = TypeVar("Some", bound=nodes.Node)
