"""The core's rules in the languages: each adds rules and refuses nodes, and none changes what the core says of a node."""

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
