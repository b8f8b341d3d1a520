"""Traits: which types implement them, and whether an `impl` has what its trait asks for."""

from collections.abc import Mapping

from compiler.diagnostics import Label
from compiler.source import NOWHERE, Span
from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.conversions import is_silent, strong
from compiler.typed_ast.operator_traits import TRAITS
from compiler.typed_ast.rules.bounds import BOUNDS, meets
from compiler.typed_ast.rules.operators import has_equality
from compiler.typed_ast.scope import name_place
from compiler.typed_ast.substitution import with_types
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.trait_impls import trait_name, trait_types, types_inside
from compiler.typed_ast.type_arguments import is_open, substituted, unify
from compiler.typed_ast.type_heads import syntax_of
from compiler.typed_ast.types import (
    BOOL,
    STRING,
    CharType,
    DictType,
    FunctionType,
    FutureType,
    ListType,
    Scalar,
    SetType,
    TensorType,
    TupleType,
    Type,
)

_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Mod")


def implemented_by(checker: Checker, type_: Type, asked: nodes.NamedTypeSyntax) -> bool:
    """Whether a type has what a bound asks for. Doubt counts as yes."""
    type_ = strong(type_)
    if is_silent(type_) or asked.name not in (*checker.declarations.traits, *BOUNDS):
        return True
    if asked.name in BOUNDS and asked.name not in checker.declarations.traits:
        return meets(type_, asked.name)
    if any(bound_by(checker, impl, type_) is not None for impl in checker.declarations.impls if trait_name(impl) == asked.name):
        return True
    return checker.declarations.traits[asked.name] is TRAITS.get(asked.name) and _has_by_nature(checker, type_, asked.name)


def bound_by(checker: Checker, impl: nodes.Impl, actual: Type) -> dict[str, Type] | None:
    """What the type parameters of an `impl` stand for where it is that of a type; None where it isn't."""
    names = {parameter.name for parameter in impl.type_parameters}
    bound: dict[str, Type] = {}
    place = target_of(checker, impl)
    unify(place, actual, bound, names)
    if substituted(place, bound, names) != actual:
        return None
    for parameter in impl.type_parameters:
        for asked in parameter.bounds:
            inside = bound.get(parameter.name)
            if inside is not None and isinstance(asked, nodes.NamedTypeSyntax) and not implemented_by(checker, inside, asked):
                return None
    return bound


def target_of(checker: Checker, impl: nodes.Impl) -> Type:
    """The type that an `impl` is for, with variables for its type parameters."""
    checker.mute()
    try:
        with checker.within(parameters=frozenset(parameter.name for parameter in impl.type_parameters)):
            return checker.resolve(impl.target, checker.top)
    finally:
        checker.unmute()


def _has_by_nature(checker: Checker, type_: Type, trait: str) -> bool:
    """Whether the language itself gives a type what one of its traits asks for."""
    number = isinstance(type_, Scalar) and type_ != BOOL
    match trait:
        case "Add":
            return number or isinstance(type_, TensorType | CharType | ListType) or type_ == STRING
        case "MatMul":
            return isinstance(type_, TensorType)
        case _ if trait in _ARITHMETIC:
            return number or isinstance(type_, TensorType)
        case "Neg":
            return isinstance(type_, TensorType) or (number and checker.kind(type_).has_negative(type_))
        case "Eq":
            return has_equality(checker, type_) or type_ == STRING or isinstance(type_, CharType | ListType | DictType | SetType)
        case "Ord":
            return number or type_ == STRING or isinstance(type_, CharType) or type_.is_ordered
        case "Index":
            return isinstance(type_, ListType | TensorType | DictType | TupleType)
        case "Display" | "Clone":
            return not isinstance(type_, FunctionType | FutureType)
    return False


def missing_impl(checker: Checker, type_: Type, asked: nodes.NamedTypeSyntax) -> str:
    """The `impl` to write, with the heads of its functions."""
    trait = checker.declarations.traits.get(asked.name)
    target = checker.show(type_)
    if asked.name in BOUNDS and trait is None:
        kind = "an int or a float" if asked.name == "Number" else "a type whose values `<` compares"
        return f"it takes {kind}"
    members = () if trait is None else trait.members
    asked_for = [member for member in members if isinstance(member, nodes.Function) and trait is not None and _is_asked(member, trait)]
    builtin = trait is not None and trait is TRAITS.get(trait.name)
    given = _text(asked.arguments[0]) if asked.arguments else target
    heads = [_builtin_head(asked.name, target, given) if builtin else _head(checker, member) for member in asked_for]
    arguments = f"<{', '.join(map(_text, asked.arguments))}>" if asked.arguments else ""
    return f"write `impl {asked.name}{arguments} for {target} {{ {' '.join(f'{head} {{ ... }}' for head in heads)} }}`"


def _builtin_head(trait: str, target: str, given: str) -> str:
    """The head of the function of one of the language's traits, for a type beside or from another."""
    match trait:
        case "Eq":
            return f"def eq(self, other: {given}): bool"
        case "Ord":
            return f"def cmp(self, other: {given}): int"
        case "Neg" | "Clone":
            return f"def {trait.lower()}(self): {target}"
        case "Display":
            return "def to_string(self): String"
        case "Iterator":
            return "def next(mut self): Option<int>"
        case "Index":
            return "def index(self, i: int): f64"
        case "IndexMut":
            return "def index_mut(mut self, i: int, value: f64)"
        case "From":
            return f"def from(value: {given}): {target}"
        case "Into":
            return f"def into(self): {given}"
    return f"def {trait.lower()}(self, other: {given}): {target}"


_BY_DEFAULT = ("ne", "le", "gt", "ge", "lt")


def _is_asked(member: nodes.Function, trait: nodes.Trait) -> bool:
    """Whether an `impl` has to write a function of its trait."""
    builtin = trait is TRAITS.get(trait.name)
    return member.body is None and not (builtin and member.name in _BY_DEFAULT)


def _head(checker: Checker, member: nodes.Function) -> str:
    """A function's head as its trait has it."""
    shown = []
    for parameter in member.parameters:
        kind = "" if parameter.annotation is None else f": {_text(parameter.annotation)}"
        shown.append(f"{'mut ' if parameter.mutable else ''}{parameter.name}{kind}")
    result = "" if member.result is None else f": {_text(member.result)}"
    return f"def {member.name}({', '.join(shown)}){result}"


def _text(written: nodes.TypeSyntax) -> str:
    """A type as a program writes it."""
    match written:
        case nodes.NamedTypeSyntax(name=name, arguments=arguments):
            return f"{name}<{', '.join(map(_text, arguments))}>" if arguments else name
        case nodes.OptionTypeSyntax(value=value):
            return f"Option<{_text(value)}>"
        case nodes.TupleTypeSyntax(elements=elements):
            return f"({', '.join(map(_text, elements))})"
        case nodes.FunctionTypeSyntax(parameters=parameters, result=result):
            return f"({', '.join(map(_text, parameters))}) => {_text(result)}"
        case nodes.KnownTypeSyntax(type=known):
            return str(known)
        case nodes.TensorTypeSyntax():
            return "tensor"
    return "_"


# ---- impls -----------------------------------------------------------------------------------------------------------


def check_impl(checker: Checker, node: nodes.Impl) -> None:
    """Reports what an `impl` of a trait lacks, has too much, or has in another way."""
    trait = checker.declarations.traits.get(trait_name(node))
    assert node.trait is not None
    if trait is None:
        if not checker.open_names:
            hint = did_you_mean(trait_name(node), checker.declarations.traits)
            checker.report("0201", f"there is no trait `{trait_name(node)}`", node.trait.span, "not found", hint=hint)
        return
    _require_once(checker, node, trait)
    own = {member.name: member for member in node.members if isinstance(member, nodes.Function)}
    asked = {member.name: member for member in trait.members if isinstance(member, nodes.Function)}
    types = {member.name for member in trait.members if isinstance(member, nodes.TypeAlias)}
    builtin = trait is TRAITS.get(trait.name)
    place = _trait_place(trait)
    target = checker.show(target_of(checker, node))
    lacking = [member for name, member in asked.items() if name not in own and _is_asked(member, trait)]
    if lacking and not (builtin and trait.name == "Ord" and "lt" in own):
        shown = " and ".join(f"`{member.name}`" for member in lacking)
        heads = " ".join(f"`{_head(checker, member)} {{ ... }}`" for member in lacking)
        message = f"the `impl` of `{trait.name}` for `{target}` lacks {shown}"
        others = tuple(Label(name_place(member), "asked for here") for member in lacking if name_place(member) != NOWHERE)
        checker.report("0208", message, _head_place(node), others=others, hint=f"add {heads}")
    missing = sorted(types - set(types_inside(node))) if not builtin else []
    if missing:
        others = tuple(Label(m.span, "asked for here") for m in trait.members if getattr(m, "name", "") in missing)
        message = f"the `impl` of `{trait.name}` for `{target}` lacks the type `{missing[0]}`"
        checker.report("0208", message, _head_place(node), others=others, hint=f"add `type {missing[0]} = ...`")
    for name, member in own.items():
        if name in asked:
            if not member.name_span.path or _is_written(node, member):
                _require_like(checker, node, trait, asked[name], member, builtin)
        elif not (builtin and trait.name in ("Display",)):
            has = ", ".join(f"`{known}`" for known in asked)
            hint = did_you_mean(name, asked) or f"write it in an `impl {target} {{ ... }}` of its own: `{trait.name}` has {has}"
            checker.report("0202", f"the trait `{trait.name}` has no `{name}`", name_place(member), others=place, hint=hint)
    for name, alias in types_inside(node).items():
        if name not in types and not builtin:
            checker.report("0202", f"the trait `{trait.name}` has no type `{name}`", alias.span, others=place)


def _is_written(impl: nodes.Impl, member: nodes.Function) -> bool:
    """Whether a function stands in the `impl` itself."""
    return impl.span.start <= member.span.start < impl.span.end and impl.span.path == member.span.path


def _trait_place(trait: nodes.Trait) -> tuple[Label, ...]:
    return () if trait.span == NOWHERE else (Label(_first_line(trait.span, len(f"trait {trait.name}")), "the trait"),)


def _first_line(span: Span, length: int) -> Span:
    return Span(span.path, span.start, min(span.start + length, span.end))


def _head_place(impl: nodes.Impl) -> Span:
    assert impl.trait is not None
    return impl.trait.span.to(impl.target.span)


def _require_once(checker: Checker, node: nodes.Impl, trait: nodes.Trait) -> None:
    target, others = target_of(checker, node), checker.declarations.impls
    arguments = node.trait.arguments if isinstance(node.trait, nodes.NamedTypeSyntax) else ()
    sides = _sides(checker, node, trait)
    for other in others:
        if other is node:
            return
        its = other.trait.arguments if isinstance(other.trait, nodes.NamedTypeSyntax) else ()
        same = trait_name(other) == trait.name and target_of(checker, other) == target
        if same and (list(map(_text, arguments)) == list(map(_text, its)) if arguments or its else _sides(checker, other, trait) == sides):
            label = (Label(_head_place(other), "first implemented here"),)
            message = f"`{trait.name}` is implemented for `{checker.show(target)}` twice"
            checker.report("0210", message, _head_place(node), others=label, hint="remove one of them")
            return


def _sides(checker: Checker, impl: nodes.Impl, trait: nodes.Trait) -> list[str]:
    """What the functions of an `impl` of one of the language's traits take."""
    if trait is not TRAITS.get(trait.name):
        return []
    functions = (member for member in impl.members if isinstance(member, nodes.Function))
    return [_text(p.annotation) for f in functions for p in f.parameters if p.annotation is not None]


def _require_like(
    checker: Checker, impl: nodes.Impl, trait: nodes.Trait, asked: nodes.Function, member: nodes.Function, builtin: bool
) -> None:
    """Reports a function whose head isn't that of its trait."""
    label = () if name_place(asked) == NOWHERE else (Label(name_place(asked), "declared here"),)
    wanted = f"write `{_head(checker, asked)}`"
    here = name_place(member)
    of_self = [bool(f.parameters) and f.parameters[0].name == "self" for f in (asked, member)]
    if of_self[0] != of_self[1]:
        message = f"`{member.name}` {'lacks' if of_self[0] else 'takes'} `self`, and in the trait `{trait.name}` it doesn't"
        checker.report("0203", message, here, others=label, hint=wanted)
        return
    if len(asked.parameters) != len(member.parameters) and asked.name not in ("index", "index_mut"):
        message = f"`{member.name}` takes {_takes(member)}, and in the trait `{trait.name}` {_takes(asked)}"
        checker.report("0203", message, here, others=label, hint=wanted)
        return
    if of_self[0] and member.parameters[0].mutable and not asked.parameters[0].mutable:
        message = f"`{member.name}` changes what it is called on, and in the trait `{trait.name}` it doesn't"
        checker.report("0203", message, member.parameters[0].span, others=label, hint="write `mut self` in the trait, too")
        return
    types = trait_types(impl, trait)
    names = [parameter.name for parameter in member.type_parameters[len(impl.type_parameters) :]]
    renamed = {p.name: nodes.NamedTypeSyntax(name=name) for p, name in zip(asked.type_parameters, names, strict=False)}
    open_ = frozenset(p.name for p in member.type_parameters)
    pairs = [(p.annotation, q.annotation, f"`{q.name}`", q.span) for p, q in zip(asked.parameters, member.parameters, strict=False)]
    result_span = member.result.span if member.result is not None else here
    pairs.append((asked.result, member.result, "the result", result_span))
    for its, own, what, span in pairs[1 if of_self[0] else 0 :]:
        if its is None:
            continue
        with checker.within(parameters=open_):
            checker.mute()
            expected = checker.resolve(with_types(its, {**types, **renamed}), checker.top)
            found = checker.resolve(own, checker.top) if own is not None else None
            checker.unmute()
        if found is not None and found != expected and not is_silent(expected) and not is_silent(found):
            message = f"{what} of `{member.name}` is `{checker.show(found)}`, and in the trait `{trait.name}` `{checker.show(expected)}`"
            checker.report("0203", message, span, f"this is {checker.show(found)}", others=label, hint=f"write `{checker.show(expected)}`")
            return


def _takes(function: nodes.Function) -> str:
    number = len(function.parameters)
    return "nothing" if not number else f"{number} parameter{'' if number == 1 else 's'}"


def associated(checker: Checker, function: nodes.Function, bound: Mapping[str, Type]) -> Mapping[str, nodes.TypeSyntax]:
    """The types inside of what type parameters stand for, as `T::Item`."""
    found: dict[str, nodes.TypeSyntax] = {}
    for name, type_ in bound.items():
        for impl in checker.declarations.impls:
            if impl.trait is None or is_silent(type_):
                continue
            inside = bound_by(checker, impl, type_)
            if inside is None:
                continue
            trait = checker.declarations.traits.get(trait_name(impl))
            for key, written in trait_types(impl, trait).items():
                if key.startswith("Self::"):
                    own = {n: syntax_of(t) for n, t in inside.items() if not is_open(t, set(inside))}
                    found.setdefault(f"{name}::{key.removeprefix('Self::')}", with_types(written, own))
    return found
