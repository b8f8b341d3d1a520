"""`value as T`: conversions that a program asks for, which may lose something."""

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.conversions import is_silent
from compiler.typed_ast.requirements import AWAIT_HINT, report_optional
from compiler.typed_ast.rules import abstract_types
from compiler.typed_ast.rules.bounds import meets
from compiler.typed_ast.rules.literals import is_weak, known_int, place_of_operand, settled
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.types import NONE, FutureType, OptionType, Scalar, Type

_I64 = range(-(1 << 63), 1 << 63)


@CORE.infers(nodes.Cast)
def cast(checker: Checker, node: nodes.Cast, scope: Scope, expected: Type | None, used: bool) -> Type:
    checker.findings.rewrites.pop(id(node), None)
    target = checker.resolve(node.target, scope)
    found = checker.infer(node.value, scope, place_of_operand(node.value))
    if is_weak(found):
        large = (known_int(checker, node.value) or 0) not in _I64
        found = checker.findings.types[id(node.value)] = settled(checker, node.value, found, target if large else None)
    if is_silent(found) or is_silent(target) or takes_target(checker, node.value, scope):
        return target
    if isinstance(target, OptionType):
        return _in_optional(checker, node, found, target, scope)
    if isinstance(found, OptionType) and not isinstance(target, OptionType):
        return report_optional(checker, found, node.value.span)
    if isinstance(found, FutureType) and not isinstance(target, FutureType):
        shown = checker.show(found)
        message = f"only the value of a future becomes {checker.show(target)}, and this is {shown}"
        return checker.report("0203", message, node.value.span, f"this is {shown}", hint=AWAIT_HINT)
    if isinstance(target, Scalar) and (isinstance(found, Scalar) or meets(found, "Number")):
        return target
    abstract = abstract_types.cast(checker, node, found, target)
    if abstract is not None:
        return abstract
    kinds = checker.kind(found), checker.kind(target)
    for kind in kinds:
        made = kind.cast(checker, found, target) if kind.cast is not None else None
        if made is not None:
            return made
    message = f"`as` doesn't turn a `{checker.show(found)}` into a `{checker.show(target)}`"
    return checker.report("0203", message, node.span, hint=next((kind.cast_hint for kind in kinds if kind.cast_hint), None))


def _in_optional(checker: Checker, node: nodes.Cast, type_: Type, target: OptionType, scope: Scope) -> Type:
    """`e as T?` is `Some(e as T)`; of an optional `e`, it stays one."""
    inner = nodes.KnownTypeSyntax(type=target.value, span=node.target.span)
    value, made = node.value, node.span
    if type_ in (target, NONE):
        checker.findings.types[id(value)] = target
        checker.findings.rewrites[id(node)] = value
        return target
    if isinstance(type_, OptionType):
        name = nodes.Name(name=f"·value {made.start}", span=made)
        function = nodes.Lambda(
            parameters=(nodes.Parameter(name=name.name, span=made),), body=nodes.Cast(value=name, target=inner, span=made), span=made
        )
        call = nodes.Call(
            function=nodes.Field(value=value, name="map", span=made), arguments=(nodes.Argument(value=function, span=made),), span=made
        )
    else:
        cast_ = nodes.Cast(value=value, target=inner, span=made)
        call = nodes.Call(
            function=nodes.Name(name=checker.meaning.some, span=made), arguments=(nodes.Argument(value=cast_, span=made),), span=made
        )
    checker.kept.append(call)
    checker.infer(call, scope, target)
    checker.findings.rewrites[id(node)] = call
    return target


def takes_target(checker: Checker, node: nodes.Expression, scope: Scope) -> bool:
    """Whether it calls a function of the library that makes its value of the type behind `as`: `load(path) as T`."""
    match node:
        case nodes.Call(function=nodes.Name(name=name)) if scope.find(name) is None:
            function = checker.library.functions.get(name)
        case nodes.Call(function=nodes.Path(segments=("extern", name))):
            function = checker.library.functions.get(name)
        case _:
            return False
    return function is not None and function.takes_target
