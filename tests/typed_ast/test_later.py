"""A construct that nothing executes yet is one message where it stands; what uses it is silent."""

import pytest

from tests.typed_ast.checking import codes, messages

PROGRAMS = {
    "a struct": "struct P { x: f32 }\ndef f(p: P): P { P { x: p.x + 1.0 } }\nlet p = P { x: 1.0 }\nprintln(f(p).x, p)\nfor q in p { q.foo() }",
    "an enum": "enum Color { Red, Green }\nlet c = Color::Red\nlet d = Red\nif c == d { println(c) }",
    "a trait": "trait Area { def area(self): f32 }\ndef f(x: Area) { x.area() }\nprintln(2.0.area())",
    "an impl": "impl f32 { def twice(self): f32 { self * 2 } }\nprintln(2.0f32.twice() + 1)",
    "a generic type": "type Pair<T> = (T, T)\nlet p: Pair<i64> = (1, 2)",
    "a generic function": 'def same<T>(x: T): T { let y: T = x\n y }\nprintln(same(1) + same("a"))',
    "an abstract type": "abstract Money(i64) { value: i64 }\ndef f(m: Money) { m }\nlet m: Money = Money(3)",
    "an effect": "effect Log { def log(s: String) }\nlog(3)",
    "a match": "let x = 3\nlet y = match x { case 1 { a } case _ { b } }\nprintln(y + 1)",
    "a map": 'let ages = {"ann": 41}\nages["bob"] = 3\nfor name, age in ages { println(name + age) }\nprintln(ages.keys().foo)',
    "a result": "def f(): Result<i64, String> { 3 }\nlet x = f() + 1\nlet y: i64 = f()",
    "an async function": "async def f() { 1 }\nlet x = f() + 1",
    "an annotation": "let x = zeros(3)\nlet y = compute(x) @parallel(data, axis=0) { for i in 0..N { out[i] = x[i] } }\ny.foo(y @ 3)",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_only_the_construct_is_named(program: str) -> None:
    assert codes(program) == ["0109"], messages(program)


def test_each_place_is_named() -> None:
    assert codes("let x = 1\nmatch x { case _ { } }\nmatch x { case _ { } }\nlet a: Option<i64> = x") == ["0109", "0109", "0109"]


def test_a_struct_in_a_function() -> None:
    assert codes("def f() {\n    struct P { x: f32 }\n    P { x: 1.0 }\n}\nprintln(f())") == ["0109"]
