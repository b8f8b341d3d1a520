"""Records without a struct: `{ x: 1.0, y: 2.0 }` is one of a struct that has these fields, of any types, and that the program needn't
declare. Records with the same fields are of one type, however they are ordered."""

from compiler.typed_ast import nodes
from compiler.typed_ast.substitution import mapped
from compiler.typed_ast.walk import walk
from runtime.records import evolve

Fields = dict[frozenset[str], tuple[str, ...]]


def with_record_structs(program: nodes.Program) -> nodes.Program:
    """The program with the structs of its records declared, and written where these stand."""
    fields: Fields = {}
    for node in walk(program):
        match node:
            case nodes.RecordTypeSyntax(fields=written):
                _note(fields, tuple(field.name for field in written))
            case nodes.RecordLiteral(struct=None, base=None, fields=values):
                _note(fields, tuple(value.name for value in values))
    if not fields:
        return program
    program = mapped(program, lambda node: _named(node, fields))
    return evolve(program, statements=(*(_struct(names) for names in fields.values()), *program.statements))


def record_name(names: tuple[str, ...]) -> str:
    """The name of the struct with these fields, which no program can write."""
    return "{" + ", ".join(names) + "}"


def _note(fields: Fields, names: tuple[str, ...]) -> None:
    if names and len(set(names)) == len(names):
        fields.setdefault(frozenset(names), names)


def _named(node: nodes.Node, fields: Fields) -> nodes.Node:
    match node:
        case nodes.RecordTypeSyntax(fields=written):
            types = {field.name: field.annotation for field in written}
            names = fields.get(frozenset(types))
            if names is not None and len(written) == len(names):
                arguments = tuple(one for name in names if (one := types[name]) is not None)
                return nodes.NamedTypeSyntax(name=record_name(names), arguments=arguments, span=node.span)
        case nodes.RecordLiteral(struct=None, base=None, fields=values):
            names = fields.get(frozenset(value.name for value in values))
            if names is not None and len(values) == len(names):
                return evolve(node, struct=nodes.Name(name=record_name(names), span=node.span))
    return node


def _struct(names: tuple[str, ...]) -> nodes.Struct:
    fields = tuple(nodes.Parameter(name=name, annotation=nodes.NamedTypeSyntax(name=f"·{name}")) for name in names)
    parameters = tuple(nodes.TypeParameter(name=f"·{name}") for name in names)
    return nodes.Struct(name=record_name(names), type_parameters=parameters, fields=fields)
