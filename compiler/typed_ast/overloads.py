"""Operators, texts and indices by traits: `a + b` calls the `add` of `impl Add for A`, and `println(x)` shows what the `to_string` of
`impl Display for X` gives. The call stands for the node from then on."""

from collections.abc import Sequence

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import ZYNML_RULES, Checker
from compiler.typed_ast.conversions import fits, is_silent, strong
from compiler.typed_ast.operator_traits import BINARY, UNARY
from compiler.typed_ast.rules.calls import Receiver
from compiler.typed_ast.rules.parts import cases_of
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.signatures import parameter_type
from compiler.typed_ast.trait_impls import trait_name
from compiler.typed_ast.traits import bound_by, missing_impl
from compiler.typed_ast.type_arguments import is_open, substituted
from compiler.typed_ast.type_parts import inner_types
from compiler.typed_ast.types import (
    BOOL,
    ERROR,
    STRING,
    DictType,
    EnumType,
    FunctionType,
    FutureType,
    ListType,
    OptionType,
    Scalar,
    SetType,
    StructType,
    TensorType,
    TupleType,
    Type,
)
from compiler.typed_ast.walk import walk
from runtime.records import evolve

_OWN_TYPES = (StructType, EnumType)
_WITHOUT_RIGHT = {"unary -": "Neg", "for": "Iterator"}


def by_trait(
    checker: Checker, trait: str, method: str, subject: Type, given: Sequence[Type]
) -> tuple[str, nodes.Function] | None:
    """The method of an `impl` of a trait that takes a value and arguments of these types, with the name that it is declared under."""
    subject = strong(subject)
    if is_silent(subject):
        return None
    fitting: tuple[str, nodes.Function] | None = None
    for key, function in checker.declarations.methods(method).items():
        impl = checker.declarations.impl_of.get(id(function))
        if impl is None or trait_name(impl) != trait or len(function.parameters) != len(given) + 1:
            continue
        bound = bound_by(checker, impl, subject)
        if bound is None:
            continue
        names = {parameter.name for parameter in function.type_parameters}
        places = [substituted(parameter_type(checker, function, p, checker.top), bound, names) for p in function.parameters[1:]]
        if all(strong(one) == place for one, place in zip(given, places, strict=True)):
            return key, function
        if fitting is None and all(is_open(place, names) or fits(one, place) for one, place in zip(given, places, strict=True)):
            fitting = key, function
    return fitting


def _called(
    checker: Checker,
    node: nodes.Expression,
    meant: tuple[str, nodes.Function],
    receiver: Receiver,
    arguments: Sequence[nodes.Expression],
    scope: Scope,
    expected: Type | None,
) -> Type:
    """The type of the call of a method that stands for a node."""
    target = nodes.Field(value=receiver.node, name=meant[1].name, span=node.span)
    given = tuple(nodes.Argument(value=argument, span=argument.span) for argument in arguments)
    call = nodes.Call(function=target, arguments=given, span=node.span)
    checker.findings.rewrites[id(node)] = call
    checker.kept += (node, call)
    checker.findings.callees[id(call)] = meant[0]
    found = checker.meaning.rules.calls.call(checker, call, meant[1], receiver, scope, expected)
    checker.findings.types[id(call)] = found
    return found


def binary(checker: Checker, node: nodes.Binary, left: Type, right: Type, scope: Scope, expected: Type | None) -> Type | None:
    checker.findings.rewrites.pop(id(node), None)
    if not checker.declarations.impls or node.operator not in BINARY:
        return None
    trait, method = BINARY[node.operator]
    meant = by_trait(checker, trait, method, left, (right,))
    if meant is None:
        return None
    return _called(checker, node, meant, Receiver(node.left, strong(left)), (node.right,), scope, expected)


def unary(checker: Checker, node: nodes.Unary, actual: Type, scope: Scope, expected: Type | None) -> Type | None:
    checker.findings.rewrites.pop(id(node), None)
    if not checker.declarations.impls or node.operator not in UNARY:
        return None
    meant = by_trait(checker, *UNARY[node.operator], actual, ())
    return None if meant is None else _called(checker, node, meant, Receiver(node.operand, actual), (), scope, expected)


def index(checker: Checker, node: nodes.Index, subject: Type, scope: Scope, expected: Type | None) -> Type | None:
    checker.findings.rewrites.pop(id(node), None)
    if not checker.declarations.impls or any(isinstance(item, nodes.Slice | nodes.EllipsisIndex) for item in node.indices):
        return None
    if not any(trait_name(impl) == "Index" and bound_by(checker, impl, subject) is not None for impl in checker.declarations.impls):
        return None
    items: tuple[nodes.Expression, ...] = node.indices
    types = [checker.infer(item, scope) for item in items]
    if ERROR in types:
        return ERROR
    meant = by_trait(checker, "Index", "index", subject, types)
    if meant is None and len(items) > 1:
        whole = nodes.TupleLiteral(elements=items, span=items[0].span.to(items[-1].span))
        items, types = (whole,), [checker.infer(whole, scope)]
        meant = by_trait(checker, "Index", "index", subject, types)
    if meant is None:
        shown = " and ".join(checker.show(one) for one in types)
        message = f"`Index` of `{checker.show(subject)}` takes other indices than {shown}"
        hint = missing_impl(checker, subject, nodes.NamedTypeSyntax(name="Index"))
        return checker.report("0208", message, node.span, hint=hint)
    return _called(checker, node, meant, Receiver(node.value, subject), items, scope, expected)


def stored(checker: Checker, node: nodes.Assign, scope: Scope) -> bool | None:
    """`a[i] = v` as `a.index_mut(i, v)`, where the type of `a` implements `IndexMut`; `a[i] += v` reads by `Index` first."""
    checker.findings.rewrites.pop(id(node), None)
    target = node.target
    if not isinstance(target, nodes.Index) or any(isinstance(item, nodes.Slice | nodes.EllipsisIndex) for item in target.indices):
        return None
    if not any(trait_name(impl) == "IndexMut" for impl in checker.declarations.impls):
        return None
    subject = checker.infer(target.value, scope)
    if not any(trait_name(impl) == "IndexMut" and bound_by(checker, impl, subject) is not None for impl in checker.declarations.impls):
        return None
    checker.kept.append(node)
    span, lets, indices = node.span, list[nodes.Statement](), target.indices
    value = node.value
    if node.operator is not None:
        if any(isinstance(inside, nodes.Call) for inside in walk(target.value)):
            hint = "keep what is computed there in a variable"
            checker.later(f"`{node.operator}=` of a trait on a part whose place is computed by a call", target.span, hint)
            return True
        names = tuple(nodes.Name(name=f"·index {item.span.start}", span=item.span) for item in indices)
        for name, item in zip(names, indices, strict=True):
            lets.append(nodes.Let(pattern=nodes.BindingPattern(name=name.name, span=item.span), value=item, span=item.span))
        indices = names
        read = evolve(target, indices=tuple(map(evolve, names)))
        value = nodes.Binary(operator=node.operator, left=read, right=value, span=span)
    if len(indices) > 1 and not _takes(checker, subject, len(indices) + 1):
        indices = (nodes.TupleLiteral(elements=indices, span=indices[0].span.to(indices[-1].span)),)
    function = nodes.Field(value=target.value, name="index_mut", span=target.span)
    call = nodes.Call(function=function, arguments=tuple(nodes.Argument(value=one, span=one.span) for one in (*indices, value)), span=span)
    block = nodes.Block(statements=(*lets, nodes.ExpressionStatement(value=call, span=span)), span=span)
    checker.kept.append(block)
    checker.infer(block, scope, used=False)
    checker.findings.rewrites[id(node)] = nodes.ExpressionStatement(value=block, span=span)
    return True


def _takes(checker: Checker, subject: Type, count: int) -> bool:
    """Whether an `index_mut` of a type takes so many arguments."""
    impl_of = checker.declarations.impl_of
    methods = checker.declarations.methods("index_mut").values()
    fitting = [one for one in methods if id(one) in impl_of and bound_by(checker, impl_of[id(one)], strong(subject)) is not None]
    return any(len(one.parameters) == count + 1 for one in fitting)


def shown(checker: Checker, node: nodes.Expression, type_: Type, scope: Scope) -> nodes.Expression | None:
    """The text of a value whose type implements `Display`; None of others, which print as literals do."""
    meant = by_trait(checker, "Display", "to_string", type_, ()) if checker.declarations.impls else None
    if meant is None:
        if checker.declarations.impls:
            _shown_inside(checker, node, type_, scope, set())
        return None
    call = nodes.Call(function=nodes.Field(value=node, name=meant[1].name, span=node.span), span=node.span)
    checker.kept.append(call)
    checker.findings.callees[id(call)] = meant[0]
    checker.findings.types[id(call)] = checker.meaning.rules.calls.call(checker, call, meant[1], Receiver(node, type_), scope, STRING)
    return call


def _shown_inside(checker: Checker, node: nodes.Expression, type_: Type, scope: Scope, seen: set[Type]) -> None:
    """Has the functions made that show values of generic types inside of a value."""
    for inside in (*inner_types(type_), *(part for parts in (cases_of(checker, type_) or {}).values() for _, part in parts)):
        if inside not in seen:
            seen.add(inside)
            if isinstance(inside, _OWN_TYPES) and inside.arguments:
                shown(checker, nodes.Name(name="", span=node.span), inside, scope)
            _shown_inside(checker, node, inside, scope, seen)


def shown_arguments(checker: Checker, node: nodes.Call, scope: Scope) -> None:
    """Arguments of a function that prints as texts, where their types say how."""
    texts = [shown(checker, argument.value, checker.type_of(argument.value), scope) for argument in node.arguments]
    checker.findings.rewrites.pop(id(node), None)
    if any(text is not None for text in texts):
        arguments = [a if text is None else evolve(a, value=text) for a, text in zip(node.arguments, texts, strict=True)]
        call = evolve(node, arguments=tuple(arguments))
        checker.kept.append(call)
        checker.findings.types[id(call)] = checker.type_of(node)
        checker.findings.rewrites[id(node)] = call


def missing(checker: Checker, operator: str, left: Type, right: Type | None) -> str | None:
    """The `impl` to write for an operator that one of the program's types lacks."""
    trait = _WITHOUT_RIGHT[operator] if right is None else BINARY.get(operator, ("",))[0]
    whose = left if isinstance(left, _OWN_TYPES) else right
    if not trait or not isinstance(whose, _OWN_TYPES):
        return None
    other = () if right is None or left == right else (nodes.KnownTypeSyntax(type=strong(right)),)
    return missing_impl(checker, strong(left), nodes.NamedTypeSyntax(name=trait, arguments=other))


ZYNML_RULES.traits = evolve(ZYNML_RULES.traits, binary=binary, unary=unary, index=index, stored=stored, shown=shown, missing=missing)


# ---- methods of the traits that the language's own types have by nature ----------------------------------------------


_OPERATORS = {method: operator for operator, (_, method) in BINARY.items()}
_PLAIN = (Scalar, TupleType, OptionType, StructType, EnumType)
_COPIED = (ListType, DictType, SetType, TensorType)


def natural(checker: Checker, node: nodes.Call, target: nodes.Field, subject: Type, scope: Scope) -> Type | None:
    """A call of `add`, `cmp`, `to_string`, `clone` and the like on a value whose type has them without an `impl`; None of others."""
    value, arguments = target.value, [argument.value for argument in node.arguments]
    if any(argument.name is not None for argument in node.arguments) or isinstance(subject, FunctionType | FutureType):
        return None
    written: nodes.Expression | None = None
    span = node.span
    match target.name, arguments:
        case "to_string", []:
            written = nodes.FString(parts=(nodes.FStringPart(value=value, span=value.span),), span=span)
        case "clone", [] if isinstance(subject, _PLAIN) or subject == STRING:
            written = nodes.Block(statements=(nodes.ExpressionStatement(value=value, span=value.span),), span=span)
        case "neg", [] if isinstance(subject, Scalar | TensorType):
            written = nodes.Unary(operator="-", operand=value, span=span)
        case "cmp", [other] if subject == STRING or (isinstance(subject, Scalar) and subject != BOOL):
            written = _compared(value, other, nodes.Name(name="", span=span))
        case ("eq" | "ne") as name, [other]:
            written = nodes.Binary(operator=_OPERATORS[name], left=value, right=other, span=span)
        case name, [other] if name in _OPERATORS and (isinstance(subject, Scalar | TensorType) or subject == STRING):
            written = nodes.Binary(operator=_OPERATORS[name], left=value, right=other, span=span)
    if written is None:
        return None
    checker.kept.append(written)
    type_ = checker.infer(written, scope)
    checker.findings.rewrites[id(node)] = written
    return type_


def _compared(left: nodes.Expression, right: nodes.Expression, at: nodes.Expression) -> nodes.Expression:
    """-1, 0 or 1, of values that are computed once."""
    names = [nodes.Name(name=f"·{side}", span=at.span) for side in ("left", "right")]
    lets = [
        nodes.Let(pattern=nodes.BindingPattern(name=name.name, span=at.span), value=value, span=at.span)
        for name, value in zip(names, (left, right), strict=True)
    ]
    a, b = names

    def number(value: int) -> nodes.Expression:
        return nodes.IntLiteral(value=value, span=at.span)

    above = nodes.Binary(operator=">", left=evolve(a), right=evolve(b), span=at.span)
    more = nodes.Conditional(condition=above, then=number(1), otherwise=number(0), span=at.span)
    less = nodes.Conditional(
        condition=nodes.Binary(operator="<", left=a, right=b, span=at.span),
        then=nodes.Unary(operator="-", operand=number(1), span=at.span),
        otherwise=more,
        span=at.span,
    )
    return nodes.Block(statements=(*lets, nodes.ExpressionStatement(value=less, span=at.span)), span=at.span)


# ---- conversions -----------------------------------------------------------------------------------------------------


def into(checker: Checker, node: nodes.Call, target: nodes.Field, subject: Type, scope: Scope, expected: Type | None) -> Type | None:
    """`x.into()` is `W::from(x)`, where a `W` is wanted; None where no type can be made from others."""
    made = [impl for impl in checker.declarations.impls if trait_name(impl) == "From"]
    if target.name != "into" or node.arguments or not made:
        return None
    if expected is None or is_silent(expected):
        message = f"`into` makes a value of the type that is wanted, and here any `{checker.show(strong(subject))}` would do"
        return checker.report("0204", message, node.span, hint="write the type: `let x: T = ...`, or call `T::from(...)`")
    wanted = expected.value if isinstance(expected, OptionType) else expected
    fitting: tuple[str, nodes.Function] | None = None
    for key, function in checker.declarations.functions.items():
        impl = checker.declarations.impl_of.get(id(function))
        if impl is None or impl not in made or function.name != "from" or len(function.parameters) != 1:
            continue
        bound = bound_by(checker, impl, wanted)
        if bound is None:
            continue
        place = substituted(parameter_type(checker, function, function.parameters[0], checker.top), bound, set(bound))
        if place == strong(subject):
            fitting = key, function
            break
        if fitting is None and fits(subject, place):
            fitting = key, function
    if fitting is None:
        asked = nodes.NamedTypeSyntax(name="From", arguments=(nodes.KnownTypeSyntax(type=strong(subject)),))
        message = f"`{checker.show(wanted)}` can't be made from a `{checker.show(strong(subject))}`"
        return checker.report("0208", message, node.span, hint=missing_impl(checker, wanted, asked))
    path = nodes.Path(segments=tuple(fitting[0].partition("::")[::2]), span=target.span)
    call = nodes.Call(function=path, arguments=(nodes.Argument(value=target.value, span=target.value.span),), span=node.span)
    checker.kept += (node, call)
    checker.findings.rewrites[id(node)] = call
    checker.findings.callees[id(call)] = fitting[0]
    found = checker.meaning.rules.calls.call(checker, call, fitting[1], None, scope, expected)
    checker.findings.types[id(call)] = found
    return found
