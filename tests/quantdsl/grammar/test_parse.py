"""Forms that only QuantDSL has, and the words that are words only where they can stand."""

import pytest

from compiler.source import Source
from compiler.typed_ast import nodes
from quantdsl import nodes as quant
from quantdsl.parse import parse_source
from tests.quantdsl.reading import expression, statements


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a +| b * c", "(+| a (* b c))"),
        ("a *% b -% c", "(-% (*% a b) c)"),
        ("a + b *| c", "(+ a (*| b c))"),
        ("-a +% -1", "(+% (- a) (- 1))"),
        ("a || b |> f", "f((or a b))"),
        ("10lots", "10`lots"),
        ("2_500_000 USD", "2500000`USD"),
        ("-1_000.25 USD * 2", "(* (- 1000.25`USD) 2)"),
        ("50bps", "50`bps"),
        ("0bps", "0`bps"),
        ("1.5pct", "1.5`pct"),
        ("0.1", "0.1f"),
        ("1_000.50", "1000.50f"),
        ("1e-3", "1e-3f"),
        ("-9223372036854775808", "(- 9223372036854775808)"),
        ("touch(side)?", "(? touch(side))"),
        ("a? + b?", "(+ (? a) (? b))"),
        ("a ?? b ?? c", "(?? (?? a b) c)"),
        ("f(g()?, h = x?)", "f((? g()), (? x))"),
        ("c ? a : b", "(if c a b)"),
        ("a if c else b", "(if c a b)"),
        ("[0.0; 2 * N]", "[0.0f; (* 2 N)]"),
        ("t.price.f64", "t.price.f64"),
        ("ring[0].x", "Index(value=Name(name='ring'), indices=[IntLiteral(value=0)]).x"),
        ("max(a, b) +| state", "(+| max(a, b) state)"),
    ],
)
def test_expressions(text: str, expected: str) -> None:
    assert expression(text) == expected


@pytest.mark.parametrize("word", ["use", "currency", "instrument", "risk", "strategy", "signal", "state", "emit", "warmup", "max", "effects", "all",
                                  "accounting", "tick", "lot", "rate", "fee", "per", "of", "session", "order", "mid"])  # fmt: skip
def test_soft_words_are_names_elsewhere(word: str) -> None:
    (function,) = parse_source(Source("p.qdsl", f"fn f() {{\n  var {word} = 1\n  {word} = {word} + g({word})\n  {word} += x.{word}\n}}")).statements
    assert isinstance(function, nodes.Function) and function.body is not None
    assert [type(statement).__name__ for statement in function.body.statements] == ["Let", "Assign", "Assign"]


def _clauses(text: str) -> dict[str, dict[str, str]]:
    (declaration,) = parse_source(Source("p.qdsl", text)).statements
    assert isinstance(declaration, quant.Risk | quant.Instrument | quant.Currency)
    return {clause.name: {value.name: _written(text, value) for value in clause.values} for clause in declaration.clauses}


def _written(text: str, value: nodes.FieldValue) -> str:
    return text[value.value.span.start : value.value.span.end]


def test_clauses_need_no_separators_and_take_expressions() -> None:
    text = """risk Desk for ES { max_order_qty 2 * CLIP max_notional 2_500_000 USD price_collar 50bps of mid
      max_position CLIP; max_open_orders 8 notional 1 USD, rate all 50 per 1s
      max_loss 5_000 USD per session -> reducing  duplicate_id reject among 100 }"""
    assert _clauses(text) == {
        "max_order_qty": {"limit": "2 * CLIP"},
        "max_notional": {"limit": "2_500_000 USD"},
        "price_collar": {"limit": "50bps", "reference": "mid"},
        "max_position": {"limit": "CLIP"},
        "max_open_orders": {"limit": "8", "notional": "1 USD"},
        "rate": {"all": "all", "limit": "50", "window": "1s"},
        "max_loss": {"limit": "5_000 USD", "span": "session", "action": "reducing"},
        "duplicate_id": {"action": "reject", "count": "100"},
    }


def test_the_clauses_of_an_instrument() -> None:
    text = 'instrument ES : USD { tick 0.25 lot 1 multiplier 50 session "13:30".."20:00" UTC fee maker -0.5bps taker 2 USD per lot }'
    assert _clauses(text) == {
        "tick": {"size": "0.25"},
        "lot": {"size": "1"},
        "multiplier": {"factor": "50"},
        "session": {"hours": '"13:30".."20:00"', "zone": "UTC"},
        "fee": {"maker": "-0.5bps", "taker": "2 USD", "taker_unit": "lot"},
    }


@pytest.mark.parametrize(
    ("text", "settings", "record"),
    [
        ("on start { }", 0, None),
        ("on trade(t) { }", 0, "t"),
        ("on trade { }", 0, None),
        ("on timer(100ms) { }", 1, None),
        ("on bar(1m)(x) { }", 1, "x"),
        ("on bar(100ticks) { }", 1, None),
        ("@critical_path @target_latency(5us, hard) on book(b): f(b)", 0, "b"),
    ],
)
def test_handlers(text: str, settings: int, record: str | None) -> None:
    (strategy,) = parse_source(Source("p.qdsl", f"strategy S on A, B {{\n  {text}\n}}")).statements
    assert isinstance(strategy, quant.Strategy)
    assert [traded.name for traded in strategy.instruments] == ["A", "B"]
    (handler,) = strategy.body.statements
    assert isinstance(handler, quant.Handler)
    assert (len(handler.settings), handler.record) == (settings, record)
    assert len(handler.annotations) == text.count("@")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("Side?", "OptionTypeSyntax(value=NamedTypeSyntax(name='Side'))"),
        ("Price<ES>?", "OptionTypeSyntax(value=NamedTypeSyntax(name='Price', arguments=[NamedTypeSyntax(name='ES')]))"),
        ("ring<f64, 64>", "NamedTypeSyntax(name='ring', arguments=[NamedTypeSyntax(name='f64'), SizeSyntax(value=64)])"),
        ("[f64; 2*N]", "ArrayTypeSyntax(element=NamedTypeSyntax(name='f64'), size=Binary(operator='*', left=IntLiteral(value=2), right=Name(name='N')))"),
        ("(int, Qty<ES>)", "TupleTypeSyntax(elements=[NamedTypeSyntax(name='int'), NamedTypeSyntax(name='Qty', arguments=[NamedTypeSyntax(name='ES')])])"),
        ("Result<(), table<K, V, N>>", "NamedTypeSyntax(name='Result', arguments=[TupleTypeSyntax(), NamedTypeSyntax(name='table', arguments="
         "[NamedTypeSyntax(name='K'), NamedTypeSyntax(name='V'), NamedTypeSyntax(name='N')])])"),
    ],
)  # fmt: skip
def test_types(written: str, expected: str) -> None:
    assert f"annotation={expected})" in statements(f"fn f(x: {written}) {{ }}")[0]
    assert f"result={expected}" in statements(f"extern fn f() -> {written} effects(none)")[0]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("none", "VariantPattern(path=['none'])"),
        ("x", "BindingPattern(name='x')"),
        ("Buy", "VariantPattern(path=['Buy'])"),
        ("Side::Buy", "VariantPattern(path=['Side', 'Buy'])"),
        ("some(x)", "VariantPattern(path=['some'], arguments=[BindingPattern(name='x')])"),
        ("Leave { why: 3, at }", "StructPattern(path=['Leave'], fields=[FieldPattern(name='why', pattern=LiteralPattern(value=IntLiteral(value=3))), "
         "FieldPattern(name='at', pattern=BindingPattern(name='at'))])"),
        ("-1..=5", "LiteralPattern(value=Range(low=Unary(operator='-', operand=IntLiteral(value=1)), high=IntLiteral(value=5), inclusive=True))"),
        ("(Buy | Sell, _)", "TuplePattern(elements=[AlternativePattern(alternatives=[VariantPattern(path=['Buy']), VariantPattern(path=['Sell'])]), "
         "WildcardPattern()])"),
    ],
)  # fmt: skip
def test_patterns(pattern: str, expected: str) -> None:
    assert f"Arm(pattern={expected}, body=" in statements(f"fn f() {{\n match v {{ {pattern} => 1 }}\n}}")[0]
    assert f"Arm(pattern={expected}, body=" in statements(f"fn f() {{\n match v:\n   case {pattern}: 1\n}}")[0]


def test_what_loops_and_functions_say_besides() -> None:
    assert "annotation=ConstantTypeSyntax(value=NamedTypeSyntax(name='int'))" in statements("fn f(n: const int) { }")[0]
    assert "bound=Binary(operator='*', left=IntLiteral(value=3), right=Name(name='n'))" in statements("fn f() { while a < max(b, c) max 3 * n { } }")[0]
    assert "effects=['alloc', 'io']" in statements("extern fn f(x: f64) effects(alloc, io)")[0]
    assert "effects" not in statements("extern fn f(x: f64)")[0]
    assert "effects=[]" in statements("extern fn f(x: f64) -> f64 effects(none)")[0]


def test_use_and_module() -> None:
    assert statements("module a.b\nuse std.signals as s") == [
        "Module(path=['a', 'b'])",
        "Import(form=ImportForm(value='module'), module=['std', 'signals'], alias='s')",
    ]


def test_a_parameter_may_be_called_step() -> None:
    program = parse_source(Source("s.qdsl", "param step: int = 3\nconst TWO = step * 2\n"))
    declared = program.statements[0]
    assert isinstance(declared, nodes.ProgramParameter)
    assert declared.name == "step"
