"""A construct that nothing executes yet is one message where it stands; what uses it is silent."""

import pytest

from tests.typed_ast.checking import codes, messages

PROGRAMS = {
    "an effect": "effect Log { def log(s: String) }\nlog(3)",
    "an annotation": 'let x = zeros(3)\nlet y = compute(x) @device(["cpu", "cuda"]) @parallel(model) { for i in 0..N { out[i] = x[i] } }\ny.foo(y @ 3)',
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_only_the_construct_is_named(program: str) -> None:
    assert codes(program) == ["0109"], messages(program)


def test_each_place_is_named() -> None:
    assert codes("effect A { }\neffect B { }\nlet a: i128 = 1") == ["0109", "0109", "0109"]


def test_a_struct_in_a_function() -> None:
    assert codes("def f() {\n    struct P { x: f32 }\n    1\n}\nprintln(f())") == ["0101"]
