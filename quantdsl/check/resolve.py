"""Types as written become types: names of markets and sizes are looked up, and what no type has is refused."""

from collections.abc import Mapping

from compiler.typed_ast import nodes
from compiler.typed_ast.constants import whole_constant
from compiler.typed_ast.scope import CONSTANT_KINDS, Scope
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.types import (
    ANY_TENSOR,
    ERROR,
    STRING,
    UNIT,
    ArrayType,
    DType,
    EnumType,
    ListType,
    OptionType,
    ResultType,
    Scalar,
    Size,
    StructType,
    TupleType,
    Type,
    TypeVariable,
)
from quantdsl import types as qt
from quantdsl.check.checker import QuantChecker
from quantdsl.check.world import market_bounds

SCALARS = {dtype.value: Scalar(dtype) for dtype in DType if dtype not in (DType.F16, DType.BF16)}
SCALARS |= {"int": Scalar(DType.I64), "float": Scalar(DType.F64)}
CONTAINERS = {"ring": 1, "table": 2, "book": 0}
_PLAIN = {**SCALARS, **qt.OPAQUE, "str": STRING}


def resolve(checker: QuantChecker, written: nodes.TypeSyntax, scope: Scope, bound: Mapping[str, Type] | None = None) -> Type:
    """The type that is written; type parameters become what `bound` says, or variables."""
    match written:
        case nodes.OptionTypeSyntax(value=value):
            return OptionType(resolve(checker, value, scope, bound))
        case nodes.ConstantTypeSyntax(value=value):
            return resolve(checker, value, scope, bound)
        case nodes.TupleTypeSyntax(elements=elements):
            return TupleType(tuple(resolve(checker, e, scope, bound) for e in elements)) if elements else UNIT
        case nodes.ArrayTypeSyntax(element=element, size=size):
            return ArrayType(resolve(checker, element, scope, bound), _size(checker, size, scope, bound))
        case nodes.TensorTypeSyntax():
            return ANY_TENSOR
        case nodes.NamedTypeSyntax(name=name, arguments=arguments):
            return _named(checker, written, name, arguments, scope, bound)
        case nodes.SizeSyntax(value=value):
            return checker.report("0203", f"the number {value} stands where a type should", written.span)
    return checker.later("this type", written.span, "write a struct instead")


def _named(
    checker: QuantChecker,
    written: nodes.NamedTypeSyntax,
    name: str,
    arguments: tuple[nodes.TypeSyntax, ...],
    scope: Scope,
    bound: Mapping[str, Type] | None,
) -> Type:
    declared = checker.declarations
    if bound and name in bound:
        return bound[name]
    if name in checker.frame.parameters:
        return TypeVariable(name, checker.frame.bounds.get(name))
    if name in _PLAIN:
        return _without_arguments(checker, written, _PLAIN[name])
    if name in qt.OF_INSTRUMENT or name == "Money":
        return _of_market(checker, written, name, arguments, bound or {})
    if name in ("list", "Result", *CONTAINERS):
        wanted = {"list": 1, "Result": 2}.get(name, CONTAINERS.get(name, 0) + 1)
        if len(arguments) != wanted:
            return checker.report("0204", f"`{name}` takes {wanted} type arguments, and {len(arguments)} are given", written.span)
        if name in CONTAINERS:
            size = _size(checker, arguments[-1], scope, bound)
            return qt.Container(name, tuple(resolve(checker, a, scope, bound) for a in arguments[:-1]), size)
        found = [resolve(checker, a, scope, bound) for a in arguments]
        return ListType(found[0]) if name == "list" else ResultType(found[0], found[1])
    if name in declared.aliases:
        if name in checker.frame.aliases:
            return checker.report("0210", f"the type `{name}` is defined by itself", declared.aliases[name].span, hint="write what it is")
        with checker.within(parameters=frozenset(), aliases=checker.frame.aliases | {name}):
            return resolve(checker, declared.aliases[name].target, checker.top)
    if name in declared.enums:
        return _without_arguments(checker, written, EnumType(name))
    if name in declared.structs:
        struct = declared.structs[name]
        bounds = market_bounds(struct)
        if bounds and not arguments:
            return checker.own.world.struct_of(name, checker.frame.market)
        if len(arguments) != len(struct.type_parameters):
            wanted = len(struct.type_parameters)
            return checker.report("0204", f"`{name}` takes {wanted} type arguments, and {len(arguments)} are given", written.span)
        if bounds:
            of = (_market(checker, one, bound.lower()) for one, bound in zip(arguments, bounds, strict=True))
            return StructType(name, tuple(of))
        return StructType(name, tuple(resolve(checker, a, scope, bound) for a in arguments))
    known = {*_PLAIN, *qt.OF_INSTRUMENT, "Money", "list", "Result", *CONTAINERS, *declared.aliases, *declared.enums, *declared.structs}
    return checker.report("0201", f"there is no type `{name}`", written.span, hint=did_you_mean(name, known))


def _without_arguments(checker: QuantChecker, written: nodes.NamedTypeSyntax, type_: Type) -> Type:
    if written.arguments:
        return checker.report("0204", f"`{written.name}` takes no type arguments", written.span, hint=f"write `{written.name}`")
    return type_


def _of_market(
    checker: QuantChecker,
    written: nodes.NamedTypeSyntax,
    name: str,
    arguments: tuple[nodes.TypeSyntax, ...],
    bound: Mapping[str, Type],
) -> Type:
    """`Price<ES>`; without an argument it is of the strategy's instrument, or of the only one that there is."""
    what = "currency" if name == "Money" else "instrument"
    make = qt.MoneyType if name == "Money" else qt.OF_INSTRUMENT[name]
    of = checker.frame.market[1 if name == "Money" else 0]
    match arguments:
        case ():
            if of is None:
                hint = f"write `{name}<...>` with the {what}"
                return checker.report("0203", f"`{name}` says nothing of its {what}, and there is not just one", written.span, hint=hint)
            return make(of)
        case (nodes.NamedTypeSyntax(name="I" | "C" as argument),):
            market = bound.get(argument)
            return make(market.name if isinstance(market, qt.MarketType) else of)
        case (nodes.NamedTypeSyntax() as named,):
            market = _market(checker, named, what)
            return make(market.name) if isinstance(market, qt.MarketType) else market
    return checker.report("0204", f"`{name}` takes one {what}", written.span)


def _market(checker: QuantChecker, written: nodes.TypeSyntax, what: str) -> Type:
    """The instrument or currency that an argument names."""
    world = checker.own.world
    declared = world.currencies if what == "currency" else world.instruments
    name = written.name if isinstance(written, nodes.NamedTypeSyntax) else ""
    if name in declared:
        return qt.MarketType(name)
    own = checker.declarations.own.get(name)
    if own is None:
        return checker.report("0201", f"there is no {what} `{name}`", written.span, hint=did_you_mean(name, declared))
    return ERROR if what in type(own).__name__.lower() else checker.report("0203", f"`{name}` is no {what}", written.span)


def _size(checker: QuantChecker, written: nodes.Node, scope: Scope, bound: Mapping[str, Type] | None) -> Type:
    """A capacity: a number, a constant, or the name of a type parameter."""
    match written:
        case nodes.SizeSyntax(value=value):
            return _capacity(checker, value, written)
        case nodes.NamedTypeSyntax(name=name, arguments=()) | nodes.Name(name=name):
            if bound and name in bound:
                return bound[name]
            if name in checker.frame.parameters:
                return TypeVariable(name)
            variable = scope.variable(name)
            if variable is not None and variable.kind in CONSTANT_KINDS:
                return Size() if variable.whole is None else _capacity(checker, variable.whole, written)
            if variable is None:
                return checker.report("0201", f"undefined name `{name}`", written.span, hint=did_you_mean(name, scope.names()))
            return checker.report(
                "0301",
                f"the capacity `{name}` is not constant",
                written.span,
                hint="a capacity is a number, a `const` or a `const` parameter",
            )
        case nodes.Expression():
            computed = whole_constant(written, scope)
            if computed is None:
                return checker.report("0301", "this capacity is not constant", written.span, hint="write a number or a `const`")
            return _capacity(checker, computed, written)
    return checker.report("0203", "a type stands where a capacity should", written.span, hint="write a number, as in `ring<f64, 64>`")


def _capacity(checker: QuantChecker, value: int, written: nodes.Node) -> Type:
    if value < 1:
        return checker.report("0301", f"a capacity is at least 1, and this is {value}", written.span)
    return Size(value)
