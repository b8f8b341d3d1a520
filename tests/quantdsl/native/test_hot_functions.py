"""The functions of the benchmark: native code does what the interpreter does over a run of orders and books, and stays on the path."""

import numpy as np

from bench.native import books, orders, state
from bench.native_functions import BOOK, hot_functions
from compiler.analysis.host_costs import worst_case
from compiler.analysis.host_effects import findings
from compiler.hir.layout import new_memory
from compiler.passes.prove_checks import prove_checks
from tests.quantdsl.native.both import Both


def test_a_run_of_orders_and_books() -> None:
    run, rng = Both(hot_functions()), np.random.default_rng(3)
    some_orders, some_books = orders(rng), books(rng)
    for name, rows in (("risk", some_orders), ("fill", some_orders), ("signal", some_books)):
        held = state(name)
        found = {run(name, *held, rows[number : number + 1].copy()) for number in range(150)}
        assert len(found) > 2, f"{name} gives always the same"
    held = state("tick")
    outcomes = [run("tick", *held, some_books[n : n + 1].copy(), 10**9 + 700 * n) for n in range(200)]
    assert {(0,), (1,), (-1,)} <= set(outcomes)
    assert held[3]["count"][0] == sum(outcome in ((1,), (-1,)) for outcome in outcomes)


def test_an_empty_book_is_no_failure_of_the_signal() -> None:
    run = Both(hot_functions())
    assert run("signal", *state("signal"), new_memory(BOOK)) == (0,), "0 / 0 is NaN, and compares with nothing"


def test_they_stay_on_the_path() -> None:
    module = hot_functions()
    assert all(findings(module, name) == () for name in module.functions)
    before = {name: worst_case(module, name) for name in module.functions}
    proofs = [proof for function in module.functions.values() for proof in prove_checks(function)]
    assert 0 < sum(not proof.kept for proof in proofs) < len(proofs)
    for name, cost in before.items():
        after = worst_case(module, name)
        assert cost is not None and after is not None and after.cycles <= cost.cycles
