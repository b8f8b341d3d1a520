"""Types as written become types: names of markets and sizes are looked up, and what no type has is refused."""

from collections.abc import Mapping

from compiler.typed_ast import nodes
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import ERROR, STRING, UNIT, DType, ListType, OptionType, ResultType, Scalar, TensorType, TupleType, Type
from quantdsl import types as qt
from quantdsl.check.checker import QuantChecker
from quantdsl.check.constants import constant_int
from quantdsl.check.scope import CheckScope

SCALARS = {dtype.value: Scalar(dtype) for dtype in DType if dtype not in (DType.F16, DType.BF16)}
SCALARS |= {"int": Scalar(DType.I64), "float": Scalar(DType.F64)}
CONTAINERS = {"ring": 1, "table": 2, "book": 0}
_PLAIN = {**SCALARS, **qt.OPAQUE, "str": STRING}


def resolve(checker: QuantChecker, written: nodes.TypeSyntax, scope: CheckScope, bound: Mapping[str, Type] | None = None) -> Type:
    """The type that is written; type parameters become what `bound` says, or variables."""
    match written:
        case nodes.OptionTypeSyntax(value=value):
            return OptionType(resolve(checker, value, scope, bound))
        case nodes.ConstantTypeSyntax(value=value):
            return resolve(checker, value, scope, bound)
        case nodes.TupleTypeSyntax(elements=elements):
            return TupleType(tuple(resolve(checker, e, scope, bound) for e in elements)) if elements else UNIT
        case nodes.ArrayTypeSyntax(element=element, size=size):
            return qt.Container("array", (resolve(checker, element, scope, bound),), _size(checker, size, scope, bound))
        case nodes.TensorTypeSyntax():
            return TensorType()
        case nodes.NamedTypeSyntax(name=name, arguments=arguments):
            return _named(checker, written, name, arguments, scope, bound)
        case nodes.SizeSyntax(value=value):
            return checker.report("0203", f"the number {value} stands where a type should", written.span)
    return checker.report("0109", "this type is valid, but not supported yet", written.span, hint="write a struct instead")


def _named(
    checker: QuantChecker,
    written: nodes.NamedTypeSyntax,
    name: str,
    arguments: tuple[nodes.TypeSyntax, ...],
    scope: CheckScope,
    bound: Mapping[str, Type] | None,
) -> Type:
    world = checker.world
    if bound and name in bound:
        return bound[name]
    if name in checker.body.parameters:
        return qt.TypeVariable(name, checker.body.bounds.get(name))
    if name in _PLAIN:
        return _without_arguments(checker, written, _PLAIN[name])
    if name in qt.OF_INSTRUMENT or name == "Money":
        return _of_market(checker, written, name, arguments)
    if name in ("list", "Result", *CONTAINERS):
        wanted = {"list": 1, "Result": 2}.get(name, CONTAINERS.get(name, 0) + 1)
        if len(arguments) != wanted:
            return checker.report("0204", f"`{name}` takes {wanted} type arguments, and {len(arguments)} are given", written.span)
        if name in CONTAINERS:
            size = _size(checker, arguments[-1], scope, bound)
            return qt.Container(name, tuple(resolve(checker, a, scope, bound) for a in arguments[:-1]), size)
        found = [resolve(checker, a, scope, bound) for a in arguments]
        return ListType(found[0]) if name == "list" else ResultType(found[0], found[1])
    if name in world.aliases:
        if name in checker.body.aliases:
            return checker.report("0210", f"the type `{name}` is defined by itself", world.aliases[name].span, hint="write what it is")
        with checker.within(parameters=frozenset(), aliases=checker.body.aliases | {name}):
            return resolve(checker, world.aliases[name].target, checker.top)
    if name in world.enums:
        return _without_arguments(checker, written, qt.EnumType(name))
    if name in world.structs:
        struct = world.structs[name]
        if len(arguments) != len(struct.type_parameters):
            wanted = len(struct.type_parameters)
            return checker.report("0204", f"`{name}` takes {wanted} type arguments, and {len(arguments)} are given", written.span)
        return qt.StructType(name, tuple(resolve(checker, a, scope, bound) for a in arguments))
    known = {*_PLAIN, *qt.OF_INSTRUMENT, "Money", "list", "Result", *CONTAINERS, *world.aliases, *world.enums, *world.structs}
    return checker.report("0201", f"there is no type `{name}`", written.span, hint=did_you_mean(name, known))


def _without_arguments(checker: QuantChecker, written: nodes.NamedTypeSyntax, found: Type) -> Type:
    if written.arguments:
        return checker.report("0204", f"`{written.name}` takes no type arguments", written.span, hint=f"write `{written.name}`")
    return found


def _of_market(checker: QuantChecker, written: nodes.NamedTypeSyntax, name: str, arguments: tuple[nodes.TypeSyntax, ...]) -> Type:
    """`Price<ES>`; without an argument it is of the strategy's instrument, or of the only one that there is."""
    instrument, currency = checker.body.market
    declared = checker.world.currencies if name == "Money" else checker.world.instruments
    of = currency if name == "Money" else instrument
    what = "currency" if name == "Money" else "instrument"
    make = qt.MoneyType if name == "Money" else qt.OF_INSTRUMENT[name]
    match arguments:
        case ():
            if of is None:
                hint = f"write `{name}<...>` with the {what}"
                return checker.report("0203", f"`{name}` says nothing of its {what}, and there is not just one", written.span, hint=hint)
            return make(of)
        case (nodes.NamedTypeSyntax(name="I" | "C"),):
            return make(of)
        case (nodes.NamedTypeSyntax(name=argument, arguments=()),) if argument in declared:
            return make(argument)
        case (nodes.NamedTypeSyntax(name=argument),):
            if argument in checker.world.own:
                return (
                    ERROR
                    if what in type(checker.world.own[argument]).__name__.lower()
                    else checker.report("0203", f"`{argument}` is no {what}", arguments[0].span)
                )
            return checker.report("0201", f"there is no {what} `{argument}`", arguments[0].span, hint=did_you_mean(argument, declared))
    return checker.report("0204", f"`{name}` takes one {what}", written.span)


def _size(checker: QuantChecker, written: nodes.Node, scope: CheckScope, bound: Mapping[str, Type] | None) -> Type:
    """A capacity: a number, a constant, or the name of a type parameter."""
    match written:
        case nodes.SizeSyntax(value=value):
            return _capacity(checker, value, written)
        case nodes.NamedTypeSyntax(name=name, arguments=()) | nodes.Name(name=name):
            if bound and name in bound:
                return bound[name]
            if name in checker.body.parameters:
                return qt.TypeVariable(name)
            variable = scope.find(name)
            if variable is not None and variable.kind in ("const", "param", "const parameter"):
                return qt.Size() if variable.constant is None else _capacity(checker, variable.constant, written)
            if variable is None:
                return checker.report("0201", f"undefined name `{name}`", written.span, hint=did_you_mean(name, scope.names()))
            return checker.report(
                "0301",
                f"the capacity `{name}` is not constant",
                written.span,
                hint="a capacity is a number, a `const` or a `const` parameter",
            )
        case nodes.Expression():
            computed = constant_int(written, scope)
            if computed is None:
                return checker.report("0301", "this capacity is not constant", written.span, hint="write a number or a `const`")
            return _capacity(checker, computed, written)
    return checker.report("0203", "a type stands where a capacity should", written.span, hint="write a number, as in `ring<f64, 64>`")


def _capacity(checker: QuantChecker, value: int, written: nodes.Node) -> Type:
    if value < 1:
        return checker.report("0301", f"a capacity is at least 1, and this is {value}", written.span)
    return qt.Size(value)
