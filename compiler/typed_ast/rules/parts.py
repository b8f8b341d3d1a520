"""What values are made of: the cases of a type, and the fields of a struct."""

from collections.abc import Mapping

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.exhaustiveness import Cases
from compiler.typed_ast.types import BOOL, UNKNOWN, ArrayType, EnumType, OptionType, ResultType, StructType, TupleType, Type


def cases_of(checker: Checker, subject: Type) -> Cases | None:
    """The cases of a type with their parts (name, type); None where a type has no cases to list. The one case of a tuple is ""."""
    match subject:
        case EnumType(name=name):
            enum = checker.declarations.enums[name]
            arguments = subject.arguments or (UNKNOWN,) * len(enum.type_parameters)
            bound = {p.name: found for p, found in zip(enum.type_parameters, arguments, strict=True)}
            return {variant.name: _parts(checker, variant, bound) for variant in enum.variants}
        case OptionType(value=value):
            return {checker.meaning.some: (("0", value),), checker.meaning.none: ()}
        case ResultType(value=value, error=error):
            return {"Ok": (("0", value),), "Err": (("0", error),)}
        case TupleType(elements=elements):
            return {"": tuple((str(number), element) for number, element in enumerate(elements))}
        case StructType():
            return {"": fields_of(checker, subject)}
    if subject == BOOL:
        return {"true": (), "false": ()}
    return None


def parts_of(checker: Checker, type_: Type) -> tuple[Type, ...] | None:
    """The types of all that a value may be made of; None of a type without parts."""
    if isinstance(type_, ArrayType):
        return (type_.element,)
    cases = cases_of(checker, type_) if type_ != BOOL else None
    return tuple(part for case in cases.values() for _, part in case) if cases is not None else None


def _parts(checker: Checker, variant: nodes.Variant, bound: Mapping[str, Type]) -> tuple[tuple[str, Type], ...]:
    written = [(str(number), element) for number, element in enumerate(variant.elements)]
    written += [(field.name, field.annotation) for field in variant.fields if field.annotation is not None]
    return tuple((name, checker.resolve(element, checker.top, bound)) for name, element in written)


def fields_of(checker: Checker, struct: StructType) -> tuple[tuple[str, Type], ...]:
    """A struct's fields with their types, its type parameters filled in."""
    declared = checker.declarations.structs[struct.name]
    bound = {parameter.name: found for parameter, found in zip(declared.type_parameters, struct.arguments, strict=True)}
    return tuple((f.name, checker.resolve(f.annotation, checker.top, bound)) for f in declared.fields if f.annotation is not None)
