"""Each `impl` with all that its functions are: those that its trait has written out, and the types that `Self`, the trait's type parameters
and the types inside of it stand for. The checker sees programs as they are after this."""

from collections.abc import Mapping

from compiler.source import NOWHERE
from compiler.typed_ast import nodes
from compiler.typed_ast.declarations import Declarations
from compiler.typed_ast.operator_traits import TRAITS, given_by
from compiler.typed_ast.substitution import mapped, with_types
from runtime.records import evolve

Types = dict[str, nodes.TypeSyntax]


def with_whole_impls(program: nodes.Program) -> nodes.Program:
    """The program with what its `impl` blocks leave out."""
    impls = [statement for statement in program.statements if isinstance(statement, nodes.Impl)]
    if not impls:
        return program
    own = {statement.name: statement for statement in reversed(program.statements) if isinstance(statement, nodes.Trait)}
    declared: Declarations[nodes.Function] = Declarations((nodes.Function,))
    declared.declare_all(s for s in program.statements if isinstance(s, nodes.TypeAlias))
    traits = {**TRAITS, **own}
    whole = {id(impl): _whole(impl, traits, declared) for impl in impls}
    taken: dict[str, nodes.TypeSyntax] = {}
    told: dict[int, nodes.Impl] = {}
    for impl in sorted(impls, key=lambda one: one.trait is not None):
        told[id(impl)] = _told_apart(whole[id(impl)], declared, taken)
    return evolve(program, statements=tuple(told.get(id(statement), statement) for statement in program.statements))


def types_inside(impl: nodes.Impl) -> dict[str, nodes.TypeAlias]:
    """The types that an `impl` declares, by name."""
    return {member.name: member for member in impl.members if isinstance(member, nodes.TypeAlias)}


def trait_name(impl: nodes.Impl) -> str:
    """The trait of an `impl`; "" of a plain one."""
    return impl.trait.name if isinstance(impl.trait, nodes.NamedTypeSyntax) else ""


def trait_types(impl: nodes.Impl, trait: nodes.Trait | None) -> Types:
    """What the names of types in a trait stand for in an `impl` of it."""
    types: Types = {"Self": impl.target}
    for name, alias in types_inside(impl).items():
        types[name] = types[f"Self::{name}"] = with_types(alias.target, {"Self": impl.target})
    if trait is None or not isinstance(impl.trait, nodes.NamedTypeSyntax):
        return types
    given = impl.trait.arguments
    for number, parameter in enumerate(trait.type_parameters):
        if number < len(given):
            types[parameter.name] = with_types(given[number], {"Self": impl.target})
        elif trait is TRAITS.get(trait.name):
            types[parameter.name] = _other_side(impl)
    if trait is TRAITS.get(trait.name):
        functions = [member for member in impl.members if isinstance(member, nodes.Function)]
        for member in trait.members:
            if isinstance(member, nodes.TypeAlias) and member.name not in types:
                result = next((f.result for f in functions if f.result is not None and f.name not in ("eq", "cmp")), None)
                if result is not None and not (isinstance(result, nodes.NamedTypeSyntax) and result.name.endswith(member.name)):
                    inner = result.value if member.name == "Item" and isinstance(result, nodes.OptionTypeSyntax) else result
                    if member.name == "Item" and isinstance(inner, nodes.NamedTypeSyntax) and inner.name == "Option":
                        inner = inner.arguments[0]
                    types[member.name] = types[f"Self::{member.name}"] = with_types(inner, {"Self": impl.target})
    return types


def _other_side(impl: nodes.Impl) -> nodes.TypeSyntax:
    """The type of what an operator's method takes beside `self`, where the trait's argument is left out."""
    for member in impl.members:
        if isinstance(member, nodes.Function):
            others = [parameter for parameter in member.parameters if parameter.name != "self"]
            if others and others[0].annotation is not None:
                return with_types(others[0].annotation, {"Self": impl.target})
    return impl.target


def _whole(impl: nodes.Impl, traits: Mapping[str, nodes.Trait], declared: Declarations[nodes.Function]) -> nodes.Impl:
    trait = traits.get(trait_name(impl))
    types = trait_types(impl, trait)
    members = list(impl.members)
    if trait is not None:
        required = {member.name: member for member in trait.members if isinstance(member, nodes.Function)}
        members = [_completed(member, required, trait) for member in members]
        impl = evolve(impl, members=tuple(members))
        own = {getattr(member, "name", "") for member in members}
        if trait is TRAITS.get(trait.name):
            made = given_by(impl, trait.name)
        else:
            made = tuple(_of_impl(f, impl) for f in required.values() if f.body is not None and f.name not in own)
        members += made
    return evolve(impl, members=tuple(with_types(member, types) for member in members))


def _completed(member: nodes.Declaration, required: Mapping[str, nodes.Function], trait: nodes.Trait) -> nodes.Declaration:
    """A function with the types that its trait gives where it has none written."""
    asked = required.get(member.name) if isinstance(member, nodes.Function) else None
    if asked is None or not isinstance(member, nodes.Function) or len(asked.parameters) != len(member.parameters):
        return member
    builtin = trait is TRAITS.get(trait.name)
    parameters = tuple(
        evolve(own, annotation=_type_of(its, trait, builtin)) if own.annotation is None and own.name != "self" else own
        for own, its in zip(member.parameters, asked.parameters, strict=True)
    )
    return evolve(member, parameters=parameters, result=member.result or asked.result)


def _type_of(parameter: nodes.Parameter, trait: nodes.Trait, builtin: bool) -> nodes.TypeSyntax | None:
    if parameter.annotation is None and builtin and trait.type_parameters:
        return nodes.NamedTypeSyntax(name=trait.type_parameters[0].name, span=parameter.span)
    return parameter.annotation


def _of_impl(function: nodes.Function, impl: nodes.Impl) -> nodes.Function:
    """A trait's function as one of an `impl`, whose type parameters it has."""
    first = function.parameters[:1]
    if first and first[0].name == "self" and first[0].annotation is None:
        first = (evolve(first[0], annotation=impl.target),)
    parameters = (*first, *function.parameters[1:])
    # What is found in a body is kept by its nodes, and each type finds something else.
    function = mapped(function, lambda node: evolve(node))
    return evolve(function, type_parameters=(*impl.type_parameters, *function.type_parameters), parameters=parameters)


def _told_apart(impl: nodes.Impl, declared: Declarations[nodes.Function], taken: dict[str, nodes.TypeSyntax]) -> nodes.Impl:
    """The `impl` with variants for functions whose names the type has for others, by other traits, another argument of this one, or for
    other arguments of the type."""
    head = declared.type_name(impl.target, impl.type_parameters)
    bare = with_types(mapped(impl.target, lambda node: evolve(node, span=NOWHERE)), {})
    members: list[nodes.Declaration] = []
    for member in impl.members:
        if isinstance(member, nodes.Function):
            key = f"{head}::{member.name}"
            if key in taken and (impl.trait is not None or taken[key] != bare):
                number = 2
                while f"{key}<{trait_name(impl)} {number}>" in taken:
                    number += 1
                member = evolve(member, variant=f"<{trait_name(impl)} {number}>")
                key += member.variant
            taken.setdefault(key, bare)
        members.append(member)
    return evolve(impl, members=tuple(members))
