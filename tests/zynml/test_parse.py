"""The parser on every form of the language: which nodes it builds, and where they say they stand."""

import pytest
from attrs import fields
from tests_parser_programs import ALL

from compiler.source import Source, Span
from compiler.typed_ast import nodes
from zynml.parse import parse_expression, parse_source


def program(text: str) -> tuple[nodes.Statement, ...]:
    return parse_source(Source("p.zynml", text)).statements


def only(text: str) -> nodes.Statement:
    (statement,) = program(text)
    return statement


def shape(node: object) -> object:
    """A node as short nested text: operators and names in prefix form."""
    match node:
        case nodes.Name(name=name):
            return name
        case (
            nodes.IntLiteral(value=value)
            | nodes.FloatLiteral(value=value)
            | nodes.BoolLiteral(value=value)
            | nodes.StringLiteral(value=value)
        ):
            return value
        case nodes.Binary(operator=operator, left=left, right=right):
            return (operator, shape(left), shape(right))
        case nodes.Unary(operator=operator, operand=operand):
            return (operator, shape(operand))
        case nodes.Conditional(condition=condition, then=then, otherwise=otherwise):
            return ("?", shape(condition), shape(then), shape(otherwise))
        case nodes.Range(low=low, high=high, step=step, inclusive=inclusive):
            return ("..=" if inclusive else "..", shape(low), shape(high), *((shape(step),) if step else ()))
        case nodes.Call(function=function, arguments=arguments):
            return ("call", shape(function), *(shape(a.value) if a.name is None else (a.name, shape(a.value)) for a in arguments))
        case nodes.Field(value=value, name=name):
            return (".", shape(value), name)
        case nodes.Path(segments=segments):
            return "::".join(segments)
        case nodes.Index(value=value, indices=indices):
            return ("index", shape(value), *map(shape, indices))
        case nodes.Slice(low=low, high=high, step=step):
            return ("slice", *(shape(part) if part else None for part in (low, high, step)))
        case nodes.EllipsisIndex():
            return "..."
        case nodes.Cast(value=value, target=nodes.NamedTypeSyntax(name=name)):
            return ("as", shape(value), name)
        case nodes.Propagate(value=value):
            return ("e?", shape(value))
        case nodes.TupleLiteral(elements=elements):
            return ("tuple", *map(shape, elements))
        case nodes.ListLiteral(elements=elements):
            return ("list", *map(shape, elements))
        case nodes.Lambda(parameters=parameters, body=body):
            return ("lambda", *(p.name for p in parameters), shape(body))
        case nodes.OperatorValue(operator=operator):
            return f"op {operator}"
        case nodes.UnitNumber(text=text, unit=unit):
            return f"{text} {unit}"
    raise AssertionError(type(node))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", ("+", 1, ("*", 2, 3))),
        ("a - b - c", ("-", ("-", "a", "b"), "c")),
        ("-a ^ 2", ("-", ("**", "a", 2))),
        ("2 ^ -3 ** 2", ("**", 2, ("-", ("**", 3, 2)))),
        ("a @ b * c", ("*", ("@", "a", "b"), "c")),
        ("a << 1 + 2", ("<<", "a", ("+", 1, 2))),
        ("a < b + 1 && !c || not d == e", ("or", ("and", ("<", "a", ("+", "b", 1)), ("not", "c")), ("not", ("==", "d", "e")))),
        ("a ?? b or c", ("??", "a", ("or", "b", "c"))),
        ("x not in xs", ("not", ("in", "x", "xs"))),
        ("x in 0..n", ("in", "x", ("..", 0, "n"))),
        ("0..=n + 1 step -2", ("..=", 0, ("+", "n", 1), ("-", 2))),
        ("c ? a : d ? e : f", ("?", "c", "a", ("?", "d", "e", "f"))),
        ("c?a:b", ("?", "c", "a", "b")),
        ("a if c else b", ("?", "c", "a", "b")),
        ("f(x)? + 1", ("+", ("e?", ("call", "f", "x")), 1)),
        ("a & b |> f", ("&", "a", ("call", "f", "b"))),
        ("x |> f(a) |> m::g |> .sum(axis=1)", ("call", (".", ("call", "m::g", ("call", "f", "x", "a")), "sum"), ("axis", 1))),
        ("x |> model.forward(a)", ("call", (".", "model", "forward"), "x", "a")),
        ("t.0.1", (".", (".", "t", "0"), "1")),
        ("1.5.sqrt()", ("call", (".", 1.5, "sqrt"))),
        ("A[lo:hi:2, :, -1, ...]", ("index", "A", ("slice", "lo", "hi", 2), ("slice", None, None, None), ("-", 1), "...")),
        ("A[::2, 1:]", ("index", "A", ("slice", None, None, 2), ("slice", 1, None, None))),
        ("x as f32 + 1", ("+", ("as", "x", "f32"), 1)),
        ("Tensor::zeros([2, 3])", ("call", "Tensor::zeros", ("list", 2, 3))),
        ("x => x * 2", ("lambda", "x", ("*", "x", 2))),
        ("(a, b) => a + b", ("lambda", "a", "b", ("+", "a", "b"))),
        ("def(x, y): x + y", ("lambda", "x", "y", ("+", "x", "y"))),
        ("reduce(+, and, -1)", ("call", "reduce", "op +", "op and", ("-", 1))),
        ("()", ("tuple",)),
        ("(a,)", ("tuple", "a")),
        ("a<b", ("<", "a", "b")),
        ("f.in.for", (".", (".", "f", "in"), "for")),
        ("500ns + 16KB", ("+", "500 ns", 16384)),
        ("0xff + 0b10 + 0o17 + 1_000", ("+", ("+", ("+", 255, 2), 15), 1000)),
        ("2.0e4 - 1e-3", ("-", 20000.0, 0.001)),
        (r"'a\n\x41\u{1F600}\"'", 'a\nA\U0001f600"'),
        ('"""two\nlines " and quote"""', 'two\nlines " and quote'),
        ("extern println_str(s)", ("call", "extern::println_str", "s")),
        ("yield + step + type", ("+", ("+", "yield", "step"), "type")),
    ],
)
def test_expression_has_the_written_structure(text: str, expected: object) -> None:
    assert shape(parse_expression(text)) == expected


def test_suffixes_type_a_literal() -> None:
    assert parse_expression("7u8") == nodes.IntLiteral(value=7, suffix="u8", span=Span("<expression>", 0, 3))
    assert parse_expression("1f32") == nodes.FloatLiteral(value=1.0, suffix="f32", span=Span("<expression>", 0, 4))


def test_generic_call_and_path_carry_type_arguments() -> None:
    call = parse_expression("f<List<i32>>(x)")
    assert isinstance(call, nodes.Call)
    (argument,) = call.type_arguments
    assert isinstance(argument, nodes.NamedTypeSyntax)
    assert (argument.name, [a.name for a in argument.arguments if isinstance(a, nodes.NamedTypeSyntax)]) == ("List", ["i32"])
    path = parse_expression("List<i32>::new")
    assert isinstance(path, nodes.Path)
    assert (path.segments, len(path.arguments)) == (("List", "new"), 1)


def test_braces_are_dicts_records_structs_or_blocks() -> None:
    kinds = [type(parse_expression(text)) for text in ('({"a": 1})', "({a: 1})", "({(a): 1})", "P { x: 1, ..q }", "({})", "({ f(); a })")]
    assert kinds == [nodes.DictLiteral, nodes.RecordLiteral, nodes.DictLiteral, nodes.RecordLiteral, nodes.DictLiteral, nodes.Block]


def test_comprehensions() -> None:
    plain = parse_expression("[a + b for a, b in ps if a > b]")
    assert isinstance(plain, nodes.Comprehension)
    assert (plain.names, shape(plain.source), shape(plain.condition)) == (("a", "b"), "ps", (">", "a", "b"))
    keyed = parse_expression("({k: v for k, v in ps})")
    assert isinstance(keyed, nodes.Comprehension)
    assert shape(keyed.key) == "k"


def test_fstring_parts_stand_at_their_places_in_the_file() -> None:
    text = 'let s = f"{x + y:>8.2f} {m.get("a")} {{}}"'
    statement = only(text)
    assert isinstance(statement, nodes.Let)
    string = statement.value
    assert isinstance(string, nodes.FString)
    sum_part, blank, call_part, braces = string.parts
    assert (shape(sum_part.value), sum_part.format, blank.text, braces.text) == (("+", "x", "y"), ">8.2f", " ", " {}")
    assert sum_part.value is not None and call_part.value is not None
    assert [text[part.span.start : part.span.end] for part in (sum_part.value, call_part.value)] == ["x + y", 'm.get("a")']


def test_nested_and_triple_quoted_fstrings() -> None:
    string = parse_expression('f"""{f"{a}!" + c}\n{b:04d}"""')
    assert isinstance(string, nodes.FString)
    first, line_end, second = string.parts
    assert isinstance(first.value, nodes.Binary)
    assert isinstance(first.value.left, nodes.FString)
    assert (line_end.text, second.format) == ("\n", "04d")


@pytest.mark.parametrize(
    ("text", "mutable", "typed"),
    [
        ("let x = 1", False, False),
        ("let x: i32 = 1", False, True),
        ("x: i32 = 1", False, True),
        ("let mut x = 1", True, False),
        ("mut x = 1", True, False),
        ("var x: f32 = 1", True, True),
        ("var x = 1", True, False),
    ],
)
def test_bindings(text: str, mutable: bool, typed: bool) -> None:
    statement = only(text)
    assert isinstance(statement, nodes.Let)
    assert isinstance(statement.pattern, nodes.BindingPattern)
    assert (statement.pattern.name, statement.mutable, statement.annotation is not None) == ("x", mutable, typed)


def test_soft_words_are_names_where_they_cannot_stand() -> None:
    kinds = [
        type(s).__name__
        for s in program("var var = 0.0\nvar += d\nlet kernel = x\nfor i in 0..n step step: print(i)\ntype = config\nshared[0] = 1")
    ]
    assert kinds == ["Let", "Assign", "Let", "For", "Assign", "Assign"]


@pytest.mark.parametrize("text", ["var step = 16", "var on: int = 1", "var as = x as i32", "mut step = 1", "let on = 2"])
def test_words_behind_operands_are_names_of_variables(text: str) -> None:
    (statement,) = program(text)
    assert isinstance(statement, nodes.Let) and isinstance(statement.pattern, nodes.BindingPattern)
    assert statement.pattern.name == text.split()[1].strip(":")


def test_a_variable_named_var_is_still_cast() -> None:
    (statement,) = program("var as f32")
    assert isinstance(statement, nodes.ExpressionStatement)


def test_tuple_patterns_and_targets() -> None:
    let, assign = program("let (a, _, (b, c)) = t\n(x, p.f, a[i]) = t")
    assert isinstance(let, nodes.Let) and isinstance(let.pattern, nodes.TuplePattern)
    assert [type(e).__name__ for e in let.pattern.elements] == ["BindingPattern", "WildcardPattern", "TuplePattern"]
    assert isinstance(assign, nodes.Assign) and isinstance(assign.target, nodes.TupleLiteral)


def test_assignment_operators() -> None:
    operators = [
        s.operator for s in program("x = 1\nx += 1; x -= 1\nx *= 2\nx /= 2\nx %= 2\nx @= y\nx ^= 2") if isinstance(s, nodes.Assign)
    ]
    assert operators == [None, "+", "-", "*", "/", "%", "@", "**"]


def test_loops() -> None:
    nest, pairs, loop = program("for i in 0..M, j in 0..N: f(i, j)\nfor i, v in enumerate(xs) { g(i) }\nwhile c:\n    break; continue\n")
    assert isinstance(nest, nodes.For) and isinstance(pairs, nodes.For) and isinstance(loop, nodes.While)
    assert [clause.names for clause in nest.clauses] == [("i",), ("j",)]
    assert [clause.names for clause in pairs.clauses] == [("i", "v")]
    assert [type(s).__name__ for s in loop.body.statements] == ["Break", "Continue"]


@pytest.mark.parametrize(
    "text",
    [
        "if a { x } elif b { y } else { z }",
        "if a { x } else if b { y } else { z }",
        "if a:\n    x\nelif b:\n    y\nelse:\n    z",
        "if a: x\nelif b: y\nelse: z",
        "if a {\n  x\n}\nelse if b:\n    y\nelse {\nz }",
        "if a {\n    x\n} else:\n    if b:\n        y\n    else:\n        z",
    ],
)
def test_if_chains_nest_in_otherwise(text: str) -> None:
    statement = only(text)
    assert isinstance(statement, nodes.ExpressionStatement) and isinstance(statement.value, nodes.If)
    otherwise = statement.value.otherwise
    assert otherwise is not None
    (inner,) = otherwise.statements
    assert isinstance(inner, nodes.ExpressionStatement) and isinstance(inner.value, nodes.If)
    assert inner.value.otherwise is not None


def test_patterns_of_match() -> None:
    text = """match e {
    case Some(v) { v }
    case None() { 1 }
    case 200 | 1..=5 { 2 }
    case (a, b) if a > b { 3 }
    case P { x: 0, y } => 4
    case Color::Red: 5
    case -1: 6
    case "a": 7
    case _ { 8 }
}"""
    statement = only(text)
    assert isinstance(statement, nodes.ExpressionStatement) and isinstance(statement.value, nodes.Match)
    kinds = [type(arm.pattern).__name__.removesuffix("Pattern") for arm in statement.value.arms]
    assert kinds == ["Variant", "Variant", "Alternative", "Tuple", "Struct", "Variant", "Literal", "Literal", "Wildcard"]
    assert statement.value.arms[3].guard is not None


def test_arrow_arms_on_lines_or_with_commas() -> None:
    for text in ("let r = match v {\n    Some(x) => x + 1\n    None => { 0 }\n}", "let r = match v { Some(x) => x + 1, None => 0 }"):
        statement = only(text)
        assert isinstance(statement, nodes.Let) and isinstance(statement.value, nodes.Match)
        assert [type(arm.pattern) for arm in statement.value.arms] == [nodes.VariantPattern, nodes.VariantPattern]


def test_try_and_throw() -> None:
    first, second, third = program(
        "try { a() } catch ParseError as e { b() } catch _ { c() }\ntry:\n    a()\ncatch E:\n    b()\nthrow E(1)"
    )
    assert isinstance(first, nodes.ExpressionStatement) and isinstance(first.value, nodes.Try)
    assert [(h.name, h.error is None) for h in first.value.handlers] == [("e", False), (None, True)]
    assert isinstance(second, nodes.ExpressionStatement) and isinstance(second.value, nodes.Try)
    assert isinstance(third, nodes.Throw)


def test_every_node_of_a_program_has_a_span_inside_its_parent() -> None:
    def check(node: object, outer: Span) -> None:
        if isinstance(node, tuple):
            for part in node:
                check(part, outer)
        elif isinstance(node, nodes.TypeParameter):
            return  # Its bounds may stand in a `where`.
        elif isinstance(node, nodes.Parameter) and node.name == "self":
            return  # Its type may be that of the `impl` around it.
        elif isinstance(node, nodes.Node):
            assert node.span.path == "p.zynml"
            assert outer.start <= node.span.start <= node.span.end <= outer.end, node
            for attribute in fields(type(node)):
                check(getattr(node, attribute.name), node.span)

    for text in ALL:
        tree = parse_source(Source("p.zynml", text))
        check(tree, Span("p.zynml", 0, len(text)))
