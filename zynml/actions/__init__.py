"""The actions of ZynML's grammar: one method a rule alias, each building one node of the typed tree.

They decide nothing about meaning. A fault that only shows when a rule is complete (a bad number, an expression that can't be
assigned to) is noted in `faults`, and a node is built all the same, so that the parser finds the other faults too."""

from zynml.actions.declarations import DeclarationActions


class ZynmlActions(DeclarationActions):
    """All of them, for one text: literals, types, patterns, expressions, statements and declarations build on each other."""
