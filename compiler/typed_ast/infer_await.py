"""`await`: of one future its value, of a tuple of futures and of `all` every value, of `any` which is there first and its value; within a
time or else."""

from compiler.diagnostics import Label
from compiler.typed_ast.checker import Checker, infers
from compiler.typed_ast.constants import duration
from compiler.typed_ast.conversions import clash, is_silent, join
from compiler.typed_ast.duration import DURATION
from compiler.typed_ast.nodes import Await, Awaited, Expression
from compiler.typed_ast.rules.placing import placed
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import ERROR, I64, UNKNOWN, FutureType, ListType, Scalar, StructType, TupleType, Type
from runtime.records import evolve


@infers(Await)
def awaited(checker: Checker, node: Await, scope: Scope, expected: Type | None, used: bool) -> Type:
    found = [checker.infer(future, scope) for future in node.futures]
    if node.timeout is not None and duration(node.timeout) is None and not _is_duration(checker, node.timeout, scope):
        message = "the limit of `timeout` is a duration"
        checker.report("0203", message, node.timeout.span, hint="write a number and a unit, one of ns us ms s m h d: `500ms`")
    if node.which is Awaited.ONE and isinstance(found[0], TupleType) and _holds_futures(found[0]):
        # both sides of `f & g`
        every = checker.findings.rewrites[id(node)] = evolve(node, which=Awaited.ALL)
        checker.kept += [node, every]
        checker.findings.types[id(every)] = value = _values(checker, every, found)
    elif node.which is Awaited.ONE:
        value = _value(checker, found[0], node.futures[0], node.which)
    else:
        value = _values(checker, node, found)
    return value if node.otherwise is None else _or_else(checker, node, node.otherwise, value, scope)


def _is_duration(checker: Checker, node: Expression, scope: Scope) -> bool:
    type_ = checker.infer(node, scope)
    return is_silent(type_) or type_ == StructType(DURATION)


def _value(checker: Checker, type_: Type, node: Expression, which: Awaited) -> Type:
    """The value of one future; 0203 for what is none."""
    if isinstance(type_, FutureType):
        return type_.value
    if is_silent(type_):
        return ERROR if type_ == ERROR else UNKNOWN
    word, hint = "`await`", "leave `await` out: the value is there"
    if which is not Awaited.ONE:
        word, hint = f"`await {which.value}`", "name futures only"
    elif _holds_futures(type_):
        hint = "`await all(...)` waits for every one, `await any(...)` for the first"
    return checker.report("0203", f"{word} takes a future, not {type_}", node.span, f"this is {type_}", hint=hint)


def _holds_futures(type_: Type) -> bool:
    match type_:
        case ListType(element=element):
            return isinstance(element, FutureType)
        case TupleType(elements=elements):
            return all(isinstance(element, FutureType) for element in elements)
    return False


def _values(checker: Checker, node: Await, found: list[Type]) -> Type:
    """A list for a list of futures, a tuple for a tuple and for several arguments; `any` gives a position and one of the values."""
    word = f"await {node.which.value}"
    if not found:
        message = f"`{word}()` names no future"
        return checker.report("0204", message, node.span, hint=f"give it a list, or several: `{word}(f, g)`")
    if len(found) > 1:
        parts = [_value(checker, each, future, node.which) for each, future in zip(found, node.futures, strict=True)]
        return _outcome(node.which, TupleType(tuple(parts)))
    only = found[0]
    match only:
        case ListType(element=element):
            if isinstance(element, FutureType) or is_silent(element):
                return _outcome(node.which, ListType(element.value if isinstance(element, FutureType) else UNKNOWN))
        case TupleType(elements=elements):
            if all(isinstance(element, FutureType) or is_silent(element) for element in elements):
                parts = [element.value if isinstance(element, FutureType) else UNKNOWN for element in elements]
                return _outcome(node.which, TupleType(tuple(parts)))
    if is_silent(only):
        return ERROR if only == ERROR else UNKNOWN
    hint = "`await f` waits for one future" if isinstance(only, FutureType) else None
    message = f"`{word}` takes a list of futures, or several, not {only}"
    return checker.report("0203", message, node.futures[0].span, f"this is {only}", hint=hint)


def _outcome(which: Awaited, values: ListType | TupleType) -> Type:
    parts = (values.element,) if isinstance(values, ListType) else values.elements
    if ERROR in parts:
        return ERROR
    if which is Awaited.ALL:
        return values
    value = parts[0]
    for part in parts[1:]:
        value = join(value, part)
    return TupleType((I64, value))


def _or_else(checker: Checker, node: Await, otherwise: Expression, value: Type, scope: Scope) -> Type:
    """Numbers behind `else` become what the future's are; else both sides must have a type in common."""
    if isinstance(value, Scalar):
        placed(checker, otherwise, scope, value, "the value after `else`", Label(node.futures[0].span, f"the value is {value}"))
        return value
    instead = checker.infer(otherwise, scope, value)
    if clash(value, instead):
        return checker.report(
            "0203",
            f"`else` gives what the future gives: expected {value}, found {instead}",
            otherwise.span,
            f"this is {instead}",
            (Label(node.futures[0].span, f"the value is {value}"),),
        )
    return join(value, instead)
