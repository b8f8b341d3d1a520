"""The engine's files of QuantDSL: what they can call is theirs alone."""

import pytest

from compiler.source import Source
from quantdsl.check.program import check_program
from quantdsl.engine.build import engine_module
from quantdsl.parse import parse_source

CALLS = {
    "muldiv": "let x = muldiv(1, 2, 3, up)",
    "quotient": "let x = quotient(1, 2, up)",
    "require": 'require(true, "0901", "no")',
    "collect": "collect(1)",
    "take_slot": "let x = take_slot()",
    "give_back": "give_back(0)",
    "add_to_notional": "add_to_notional(1, 1)",
    "note_asked": "note_asked()",
    "signed": "let x = signed(0, 1)",
    "set_asked": "set_asked(0, 1)",
}


@pytest.mark.parametrize("name", CALLS)
def test_programs_know_nothing_of_it(name: str) -> None:
    engine_module()
    found = check_program(parse_source(Source("a.qdsl", f"fn f() {{\n    {CALLS[name]}\n}}\n"))).diagnostics.errors
    assert [(one.code, one.message) for one in found] == [("0201", f"`{name}` is not defined")]


def test_programs_know_nothing_of_its_memory() -> None:
    (found,) = check_program(parse_source(Source("a.qdsl", "fn f() {\n    let x = account.cash\n}\n"))).diagnostics.errors
    assert (found.code, found.message) == ("0201", "`account` is not defined")


def test_failures_in_it_have_no_place() -> None:
    functions = engine_module().functions
    for file in ("account", "orders", "reports"):
        sites = [site for name, function in functions.items() if name.startswith(f"{file}.") for site in function.sites]
        assert sites and all(site.span is None for site in sites)
