"""Loops whose bound is known when the program is compiled: `for i in 0..n` where n is a constant, a `param`, a number of a narrow type, or
is held by `min` with one of those; a `for` over an array or a ring; `while c max n`."""

from collections.abc import Iterator, Mapping

from compiler.analysis.code_promises import Annotated
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.types import ArrayType, DType, Scalar
from compiler.typed_ast.walk import walk
from quantdsl import nodes as quant
from quantdsl import types as qt
from runtime.records import Factory, define

_NARROW = (DType.I8, DType.U8, DType.I16, DType.U16, DType.BOOL)
_UNSIGNED = (DType.U32, DType.U64)


def unbounded_loops(
    declaration: Annotated, constants: Mapping[str, bool]
) -> Iterator[tuple[str, Span, str]]:
    """The loops of a body without a known bound: words that follow the function's name, the place, and what to do. `constants`: names of
    constants and parameters, and whether they are surely not negative."""
    body = declaration.body
    if body is None:
        return
    parameters = getattr(declaration, "parameters", ())
    known = _Bounded(constants, tuple(p.name for p in parameters if isinstance(p.annotation, nodes.ConstantTypeSyntax)))
    known.read(body, tuple(p.name for p in parameters if not isinstance(p.annotation, nodes.ConstantTypeSyntax)))
    for node in walk(body):
        match node:
            case nodes.While(bound=None):
                span = Span(node.span.path, node.span.start, node.condition.span.end)
                yield "has a `while` without `max`", span, "add `max n`: the program stops when the condition holds more often"
            case nodes.While(bound=bound) if bound is not None and not known.bounded(bound):
                yield "has a `while` whose `max` isn't constant", bound.span, "let `max` be a constant or a `param`"
            case nodes.For(clauses=clauses):
                for clause in clauses:
                    if not known.finite(clause.source):
                        hint = "let the range end at a constant, a `param`, or `min(n, 64)`"
                        yield "has a `for` whose range has no constant bound", clause.source.span, hint
            case _:
                pass


@define
class _Bounded:
    """Names whose values don't exceed some constant (`names[False]`), and don't fall below one (`names[True]`). A name that stands for
    several things is known where all of them are."""

    constants: Mapping[str, bool]
    parameters: tuple[str, ...]
    names: dict[bool, frozenset[str]] = Factory(dict)

    def read(self, body: nodes.Node, unknown: tuple[str, ...]) -> None:
        """Find what the names of a body stand for; those of its other parameters are unknown."""
        bound = _bound_names(body)
        self.names = dict.fromkeys((False, True), frozenset({*self.constants, *self.parameters}) - {*unknown, *bound})
        while more := [
            (side, name)
            for name, values in bound.items()
            for side in (False, True)
            if name not in {*self.names[side], *unknown} and all(v is not None and self._held(v, side) for v in values)
        ]:  # one `let` may follow from another
            for side, name in more:
                self.names[side] |= {name}

    def _held(self, value: nodes.Expression, above: bool) -> bool:
        if isinstance(value, nodes.Range):
            return self._side(value.low if above else value.high, above)
        return self._side(value, above)

    def finite(self, source: nodes.Expression) -> bool:
        """Whether a `for` over it ends after a constant number of turns."""
        if not isinstance(source, nodes.Range):
            return isinstance(source.type, ArrayType | qt.Container)
        return self.below(source.high) and self.above(source.low)

    def bounded(self, value: nodes.Expression) -> bool:
        return self.below(value) and self.above(value)

    def below(self, value: nodes.Expression) -> bool:
        """Whether a constant is known that it doesn't exceed."""
        return self._side(value, above=False)

    def above(self, value: nodes.Expression) -> bool:
        return self._side(value, above=True)

    def _side(self, value: nodes.Expression, above: bool) -> bool:
        if isinstance(value.type, Scalar) and (value.type.dtype in _NARROW or (above and value.type.dtype in _UNSIGNED)):
            return True
        match value:
            case nodes.IntLiteral():
                return True
            case nodes.Name(name=name):
                return name in self.names[above]
            case nodes.Field(name="len"):
                return True
            case nodes.Cast(value=inner):
                return self._side(inner, above)
            case nodes.Unary(operator="-", operand=inner):
                return self._side(inner, not above)
            case nodes.Binary(operator="+", left=left, right=right):
                return self._side(left, above) and self._side(right, above)
            case nodes.Binary(operator="-", left=left, right=right):
                return self._side(left, above) and self._side(right, not above)
            case nodes.Binary(operator="*" | "/", left=left, right=right) if self._natural(right):
                return self._side(left, above)
            case nodes.Binary(operator="*" | "/", left=left, right=right):
                return self.bounded(left) and self.bounded(right)
            case nodes.Binary(operator="%", right=right):
                return self.bounded(right)
            case nodes.Call(function=nodes.Name(name="min" | "max" as name), arguments=arguments):
                held = [self._side(argument.value, above) for argument in arguments]
                return any(held) if (name == "max") == above else all(held)
            case nodes.If(then=then, otherwise=otherwise) if otherwise is not None:
                return all(self._last(branch, above) for branch in (then, otherwise))
            case _:
                return False

    def _natural(self, value: nodes.Expression) -> bool:
        """Whether it is a constant from 0 on."""
        match value:
            case nodes.IntLiteral():
                return True
            case nodes.Name(name=name):
                return name in self.names[True] and self.constants.get(name, False)
            case _:
                return False

    def _last(self, branch: nodes.Expression, above: bool) -> bool:
        match branch:
            case nodes.Block(statements=(nodes.ExpressionStatement(value=value),)):
                return self._side(value, above)
            case nodes.Block():
                return False
            case _:
                return self._side(branch, above)


def _bound_names(body: nodes.Node) -> dict[str, list[nodes.Expression | None]]:
    """The names that a body declares, each with all that it stands for: the value of a `let`, the range of a loop, None for all else."""
    values: dict[str, list[nodes.Expression | None]] = {}
    done: set[int] = set()
    for node in walk(body):
        match node:
            case nodes.Let(mutable=False, pattern=nodes.BindingPattern(name=name) as pattern, value=value):
                values.setdefault(name, []).append(value)
                done.add(id(pattern))
            case nodes.For(clauses=clauses):
                for clause in clauses:
                    ranged = len(clause.names) == 1 and isinstance(clause.source, nodes.Range)
                    for name in clause.names:
                        values.setdefault(name, []).append(clause.source if ranged else None)
            case nodes.BindingPattern(name=name) if id(node) not in done:
                values.setdefault(name, []).append(None)
            case quant.State(name=name):
                values.setdefault(name, []).append(None)
            case _:
                pass
    return values
