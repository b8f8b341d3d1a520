"""The actions of ZynML's grammar: those that all languages share, and ZynML's own."""

from zynml.actions.declarations import ZynmlDeclarations
from zynml.actions.kernels import NamedKernels
from zynml.actions.statements import ZynmlStatements
from zynml.actions.units import UnitActions
from zynml.grammar import GRAMMAR


class ZynmlActions(NamedKernels, UnitActions, ZynmlDeclarations, ZynmlStatements):
    """All of them, for one text."""

    grammar = GRAMMAR
