"""The builder of typed trees: one function a construct. Names, texts and numbers may be tokens of the program, or strings and numbers of
Python's. What a function builds stands where its parts stand; what has none, where the rule stands whose action builds it."""

import re
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

from compiler.authoring.tokens import TextToken
from compiler.source import NOWHERE, Span
from compiler.typed_ast import nodes

RULE: ContextVar[Span] = ContextVar("RULE", default=NOWHERE)
"""Where the rule stands whose action is at work."""

_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f"}
_NUMBER = re.compile(r"([+-]?)([0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|0[xX][0-9A-Fa-f_]+)")

Value = nodes.Expression | TextToken | str | int | float | bool


def place(*parts: Any) -> Span:
    """From the first part that stands in the program to the last."""
    spans = [part.span for part in parts if isinstance(part, nodes.Node | TextToken) and part.span is not NOWHERE and part.span != NOWHERE]
    here = RULE.get()
    spans = [span for span in spans if span.path == here.path] or spans
    if not spans:
        return here
    return Span(spans[0].path, min(span.start for span in spans), max(span.end for span in spans))


def value(given: Value) -> nodes.Expression:
    """An expression as it is; a string of Python's or a token as a name; a number or bool of Python's as a literal."""
    if isinstance(given, nodes.Expression):
        return given
    if isinstance(given, str):
        return name(given)
    return boolean(given) if isinstance(given, bool) else number(given)


# ---- values ---------------------------------------------------------------------------------------------------------------


def name(text: str) -> nodes.Expression:
    return nodes.Name(name=str(text), span=place(text))


def text(given: str) -> nodes.Expression:
    """A text. Of a token in quotes its inside, with the escapes of JSON and Python resolved."""
    found = str(given)
    if isinstance(given, TextToken) and len(found) > 1 and found[0] in "\"'" and found[-1] == found[0]:
        found = _ESCAPE.sub(_unescaped, found[1:-1])
    return nodes.StringLiteral(value=found, span=place(given))


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _ESCAPES.get(match[3], match[3])


def number(given: str | int | float, dtype: str | None = None) -> nodes.Expression:
    """A number: of a token, or of Python's. `dtype`: as a suffix says it (`f32`, `u8`); an int with one of floats is a float."""
    found = _NUMBER.fullmatch(str(given) if isinstance(given, str) else repr(given))
    if found is None:
        raise ValueError(f"{str(given)!r} is no number")
    span, digits = place(given), found[2].replace("_", "")
    is_whole = not re.search(r"[.eE]", digits) or digits[:2] in ("0x", "0X")
    literal: nodes.Expression
    if is_whole and not (dtype or "").startswith(("f", "bf")):
        amount = int(digits, 0) if digits[:2] in ("0x", "0X") else int(digits)
        if found[1] == "-" and dtype is not None:
            return nodes.IntLiteral(value=-amount, suffix=dtype, span=span)
        literal = nodes.IntLiteral(value=amount, suffix=dtype, span=span)
    else:
        literal = nodes.FloatLiteral(value=float(digits), suffix=dtype, span=span)
    return nodes.Unary(operator="-", operand=literal, span=span) if found[1] == "-" else literal


def boolean(given: str | bool) -> nodes.Expression:
    """Of a token: whether it is `true`."""
    return nodes.BoolLiteral(value=given if isinstance(given, bool) else str(given) == "true", span=place(given))


def elements(*given: Value) -> nodes.Expression:
    """A list."""
    made = tuple(map(value, given))
    return nodes.ListLiteral(elements=made, span=place(*made))


def together(*given: Value) -> nodes.Expression:
    """A tuple."""
    made = tuple(map(value, given))
    return nodes.TupleLiteral(elements=made, span=place(*made))


def call(function: Value, *arguments: Value, **named: Value) -> nodes.Expression:
    """`function(arguments, name=value)`."""
    callee = value(function)
    made = [nodes.Argument(value=one, span=one.span) for one in map(value, arguments)]
    made += [nodes.Argument(value=one, name=key, span=one.span) for key, one in ((key, value(given)) for key, given in named.items())]
    return nodes.Call(function=callee, arguments=tuple(made), span=place(function, callee, *made))


def method(receiver: Value, called: str, *arguments: Value, **named: Value) -> nodes.Expression:
    """`receiver.called(arguments)`."""
    return call(member(receiver, called), *arguments, **named)


def member(of: Value, called: str) -> nodes.Expression:
    """`of.called`."""
    owner = value(of)
    return nodes.Field(value=owner, name=str(called), span=place(owner, called))


def index(of: Value, *indices: Value) -> nodes.Expression:
    """`of[indices]`."""
    owner, made = value(of), tuple(map(value, indices))
    return nodes.Index(value=owner, indices=made, span=place(owner, *made))


def span_of(low: Value, high: Value, step: Value | None = None, *, inclusive: bool = False) -> nodes.Expression:
    """`low..high step step`."""
    first, last = value(low), value(high)
    by = value(step) if step is not None else None
    return nodes.Range(low=first, high=last, step=by, inclusive=inclusive, span=place(first, last, by))


def binary(operator: str, left: Value, right: Value) -> nodes.Expression:
    """`left operator right`, with an operator of ZynML."""
    first, second = value(left), value(right)
    where = operator.span if isinstance(operator, TextToken) else NOWHERE
    return nodes.Binary(operator=str(operator), left=first, right=second, operator_span=where, span=place(first, second))


def unary(operator: str, operand: Value) -> nodes.Expression:
    """`-operand` or `not operand`."""
    made = value(operand)
    return nodes.Unary(operator=str(operator), operand=made, span=place(operator, made))


def choose(condition: Value, then: Value, otherwise: Value) -> nodes.Expression:
    """`then if condition else otherwise`."""
    parts = value(condition), value(then), value(otherwise)
    return nodes.Conditional(condition=parts[0], then=parts[1], otherwise=parts[2], span=place(*parts))


# ---- statements -------------------------------------------------------------------------------------------------------------


def let(called: str, given: Value, *, mutable: bool = False) -> nodes.Statement:
    """`let called = given`. A name that is there already means this from here on."""
    made = value(given)
    pattern = nodes.BindingPattern(name=str(called), span=place(called))
    return nodes.Let(pattern=pattern, value=made, mutable=mutable, span=place(called, made))


def assign(target: Value, given: Value, operator: str | None = None) -> nodes.Statement:
    """`target = given`, or `target operator= given`."""
    into, made = value(target), value(given)
    return nodes.Assign(target=into, operator=operator, value=made, span=place(into, made))


def do(given: Value) -> nodes.Statement:
    """An expression for what it does."""
    made = value(given)
    return nodes.ExpressionStatement(value=made, span=made.span)


def block(*statements: Any) -> nodes.Block:
    """`{ statements }`."""
    made = tuple(flat(statements))
    return nodes.Block(statements=made, span=place(*made))


def when(condition: Value, then: Any, otherwise: Any = None) -> nodes.Statement:
    """`if condition { then } else { otherwise }`; each of both a statement, or several."""
    asked, first = value(condition), block(then)
    second = block(otherwise) if otherwise is not None else None
    return do(nodes.If(condition=asked, then=first, otherwise=second, span=place(asked, first, second)))


def loop(called: str, source: Value, *body: Any) -> nodes.Statement:
    """`for called in source { body }`."""
    over, inside = value(source), block(*body)
    clause = nodes.ForClause(names=(str(called),), name_spans=(place(called),), source=over, span=place(called, over))
    return nodes.For(clauses=(clause,), body=inside, span=place(clause, inside))


def repeat(condition: Value, *body: Any) -> nodes.Statement:
    """`while condition { body }`."""
    asked, inside = value(condition), block(*body)
    return nodes.While(condition=asked, body=inside, span=place(asked, inside))


def give(given: Value | None = None) -> nodes.Statement:
    """`return given`."""
    made = value(given) if given is not None else None
    return nodes.Return(value=made, span=place(made))


def function(called: str, parameters: Iterable[str], *body: Any) -> nodes.Statement:
    """`def called(parameters) { body }`: a function of values of any type."""
    made, inside = tuple(nodes.Parameter(name=str(parameter), span=place(parameter)) for parameter in parameters), block(*body)
    return nodes.Function(name=str(called), name_span=place(called), parameters=made, body=inside, span=place(called, *made, inside))


def test(title: str, *body: Any) -> nodes.Statement:
    """`test "title" { body }`."""
    inside = block(*body)
    literal = text(title)
    assert isinstance(literal, nodes.StringLiteral)
    return nodes.Test(name=literal.value, body=inside, span=place(title, inside))


def flat(given: Any) -> list[nodes.Statement]:
    """The statements that actions gave: one, several, or none. Raises TypeError for anything else."""
    if given is None:
        return []
    if isinstance(given, nodes.Statement):
        return [given]
    if isinstance(given, nodes.Block):
        return list(given.statements)
    if isinstance(given, nodes.Expression):
        return [do(given)]
    if isinstance(given, list | tuple):
        return [statement for one in given for statement in flat(one)]
    raise TypeError(f"a {type(given).__name__} stands where a statement is wanted: {str(given)[:40]!r}")
