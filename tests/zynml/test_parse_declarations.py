"""The parser on declarations, annotations and compute blocks."""

import pytest
from tests_parser_programs import COMPUTE, MATMUL

from compiler.diagnostics import ZyntaxError
from compiler.source import Source
from compiler.typed_ast import nodes
from compiler.typed_ast.kernel import Visibility
from zynml.parse import parse_source


def program(text: str) -> tuple[nodes.Statement, ...]:
    return parse_source(Source("p.zynml", text)).statements


def only(text: str) -> nodes.Statement:
    (statement,) = program(text)
    return statement


def function(text: str) -> nodes.Function:
    found = only(text)
    assert isinstance(found, nodes.Function)
    return found


def compute(text: str) -> nodes.Compute:
    statement = only(text)
    assert isinstance(statement, nodes.Let) and isinstance(statement.value, nodes.Compute)
    return statement.value


@pytest.mark.parametrize(
    "text",
    [
        "def f(a: T, k: int = 3): R { a }",
        "def f(a: T, k: int = 3) -> R { a }",
        "fn f(a: T, k: int = 3) -> R:\n    a",
        "def f(a: T, k: int = 3): R:\n    a",
        "def f(a: T, k: int = 3): R: a",
        "def f(\n    a: T,\n    k: int = 3,\n): R\n{\n    a\n}",
    ],
)
def test_spellings_of_a_function(text: str) -> None:
    found = function(text)
    assert (found.name, [p.name for p in found.parameters]) == ("f", ["a", "k"])
    assert [p.default is not None for p in found.parameters] == [False, True]
    assert isinstance(found.result, nodes.NamedTypeSyntax) and found.result.name == "R"
    assert found.body is not None and len(found.body.statements) == 1


def test_generics_and_where() -> None:
    found = function("def m<T: Add + Mul, U>(x: T): List<List<T>> where U: Clone { x }")
    bounds = [[b.name for b in t.bounds if isinstance(b, nodes.NamedTypeSyntax)] for t in found.type_parameters]
    assert bounds == [["Add", "Mul"], ["Clone"]]


def test_modifiers_of_functions() -> None:
    assert function("def _f() { }").visibility is Visibility.PRIVATE
    assert function("async def f() { await g() }").is_async
    extern = function("extern def f(a: i32): i32")
    assert extern.is_extern and extern.body is None
    assert [a.name for a in function("@cache(ttl=1h) @inline\n@deprecated\ndef f() { }").annotations] == ["cache", "inline", "deprecated"]
    assert [a.name for a in function("pipeline p(q: T) -> R { q }").annotations] == ["pipeline"]


def test_a_named_kernel_is_a_function_with_one_compute_block() -> None:
    kernel = function("@memoize @kernel(elementwise) @device(\"cpu\") def gelu(mut x: tensor[N], s: f32) { x }")
    assert [a.name for a in kernel.annotations] == ["memoize"]
    (statement,) = kernel.body.statements
    assert [a.name for a in statement.value.annotations] == ["kernel", "device", "name"]
    assert [(i.name, i.mutable) for i in statement.value.inputs] == [("x", True), ("s", False)]


def test_structs_in_both_forms() -> None:
    for text in (
        "struct P { x: f32, y: f32 = 1.0 }",
        "struct P:\n    x: f32\n    y: f32 = 1.0",
        "struct P {\n    x: f32\n    y: f32 = 1.0\n}",
    ):
        struct = only(text)
        assert isinstance(struct, nodes.Struct)
        assert [(f.name, f.default is not None) for f in struct.fields] == [("x", False), ("y", True)]


def test_enums_in_both_forms() -> None:
    for text in ("enum S<T> { A, B(i32, T), C { a: i32 } }", "enum S<T>:\n    A\n    B(i32, T)\n    C { a: i32 }"):
        enum = only(text)
        assert isinstance(enum, nodes.EnumDeclaration)
        assert [(v.name, len(v.elements), len(v.fields)) for v in enum.variants] == [("A", 0, 0), ("B", 2, 0), ("C", 0, 1)]


def test_traits_and_impls() -> None:
    trait, impl, own = program(
        "trait Area {\n    type Item\n    def area(self): f32\n    def twice(self): f32 { self.area() * 2.0 }\n}\n"
        "impl Area for List<i32>:\n    type Item = f32\n    def area(self): f32: 1.0\nimpl<T> Box<T> { def get(self): T { self.v } }"
    )
    assert isinstance(trait, nodes.Trait) and isinstance(impl, nodes.Impl) and isinstance(own, nodes.Impl)
    assert [type(m).__name__ for m in trait.members] == ["TypeAlias", "Function", "Function"]
    assert impl.trait is not None and own.trait is None
    assert [t.name for t in own.type_parameters] == ["T"]


def test_types_as_written() -> None:
    found = function(
        'def f(a: tensor[N, 2*M+1, ?, ?<=4096, f32] on "cuda:0", b: tensor, c: ?i32, d: (A, B) => R, e: (A, B), g: dict[str, i32]) { }'
    )
    a, b, c, d, e, g = (p.annotation for p in found.parameters)
    assert isinstance(a, nodes.TensorTypeSyntax) and a.dims is not None
    assert [type(dim.value).__name__ for dim in a.dims] == ["Name", "Binary", "NoneType", "NoneType"]
    assert (a.dims[3].bound, a.device, isinstance(a.dtype, nodes.NamedTypeSyntax)) == (4096, "cuda:0", True)
    assert isinstance(b, nodes.TensorTypeSyntax) and b.dims is None
    assert [type(t) for t in (c, d, e)] == [nodes.OptionTypeSyntax, nodes.FunctionTypeSyntax, nodes.TupleTypeSyntax]
    assert isinstance(g, nodes.NamedTypeSyntax) and len(g.arguments) == 2


def test_type_aliases() -> None:
    plain, record = program("type Score = f32\ntype P = { x: f32, y: f32 }")
    assert isinstance(plain, nodes.TypeAlias) and isinstance(record, nodes.TypeAlias)
    assert isinstance(record.target, nodes.RecordTypeSyntax)


def test_imports() -> None:
    found = [
        (s.form.value, s.module, s.alias, s.names)
        for s in program("import m\nimport a.b as T\nfrom a.b import f, g\nfrom m import *\n")
        if isinstance(s, nodes.Import)
    ]
    assert found == [
        ("module", ("m",), None, ()),
        ("module", ("a", "b"), "T", ()),
        ("names", ("a", "b"), None, ("f", "g")),
        ("everything", ("m",), None, ()),
    ]


def test_program_parameters_config_tests_and_render() -> None:
    text = (
        "param n: int in 1..1000 = 30\n"
        'config { device: "auto"\n    seed: 7 }\n'
        'test "sums" { assert(true) }\n'
        'render chart(e) { title: "Loss", width: 640 }'
    )
    n, config, test, chart = program(text)
    assert isinstance(n, nodes.ProgramParameter) and isinstance(n.range, nodes.Range)
    assert isinstance(config, nodes.Config) and [e.name for e in config.entries] == ["device", "seed"]
    assert isinstance(test, nodes.Test) and test.name == "sums"
    assert isinstance(chart, nodes.Render) and (chart.form, [o.name for o in chart.options]) == ("chart", ["title", "width"])


def test_a_model_with_options_is_a_call_and_an_imported_value_too() -> None:
    model, image = only('let m = model("f") { key: v, "other": 1 }'), only('let i = import image("a.png") as Image')
    assert isinstance(model, nodes.Let) and isinstance(model.value, nodes.Call)
    assert [argument.name for argument in model.value.arguments] == [None, "key", "other"]
    assert isinstance(image, nodes.Let) and isinstance(image.value, nodes.Cast) and isinstance(image.value.value, nodes.Call)


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("effect Ask { def ask(q: String): String }", "`effect`"),
        ("handler H for Ask { def ask(q: String): String { q } }", "`handler`"),
    ],
)
def test_syntax_that_nothing_executes_yet_is_parsed(text: str, feature: str) -> None:
    statement = only(text)
    found = statement.value if isinstance(statement, nodes.Let) else statement
    assert isinstance(found, (nodes.LaterDeclaration, nodes.LaterExpression))
    assert found.feature == feature


@pytest.mark.parametrize(
    ("text", "field", "functions"),
    [
        ("abstract Metre(f64)", "value", []),
        ('abstract Weight(i64) with Suffixes("g, kg")', "value", []),
        ("abstract Weight(i64) { grams: i64; def half(self): i64 { self.grams / 2 } }", "grams", ["half"]),
        ("abstract Weight(i64):\n    grams: i64\n    fn half(self) -> i64: self.grams / 2\n", "grams", ["half"]),
        ("abstract Metre(f64)\nimpl Metre(f64) { length: f64 }", "length", []),
        (
            "abstract Metre(f64)\nimpl Metre(f64) {\n    fn of(x: f64) -> Metre: Metre { value: x }\n    fn far(self) -> bool: self.value > 1e3\n}",
            "value",
            ["of", "far"],
        ),
        ("abstract Metre(f64)\nimpl Metre(f64) {\n    @inline\n    fn half(self) -> f64 { self.value / 2.0 }\n}", "value", ["half"]),
        ("abstract Metre(f64)\nimpl Metre(f64):\n    fn feet(self) -> f64:\n        let f = 0.3048\n        self.value / f\n", "value", ["feet"]),
    ],
)
def test_abstract_types_and_their_members_are_parsed(text: str, field: str, functions: list[str]) -> None:
    found, *impls, _ = program(text + "\nlet after = 1")
    assert isinstance(found, nodes.Struct) and found.suffixes is not None
    assert [one.name for one in found.fields] == [field]
    assert [getattr(one, "name", "") for impl in impls if isinstance(impl, nodes.Impl) for one in impl.members] == functions


def test_an_expression_behind_a_result_is_the_body_of_a_member() -> None:
    found = only("impl Metre(f64) {\n    fn far(self) -> bool: self.value > 1e3\n}")
    assert isinstance(found, nodes.Impl)
    (far,) = found.members
    assert isinstance(far, nodes.Function) and far.body is not None
    (value,) = far.body.statements
    assert isinstance(value, nodes.ExpressionStatement) and isinstance(value.value, nodes.Binary)


def test_user_suffixes_of_an_abstract_type_are_known() -> None:
    _, let = program('abstract Money(i64) with Suffixes("usd, cents") { value: i64 }\nlet m = 3usd')
    assert isinstance(let, nodes.Let) and isinstance(let.value, nodes.UnitNumber)
    assert (let.value.text, let.value.unit) == ("3", "usd")


# ---- compute --------------------------------------------------------------------------------------------------------------


def test_the_textbook_matmul_parses_letter_by_letter() -> None:
    block = compute(MATMUL)
    assert [i.name for i in block.inputs] == ["A", "B"]
    assert [a.name for a in block.annotations] == ["kernel", "device", "workgroup"]
    device = block.annotations[1].arguments[0].value
    assert isinstance(device, nodes.StringLiteral) and device.value == "cuda:0"
    assert [a.value.value for a in block.annotations[2].arguments if isinstance(a.value, nodes.IntLiteral)] == [16, 16]
    (nest,) = block.body.statements
    assert isinstance(nest, nodes.For) and nest.annotations == ()
    assert [c.names for c in nest.clauses] == [("i",), ("j",)]
    var, inner, store = nest.body.statements
    assert isinstance(var, nodes.Let) and var.mutable
    assert isinstance(inner, nodes.For) and isinstance(inner.body.statements[0], nodes.Assign)
    assert isinstance(store, nodes.Assign) and isinstance(store.target, nodes.Index)
    assert MATMUL[block.span.start : block.span.end] == MATMUL[8:-1]


@pytest.mark.parametrize("written", ["@kernel(reduce, +, axis=1)", "@kernel reduce(+, axis=1)"])
@pytest.mark.parametrize("place", ["let y = compute(x) {0} {{\n    yield x[0]\n}}", "let y = compute(x) {{\n    {0}\n    yield x[0]\n}}"])
def test_kernel_annotations_have_one_shape(written: str, place: str) -> None:
    (annotation,) = compute(place.format(written)).annotations
    kind, operator, axis = annotation.arguments
    assert isinstance(kind.value, nodes.Name) and kind.value.name == "reduce"
    assert isinstance(operator.value, nodes.OperatorValue) and operator.value.operator == "+"
    assert axis.name == "axis"


def test_loop_annotations_stay_on_their_loop() -> None:
    block = compute(
        "let y = compute(x) {\n    @kernel elementwise\n    @unroll(4) @parallel\n    for i in 0..N: out[i] = x[i]\n"
        "    @vectorize(8)\n    for j in 0..N: out[j] = x[j]\n}"
    )
    assert [a.name for a in block.annotations] == ["kernel"]
    assert [[a.name for a in s.annotations] for s in block.body.statements if isinstance(s, nodes.For)] == [
        ["unroll", "parallel"],
        ["vectorize"],
    ]


def test_inputs_results_and_shared_memory() -> None:
    block = compute(COMPUTE)
    assert [(i.name, i.mutable) for i in block.inputs] == [("img", False), ("a", False), ("d", True)]
    assert [type(r.type_syntax) for r in block.results] == [nodes.TensorTypeSyntax]
    shared = block.body.statements[0]
    assert isinstance(shared, nodes.SharedVariable)
    assert (shared.name, len(shared.dims), isinstance(shared.dtype, nodes.NamedTypeSyntax)) == ("bins", 1, True)


def test_header_of_compute_may_go_on_over_lines() -> None:
    block = compute("let z = compute(w.proj, x)\n    @kernel scan(+)\n    -> (y: tensor[N], k: tensor[N, i32])\n{\n    yield x[0]\n}\n")
    assert [i.name for i in block.inputs] == ["w.proj", "x"]
    assert [r.name for r in block.results] == ["y", "k"]
    colon = compute("let z = compute(x):\n    for i in 0..N: out[i] = x[i]\n")
    assert not colon.body.braces


def test_a_compute_block_is_an_operand() -> None:
    statement = only("let y = compute(x) { out[0] = x[0] } |> sqrt()")
    assert isinstance(statement, nodes.Let) and isinstance(statement.value, nodes.Call)
    assert statement.value.piped and isinstance(statement.value.arguments[0].value, nodes.Compute)


def test_an_annotation_before_what_takes_none_is_refused() -> None:
    with pytest.raises(ZyntaxError) as caught:
        program('@device("cuda")\nlet x = 3')
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("0402", "the annotation `@device` is misplaced: what follows is a `let`")
    assert found.hint == "write it after the `)` of `compute(...)`, or first in its body"


def test_types_without_fields_of_their_own() -> None:
    money, opaque, extern, module = (
        only(text) for text in ('abstract Money(i64) with Suffixes("usd, cents")', '@opaque("$T") type T', "extern struct S<A>", "module a.b")
    )
    assert isinstance(money, nodes.Struct) and (money.suffixes, [f.name for f in money.fields]) == (("usd", "cents"), ["value"])
    assert isinstance(opaque, nodes.Struct) and opaque.opaque
    assert isinstance(extern, nodes.Struct) and extern.opaque and [p.name for p in extern.type_parameters] == ["A"]
    assert isinstance(module, nodes.Module) and module.path == ("a", "b")
    assert isinstance(only('@opaque("$Tensor") type T'), nodes.TypeAlias)
