"""`await` in the tree: what the parser makes of it, types, JSON."""

import pytest

from compiler.source import Source
from compiler.typed_ast import nodes
from compiler.typed_ast.constants import duration
from compiler.typed_ast.json import from_json, to_json
from tests.typed_ast.checking import codes, messages, type_of
from zynml.parse import parse_source


def parsed(text: str) -> nodes.Program:
    return parse_source(Source("p.zynml", text))


def value(text: str) -> nodes.Await:
    (let,) = parsed(f"let r = {text}").statements
    assert isinstance(let, nodes.Let) and isinstance(let.value, nodes.Await)
    return let.value


@pytest.mark.parametrize(
    ("text", "which", "futures", "limited", "otherwise"),
    [
        ("await f", "one", 1, False, False),
        ("await f(x).g", "one", 1, False, False),
        ("await all(fs)", "all", 1, False, False),
        ("await any(f, g, h)", "any", 3, False, False),
        ("await all()", "all", 0, False, False),
        ("await f timeout 1s", "one", 1, True, False),
        ("await f timeout 1.5ms else d", "one", 1, True, True),
        ("await f timeout 1s else await g timeout 2s else d", "one", 1, True, True),
        ("await f timeout 1s\n    else d", "one", 1, True, True),
        ("await any(fs) timeout 3us else (0, 1)", "any", 1, True, True),
        ("await all.f", "one", 1, False, False),
        ("await fs.all()", "one", 1, False, False),
    ],
)
def test_what_is_awaited(text: str, which: str, futures: int, limited: bool, otherwise: bool) -> None:
    found = value(text)
    assert (found.which.value, len(found.futures)) == (which, futures)
    assert (found.timeout is not None, found.otherwise is not None) == (limited, otherwise)


def test_it_binds_like_a_sign() -> None:
    (let,) = parsed("let r = await f + await g * 2").statements
    assert isinstance(let, nodes.Let) and isinstance(let.value, nodes.Binary) and let.value.operator == "+"
    assert isinstance(let.value.left, nodes.Await)


def test_the_else_of_a_line_stays_with_its_if() -> None:
    (statement,) = parsed("if c: x = await f timeout 1s\nelse: x = 0").statements
    assert isinstance(statement, nodes.ExpressionStatement) and isinstance(statement.value, nodes.If)
    assert statement.value.otherwise is not None
    (choice,) = parsed("let x = a if b else await f timeout 1s else d").statements
    assert isinstance(choice, nodes.Let) and isinstance(choice.value, nodes.Conditional)


def test_await_is_a_name_elsewhere() -> None:
    assert not any(isinstance(s, nodes.Await) for s in parsed("let await = 1\nlet timeout = await + 1\n").statements)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [("5ns", 5), ("20us", 20_000), ("1.5ms", 1_500_000), ("0s", 0), ("2m", 120 * 10**9), ("1h", 3600 * 10**9), ("2d", 172_800 * 10**9)],
)
def test_durations(text: str, nanoseconds: int) -> None:
    limit = value(f"await f timeout {text}").timeout
    assert limit is not None and duration(limit) == nanoseconds


def test_durations_without_end_are_the_longest() -> None:
    limit = value("await f timeout 1e300d").timeout
    assert limit is not None and (1 << 62) < (duration(limit) or 0) < 1 << 63


def test_json_keeps_it() -> None:
    program = parsed("let r = await any(f, g) timeout 1s else (0, d)\nlet s = await all(fs)\nlet t = await f\n")
    assert from_json(to_json(program)) == program


F = "def f(): Future<i64> { g() }\ndef g(): Future<i64> { f() }\ndef t(): Future<tensor[3]> { t() }\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("f()", "Future<i64>"),
        ("await f()", "i64"),
        ("await all([f(), g()])", "List<i64>"),
        ("await all(f(), t())", "(i64, tensor[3, f32])"),
        ("await all((f(), t()))", "(i64, tensor[3, f32])"),
        ("await any([f(), g()])", "(i64, i64)"),
        ("await any(f(), g())", "(i64, i64)"),
        ("await any(f(), t())", "(i64, ?)"),
        ("await f() timeout 1s else 3", "i64"),
        ("await t() timeout 1s else zeros(3)", "tensor[3, f32]"),
        ("[f(), g()]", "List<Future<i64>>"),
        ("(await t()).sum()", "f32"),
        ("[await x for x in [f(), g()]]", "List<i64>"),
        ("def(x): await x", "(?) => ?"),
    ],
)
def test_types(text: str, shown: str) -> None:
    assert type_of(text, F) == shown


def test_sizes_go_through_futures() -> None:
    program = "def start(x: tensor[N]): Future<tensor[N]> { start(x) }\nlet a = (await start(zeros(3))) + (await start(zeros(4)))"
    assert codes(program) == ["0301"], messages(program)
