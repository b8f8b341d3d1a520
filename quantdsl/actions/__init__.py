"""The actions of QuantDSL's grammar: those that all languages share, and its own."""

from quantdsl.actions.declarations import QuantDeclarations
from quantdsl.actions.statements import QuantStatements
from quantdsl.grammar import GRAMMAR


class QuantActions(QuantDeclarations, QuantStatements):
    """All of them, for one text."""

    grammar = GRAMMAR
