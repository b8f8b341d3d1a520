"""Structs and cases with named values, written out: `Quote { bid: b, ask: a }`."""

from compiler.typed_ast import nodes
from compiler.typed_ast.checker import CORE, Checker
from compiler.typed_ast.conversions import place_of
from compiler.typed_ast.requirements import require
from compiler.typed_ast.rules.cases import arguments_of, written_enum
from compiler.typed_ast.rules.parts import cases_of, fields_of
from compiler.typed_ast.scope import Scope
from compiler.typed_ast.suggest import did_you_mean
from compiler.typed_ast.type_arguments import is_open, substituted, unify
from compiler.typed_ast.types import ERROR, UNKNOWN, EnumType, Size, StructType, Type, TypeVariable


@CORE.infers(nodes.RecordLiteral)
def record(checker: Checker, node: nodes.RecordLiteral, scope: Scope, expected: Type | None, used: bool) -> Type:
    """`Quote { bid: b }` or a case with named values."""
    written = (
        node.struct.name if isinstance(node.struct, nodes.Name) else node.struct.segments[-1] if isinstance(node.struct, nodes.Path) else ""
    )
    if node.struct is None:
        _values(checker, node, scope)
        return checker.later("a record without a struct", node.span, "declare a `struct`, and write its name before the `{`")
    case = checker.declarations.cases.get(written)
    given: dict[int, Type] = {}
    if written in checker.declarations.structs:
        struct = checker.declarations.structs[written]
        if struct.opaque:
            _values(checker, node, scope)
            return checker.report("0203", f"programs make no values of `{written}`: it is declared without what is in them", node.span)
        arguments = node.struct.arguments if isinstance(node.struct, nodes.Path) else ()
        given_arguments = tuple(checker.resolve(a, scope) for a in arguments) or checker.meaning.rules.implied(checker, struct)
        found: Type = StructType(written, given_arguments)
        if len(given_arguments) != len(struct.type_parameters):
            place = place_of(expected)
            if isinstance(place, StructType) and place.name == written:
                found = place
            else:
                found, given = _by_fields(checker, node, struct, scope)
        if not isinstance(found, StructType):
            return ERROR
        fields = dict(fields_of(checker, found))
        optional = {f.name for f in struct.fields if f.default is not None}
    elif case is not None:
        fields_in, found, given = _case_by_fields(checker, node, written, scope, expected)
        fields, optional = dict(fields_in), set()
    else:
        _values(checker, node, scope)
        hint = did_you_mean(written, checker.declarations.structs)
        return checker.report("0201", f"there is no struct `{written}`", node.span, hint=hint)
    for value in node.fields:
        wanted = fields.get(value.name)
        one = given[id(value)] if id(value) in given else checker.infer(value.value, scope, wanted)
        if wanted is None:
            checker.report("0202", f"`{written}` has no field `{value.name}`", value.span, hint=did_you_mean(value.name, fields))
        else:
            require(checker, one, wanted, value.value.span, f"the field `{value.name}`")
    missing = [name for name in fields if name not in optional and name not in {value.name for value in node.fields}]
    if node.base is not None:
        require(checker, checker.infer(node.base, scope, found), found, node.base.span, "the base")
    elif missing:
        checker.report("0204", f"`{written}` needs {', '.join(f'`{name}`' for name in missing)}", node.span)
    return found


def _by_fields(checker: Checker, node: nodes.RecordLiteral, struct: nodes.Struct, scope: Scope) -> tuple[Type, dict[int, Type]]:
    """The struct with the type arguments that its fields determine, and the types of the fields that were looked at."""
    names = {parameter.name for parameter in struct.type_parameters}
    open_ = StructType(struct.name, tuple(TypeVariable(parameter.name) for parameter in struct.type_parameters))
    fields, bound, given = dict(fields_of(checker, open_)), dict[str, Type](), dict[int, Type]()
    for value in node.fields:
        place = substituted(fields.get(value.name, ERROR), bound, names)
        given[id(value)] = checker.infer(value.value, scope, None if is_open(place, names) else place)
        unify(place, given[id(value)], bound, names)
    if checker.meaning.settings.untyped_parameters:
        bound = {**dict.fromkeys(names, UNKNOWN), **bound}
    if names <= set(bound) and Size() not in bound.values():
        return StructType(struct.name, tuple(bound[parameter.name] for parameter in struct.type_parameters)), given
    if ERROR in bound.values():
        return ERROR, given
    hint = f"write `{struct.name}<{', '.join(sorted(names))}> {{ ... }}`, each with what it stands for"
    return checker.report("0204", f"`{struct.name}` needs its type arguments: its fields don't say them", node.span, hint=hint), given


def _case_by_fields(
    checker: Checker, node: nodes.RecordLiteral, written: str, scope: Scope, expected: Type | None
) -> tuple[tuple[tuple[str, Type], ...], Type, dict[int, Type]]:
    """The parts of a case with named values, its enum, and the types of the parts that were looked at."""
    owners = [enum for enum, _ in checker.declarations.cases[written]]
    wanted = place_of(expected)
    if isinstance(node.struct, nodes.Path) and len(node.struct.segments) == 2:
        name = node.struct.segments[0]
        own = written_enum(checker, node.struct, scope)
        wanted = own or (wanted if isinstance(wanted, EnumType) and wanted.name == name else EnumType(name))
    enum = next((owner for owner in owners if isinstance(wanted, EnumType) and owner.name == wanted.name), owners[0])
    names = {parameter.name for parameter in enum.type_parameters}
    bound, given = arguments_of(checker, enum, wanted), dict[int, Type]()
    if names - set(bound):
        open_ = EnumType(enum.name, tuple(TypeVariable(parameter.name) for parameter in enum.type_parameters))
        places = dict((cases_of(checker, open_) or {})[written])
        for value in node.fields:
            place = substituted(places.get(value.name, ERROR), bound, names)
            given[id(value)] = checker.infer(value.value, scope, None if is_open(place, names) else place)
            unify(place, given[id(value)], bound, names)
    actual = EnumType(enum.name, tuple(bound.get(parameter.name, UNKNOWN) for parameter in enum.type_parameters))
    return (cases_of(checker, actual) or {})[written], actual, given


def _values(checker: Checker, node: nodes.RecordLiteral, scope: Scope) -> None:
    for value in node.fields:
        checker.infer(value.value, scope)
