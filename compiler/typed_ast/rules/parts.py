"""What values are made of: the cases of a type, and the fields of a struct."""

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import Checker
from compiler.typed_ast.exhaustiveness import Cases
from compiler.typed_ast.types import BOOL, ArrayType, EnumType, OptionType, ResultType, StructType, TupleType, Type


def cases_of(checker: Checker, subject: Type) -> Cases | None:
    """The cases of a type with their parts (name, type); None where a type has no cases to list. The one case of a tuple is ""."""
    match subject:
        case EnumType(name=name):
            return {variant.name: _parts(checker, variant) for variant in checker.declarations.enums[name].variants}
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


def parts_of(checker: Checker, found: Type) -> tuple[Type, ...] | None:
    """The types of all that a value may be made of; None of a type without parts."""
    if isinstance(found, ArrayType):
        return (found.element,)
    cases = cases_of(checker, found) if found != BOOL else None
    return tuple(part for case in cases.values() for _, part in case) if cases is not None else None


def _parts(checker: Checker, variant: nodes.Variant) -> tuple[tuple[str, Type], ...]:
    numbered = tuple((str(number), checker.resolve(element, checker.top, {})) for number, element in enumerate(variant.elements))
    return numbered or tuple((f.name, checker.resolve(f.annotation, checker.top, {})) for f in variant.fields if f.annotation is not None)


def fields_of(checker: Checker, struct: StructType) -> tuple[tuple[str, Type], ...]:
    """A struct's fields with their types, its type parameters filled in."""
    declared = checker.declarations.structs[struct.name]
    bound = {parameter.name: found for parameter, found in zip(declared.type_parameters, struct.arguments, strict=True)}
    return tuple((f.name, checker.resolve(f.annotation, checker.top, bound)) for f in declared.fields if f.annotation is not None)
