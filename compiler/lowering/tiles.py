"""Slices as tiles (`S = A[r:r+32] @ B`, `row_max(S)`), written out as loops over elements before a block is lowered. The rows and columns
of the tile that a slice of a result gets become loops around all that computes it, so variables hold one number each; other tiles are
what their elements are, where those are needed. A tile that hangs over an edge of a tensor has fewer rows or columns there.

A variable that holds a tile is read at its own row and column. Reading it elsewhere (transposed, reduced, multiplied) is not supported."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs
from attrs import Factory, evolve, field

from compiler.lowering.body import fault
from compiler.lowering.kernel import Signature
from compiler.lowering.tile_sizes import Dims, extent_of, same_text
from compiler.lowering.words import words
from compiler.source import NOWHERE, Span
from compiler.typed_ast import nodes
from compiler.typed_ast.walk import walk
from runtime.records import define

FUNCTIONS = ("dot", "row_max", "row_sum", "transpose", "zeros")
"""Functions of tiles, beside those of numbers, which work element by element."""


Limit = tuple[nodes.Expression, nodes.Expression]


@define(eq=False)
class Axis:
    """An axis of a tile: how many elements it has, where that was written, and which conditions a place must meet to exist. Axes that
    meet element by element are one."""

    extent: nodes.Expression | None = None
    limits: list[Limit] = Factory(list)
    """First place, and the extent that places stay below."""
    _joined: "Axis | None" = None

    def one(self) -> "Axis":
        axis = self
        while axis._joined is not None:
            axis = axis._joined
        return axis

    def meets(self, other: "Axis") -> "Axis":
        a, b = self.one(), other.one()
        if a is not b:
            b._joined = a
            a.extent = a.extent or b.extent
            a.limits += [limit for limit in b.limits if not any(all(map(same_text, limit, have)) for have in a.limits)]
        return a


Shape = tuple[Axis | None, ...]
"""Axes of a tile, None for one of a single element; empty: a number."""
Place = tuple[nodes.Expression, ...]


@define(eq=False)
class Held:
    """What a name stands for: a variable or value with a number for each place of the result's tile, or an expression."""

    shape: Shape
    expression: nodes.Expression | None = None
    versions: "dict[str, int]" = Factory(dict)
    """How often the variables that the expression reads had been set."""


def is_tiled(node: nodes.Node) -> bool:
    match node:
        case nodes.Index(indices=indices):
            return any(isinstance(index, nodes.Slice) for index in indices)
        case nodes.Call(function=nodes.Name(name=name)):
            return name in FUNCTIONS
        case nodes.Binary(operator="@"):
            return True
        case _:
            return False


def written_out(compute: nodes.Compute, signature: Signature) -> nodes.Compute:
    """The block with its tiles as loops; itself where it has none. Raises `Fault` (0109, 0203, 0301) for what isn't supported or makes no
    sense."""
    own = _own_names(compute, signature).intersection(FUNCTIONS)
    if own:
        # a name of another spelling is no tile function here; the program's own name comes back when the tiles are written out
        apart = {name: f"{name} " for name in own}
        hidden = _written_out(evolve(compute, body=_calls_renamed(compute.body, apart)), signature)
        return evolve(hidden, body=_calls_renamed(hidden.body, {new: old for old, new in apart.items()}))
    return _written_out(compute, signature)


def _own_names(compute: nodes.Compute, signature: Signature) -> set[str]:
    """What the program calls so itself."""
    names = {*signature.functions, *(one.name for one in signature.tensors), *(one.name for one in signature.scalars)}
    return names | {node.name for node in walk(compute.body) if isinstance(node, nodes.BindingPattern)}


def _calls_renamed(node: "Some", names: Mapping[str, str]) -> "Some":
    """The node with calls of functions under other names."""

    def new(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(new, value))
        return _calls_renamed(value, names) if isinstance(value, nodes.Node) else value

    changes = {one.name: new(getattr(node, one.name)) for one in attrs.fields(type(node)) if one.name != "type"}
    if isinstance(node, nodes.Call) and isinstance(node.function, nodes.Name) and node.function.name in names:
        changes["function"] = evolve(node.function, name=names[node.function.name])
    return evolve(node, **changes)


def _written_out(compute: nodes.Compute, signature: Signature) -> nodes.Compute:
    """The same for a block whose tile functions all mean the library's."""
    targets = [node for node in walk(compute.body) if isinstance(node, nodes.Assign) and is_tiled(node.target)]
    reads = [node for node in walk(compute.body) if (isinstance(node, nodes.Index) and is_tiled(node)) or _is_function(node)]
    if not targets and not reads:
        return compute
    taken = {node.name for node in walk(compute) if isinstance(node, nodes.Name)}
    dims = {tensor.name: tensor.dims for tensor in signature.tensors}
    writing = _Writing(dims, taken)
    return evolve(compute, body=writing.block(compute.body, {}))


def _is_function(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Call) and isinstance(node.function, nodes.Name) and node.function.name in ("dot", "row_max", "row_sum")


@define(eq=False)
class _Writing:
    dims: Dims
    taken: set[str]
    span: Span = NOWHERE
    statements: "list[nodes.Statement]" = Factory(list)
    """Those before the statement that is being written."""
    place: Place = ()
    """The row and column of the result's tile."""
    axes: Shape = ()
    versions: "dict[str, int]" = field(factory=dict)
    written: "dict[tuple[int, int], Axis]" = field(factory=dict)
    """Axes by where they were written."""

    # ---- blocks ----

    def block(self, block: nodes.Block, names: dict[str, Held]) -> nodes.Block:
        names = dict(names)
        stores = [one for one in block.statements if isinstance(one, nodes.Assign) and is_tiled(one.target)]
        if not stores or self.place:
            return evolve(block, statements=tuple(self.all(block.statements, names)))
        if len(stores) > 1:
            raise self.unsupported("two slices of results in one block", stores[1].span, "write each in a loop of its own")
        return evolve(block, statements=tuple(self.around(block.statements, stores[0], names)))

    def around(self, statements: Sequence[nodes.Statement], store: nodes.Assign, names: dict[str, Held]) -> list[nodes.Statement]:
        """The loops over the rows and columns of the tile that is stored, around everything in its block."""
        self.span = store.span
        shapes = dict(names)
        for _ in range(3):
            self.learn(statements, shapes)
        names.update({name: held for name, held in shapes.items() if held.expression is None})
        assert isinstance(store.target, nodes.Index)
        value = self.shape(store.value, shapes)
        target = self.sliced(store.target, len(value))
        axes: list[Axis] = []
        for own, other in zip(target, (None,) * (len(target) - len(value)) + value, strict=True):
            assert own is not None
            axes.append(own if other is None else own.meets(other))
        variables = [self.fresh("row" if number == 0 else "column") for number, _ in enumerate(axes)]
        self.place = tuple(self.name(variable) for variable in variables)
        self.axes = tuple(axis.one() for axis in axes)
        inner = self.all(statements, names)
        for axis, variable in reversed(list(zip(self.axes, variables, strict=True))):
            inner = [self.loop(variable, axis, inner, store.target)]
        self.place, self.axes = (), ()
        return inner

    def loop(self, variable: str, axis: Axis | None, inner: Sequence[nodes.Statement], where: nodes.Expression) -> nodes.Statement:
        """A loop over the places of an axis that exist."""
        axis = None if axis is None else axis.one()
        if axis is None or axis.extent is None:
            what = f"`{words(where)}`, an axis of which nothing says how long it is,"
            raise self.unsupported(what, where.span, "write both ends: `q:q+64`")
        body = tuple(inner)
        for first, extent in axis.limits:
            condition = self.binary("<", self.plus(first, self.name(variable)), extent)
            then = nodes.Block(statements=body, span=self.span)
            body = (nodes.ExpressionStatement(value=nodes.If(condition=condition, then=then, span=self.span), span=self.span),)
        source = nodes.Range(low=self.number(0), high=axis.extent, span=self.span)
        clause = nodes.ForClause(names=(variable,), name_spans=(self.span,), source=source, span=self.span)
        return nodes.For(clauses=(clause,), body=nodes.Block(statements=body, span=self.span), span=self.span)

    def learn(self, statements: Sequence[nodes.Statement], names: dict[str, Held]) -> None:
        """The shapes of all that is named, which assignments add to."""
        for one in statements:
            match one:
                case nodes.Let(pattern=nodes.BindingPattern(name=name), value=value, mutable=mutable) if value is not None:
                    shape = self.shape(value, names)
                    known = names.get(name)
                    if mutable and known is not None and known.expression is None:
                        shape = self.common(known.shape, shape, value)
                    names[name] = Held(shape, None if mutable else value)
                case nodes.Assign(target=nodes.Name(name=name), value=value) if name in names:
                    names[name].shape = self.common(names[name].shape, self.shape(value, names), value)
                case nodes.For(body=body) | nodes.While(body=body):
                    self.learn(body.statements, names)
                case nodes.ExpressionStatement(value=nodes.If(then=then, otherwise=otherwise)):
                    self.learn(then.statements, names)
                    if otherwise is not None:
                        self.learn(otherwise.statements, names)
                case nodes.ExpressionStatement(value=nodes.Block(statements=inner)):
                    self.learn(inner, names)
                case _:
                    pass

    # ---- statements ----

    def all(self, statements: Sequence[nodes.Statement], names: dict[str, Held]) -> list[nodes.Statement]:
        outer, self.statements = self.statements, []
        for one in statements:
            self.span = one.span
            made = self.statement(one, names)
            if made is not None:
                self.statements.append(made)
        found, self.statements = self.statements, outer
        return found

    def statement(self, one: nodes.Statement, names: dict[str, Held]) -> nodes.Statement | None:
        match one:
            case nodes.Let(pattern=nodes.BindingPattern(name=name), value=value, mutable=mutable) if value is not None:
                return self.declared(one, name, value, mutable, names)
            case nodes.Assign(target=nodes.Name(name=name), value=value):
                self.versions[name] = self.versions.get(name, 0) + 1
                return evolve(one, value=self.element(value, self.own(self.shape(value, names), value), names))
            case nodes.Assign(target=nodes.Index() as target, value=value) if is_tiled(target):
                shape = self.shape(value, names)
                place = self.place[len(self.place) - len(shape) :]
                return evolve(one, target=self.element_of(target, self.place, names), value=self.element(value, place, names))
            case nodes.For(clauses=clauses, body=body):
                for inner in walk(body):
                    if isinstance(inner, nodes.Assign) and isinstance(inner.target, nodes.Name):
                        self.versions[inner.target.name] = self.versions.get(inner.target.name, 0) + 1
                sources = [evolve(clause, source=self.element(clause.source, (), names)) for clause in clauses]
                return evolve(one, clauses=tuple(sources), body=self.block(body, names))
            case nodes.ExpressionStatement(value=nodes.If() as branch):
                return evolve(one, value=self.branch(branch, names))
            case nodes.ExpressionStatement(value=nodes.Block() as inside):
                return evolve(one, value=self.block(inside, names))
            case _:
                return self.numbers(one, names)

    def branch(self, branch: nodes.If, names: dict[str, Held]) -> nodes.If:
        otherwise = None if branch.otherwise is None else self.block(branch.otherwise, names)
        return evolve(
            branch, condition=self.element(branch.condition, (), names), then=self.block(branch.then, names), otherwise=otherwise
        )

    def declared(self, one: nodes.Let, name: str, value: nodes.Expression, mutable: bool, names: dict[str, Held]) -> nodes.Statement | None:
        shape = self.shape(value, names)
        if mutable:
            known = names.get(name)
            names[name] = Held(shape if known is None or known.expression is not None else known.shape)
            self.versions[name] = self.versions.get(name, 0) + 1
            return evolve(one, value=self.element(value, self.own(shape, value), names))
        if not shape or self.is_own(shape):
            names[name] = Held(shape)
            return evolve(one, value=self.element(value, self.own(shape, value), names))
        names[name] = Held(shape, value, self.read_by(value, names))
        return None

    def read_by(self, value: nodes.Expression, names: dict[str, Held]) -> dict[str, int]:
        found: dict[str, int] = {}
        for node in walk(value):
            if isinstance(node, nodes.Name) and node.name in names:
                held = names[node.name]
                found |= held.versions if held.expression is not None else {node.name: self.versions.get(node.name, 0)}
        return found

    def is_own(self, shape: Shape) -> bool:
        """Whether a tile has the rows and columns of the result's."""
        own = self.axes[len(self.axes) - len(shape) :]
        return len(own) == len(shape) and all(
            axis is None or (mine is not None and axis.one() is mine.one()) for axis, mine in zip(shape, own, strict=True)
        )

    def own(self, shape: Shape, node: nodes.Expression) -> Place:
        if shape and not self.is_own(shape):
            what = f"a variable with the tile `{words(node)}`, whose rows and columns aren't those of the result,"
            raise self.unsupported(what, node.span)
        return self.place[len(self.place) - len(shape) :]

    # ---- shapes ----

    def shape(self, node: nodes.Expression, names: dict[str, Held]) -> Shape:
        match node:
            case nodes.Name(name=name):
                return names[name].shape if name in names else ()
            case nodes.Index(value=nodes.Name(name=name), indices=indices):
                missing = self.rank(name, len(indices)) > len(indices)
                return self.sliced(node) if is_tiled(node) or missing else ()
            case nodes.Binary(operator="@", left=left, right=right):
                a, b = self.matrices(left, right, names)
                return (*a[:-1], b[-1])
            case nodes.Binary(left=left, right=right):
                return self.common(self.shape(left, names), self.shape(right, names), node)
            case nodes.Unary(operand=inner) | nodes.Cast(value=inner):
                return self.shape(inner, names)
            case nodes.Conditional(condition=a, then=b, otherwise=c):
                return self.common(self.common(self.shape(a, names), self.shape(b, names), node), self.shape(c, names), node)
            case nodes.Call(function=nodes.Name(name="dot")):
                return ()
            case nodes.Call(function=nodes.Name(name="zeros"), arguments=arguments):
                return tuple(None if _is_one(one.value) else self.axis(node, n, one.value) for n, one in enumerate(arguments))
            case nodes.Call(function=nodes.Name(name="transpose"), arguments=[argument]):
                return self.shape(argument.value, names)[::-1]
            case nodes.Call(function=nodes.Name(name="row_max" | "row_sum"), arguments=[argument]):
                rows = self.shape(argument.value, names)[:-1]
                return (*rows, None) if rows else ()
            case nodes.Call(arguments=arguments):
                found: Shape = ()
                for argument in arguments:
                    found = self.common(found, self.shape(argument.value, names), node)
                return found
            case _:
                return ()

    def matrices(self, left: nodes.Expression, right: nodes.Expression, names: dict[str, Held]) -> tuple[Shape, Shape]:
        """The shapes of two factors, whose inner axes meet."""
        a, b = self.shape(left, names), self.shape(right, names)
        if not a or len(b) != 2:
            raise fault("0203", f"`{words(left)} @ {words(right)}` needs tiles of rows and columns", left.span)
        if a[-1] is not None and b[0] is not None:
            a[-1].meets(b[0])
        return a, b

    def common(self, a: Shape, b: Shape, node: nodes.Expression) -> Shape:
        """The shape of what is computed element by element: axes align from the last."""
        short, long = (b, a) if len(b) <= len(a) else (a, b)
        found = list(long)
        for number, axis in enumerate(short, len(long) - len(short)):
            mine = found[number]
            if mine is None or axis is None:
                found[number] = mine or axis
            else:
                sizes = [one.extent.value for one in (mine.one(), axis.one()) if isinstance(one.extent, nodes.IntLiteral)]
                if len(set(sizes)) > 1:
                    raise fault("0301", f"tiles of `{words(node)}` don't fit: an axis has {sizes[0]} and {sizes[1]} elements", node.span)
                found[number] = mine.meets(axis)
        return tuple(found)

    def sliced(self, node: nodes.Index, wanted: int = 0) -> Shape:
        """The axes of a slice; of a result's, whose rank isn't known, `wanted` at least."""
        assert isinstance(node.value, nodes.Name)
        name = node.value.name
        known = name in self.dims
        found: list[Axis] = []
        for number, index in enumerate(node.indices):
            if not isinstance(index, nodes.Slice):
                continue
            if index.step is not None:
                raise self.unsupported("a slice with a step", node.span, "loop over its elements")
            low = index.low or self.number(0)
            end = self.extent(name, number) if known else None
            whole = index.low is None and index.high is None
            extent = end if whole else None if index.high is None else self.between(low, index.high)
            found.append(self.axis(node, number, extent, [] if whole or end is None else [(low, end)]))
        rest = self.rank(name, len(node.indices) + max(0, wanted - len(found))) - len(node.indices)
        behind = range(len(node.indices), len(node.indices) + rest)
        found += [self.axis(node, number, self.extent(name, number) if known else None) for number in behind]
        if len(found) > 2:
            raise self.unsupported(f"the slice `{words(node)}` of {len(found)} axes", node.span, "write indices for all but two")
        return tuple(found)

    def axis(self, node: nodes.Expression, number: int, extent: nodes.Expression | None, limits: Sequence[Limit] = ()) -> Axis:
        """The axis that is written there, one and the same each time."""
        return self.written.setdefault((id(node), number), Axis(extent, list(limits)))

    def between(self, low: nodes.Expression, high: nodes.Expression) -> nodes.Expression:
        if isinstance(high, nodes.Binary) and high.operator == "+" and same_text(high.left, low):
            return high.right
        if isinstance(high, nodes.IntLiteral) and isinstance(low, nodes.IntLiteral):
            return self.number(high.value - low.value)
        return self.binary("-", high, low)

    # ---- elements ----

    def element(self, node: nodes.Expression, place: Place, names: dict[str, Held]) -> nodes.Expression:
        """The element of an expression at a place, after the statements that compute what it needs."""
        match node:
            case nodes.Name(name=name) if name in names:
                return self.named(node, names[name], place, names)
            case nodes.Index(value=nodes.Name(name=name), indices=indices) if is_tiled(node) or self.rank(name, 0) > len(indices):
                return self.element_of(node, place, names)
            case nodes.Binary(operator="@", left=left, right=right):
                return self.product(left, right, place, names)
            case nodes.Call(function=nodes.Name(name="dot"), arguments=[a, b]):
                row, other = (self.shape(one.value, names) for one in (a, b))
                if len(row) != 1 or len(other) != 1:
                    raise fault("0203", f"`{words(node)}` needs two rows", node.span)
                axis = self.common(row, other, node)[0]
                return self.summed(
                    node, axis, lambda at: self.binary("*", self.element(a.value, (at,), names), self.element(b.value, (at,), names))
                )
            case nodes.Call(function=nodes.Name(name="zeros")):
                return nodes.FloatLiteral(value=0.0, span=node.span)
            case nodes.Call(function=nodes.Name(name="transpose"), arguments=[argument]):
                return self.element(argument.value, place[::-1], names)
            case nodes.Call(function=nodes.Name(name="row_max" | "row_sum" as name), arguments=[argument]):
                axis = self.shape(argument.value, names)[-1]
                return self.summed(node, axis, lambda at: self.element(argument.value, (*place[:-1], at), names), name == "row_max")
            case _:
                return self.numbers(node, names, place)

    def numbers(self, node: "Some", names: dict[str, Held], place: Place = ()) -> "Some":
        """A node whose expressions are those of its parts' elements."""
        changes: dict[str, Any] = {}
        for one in attrs.fields(type(node)):
            value = getattr(node, one.name)
            if isinstance(value, nodes.Block):
                changes[one.name] = self.block(value, names)
            elif isinstance(value, nodes.Expression):
                changes[one.name] = self.element(value, self.aligned(value, place, names), names)
            elif isinstance(value, tuple) and any(isinstance(part, nodes.Expression | nodes.Argument) for part in value):
                changes[one.name] = tuple(
                    self.element(part, self.aligned(part, place, names), names)
                    if isinstance(part, nodes.Expression)
                    else evolve(part, value=self.element(part.value, self.aligned(part.value, place, names), names))
                    if isinstance(part, nodes.Argument)
                    else part
                    for part in value
                )
        return evolve(node, **changes) if changes else node

    def aligned(self, node: nodes.Expression, place: Place, names: dict[str, Held]) -> Place:
        shape = self.shape(node, names)
        if len(shape) > len(place):
            raise fault("0203", f"`{words(node)}` is a tile where a number is needed", node.span, hint="use `row_sum` or `row_max`")
        own = place[len(place) - len(shape) :]
        return tuple(self.number(0) if axis is None else at for axis, at in zip(shape, own, strict=True))

    def named(self, node: nodes.Name, held: Held, place: Place, names: dict[str, Held]) -> nodes.Expression:
        if held.expression is None:
            mine = self.place[len(self.place) - len(held.shape) :]
            if any(axis is not None and not same_text(at, own) for axis, at, own in zip(held.shape, place, mine, strict=True)):
                raise self.unsupported(f"`{node.name}` at other rows or columns than those of the result", node.span)
            return node
        if any(self.versions.get(name, 0) != number for name, number in held.versions.items()):
            raise self.unsupported(f"`{node.name}`, whose variables were set since", node.span, "name it again behind the assignment")
        return self.element(held.expression, self.aligned(held.expression, place, names), names)

    def element_of(self, node: nodes.Index, place: Place, names: dict[str, Held]) -> nodes.Expression:
        """`X[b, q:q+64]` at a place: `X[b, q + row, column]`."""
        rest = list(place)
        indices: list[nodes.Expression] = []
        for index in node.indices:
            if isinstance(index, nodes.Slice):
                at = rest.pop(0)
                indices.append(at if index.low is None else self.plus(index.low, at))
            else:
                indices.append(self.element(index, (), names))
        return evolve(node, indices=(*indices, *rest))

    def product(self, left: nodes.Expression, right: nodes.Expression, place: Place, names: dict[str, Held]) -> nodes.Expression:
        a, b = self.matrices(left, right, names)
        axis = a[-1] or b[0]

        def term(at: nodes.Expression) -> nodes.Expression:
            factors = (self.element(left, (*place[:-1], at), names), self.element(right, (at, place[-1]), names))
            return self.binary("*", *factors)

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
            return term(self.number(0))
        total, variable = self.fresh("top" if largest else "sum"), self.fresh("at")
        infinity = nodes.Unary(operator="-", operand=self.name("inf"), span=self.span)
        start = infinity if largest else self.number(0)
        pattern = nodes.BindingPattern(name=total, span=self.span)
        self.statements.append(nodes.Let(pattern=pattern, value=start, mutable=True, span=self.span))
        outer, self.statements = self.statements, []
        value = term(self.name(variable))
        if largest:
            arguments = tuple(nodes.Argument(value=one, span=self.span) for one in (self.name(total), value))
            value = nodes.Call(function=self.name("max"), arguments=arguments, span=self.span)
        step = nodes.Assign(target=self.name(total), operator=None if largest else "+", value=value, span=self.span)
        inner, self.statements = [*self.statements, step], outer
        self.statements.append(self.loop(variable, axis, inner, node))
        return self.name(total)

    # ---- pieces ----

    def unsupported(self, what: str, span: Span, hint: str = "loop over the elements: `for t in 0..64: ... x[q + t]`") -> Exception:
        return fault("0109", f"{what} isn't supported yet in a kernel", span, hint=hint)

    def fresh(self, base: str) -> str:
        name, number = base, 0
        while name in self.taken:
            number += 1
            name = f"{base}{number}"
        self.taken.add(name)
        return name

    def rank(self, name: str, otherwise: int) -> int:
        return len(self.dims[name]) if name in self.dims else otherwise

    def extent(self, name: str, axis: int) -> nodes.Expression:
        return extent_of(self.dims, name, axis, self.span)

    def name(self, name: str) -> nodes.Name:
        return nodes.Name(name=name, span=self.span)

    def number(self, value: int) -> nodes.IntLiteral:
        return nodes.IntLiteral(value=value, span=self.span)

    def binary(self, operator: str, left: nodes.Expression, right: nodes.Expression) -> nodes.Binary:
        return nodes.Binary(operator=operator, left=left, right=right, span=self.span, operator_span=self.span)

    def plus(self, left: nodes.Expression, right: nodes.Expression) -> nodes.Expression:
        return right if isinstance(left, nodes.IntLiteral) and left.value == 0 else self.binary("+", left, right)


Some = TypeVar("Some", bound=nodes.Node)


def _is_one(node: nodes.Expression) -> bool:
    return isinstance(node, nodes.IntLiteral) and node.value == 1
