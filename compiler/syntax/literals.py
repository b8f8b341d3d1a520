"""Actions for numbers, strings and f-strings."""

import re

from compiler.syntax.base import Actions
from compiler.typed_ast import nodes
from compiler.typed_ast.suffixes import suffix_hint
from grammars.faults import Fault, Token
from grammars.scan import hole_end, quotes_of
from grammars.words import HARD

_INT_SUFFIXES = frozenset(["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"])
_FLOAT_SUFFIXES = frozenset(["f16", "bf16", "f32", "f64"])
_UNITS = frozenset(["ns", "us", "ms", "s", "m", "h", "d", "B", "KB", "MB", "GB", "TB"])
_PREFIXED = re.compile(r"0(?:[xX](?P<x>[0-9A-Fa-f_]+?)|[bB](?P<b>[01_]+)|[oO](?P<o>[0-7_]+))(?P<suffix>[iu](?:8|16|32|64))?\Z")
_DECIMAL = re.compile(r"(?P<number>\d[\d_]*(?P<fraction>\.\d[\d_]*)?(?P<exponent>[eE][+-]?\d[\d_]*)?)(?P<suffix>[A-Za-z_]\w*)?\Z")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "0": "\0", "{": "{", "}": "}"}
_ESCAPE = re.compile(r"x[0-9A-Fa-f]{2}|u\{[0-9A-Fa-f]{1,6}\}|.|\Z", re.DOTALL)
_FORMAT = re.compile(r"(?:.?[<>=^])?[+\- ]?z?#?0?\d*[,_]?(?:\.\d+)?[bcdeEfFgGnosxX%]?\Z", re.DOTALL)
_MAX_DIGITS = 4000
_NAME = re.compile(r"[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*")


class LiteralActions(Actions):
    def is_unit(self, suffix: str) -> bool:
        """Whether a number may have this suffix, which is no type's."""
        return suffix in _UNITS or suffix in self.units

    def number(self, start: int, end: int, token: Token) -> nodes.Expression:
        text, span = token.text, self.span(start, end)
        if match := _PREFIXED.match(text):
            base, digits = next((base, match[base]) for base in "xbo" if match[base])
            value = int(digits.replace("_", "") or "0", {"x": 16, "b": 2, "o": 8}[base]) if len(digits) < _MAX_DIGITS else 1 << 64
            return self._integer(start, end, value, match["suffix"])
        match = _DECIMAL.match(text)
        assert match is not None, "the lexer lets nothing else through"
        number, suffix = match["number"].replace("_", ""), match["suffix"]
        fractional = match["fraction"] or match["exponent"]
        if text[:1] == "0" and suffix and suffix[0] in "xXbBoO" and not fractional and number == "0" and not self.is_unit(suffix):
            kind, digits = {"x": ("hexadecimal", "0 to 9 and a to f"), "b": ("binary", "0 and 1"), "o": ("octal", "0 to 7")}[
                suffix[0].lower()
            ]
            self.fault("0106", f"`{text}` is not a number", start, end, f"{kind} digits are {digits}")
            return nodes.IntLiteral(value=0, span=span)
        if suffix in _INT_SUFFIXES and fractional:
            self.fault(
                "0106",
                f"`{text}` is not a number: `{suffix}` holds whole numbers only",
                start,
                end,
                f"write `{number}` and convert it with `as {suffix}`",
            )
            return nodes.IntLiteral(value=0, suffix=suffix, span=span)
        if suffix in _FLOAT_SUFFIXES or (fractional and suffix is None):
            value_float = float(number)
            if value_float == float("inf"):
                self.fault("0106", "this number is too large for f64", start, end, "write `inf` for infinity")
            return nodes.FloatLiteral(value=value_float, suffix=suffix, span=span)
        if suffix is None or suffix in _INT_SUFFIXES:
            return self._integer(start, end, int(number) if len(number) < _MAX_DIGITS else 1 << 64, suffix)
        if not self.is_unit(suffix):
            self.fault(
                "0106",
                f"unknown suffix `{suffix}` of the number `{text}`",
                start + len(match["number"]),
                end,
                suffix_hint(self.units),
            )
        return nodes.UnitNumber(text=number, unit=suffix, span=span)

    def _integer(self, start: int, end: int, value: int, suffix: str | None) -> nodes.IntLiteral:
        if value >= 1 << 64:
            self.fault("0106", "this number does not fit in 64 bits", start, end, "write it as a float, with `.0` or an exponent")
        return nodes.IntLiteral(value=value, suffix=suffix, span=self.span(start, end))

    def true(self, start: int, end: int) -> nodes.BoolLiteral:
        return nodes.BoolLiteral(value=True, span=self.span(start, end))

    def false(self, start: int, end: int) -> nodes.BoolLiteral:
        return nodes.BoolLiteral(value=False, span=self.span(start, end))

    def string(self, start: int, end: int, token: Token) -> nodes.StringLiteral:
        return nodes.StringLiteral(value=self.string_value(token), span=self.span(start, end))

    def string_value(self, token: Token) -> str:
        quotes = quotes_of(self.text, token.start)
        return self._unescaped(token.start + len(quotes), max(token.end - len(quotes), token.start + len(quotes)))

    def _unescaped(self, start: int, end: int) -> str:
        pieces: list[str] = []
        position = start
        while (backslash := self.text.find("\\", position, end)) >= 0:
            pieces.append(self.text[position:backslash])
            escape = _ESCAPE.match(self.text, backslash + 1, end)
            assert escape is not None
            pieces.append(self._escaped(escape.group(), backslash, escape.end()))
            position = escape.end()
        pieces.append(self.text[position:end])
        return "".join(pieces)

    def _escaped(self, escape: str, start: int, end: int) -> str:
        if escape in _ESCAPES:
            return _ESCAPES[escape]
        if escape == "\n":
            return ""  # A backslash at the end of a line joins the lines.
        if len(escape) > 1:
            code = int(escape.strip("xu{}"), 16)
            if code < 0x110000 and not 0xD800 <= code < 0xE000:
                return chr(code)
        self.fault(
            "0105",
            f"`\\{escape}` is no escape",
            start,
            end,
            "escapes are `\\n \\t \\r \\\\ \\\" \\' \\0 \\x41 \\u{1F600}`; a backslash itself is `\\\\`",
        )
        return ""

    # ---- f-strings ------------------------------------------------------------------------------------------------------

    def fstring(self, start: int, end: int, token: Token) -> nodes.FString:
        quotes = quotes_of(self.text, start + 1)
        position, stop = start + 1 + len(quotes), max(end - len(quotes), start + 1 + len(quotes))
        parts: list[nodes.FStringPart] = []
        literal_start = position
        text = ""
        while position < stop:
            match self.text[position]:
                case "\\":
                    position += 2
                case "{" | "}" as brace if self.text.startswith(brace * 2, position):
                    text += self._unescaped(literal_start, position) + brace
                    position = literal_start = position + 2
                case "{":
                    text += self._unescaped(literal_start, position)
                    if text:
                        parts.append(nodes.FStringPart(text=text, span=self.span(literal_start, position)))
                        text = ""
                    closing = hole_end(self.text, position, stop, quotes)
                    if closing < 0:
                        self.fault(
                            "0105",
                            "this `{` in an f-string is never closed",
                            position,
                            position + 1,
                            "close it with `}`, or write `{{` for the brace itself",
                        )
                        closing = stop
                    else:
                        parts.append(self._hole(position, closing))
                    position = literal_start = closing
                case "}":
                    self.fault("0105", "this `}` in an f-string closes nothing", position, position + 1, "write `}}` for the brace itself")
                    position += 1
                case _:
                    position += 1
        text += self._unescaped(literal_start, stop)
        if text:
            parts.append(nodes.FStringPart(text=text, span=self.span(literal_start, stop)))
        return nodes.FString(parts=tuple(parts), span=self.span(start, end))

    def _hole(self, start: int, end: int) -> nodes.FStringPart:
        """The part for `{expression:format}` at these offsets, braces included."""
        colon = _format_colon(self.text, start + 1, end - 1)
        expression_end = end - 1 if colon < 0 else colon
        format_text = "" if colon < 0 else self.text[colon + 1 : end - 1]
        if not self.text[start + 1 : expression_end].strip():
            self.fault(
                "0105",
                "this `{}` in an f-string is empty",
                start,
                end,
                "write an expression between the braces, or `{{}}` for the braces themselves",
            )
            return nodes.FStringPart(span=self.span(start, end))
        if "{" in format_text:
            self.fault(
                "0109",
                "a format computed from values is valid, but not supported yet",
                colon + 1,
                end - 1,
                "write its numbers out: `>8.2f`",
            )
        elif not _FORMAT.match(format_text):
            self.fault("0105", f"`{format_text}` is no format", colon + 1, end - 1, "formats are as in Python: `>8.2f`, `04d`, `.3e`, `x`")
        return nodes.FStringPart(value=self._parse_hole(start + 1, expression_end), format=format_text, span=self.span(start, end))

    def _parse_hole(self, start: int, end: int) -> nodes.Expression | None:
        from compiler.syntax.parse import parse_text

        if (name := _NAME.fullmatch(self.text, start, end)) and name[1] not in HARD:
            return nodes.Name(name=name[1], span=self.span(*name.span(1)))
        inner = self.text[start:end].replace("\n", " ").replace("\r", " ")
        actions = type(self)(self.file, inner, self.offset + start, self.units)
        value, faults = parse_text(inner, actions, "expression_only")
        for fault in faults:
            others = tuple((first + start, last + start, text) for first, last, text in fault.others)
            hides = fault.hides + start if fault.hides else 0
            self.faults.append(
                Fault(fault.code, fault.message, fault.start + start, fault.end + start, fault.label, others, fault.hint, hides)
            )
        return value if isinstance(value, nodes.Expression) else None


def _format_colon(text: str, start: int, end: int) -> int:
    """Where the format begins in a hole: its first `:` outside brackets and strings that isn't part of `::name`; or -1."""
    depth, position = 0, start
    while position < end:
        character = text[position]
        if character in "\"'":
            from grammars.scan import string_end

            behind = string_end(text, position, text[position - 1] in "fF")
            if behind < 0:
                return -1
            position = behind
            continue
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == ":" and depth == 0:
            if re.compile(r"::[A-Za-z_]").match(text, position):
                position += 2
                continue
            return position
        position += 1
    return -1

