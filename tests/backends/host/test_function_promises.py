"""What the promises of functions make of their native code."""

from compiler.backends.host.native_code import lowered
from compiler.hir.module import HirExecutionConstraints
from compiler.typed_ast.check import checker_of
from compiler.typed_ast.effects import effects
from compiler.typed_ast.native_calls import has_native_code
from tests.backends.host.native_programs import opened

TEXT = """
@inline_always
fn squared(x: float) -> float { x * x }
fn total(n: int) -> float {
    var sum = 0.0
    for i in 0..n { sum += squared(i as float) }
    sum
}
"""


def test_a_function_that_is_inline_always_is_taken_in_wherever_native_code_calls_it() -> None:
    session = opened(TEXT)._session
    program = session.check()
    checker = checker_of(program, session.language.library)
    found = effects(checker, program, has_native_code)
    module = lowered(checker, found, ["squared", "total"]).module
    inlined = {f.name for f in module.functions.values() if f.constraints == HirExecutionConstraints(inline_always=True)}
    assert len(inlined) == 1 and "squared" in inlined.pop()


def test_its_calls_give_what_they_gave() -> None:
    assert opened(TEXT, "all").functions["total"](4) == 14.0
