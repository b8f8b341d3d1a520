"""Tiles in memory of their own: where a variable that holds a tile is read at other rows or columns than its own, where two slices of
results are written in one block, and where whole tensors are multiplied. Each statement becomes loops over the elements of its tile."""

from collections.abc import Callable, Sequence

from compiler.lowering.body import fault
from compiler.lowering.tile_shapes import Held, Shape, is_tiled, unsupported
from compiler.lowering.tiles import Position, TileWriting
from compiler.lowering.words import words
from compiler.typed_ast import nodes
from compiler.typed_ast.walk import walk
from runtime.records import define, evolve

Names = dict[str, Held]


@define(eq=False)
class StoredTiles(TileWriting):
    """Writes a block out, its tiles in memory. `results`: names of the block's results that whole tensors may be assigned to."""

    results: tuple[str, ...] = ()

    # ---- blocks ----

    def block(self, block: nodes.Block, names: Names) -> nodes.Block:
        names = dict(names)
        shapes = dict(names)
        for _ in range(3):
            self.shapes.learn(block.statements, shapes)
        outer, self.statements = self.statements, []
        for statement in block.statements:
            self.build.span = statement.span
            self.stored(statement, names, shapes)
        written, self.statements = self.statements, outer
        return evolve(block, statements=tuple(written))

    def stored(self, statement: nodes.Statement, names: Names, shapes: Names) -> None:
        """Adds what the statement becomes."""
        match statement:
            case nodes.Let(pattern=nodes.BindingPattern(name=name), value=value, mutable=mutable) if value is not None:
                own = self.shapes.of(value, names)
                if isinstance(value, nodes.Call) and isinstance(value.function, nodes.Name) and value.function.name == "reduce":
                    names[name] = Held(own)
                    self.statements.append(statement)
                    return
                shape = self.shapes.common(shapes[name].shape, own, value) if mutable and name in shapes else own
                if not shape:
                    self.statements.append(evolve(statement, value=self.element(value, (), names)))
                    names[name] = Held(())
                    return
                self.memory(name, shape, value)
                self.fill(name, shape, None, value, names, statement)
                names[name] = Held(shape)
            case nodes.Assign(target=nodes.Name(name=name), operator=operator, value=value):
                self.assigned(name, operator, value, names, statement)
            case nodes.Assign(target=nodes.Index() as target, value=value) if self.shapes.is_target(target):
                shape = self.shapes.of(value, names)
                sliced = self.shapes.sliced(target, len(shape))
                axes = self.shapes.common(sliced, shape, value)
                if len(axes) != len(sliced):
                    raise fault("0301", f"`{words(value)}` has {len(shape)} axes, and `{words(target)}` has {len(sliced)}", statement.span)

                def write(position: Position) -> nodes.Statement:
                    own = self.element(value, self.aligned(value, position, names), names)
                    return evolve(statement, target=self.element_of(target, position, names), value=own)

                self.nest(axes, write, target)
            case nodes.While(condition=condition):
                before = len(self.statements)
                rewritten = evolve(statement, condition=self.element(condition, (), names), body=self.block(statement.body, names))
                if len(self.statements) != before:
                    raise unsupported("a sum in the condition of a `while`", condition.span, "keep it in a variable")
                self.statements.append(rewritten)
            case _:
                written = self.statement(statement, names)
                assert written is not None
                self.statements.append(written)

    def assigned(self, name: str, operator: str | None, value: nodes.Expression, names: Names, statement: nodes.Assign) -> None:
        held = names.get(name)
        if held is None and name in self.results:
            shape = self.shapes.of(value, names)
            if shape:
                names[name] = Held(shape)
                self.fill(name, shape, operator, value, names, statement)
                return
        if held is None or not held.shape:
            self.statements.append(evolve(statement, value=self.element(value, (), names)))
            return
        if operator == "@":
            raise unsupported("`@=` of a tile", statement.span, f"write `{name} = {name} @ ...`")
        if not _reads_elsewhere(value, name):
            self.fill(name, held.shape, operator, value, names, statement)
            return
        apart = self.fresh("apart")
        self.memory(apart, held.shape, value)
        self.fill(apart, held.shape, None, value, names, statement)
        self.fill(name, held.shape, operator, self.build.name(apart), {**names, apart: Held(held.shape)}, statement)

    # ---- memory ----

    def memory(self, name: str, shape: Shape, where: nodes.Expression) -> None:
        dims: list[nodes.Expression] = []
        for axis in shape:
            extent = self.build.number(1) if axis is None else axis.one().extent
            if extent is None:
                feature = f"`{words(where)}`, an axis of which nothing says how long it is,"
                raise unsupported(feature, where.span, "write both ends: `q:q+64`")
            dims.append(extent)
        self.statements.append(nodes.TileVariable(name=name, dims=tuple(dims), span=self.build.span))

    def fill(
        self, name: str, shape: Shape, operator: str | None, value: nodes.Expression, names: Names, statement: nodes.Statement
    ) -> None:
        """Loops that set each element of a tile."""

        def write(position: Position) -> nodes.Statement:
            own = self.element(value, self.aligned(value, position, names), names)
            target = nodes.Index(value=self.build.name(name), indices=position, span=statement.span)
            return nodes.Assign(target=target, operator=operator, value=own, span=statement.span)

        self.nest(shape, write, value)

    def nest(self, shape: Shape, make: Callable[[Position], nodes.Statement], where: nodes.Expression) -> None:
        """Loops over a tile around what `make` gives for the element at a position."""
        variables = [None if axis is None else self.fresh("row" if number == 0 else "column") for number, axis in enumerate(shape)]
        position = tuple(self.build.number(0) if variable is None else self.build.name(variable) for variable in variables)
        outer, self.statements = self.statements, []
        last = make(position)
        inner: Sequence[nodes.Statement] = [*self.statements, last]
        self.statements = outer
        for axis, variable in reversed(list(zip(shape, variables, strict=True))):
            if variable is not None:
                inner = [self.loop(variable, axis, inner, where)]
        self.statements += inner

    # ---- elements ----

    def part(self, node: nodes.Index, position: Position, names: Names) -> nodes.Expression:
        return self.element_of(node, position, names)

    def named(self, node: nodes.Name, held: Held, position: Position, names: Names) -> nodes.Expression:
        if not held.shape:
            return node
        own = position[len(position) - len(held.shape) :]
        indices = tuple(self.build.number(0) if axis is None else at for axis, at in zip(held.shape, own, strict=True))
        return nodes.Index(value=node, indices=indices, span=node.span)


def _reads_elsewhere(value: nodes.Expression, name: str) -> bool:
    """Whether elements of the tile may be read after others of it were set."""
    moves = any(
        (isinstance(node, nodes.Binary) and node.operator == "@")
        or (isinstance(node, nodes.Call) and isinstance(node.function, nodes.Name) and is_tiled(node))
        for node in walk(value)
    )
    return moves and any(isinstance(node, nodes.Name) and node.name == name for node in walk(value))
