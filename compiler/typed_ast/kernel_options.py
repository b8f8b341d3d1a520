"""The options of each kernel kind, `@kernel(reduce, +, axis=1)`: which there are, what type they have, and how they are stored."""

from collections.abc import Callable, Container

from compiler.diagnostics import Diagnostic, Label
from compiler.source import NOWHERE, Span
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.nodes import Argument, Expression, Lambda, Name, OperatorValue, TupleLiteral
from compiler.typed_ast.suggest import did_you_mean
from runtime.records import evolve, frozen

REDUCE_OPERATORS = ("+", "*", "min", "max", "and", "or", "any", "all", "mean", "argmin", "argmax")
SCAN_OPERATORS = ("+", "*", "min", "max", "and", "or")
_SPELLINGS = {"sum": "+", "add": "+", "prod": "*", "product": "*", "mul": "*", "&&": "and", "||": "or", "average": "mean"}


@frozen
class Option:
    """`form`: "operator", "axes" (an int or several), "axis", "pair" (an int or one for each axis), "count", "bool", "value" (any
    expression). `least` bounds numbers from below."""

    name: str
    form: str
    positional: bool = False
    operators: tuple[str, ...] = ()
    least: int | None = None


_WINDOW = (Option("stride", "pair", least=1), Option("padding", "pair", least=0), Option("dilation", "pair", least=1))
OPTIONS: dict[KernelType, tuple[Option, ...]] = {
    KernelType.REDUCE: (
        Option("op", "operator", True, REDUCE_OPERATORS),
        Option("axis", "axes"),
        Option("keepdims", "bool"),
        Option("init", "value"),
    ),
    KernelType.SCAN: (
        Option("op", "operator", True, SCAN_OPERATORS),
        Option("axis", "axis"),
        Option("exclusive", "bool"),
        Option("reverse", "bool"),
        Option("init", "value"),
    ),
    KernelType.SORT: (Option("axis", "axis"), Option("descending", "bool")),
    KernelType.CONV2D: (*_WINDOW, Option("groups", "count", least=1)),
    KernelType.CONV2D_DEPTHWISE: _WINDOW,
    KernelType.ATTENTION: (Option("causal", "bool"),),
    KernelType.FLASH_ATTENTION: (Option("causal", "bool"),),
}

Evaluate = Callable[[Expression], object]


def signature(kind: KernelType) -> str:
    """`@kernel(reduce, op, axis=, keepdims=)`."""
    shown = [option.name if option.positional else f"{option.name}=" for option in OPTIONS.get(kind, ())]
    return f"@kernel({', '.join([kind.value, *shown])})"


def read_options(
    kind: KernelType, arguments: tuple[Argument, ...], evaluate: Evaluate, span: Span, functions: Container[str] = ()
) -> tuple[tuple[tuple[str, object], ...], list[Diagnostic]]:
    """The options as stored in KernelMetadata: plain values where they are constants, else the expression; and the faults. `functions` are
    those of the program, which may be operators."""
    options = OPTIONS.get(kind, ())
    by_name = {option.name: option for option in options}
    positional = iter(option for option in options if option.positional)
    found: dict[str, object] = {}
    places: dict[str, Span] = {}
    faults: list[Diagnostic] = []
    for argument in arguments:
        where = argument.value.span if argument.span == NOWHERE else argument.span
        if argument.name is None:
            option = next(positional, None)
            if option is None:
                hint = f"its form is `{signature(kind)}`"
                faults.append(Diagnostic("0204", f"`@kernel({kind.value})` has no place for this argument", where, hint=hint))
                continue
        elif argument.name not in by_name:
            hint = did_you_mean(argument.name, by_name) or f"its form is `{signature(kind)}`"
            faults.append(Diagnostic("0204", f"`@kernel({kind.value})` has no option `{argument.name}`", where, hint=hint))
            continue
        else:
            option = by_name[argument.name]
        if option.name in found:
            others = (Label(places[option.name], "first given here"),)
            faults.append(Diagnostic("0204", f"option `{option.name}` is given twice", where, "", others))
            continue
        value = _read(option, kind, argument.value, evaluate, functions)
        places[option.name] = where
        if isinstance(value, Diagnostic):
            faults.append(value)
        else:
            found[option.name] = value
    faults += _start_faults(kind, found, places)
    return tuple(found.items()), faults


def _start_faults(kind: KernelType, found: dict[str, object], places: dict[str, Span]) -> list[Diagnostic]:
    """A function says nothing of what a reduction of nothing is, and some operators start with nothing else than their own."""
    operator = found.get("op", "+")
    if isinstance(operator, Expression) and "init" not in found:
        message = f"a function as the operator of `@kernel({kind.value})` needs `init=`, what it starts with"
        return [Diagnostic("0204", message, places["op"], hint="write `@kernel(reduce, def(a, b): a + b, init=0.0)`")]
    words = operator if isinstance(operator, tuple) else (operator,)
    without = next((word for word in words if word in ("mean", "argmin", "argmax")), None)
    if without is not None and "init" in found:
        return [Diagnostic("0204", f"`@kernel({kind.value}, {without})` has no `init=`", places["init"], hint="leave it out")]
    return []


def _read(option: Option, kind: KernelType, node: Expression, evaluate: Evaluate, functions: Container[str]) -> object:
    """The option's value, or what is wrong with it."""
    if option.form == "value":
        return node
    if option.form == "operator":
        return _operator(option, kind, node, functions)
    value = evaluate(node)
    if value is None:
        return _symbolic(option, node)
    if isinstance(value, list):
        value = tuple(value)
    match option.form:
        case "bool":
            good, wanted = isinstance(value, bool), "`true` or `false`"
        case "axes":
            good, wanted = _all_ints(value), "an int or a tuple of ints"
        case "pair":
            good, wanted = _all_ints(value) and (not isinstance(value, tuple) or len(value) == 2), "an int or a tuple of two"
        case _:
            good, wanted = type(value) is int, "an int"
    if not good:
        return Diagnostic("0203", f"option `{option.name}` of `@kernel({kind.value})` is {wanted}", node.span)
    if option.least is not None:
        numbers = value if isinstance(value, tuple) else (value,)
        lowest = min(n for n in numbers if isinstance(n, int))
        if lowest < option.least:
            return Diagnostic(
                "0203", f"option `{option.name}` of `@kernel({kind.value})` is at least {option.least}, not {lowest}", node.span
            )
    return value


def _symbolic(option: Option, node: Expression) -> object:
    if option.form in ("pair", "count") or isinstance(node, Name):
        return node
    return Diagnostic("0203", f"option `{option.name}` is a constant", node.span, hint="write a number, or `true` or `false`")


def _all_ints(value: object) -> bool:
    return type(value) is int or (isinstance(value, tuple) and bool(value) and all(type(v) is int for v in value))


def _spelt(node: Expression) -> Expression:
    """In a tuple `+` and `*` are written `sum` and `prod`."""
    return evolve(node, name=_SPELLINGS[node.name]) if isinstance(node, Name) and node.name in ("sum", "prod") else node


def _operator(option: Option, kind: KernelType, node: Expression, functions: Container[str]) -> object:
    match node:
        case TupleLiteral(elements=elements) if kind is KernelType.REDUCE and elements:
            single = evolve(option, operators=tuple(word for word in option.operators if not word.startswith("arg")))
            words = [_operator(single, kind, _spelt(element), ()) for element in elements]
            return next((word for word in words if isinstance(word, Diagnostic)), tuple(words))
        case OperatorValue(operator=word) | Name(name=word):
            word = {"&&": "and", "||": "or"}.get(word, word)
            if word in option.operators:
                return word
            spelt = _SPELLINGS.get(word)
            if isinstance(node, Name) and word in functions:
                return node
            if spelt is None:
                near = did_you_mean(word, [o for o in option.operators if o.isalpha()])
            else:
                near = f"write `{spelt}`"
            hint = near or "operators are " + ", ".join(f"`{o}`" for o in option.operators)
            return Diagnostic("0203", f"`@kernel({kind.value})` has no operator `{word}`", node.span, hint=hint)
        case Lambda(parameters=parameters):
            if len(parameters) == 2:
                return node
            message = f"the operator of `@kernel({kind.value})` takes two values, and this function takes {len(parameters)}"
            return Diagnostic("0204", message, node.span, hint="write `def(a, b): ...`")
    return Diagnostic(
        "0203",
        f"the operator of `@kernel({kind.value})` is a name or a sign",
        node.span,
        hint="operators are " + ", ".join(f"`{o}`" for o in option.operators),
    )
