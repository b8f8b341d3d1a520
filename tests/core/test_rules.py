"""The core's rules in the languages: each adds rules and refuses nodes, and none changes what the core says of a node."""

from typing import Any

import pytest

from compiler.typed_ast.check import ZYNML
from compiler.typed_ast.meaning import Meaning
from compiler.typed_ast.rules import CORE
from quantdsl.check import program  # noqa: F401  It registers QuantDSL's rules.
from quantdsl.check.checker import MEANING


@pytest.mark.parametrize("meaning", [ZYNML, MEANING], ids=["ZynML", "QuantDSL"])
def test_a_language_keeps_the_rules_of_the_core(meaning: Meaning) -> None:
    assert CORE.values
    assert {node: rule for node, rule in meaning.rules.values.items() if node in CORE.values} == CORE.values
    assert {node: rule for node, rule in meaning.rules.statements.items() if node in CORE.statements} == CORE.statements


TWO_MEANINGS = {"Compute", "UnitNumber", "Yield"}
"""A block that runs as a kernel, or as a loop in its function; numbers with a suffix of an abstract type, or with a unit of an instrument or
currency; what a block gives, which a kernel takes element by element, and a loop one after the other."""


def test_the_languages_have_rules_of_their_own_for_what_means_two_things_only() -> None:
    def both(ours: dict[Any, Any], theirs: dict[Any, Any]) -> set[str]:
        return {node.__name__ for node, rule in ours.items() if node in theirs and theirs[node] is not rule}

    refused = {node.__name__ for node in (*ZYNML.refuses, *MEANING.refuses, *MEANING.at_top)}
    found = both(ZYNML.rules.values, MEANING.rules.values) | both(ZYNML.rules.statements, MEANING.rules.statements)
    assert found == TWO_MEANINGS
    assert not found & refused
