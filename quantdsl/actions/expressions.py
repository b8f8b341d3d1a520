"""Actions for the expressions, types and patterns that only QuantDSL has."""

import re

from compiler.syntax.statements import StatementActions
from compiler.typed_ast import nodes
from grammars.faults import Token
from runtime.records import evolve

_LAST_WORD = re.compile(r"\w+\Z")
_EXPONENT = re.compile(r"[eE]([+-]?[\d_]+)")
_LARGEST_EXPONENT = 400
"""Decimals are kept exactly, with all their digits."""
_SIZE = re.compile(r"\d[\d_]*\Z")


class QuantExpressions(StatementActions):
    case_words = frozenset(["none"])

    # ---- numbers: decimals are kept as written, and any suffix may be a currency -------------------------------------------

    def is_unit(self, suffix: str) -> bool:
        return True

    def number(self, start: int, end: int, token: Token) -> nodes.Expression:
        literal = super().number(start, end, token)
        if isinstance(literal, nodes.FloatLiteral | nodes.UnitNumber):
            exponent = _EXPONENT.search(token.text)
            if exponent is not None and (len(exponent[1]) > 4 or abs(int(exponent[1])) > _LARGEST_EXPONENT):
                hint = f"exponents go from -{_LARGEST_EXPONENT} to {_LARGEST_EXPONENT}"
                self.fault("0106", f"`{token.text}` is too large or too small", start, end, hint)
                return nodes.IntLiteral(value=0, span=self.span(start, end))
        if isinstance(literal, nodes.FloatLiteral):
            return evolve(literal, text=token.text.removesuffix(literal.suffix or "").replace("_", ""))
        return literal

    def money(self, start: int, end: int, token: Token) -> nodes.Expression:
        """`2_500_000 USD`: a number and its currency."""
        number = self.number(token.start, token.end, token)
        unit = _LAST_WORD.search(self.text[:end])
        assert unit is not None, "the rule ends in a word"
        text = token.text.replace("_", "")
        if isinstance(number, nodes.UnitNumber) or getattr(number, "suffix", None) or text.startswith("0x"):
            self.fault("0106", f"`{token.text}` has a suffix and a currency", start, end, f"write one of the two, as in `100 {unit[0]}`")
        return nodes.UnitNumber(text=text, unit=unit[0], span=self.span(start, end))

    # ---- types ------------------------------------------------------------------------------------------------------------

    def size_type(self, start: int, end: int, number: Token) -> nodes.TypeSyntax:
        if not _SIZE.match(number.text) or len(number.text) > 18:
            self.fault("0106", f"`{number.text}` is no size", start, end, "write a whole number, as in `ring<f64, 64>`")
            return nodes.SizeSyntax(value=1, span=self.span(start, end))
        return nodes.SizeSyntax(value=int(number.text.replace("_", "")), span=self.span(start, end))

    def constant_type(self, start: int, end: int, value: nodes.TypeSyntax) -> nodes.TypeSyntax:
        return nodes.ConstantTypeSyntax(value=value, span=self.span(start, end))
