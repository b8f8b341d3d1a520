"""Written types in kernel bodies: the value of numbers that a type describes, and other values as one of the type."""

from collections.abc import Mapping

from compiler.lowering.body import Body, fault
from compiler.lowering.composites import kind_of, tag
from compiler.lowering.dtypes import keeps_value, scalar_named
from compiler.lowering.numbers import Choice, Number, Operand, Record, Tuple, literal, typed, value_of
from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.types import DType

_DEEPEST = 12
_OTHER = "kernels compute with numbers, and with tuples, structs and enums of numbers"
_OPTIONALS = ("Option", "option")


def zeros_of(body: Body, written: nodes.TypeSyntax, bound: Mapping[str, nodes.TypeSyntax], depth: int = 0) -> Operand | None:
    """A value of the type with zeros for its numbers; None where the type is a type parameter that nothing is known of."""
    written = resolved(body, written, bound)
    dtype = scalar_named(written)
    if dtype is not None:
        return literal(False) if dtype is DType.BOOL else literal(0 if dtype.is_int else 0.0, dtype)
    if depth > _DEEPEST:
        raise fault("0410", "a type that holds itself can't stand in a kernel", written.span)
    match written:
        case nodes.TupleTypeSyntax(elements=elements):
            parts = [zeros_of(body, element, bound, depth + 1) for element in elements]
            return None if any(part is None for part in parts) else Tuple(tuple(part for part in parts if part is not None))
        case nodes.OptionTypeSyntax(value=value):
            inner = zeros_of(body, value, bound, depth + 1)
            return Choice("Option", ("None", "Some"), tag(0), {"None": {}} if inner is None else {"None": {}, "Some": {"0": inner}})
        case nodes.NamedTypeSyntax(name=name, arguments=[value]) if name in _OPTIONALS:
            return zeros_of(body, nodes.OptionTypeSyntax(value=value, span=written.span), bound, depth)
        case nodes.NamedTypeSyntax(name="Result", arguments=[value, error]):
            found = {case: zeros_of(body, part, bound, depth + 1) for case, part in (("Ok", value), ("Err", error))}
            return Choice("Result", ("Ok", "Err"), tag(0), {case: {"0": part} for case, part in found.items() if part is not None})
        case nodes.NamedTypeSyntax(name=name) if name in body.signature.declared.structs:
            return _struct(body, body.signature.declared.structs[name], written.arguments, bound, depth)
        case nodes.NamedTypeSyntax(name=name) if name in body.signature.declared.enums:
            return enum_zeros(body, body.signature.declared.enums[name], written.arguments, bound, depth)
        case nodes.NamedTypeSyntax(name=name) if name in bound:
            return None
    raise fault("0410", _OTHER, written.span)


def resolved(body: Body, written: nodes.TypeSyntax, bound: Mapping[str, nodes.TypeSyntax]) -> nodes.TypeSyntax:
    """What an alias or a type parameter stands for."""
    for _ in range(_DEEPEST):
        if not isinstance(written, nodes.NamedTypeSyntax) or written.arguments:
            break
        if written.name in bound and bound[written.name] is not written:
            written = bound[written.name]
        elif written.name in body.signature.declared.aliases:
            written = body.signature.declared.aliases[written.name].target
        else:
            break
    return written


def _bound_to(
    parameters: tuple[nodes.TypeParameter, ...], arguments: tuple[nodes.TypeSyntax, ...], around: Mapping[str, nodes.TypeSyntax]
) -> dict[str, nodes.TypeSyntax]:
    """What type parameters stand for; themselves where no arguments are written."""
    if len(arguments) == len(parameters):
        return {
            p.name: around.get(a.name, a) if isinstance(a, nodes.NamedTypeSyntax) else a for p, a in zip(parameters, arguments, strict=True)
        }
    return {p.name: nodes.NamedTypeSyntax(name=p.name, span=p.span) for p in parameters}


def _struct(
    body: Body, struct: nodes.Struct, arguments: tuple[nodes.TypeSyntax, ...], around: Mapping[str, nodes.TypeSyntax], depth: int
) -> Operand | None:
    bound = _bound_to(struct.type_parameters, arguments, around)
    fields: dict[str, Operand] = {}
    for field in struct.fields:
        assert field.annotation is not None
        found = zeros_of(body, field.annotation, bound, depth + 1)
        if found is None:
            return None
        fields[field.name] = found
    return Record(struct.name, fields)


def parts_of(variant: nodes.Variant) -> dict[str, nodes.TypeSyntax]:
    """The types of a case's parts by their names, which are numbers where it has none."""
    numbered = {str(number): element for number, element in enumerate(variant.elements)}
    return numbered or {field.name: field.annotation for field in variant.fields if field.annotation is not None}


def enum_zeros(
    body: Body,
    enum: nodes.EnumDeclaration,
    arguments: tuple[nodes.TypeSyntax, ...] = (),
    around: Mapping[str, nodes.TypeSyntax] | None = None,
    depth: int = 0,
) -> Choice:
    """The first case of an enum, with zeros for all parts whose types are known."""
    bound = _bound_to(enum.type_parameters, arguments, around or {})
    parts: dict[str, Mapping[str, Operand]] = {}
    for variant in enum.variants:
        found = {name: zeros_of(body, written, bound, depth + 1) for name, written in parts_of(variant).items()}
        known = {name: part for name, part in found.items() if part is not None}
        if len(known) == len(found):
            parts[variant.name] = known
    return Choice(enum.name, tuple(variant.name for variant in enum.variants), tag(0), parts)


# ---- values as one of a type ------------------------------------------------------------------------------------------------


def fitted(
    body: Body,
    value: Operand,
    written: nodes.TypeSyntax,
    span: Span,
    what: str,
    parameters: tuple[nodes.TypeParameter, ...] = (),
) -> Operand:
    """The value as one of a written type, numbers converted where nothing is lost. Anything else is 0203 or 0207. `parameters`: the type
    parameters in sight, which fit any value."""
    zeros = zeros_of(body, written, {p.name: nodes.NamedTypeSyntax(name=p.name, span=p.span) for p in parameters})
    return value if zeros is None else fitted_to(body, value, zeros, span, what)


def fitted_to(body: Body, value: Operand, zeros: Operand, span: Span, what: str) -> Operand:
    """The value as one of the kind of `zeros`."""
    match value, zeros:
        case Number(), Number():
            return _number(body, value, zeros.dtype, span, what)
        case Tuple(elements=a), Tuple(elements=b) if len(a) == len(b):
            return Tuple(tuple(fitted_to(body, x, y, span, what) for x, y in zip(a, b, strict=True)))
        case Record(name=name), Record(name=other) if name == other:
            return Record(name, {f: fitted_to(body, value.fields[f], zero, span, what) for f, zero in zeros.fields.items()})
        case Choice(name=name), Choice(name=other) if name == other:
            parts: dict[str, Mapping[str, Operand]] = {}
            for case in value.cases:
                mine, its = value.parts.get(case), zeros.parts.get(case)
                if mine is None or its is None:
                    if (mine or its) is not None:
                        parts[case] = mine if mine is not None else its or {}
                    continue
                parts[case] = {part: fitted_to(body, mine[part], zero, span, what) for part, zero in its.items()}
            return Choice(name, value.cases, value.tag, parts)
    raise fault("0203", f"{what} is {kind_of(zeros)}, and this is {kind_of(value)}", span)


def _number(body: Body, value: Number, dtype: DType, span: Span, what: str) -> Number:
    lossless = not (value.dtype.is_float and not dtype.is_float) if value.weak else keeps_value(value.dtype, dtype)
    if (dtype is DType.BOOL) != (value.dtype is DType.BOOL):
        raise fault("0203", f"{what} is `{dtype.value}`, and this is `{value.shown}`", span, f"this is {value.shown}")
    if not lossless:
        hint = f"write `... as {dtype.value}` if losing that is meant"
        message = f"{what} is `{dtype.value}`, and a `{value.shown}` may not fit it"
        raise fault("0207", message, span, f"this is {value.shown}", hint)
    if value.dtype is dtype and not value.weak:
        return value
    if value.form is not None and dtype is DType.I64:
        return Number(dtype, form=value.form, origin=value.origin)
    return typed(value_of(body.build, value, dtype), dtype, value.origin and dtype)
