"""The traits that the language knows: those of operators, of printing, copying, going over values, and conversions. They are there without
being declared; a program may declare its own of the same name."""

from collections.abc import Mapping

from compiler.source import Span
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import Visibility
from compiler.typed_ast.substitution import mapped
from runtime.records import evolve

BINARY = {
    "+": ("Add", "add"), "-": ("Sub", "sub"), "*": ("Mul", "mul"), "/": ("Div", "div"), "%": ("Mod", "mod"), "@": ("MatMul", "matmul"),
    "==": ("Eq", "eq"), "!=": ("Eq", "ne"), "<": ("Ord", "lt"), "<=": ("Ord", "le"), ">": ("Ord", "gt"), ">=": ("Ord", "ge"),
}  # fmt: skip
"""The trait and the method of each operator."""
UNARY = {"-": ("Neg", "neg")}
TEXT = ("to_string", "fmt", "display", "show", "to_text")
"""What the method of `Display` may be called."""


def _function(name: str, *others: str, result: str | None = None, changes: bool = False, of_type: bool = True) -> nodes.Function:
    own = (nodes.Parameter(name="self", mutable=changes),) if of_type else ()
    parameters = (*own, *(nodes.Parameter(name=other) for other in others))
    return nodes.Function(name=name, parameters=parameters, result=None if result is None else nodes.NamedTypeSyntax(name=result))


def _associated(name: str) -> nodes.TypeAlias:
    parameter = nodes.TypeParameter(name=name)
    return nodes.TypeAlias(name=name, type_parameters=(parameter,), target=nodes.NamedTypeSyntax(name="_"))


def _trait(name: str, parameters: tuple[str, ...], *members: nodes.Declaration) -> nodes.Trait:
    return nodes.Trait(name=name, type_parameters=tuple(nodes.TypeParameter(name=p) for p in parameters), members=members)


_COMPARED = ("lt", "le", "gt", "ge")
TRAITS: Mapping[str, nodes.Trait] = {
    trait.name: trait
    for trait in (
        *(
            _trait(name, ("Rhs",), _associated("Output"), _function(method, "rhs"))
            for name, method in BINARY.values()
            if name not in ("Eq", "Ord")
        ),
        _trait("Neg", (), _associated("Output"), _function("neg")),
        _trait("Eq", ("Rhs",), _function("eq", "other", result="bool"), _function("ne", "other", result="bool")),
        _trait("Ord", ("Rhs",), _function("cmp", "other"), *(_function(name, "other", result="bool") for name in _COMPARED)),
        _trait("Index", ("Idx",), _associated("Output"), _function("index", "index")),
        _trait("IndexMut", ("Idx",), _function("index_mut", "index", "value", changes=True)),
        _trait("Display", (), _function("to_string", result="String")),
        _trait("Clone", (), _function("clone", result="Self")),
        _trait("Iterator", (), _associated("Item"), _function("next", changes=True)),
        _trait("From", ("T",), _function("from", "value", of_type=False)),
        _trait("Into", ("T",), _function("into")),
    )
}
"""By name. Their types that programs leave out are those of the functions that an `impl` has."""

# ---- what an impl need not write -------------------------------------------------------------------------------------


def _self() -> nodes.Expression:
    return nodes.Name(name="self")


def _call(method: str, of: str = "self", to: str = "other") -> nodes.Expression:
    function = nodes.Field(value=nodes.Name(name=of), name=method)
    return nodes.Call(function=function, arguments=(nodes.Argument(value=nodes.Name(name=to)),))


def _not(value: nodes.Expression) -> nodes.Expression:
    return nodes.Unary(operator="not", operand=value)


def _compared(operator: str) -> nodes.Expression:
    return nodes.Binary(operator=operator, left=_call("cmp"), right=nodes.IntLiteral(value=0))


def _order() -> nodes.Expression:
    less = nodes.Unary(operator="-", operand=nodes.IntLiteral(value=1))
    same = nodes.Conditional(condition=_call("lt", "other", "self"), then=nodes.IntLiteral(value=1), otherwise=nodes.IntLiteral(value=0))
    return nodes.Conditional(condition=_call("lt"), then=less, otherwise=same)


def given_by(impl: nodes.Impl, trait: str) -> tuple[nodes.Function, ...]:
    """What the functions of an `impl` of one of these traits say of others that it leaves out."""
    own = {member.name: member for member in impl.members if isinstance(member, nodes.Function)}
    made: dict[str, nodes.Expression] = {}
    like: nodes.Function | None = None
    if trait == "Eq" and "eq" in own:
        like, made = own["eq"], {"ne": _not(_call("eq"))}
    elif trait == "Ord" and "cmp" in own:
        like, made = own["cmp"], {"lt": _compared("<"), "le": _compared("<="), "gt": _compared(">"), "ge": _compared(">=")}
    elif trait == "Ord" and "lt" in own:
        like = own["lt"]
        made = {"gt": _call("lt", "other", "self"), "le": _not(_call("lt", "other", "self")), "ge": _not(_call("lt")), "cmp": _order()}
    elif trait == "Display" and "to_string" not in own:
        like = next((own[name] for name in TEXT if name in own), None)
        if like is not None:
            function = nodes.Field(value=_self(), name=like.name)
            made = {"to_string": nodes.Call(function=function)}
    if like is None:
        return ()
    span = impl.span if like.name_span.path == "" else like.name_span
    return tuple(_placed(like, name, value, span) for name, value in made.items() if name not in own)


def _placed(like: nodes.Function, name: str, value: nodes.Expression, span: Span) -> nodes.Function:
    """A function that takes what another takes, and gives this value."""
    renamed = dict(zip(("self", "other"), (p.name for p in like.parameters), strict=False))

    def settled(node: nodes.Node) -> nodes.Node:
        return evolve(node, span=span, **({"name": renamed.get(node.name, node.name)} if isinstance(node, nodes.Name) else {}))

    body = mapped(nodes.Block(statements=(nodes.ExpressionStatement(value=value),)), settled)
    result = {"cmp": "int", "to_string": "String"}.get(name, "bool")
    return evolve(
        like,
        name=name,
        name_span=span,
        result=nodes.NamedTypeSyntax(name=result, span=span),
        body=body,
        annotations=(),
        visibility=Visibility.PUBLIC,
    )
