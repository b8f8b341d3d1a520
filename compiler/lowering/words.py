"""Expressions in the program's own words, for messages: the tree printed back in one short line. No formatter: layout and
comments are lost, and what has no short form is shown as `...`."""

from compiler.typed_ast import nodes

_LONGEST = 60


def words(node: nodes.Node) -> str:
    """The expression as it could stand in a program, cut where it grows long."""
    text = _text(node, 0)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _text(node: nodes.Node, depth: int) -> str:
    if depth > 12:
        return "..."

    def inner(part: nodes.Node) -> str:
        return _text(part, depth + 1)

    match node:
        case nodes.IntLiteral(value=value, suffix=suffix):
            return f"{value}{suffix or ''}"
        case nodes.FloatLiteral(value=value, suffix=suffix):
            return f"{value!r}{suffix or ''}"
        case nodes.BoolLiteral(value=value):
            return "true" if value else "false"
        case nodes.StringLiteral(value=value):
            return f'"{value}"'
        case nodes.Name(name=name):
            return name
        case nodes.Path(segments=segments):
            return "::".join(segments)
        case nodes.Field(value=value, name=name):
            return f"{inner(value)}.{name}"
        case nodes.Index(value=value, indices=indices):
            return f"{inner(value)}[{', '.join(map(inner, indices))}]"
        case nodes.Slice(low=low, high=high):
            return f"{inner(low) if low else ''}:{inner(high) if high else ''}"
        case nodes.Call(function=function, arguments=arguments):
            return f"{inner(function)}({', '.join((f'{a.name}=' if a.name else '') + inner(a.value) for a in arguments)})"
        case nodes.Unary(operator=operator, operand=operand):
            return f"{operator}{' ' if operator.isalpha() else ''}{_operand(operand, depth)}"
        case nodes.Binary(operator=operator, left=left, right=right):
            behind = _operand(right, depth)
            if isinstance(right, nodes.Binary) and _PRECEDENCE.get(right.operator) == _PRECEDENCE.get(operator) == _PRODUCT:
                behind = f"({behind})"
            return f"{_operand(left, depth)} {operator} {behind}"
        case nodes.TupleLiteral(elements=elements):
            return f"({', '.join(map(inner, elements))})"
        case nodes.ListLiteral(elements=elements):
            return f"[{', '.join(map(inner, elements))}]"
        case nodes.Repeat(element=element, count=count):
            return f"[{inner(element)}; {inner(count)}]"
        case nodes.Range(low=low, high=high, step=step, inclusive=inclusive):
            return f"{inner(low)}..{'=' if inclusive else ''}{inner(high)}{f' step {inner(step)}' if step else ''}"
        case nodes.Conditional(condition=condition, then=then, otherwise=otherwise):
            return f"{inner(condition)} ? {inner(then)} : {inner(otherwise)}"
        case nodes.Cast(value=value, target=nodes.NamedTypeSyntax(name=name)):
            whole = isinstance(value, nodes.Binary | nodes.Unary | nodes.Conditional)
            return f"{f'({inner(value)})' if whole else inner(value)} as {name}"
        case _:
            return "..."


_PRODUCT = 7
_PRECEDENCE = {
    "or": 1,
    "and": 2,
    "==": 4,
    "!=": 4,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "<<": 5,
    ">>": 5,
    "+": 6,
    "-": 6,
    "*": _PRODUCT,
    "/": _PRODUCT,
    "%": _PRODUCT,
    "@": _PRODUCT,
    "**": 9,
}


def _operand(node: nodes.Node, depth: int) -> str:
    text = _text(node, depth + 1)
    if isinstance(node, nodes.Binary) and _PRECEDENCE.get(node.operator, 0) < _PRODUCT:
        return f"({text})"
    return f"({text})" if isinstance(node, nodes.Conditional) else text


def dotted(node: nodes.Expression) -> str | None:
    """`w.proj` as the name of an input, None for other expressions."""
    if isinstance(node, nodes.Name):
        return node.name
    if isinstance(node, nodes.Field):
        inner = dotted(node.value)
        return None if inner is None else f"{inner}.{node.name}"
    return None
