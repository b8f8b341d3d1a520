"""The shapes of tiles: which axes a slice has, which axes of two tiles are one, and how long each is."""

from collections.abc import Mapping, Sequence

from compiler.lowering.body import fault
from compiler.lowering.tile_sizes import Dims, extent_of, same_text
from compiler.lowering.words import words
from compiler.source import NOWHERE, Span
from compiler.typed_ast import nodes
from runtime.records import Factory, define

FUNCTIONS = ("dot", "row_max", "row_sum", "transpose", "zeros")
"""Functions of tiles, beside those of numbers, which work element by element."""

Limit = tuple[nodes.Expression, nodes.Expression, nodes.IntLiteral]


@define(eq=False)
class Axis:
    """An axis of a tile: how many elements it has, where that was written, and which conditions a position must meet to exist. Axes that
    meet element by element are one."""

    extent: nodes.Expression | None = None
    limits: list[Limit] = Factory(list)
    """First position, the extent that positions stay below, and the step between them."""
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


@define(eq=False)
class Held:
    """What a name stands for: a variable or value with a number for each position in the result's tile, or an expression."""

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


def unsupported(feature: str, span: Span, hint: str = "loop over the elements: `for t in 0..64: ... x[q + t]`") -> Exception:
    return fault("0109", f"{feature} isn't supported yet in a kernel", span, hint=hint)


@define(eq=False)
class NodeBuilder:
    """Makes nodes that stand where the statement does that is being written out."""

    span: Span = NOWHERE

    def name(self, name: str) -> nodes.Name:
        return nodes.Name(name=name, span=self.span)

    def number(self, value: int) -> nodes.IntLiteral:
        return nodes.IntLiteral(value=value, span=self.span)

    def binary(self, operator: str, left: nodes.Expression, right: nodes.Expression) -> nodes.Binary:
        return nodes.Binary(operator=operator, left=left, right=right, span=self.span, operator_span=self.span)

    def times(self, left: nodes.Expression, factor: int) -> nodes.Expression:
        return left if factor == 1 else self.binary("*", left, self.number(factor))

    def divided_up(self, value: nodes.Expression, by: int) -> nodes.Expression:
        """How many steps of `by` it takes to come to the value."""
        if by == 1:
            return value
        if isinstance(value, nodes.IntLiteral):
            return self.number(-(-value.value // by))
        return self.binary("/", self.binary("+", value, self.number(by - 1)), self.number(by))

    def plus(self, left: nodes.Expression, right: nodes.Expression) -> nodes.Expression:
        return right if isinstance(left, nodes.IntLiteral) and left.value == 0 else self.binary("+", left, right)


@define(eq=False)
class TileShapes:
    """`dims`: extents of the inputs; `ranks`: of the results, where they are declared; `written`: axes by where they were written;
    `checks`: extents that must be equal."""

    dims: Dims
    build: NodeBuilder
    ranks: Mapping[str, int] = Factory(dict)
    checks: list[nodes.SizeCheck] = Factory(list)
    written: dict[tuple[int, int], Axis] = Factory(dict)

    def of(self, node: nodes.Expression, names: dict[str, Held]) -> Shape:
        """The shape of an expression; `names`: what the names in it stand for."""
        match node:
            case nodes.Name(name=name):
                return names[name].shape if name in names else self.whole(node)
            case nodes.Index(value=nodes.Name(name=name), indices=indices) if name in names and names[name].shape:
                return self.of_part(node, names[name].shape)
            case nodes.Index(value=nodes.Name(name=name), indices=indices):
                missing = self.rank(name, len(indices)) > len(indices)
                return self.sliced(node) if is_tiled(node) or missing else ()
            case nodes.Binary(operator="@", left=left, right=right):
                a, b = self.matrices(left, right, names)
                return (*a[:-1], b[-1])
            case nodes.Binary(left=left, right=right):
                return self.common(self.of(left, names), self.of(right, names), node)
            case nodes.Unary(operand=inner) | nodes.Cast(value=inner):
                return self.of(inner, names)
            case nodes.Conditional(condition=a, then=b, otherwise=c):
                return self.common(self.common(self.of(a, names), self.of(b, names), node), self.of(c, names), node)
            case nodes.Call(function=nodes.Name(name="dot" | "len")):
                return ()
            case nodes.Call(function=nodes.Name(name="reduce")):
                return self.reduced(node, names)
            case nodes.Call(function=nodes.Name(name="zeros"), arguments=()):
                raise fault("0204", "`zeros` lacks the extents of a tile", node.span, hint="write `zeros(32, D)`")
            case nodes.Call(function=nodes.Name(name="zeros"), arguments=arguments):
                return tuple(None if _is_one(dim.value) else self.axis(node, n, dim.value) for n, dim in enumerate(arguments))
            case nodes.Call(function=nodes.Name(name="transpose"), arguments=[argument]):
                return self.of(argument.value, names)[::-1]
            case nodes.Call(function=nodes.Name(name="row_max" | "row_sum"), arguments=[argument]):
                own = self.of(argument.value, names)
                if not own:
                    message = f"`{words(argument.value)}` is a number, and this function needs a tile"
                    raise fault("0203", message, argument.value.span, hint="give it a row, `x[i]`, or a slice")
                return (*own[:-1], None) if len(own) > 1 else ()
            case nodes.Call(arguments=arguments):
                shape: Shape = ()
                for argument in arguments:
                    shape = self.common(shape, self.of(argument.value, names), node)
                return shape
            case _:
                return ()

    def reduced(self, node: nodes.Call, names: dict[str, Held]) -> Shape:
        """The axes that `reduce(op, x, axis=)` leaves."""
        positional = [argument.value for argument in node.arguments if argument.name is None]
        named = {argument.name: argument.value for argument in node.arguments}
        shape = self.of(positional[1], names) if len(positional) == 2 else ()
        axis = named.get("axis")
        if axis is None:
            return ()
        parts = axis.elements if isinstance(axis, nodes.TupleLiteral) else (axis,)
        axes = {part.value % len(shape) for part in parts if isinstance(part, nodes.IntLiteral) and shape}
        keeps = isinstance(named.get("keepdims"), nodes.BoolLiteral)
        return tuple(None if number in axes else each for number, each in enumerate(shape) if keeps or number not in axes)

    def whole(self, node: nodes.Name) -> Shape:
        """The axes of a whole input."""
        return tuple(self.axis(node, number, self.extent(node.name, number)) for number in range(self.rank(node.name, 0)))

    def matrices(self, left: nodes.Expression, right: nodes.Expression, names: dict[str, Held]) -> tuple[Shape, Shape]:
        """The shapes of two factors, whose inner axes meet."""
        a, b = self.of(left, names), self.of(right, names)
        if not a or len(b) != 2:
            raise fault("0203", f"`{words(left)} @ {words(right)}` needs tiles of rows and columns", left.span)
        if a[-1] is not None and b[0] is not None:
            self.meet(a[-1], b[0], nodes.Binary(operator="@", left=left, right=right, span=left.span.to(right.span)))
        return a, b

    def meet(self, a: Axis, b: Axis, node: nodes.Expression) -> Axis:
        """The axis that both are. Its extents must be equal, and so must what ends tiles that begin at one place."""
        mine, other = a.one(), b.one()
        if mine is other:
            return mine
        self._require_equal(mine.extent, other.extent, node)
        for first, end, step in mine.limits:
            for another, their_end, their_step in other.limits:
                if same_text(first, another) and same_text(step, their_step) and not same_text(end, their_end):
                    self.checks.append(nodes.SizeCheck(left=end, right=their_end, text=words(node), span=node.span))
        return mine.meets(other)

    def _require_equal(self, a: nodes.Expression | None, b: nodes.Expression | None, node: nodes.Expression) -> None:
        if a is None or b is None or same_text(a, b):
            return
        if isinstance(a, nodes.IntLiteral) and isinstance(b, nodes.IntLiteral):
            message = f"tiles of `{words(node)}` don't fit: an axis has {a.value} and {b.value} elements"
            raise fault("0301", message, node.span)
        self.checks.append(nodes.SizeCheck(left=a, right=b, text=words(node), span=node.span))

    def is_target(self, node: nodes.Expression) -> bool:
        """Whether what is assigned to is a tile of a result."""
        match node:
            case nodes.Index(value=nodes.Name(name=name), indices=indices):
                return is_tiled(node) or len(indices) < self.ranks.get(name, 0)
            case _:
                return False

    def of_part(self, node: nodes.Index, held: Shape) -> Shape:
        """The axes of a part of a tile that a variable holds."""
        if len(node.indices) > len(held):
            raise fault("0304", f"`{words(node.value)}` has {len(held)} axes, but {len(node.indices)} indices are given", node.span)
        axes: list[Axis | None] = []
        for number, index in enumerate(node.indices):
            if isinstance(index, nodes.Slice):
                if index.low is None and index.high is None and index.step is None:
                    axes.append(held[number])
                    continue
                whole = held[number]
                high = index.high or (None if whole is None else whole.one().extent)
                low = index.low or self.build.number(0)
                extent = None if high is None else self.build.divided_up(self.between(low, high), step_of(index))
                axes.append(self.axis(node, number, extent))
        return (*axes, *held[len(node.indices) :])

    def common(self, a: Shape, b: Shape, node: nodes.Expression) -> Shape:
        """The shape of what is computed element by element: axes align from the last."""
        short, long = (b, a) if len(b) <= len(a) else (a, b)
        axes = list(long)
        for number, axis in enumerate(short, len(long) - len(short)):
            mine = axes[number]
            if mine is None or axis is None:
                axes[number] = mine or axis
            else:
                axes[number] = self.meet(mine, axis, node)
        return tuple(axes)

    def sliced(self, node: nodes.Index, wanted: int = 0) -> Shape:
        """The axes of a slice; of a result's, whose rank isn't known, `wanted` at least."""
        assert isinstance(node.value, nodes.Name)
        name = node.value.name
        known = name in self.dims
        axes: list[Axis] = []
        for number, index in enumerate(node.indices):
            if not isinstance(index, nodes.Slice):
                continue
            step = step_of(index)
            end = self.extent(name, number) if known else None
            low = self.first(name, number, index)
            ends = index.high is not None or end is not None
            extent = self.build.divided_up(self.reach(index, low, end, step), abs(step)) if ends else None
            whole = index.low is None and index.high is None
            axes.append(self.axis(node, number, extent, [] if whole or end is None else [(low, end, self.build.number(step))]))
        rest = self.rank(name, self.ranks.get(name, len(node.indices) + max(0, wanted - len(axes)))) - len(node.indices)
        behind = range(len(node.indices), len(node.indices) + rest)
        axes += [self.axis(node, number, self.extent(name, number) if known else None) for number in behind]
        return tuple(axes)

    def first(self, name: str, number: int, index: nodes.Slice) -> nodes.Expression:
        """Where a slice begins."""
        if index.low is not None:
            return index.low
        if step_of(index) > 0:
            return self.build.number(0)
        if name not in self.dims:
            raise unsupported("a slice of a result that goes backwards from its end", index.span, "write where it begins")
        return self.build.binary("-", self.extent(name, number), self.build.number(1))

    def reach(self, index: nodes.Slice, low: nodes.Expression, end: nodes.Expression | None, step: int) -> nodes.Expression:
        """How many elements lie between a slice's ends."""
        if step > 0:
            high = index.high or end
            assert high is not None
            return self.between(low, high)
        if index.high is not None:
            return self.between(index.high, low)
        return end if index.low is None and end is not None else self.build.plus(low, self.build.number(1))

    def axis(self, node: nodes.Expression, number: int, extent: nodes.Expression | None, limits: Sequence[Limit] = ()) -> Axis:
        """The axis that is written there, one and the same each time."""
        return self.written.setdefault((id(node), number), Axis(extent, list(limits)))

    def between(self, low: nodes.Expression, high: nodes.Expression) -> nodes.Expression:
        if isinstance(high, nodes.Binary) and high.operator == "+" and same_text(high.left, low):
            return high.right
        if isinstance(high, nodes.IntLiteral) and isinstance(low, nodes.IntLiteral):
            return self.build.number(high.value - low.value)
        return self.build.binary("-", high, low)

    def learn(self, statements: Sequence[nodes.Statement], names: dict[str, Held]) -> None:
        """The shapes of all that is named, which assignments add to."""
        for statement in statements:
            match statement:
                case nodes.Let(pattern=nodes.BindingPattern(name=name), value=value, mutable=mutable) if value is not None:
                    shape = self.of(value, names)
                    known = names.get(name)
                    if mutable and known is not None and known.expression is None:
                        shape = self.common(known.shape, shape, value)
                    names[name] = Held(shape, None if mutable else value)
                case nodes.Assign(target=nodes.Name(name=name), value=value) if name in names:
                    names[name].shape = self.common(names[name].shape, self.of(value, names), value)
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

    def rank(self, name: str, otherwise: int) -> int:
        return len(self.dims[name]) if name in self.dims else otherwise

    def extent(self, name: str, axis: int) -> nodes.Expression:
        return extent_of(self.dims, name, axis, self.build.span)


def step_of(index: nodes.Slice) -> int:
    """The step of a slice, which is a number; 1 where none is written."""
    match index.step:
        case None:
            return 1
        case nodes.IntLiteral(value=value) if value != 0:
            return value
        case nodes.Unary(operator="-", operand=nodes.IntLiteral(value=value)) if value != 0:
            return -value
    raise fault("0203", f"the step of a slice is a number other than 0: it is `{words(index.step)}`", index.step.span)


def _is_one(node: nodes.Expression) -> bool:
    return isinstance(node, nodes.IntLiteral) and node.value == 1
