"""The forms of clauses: each has an example that fits it, and every word of a form is known to the layout filter."""

import pytest

from compiler.typed_ast import nodes
from grammars.clauses import CLAUSES, LINKS
from quantdsl import nodes as quant
from quantdsl.check.checker import MEANING
from quantdsl.events import EVENTS
from quantdsl.grammar import WORDS
from tests.quantdsl.reading import statements

HEADS = {"currency": "currency C", "instrument": "instrument I : C", "risk": "risk R for I"}


@pytest.mark.parametrize(("declaration", "word"), [(declaration, word) for declaration, forms in CLAUSES.items() for word in forms])
def test_the_example_of_a_clause_fits_its_form(declaration: str, word: str) -> None:
    forms = CLAUSES[declaration]
    others = " ".join(form.example for name, form in forms.items() if form.required and name != word)
    assert f"Clause(name='{word}'" in statements(f"{HEADS[declaration]} {{ {forms[word].example} {others} }}")[0]


def test_the_words_of_clauses_are_those_of_the_layout_filter() -> None:
    assert WORDS.clauses == {name.upper(): frozenset(forms) for name, forms in CLAUSES.items()}
    assert {"all", "among", "maker", "notional", "of", "per", "taker"} == LINKS


@pytest.mark.parametrize("event", EVENTS)
def test_the_example_of_an_event_is_a_handler(event: str) -> None:
    assert f"Handler(event='{event}'" in statements(f"strategy S on A {{\n  {EVENTS[event].example}\n}}")[0]


MADE = {nodes.Inlined, nodes.SizeCheck, nodes.TileVariable}
"""Statements that no program writes."""


def test_the_checker_has_a_rule_for_every_class_of_the_tree() -> None:
    classes = {cls for cls in {**vars(nodes), **vars(quant)}.values() if isinstance(cls, type)}
    bases = {nodes.Expression, nodes.Statement, nodes.Declaration}
    concrete = {cls for cls in classes if issubclass(cls, nodes.Expression | nodes.Statement)} - bases
    assert concrete - MADE == {*MEANING.rules.values, *MEANING.rules.statements, *MEANING.refuses, *MEANING.at_top}
