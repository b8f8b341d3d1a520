"""The options of each kernel kind, `@kernel(reduce, +, axis=1)`: which there are, what type they have, and how they are stored."""

from collections.abc import Callable

from compiler.diagnostics import Diagnostic, Label
from compiler.source import NOWHERE, Span
from compiler.typed_ast.kernel import KernelType
from compiler.typed_ast.nodes import Argument, Expression, Lambda, Name, OperatorValue
from compiler.typed_ast.suggest import did_you_mean
from runtime.records import frozen

REDUCE_OPERATORS = ("+", "*", "min", "max", "and", "or", "any", "all", "mean", "argmin", "argmax")
SCAN_OPERATORS = ("+", "*", "min", "max", "and", "or")
_SPELLINGS = {"sum": "+", "add": "+", "prod": "*", "product": "*", "mul": "*", "&&": "and", "||": "or", "average": "mean"}


@frozen
class Option:
    """`form`: "operator", "axes" (an int or several), "axis", "pair" (an int or one for each axis), "count", "bool". `least`
    bounds numbers from below."""

    name: str
    form: str
    positional: bool = False
    operators: tuple[str, ...] = ()
    least: int | None = None


_WINDOW = (Option("stride", "pair", least=1), Option("padding", "pair", least=0), Option("dilation", "pair", least=1))
OPTIONS: dict[KernelType, tuple[Option, ...]] = {
    KernelType.REDUCE: (Option("op", "operator", True, REDUCE_OPERATORS), Option("axis", "axes"), Option("keepdims", "bool")),
    KernelType.SCAN: (
        Option("op", "operator", True, SCAN_OPERATORS),
        Option("axis", "axis"),
        Option("exclusive", "bool"),
        Option("reverse", "bool"),
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
    kind: KernelType, arguments: tuple[Argument, ...], evaluate: Evaluate, span: Span
) -> tuple[tuple[tuple[str, object], ...], list[Diagnostic]]:
    """The options as stored in KernelMetadata: plain values where they are constants, else the expression; and the faults."""
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
        elif argument.name == "init" and kind is KernelType.REDUCE:
            faults.append(
                Diagnostic("0109", "`init=` of a reduction is valid, but not supported yet", where, hint="combine it with the result")
            )
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
        value = _read(option, kind, argument.value, evaluate)
        places[option.name] = where
        if isinstance(value, Diagnostic):
            faults.append(value)
        else:
            found[option.name] = value
    return tuple(found.items()), faults


def _read(option: Option, kind: KernelType, node: Expression, evaluate: Evaluate) -> object:
    """The option's value, or what is wrong with it."""
    if option.form == "operator":
        return _operator(option, kind, node)
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


def _operator(option: Option, kind: KernelType, node: Expression) -> object:
    match node:
        case OperatorValue(operator=word) | Name(name=word):
            word = {"&&": "and", "||": "or"}.get(word, word)
            if word in option.operators:
                return word
            spelt = _SPELLINGS.get(word)
            if spelt is None:
                near = did_you_mean(word, [o for o in option.operators if o.isalpha()])
            else:
                near = f"write `{spelt}`"
            hint = near or "operators are " + ", ".join(f"`{o}`" for o in option.operators)
            return Diagnostic("0203", f"`@kernel({kind.value})` has no operator `{word}`", node.span, hint=hint)
        case Lambda():
            return Diagnostic(
                "0109",
                "a function as the operator of a kernel is valid, but not supported yet",
                node.span,
                hint="operators are " + ", ".join(f"`{o}`" for o in option.operators),
            )
    return Diagnostic(
        "0203",
        f"the operator of `@kernel({kind.value})` is a name or a sign",
        node.span,
        hint="operators are " + ", ".join(f"`{o}`" for o in option.operators),
    )
