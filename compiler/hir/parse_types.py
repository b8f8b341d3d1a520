"""Reads tokens, numbers, affine forms and types of the HIR's text. `parse.py` builds functions and modules on it."""

import json
import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from compiler.diagnostics import Diagnostic, ZyntaxError
from compiler.hir.affine import Affine, FloorDiv
from compiler.hir.syntax import NAME
from compiler.hir.types import DTYPES, Array, Barrier, Fragment, FragmentRole, HirType, Mem, Pointer, Ring, Slot, Space, Struct, Tile, Token
from compiler.source import Span

TOKEN = re.compile(
    rf"""\s*(?:(?P<value>%[\w·]+(?:\.\w+)*)|(?P<name>{NAME})|(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<function>@\w+(?:\.\w+)*)
    |(?P<mark>\.\.|->|[-+*/=:;,<>()\[\]{{}}|])|(?P<text>"(?:[^"\\\n]|\\.)*")|(?P<comment>//[^\n]*)|(?P<end>\Z)|(?P<wrong>.))""",
    re.VERBOSE,
)
FRAGMENT = re.compile(r"fragment<(\w+), *(\d+)x(\d+)x(\d+), *(\w+)>")
SCALARS = {dtype: Tile(dtype) for dtype in DTYPES}

_T = TypeVar("_T")


class Reader:
    """The tokens of a text, and what is read from them without knowing functions."""

    def __init__(self, text: str, path: str = "<hir>") -> None:
        self.source = text
        self.path = path
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.starts: list[int] = []
        for match in TOKEN.finditer(text):
            kind = match.lastgroup
            assert kind is not None
            if kind == "comment":
                continue
            self.kinds.append(kind)
            self.texts.append(match[kind])
            self.starts.append(match.start(kind))
            if kind == "end":
                break
        self.at = 0

    # ---- tokens ----

    @property
    def text(self) -> str:
        return self.texts[self.at]

    @property
    def kind(self) -> str:
        return self.kinds[self.at]

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        token = self.at if at is None else at
        start = self.starts[token]
        raise ZyntaxError(Diagnostic("0101", message, Span(self.path, start, start + len(self.texts[token]))))

    def shown(self) -> str:
        return "the end of the text" if self.kind == "end" else f"`{self.text}`"

    def take(self, kind: str, words: str) -> str:
        if self.kinds[self.at] != kind:
            self.fail(f"expected {words}, found {self.shown()}")
        self.at += 1
        return self.texts[self.at - 1]

    def expect(self, mark: str) -> None:
        if self.texts[self.at] != mark or self.kinds[self.at] == "text":
            self.fail(f"expected `{mark}`, found {self.shown()}")
        self.at += 1

    def accept(self, mark: str) -> bool:
        if self.texts[self.at] != mark:
            return False
        self.at += 1
        return True

    def separated(self, item: Callable[[], _T], opening: str, closing: str) -> list[_T]:
        """`opening item, item closing`, perhaps empty."""
        self.expect(opening)
        items: list[_T] = []
        while not self.accept(closing):
            if items:
                self.expect(",")
            items.append(item())
        return items

    # ---- small values ----

    def name(self) -> str:
        return self.take("name", "a name")

    def function_name(self) -> str:
        return self.take("function", "a name with `@`")[1:]

    def quoted(self) -> str:
        token = self.at
        try:
            return str(json.loads(self.take("text", "a quoted text")))
        except ValueError:
            self.fail("this text has an escape that JSON doesn't know", token)

    def word(self) -> str:
        """A bare or quoted string."""
        if self.kind == "text":
            return self.quoted()
        if self.kind not in ("name", "number"):
            self.fail(f"expected a word, found {self.shown()}")
        self.at += 1
        return self.texts[self.at - 1]

    def integer(self) -> int:
        negative = self.accept("-")
        token = self.at
        text = self.take("number", "an integer")
        if not text.isdecimal():
            self.fail(f"expected an integer, found `{text}`", token)
        return -int(text) if negative else int(text)

    def number(self) -> int | float | bool:
        negative = self.accept("-")
        text = self.text
        if text in ("inf", "nan"):
            self.at += 1
            return -float(text) if negative else float(text)
        if text in ("true", "false") and not negative:
            self.at += 1
            return text == "true"
        text = self.take("number", "a number")
        number = int(text) if text.isdecimal() else float(text)
        return -number if negative else number

    def truth(self) -> bool:
        value = self.number()
        if not isinstance(value, bool):
            self.fail("expected `true` or `false`", self.at - 1)
        return value

    # ---- affine forms ----

    def affine(self) -> Affine:
        if self.kind == "name" and self.text != "floor" and self.texts[self.at + 1] in "],)}..{":
            self.at += 1  # the usual case: one name
            return Affine(((self.texts[self.at - 1], 1),))
        total = self._term(-1 if self.accept("-") else 1)
        while self.text in ("+", "-"):
            factor = 1 if self.text == "+" else -1
            self.at += 1
            total = total + self._term(factor)
        return total

    def _term(self, factor: int) -> Affine:
        if self.kind == "number":
            factor *= self.integer()
            if not self.accept("*"):
                return Affine((), factor)
        name = self.name()
        if name == "floor" and self.text == "(":
            self.expect("(")
            self.expect("(")
            inside = self.affine()
            self.expect(")")
            self.expect("/")
            divisor = self.integer()
            self.expect(")")
            if divisor <= 0:
                self.fail("a floor divides by a positive number", self.at - 2)
            return Affine(((FloorDiv(inside, divisor), factor),) if factor else ())
        return Affine(((name, factor),) if factor else ())

    # ---- types ----

    def type(self) -> HirType:  # noqa: RET503 (`fail` doesn't return)
        token = self.at
        name = self.name()
        scalar = SCALARS.get(name)
        if scalar is not None:
            return scalar
        match name:
            case "tile":
                return self._tile()
            case "mem":
                return self._mem()
            case "slot":
                self.expect("<")
                type_ = Slot(self.dtype())
                self.expect(">")
                return type_
            case "ring":
                self.expect("<")
                stages = self.integer()
                self.expect("x")
                elements = self.separated(self._tile_type, "(", ")")
                self.expect(">")
                return Ring(stages, tuple(elements))
            case "barrier":
                if not self.accept("<"):
                    return Barrier()
                count = self.integer()
                self.expect(">")
                return Barrier(count)
            case "token":
                return Token()
            case "fragment":
                return self._fragment(token)
            case "ptr":
                self.expect("<")
                pointee = self.type()
                space = self._space() if self.accept(",") else Space.GENERIC
                self.expect(">")
                return Pointer(pointee, space)
            case "struct":
                return self._struct()
            case "array":
                self.expect("<")
                rows: int | None = None if self.accept("open") else self.integer()
                self.expect("x")
                element = self.type()
                self.expect(">")
                return Array(element, rows)
            case _:
                self.fail(f"no type is called `{name}`", token)

    def dtype(self) -> str:
        name = self.name()
        if name not in DTYPES:
            self.fail(f"`{name}` is no scalar type", self.at - 1)
        return name

    def _space(self) -> Space:
        name = self.name()
        if name.upper() not in Space.__members__:
            self.fail(f"no address space is called `{name}`", self.at - 1)
        return Space[name.upper()]

    def _tile_type(self) -> Tile:
        token = self.at
        type_ = self.type()
        if not isinstance(type_, Tile):
            self.fail("expected a tile or scalar type", token)
        return type_

    def _tile(self) -> Tile:
        self.expect("<")
        axes: list[tuple[str, Affine]] = []
        while self.texts[self.at + 1] == ":":
            name = self.name()
            self.expect(":")
            axes.append((name, self.affine()))
            self.expect(",")
        dtype = self.dtype()
        space = "reg"
        if self.accept(","):
            self.expect("in")
            space = self.name()
        self.expect(">")
        return Tile(dtype, tuple(axes), space)

    def _mem(self) -> Mem:
        self.expect("<")
        dims, dtype = self._shape()
        facts: dict[str, object] = {}
        while self.accept(","):
            token = self.at
            fact = self.name()
            match fact:
                case "strides":
                    self.expect("=")
                    facts["strides"] = tuple(self.separated(self.affine, "[", "]"))
                case "align":
                    self.expect("=")
                    facts["align"] = self.integer()
                case "swizzle":
                    self.expect("=")
                    facts["swizzle"] = self.word()
                case "alias":
                    facts["noalias"] = False
                case "readonly":
                    facts["readonly"] = True
                case _ if fact.upper() in Space.__members__:
                    facts["space"] = Space[fact.upper()]
                case _:
                    self.fail(f"a memory has no `{fact}`", token)
        self.expect(">")
        return Mem(dtype, tuple(dims), **facts)  # type: ignore[arg-type]

    def _shape(self) -> tuple[list[Affine], str]:
        """`NxKxf32`, whose parts the tokens don't tell apart: read from the characters."""
        begin = end = self.starts[self.at]
        parts: list[str] = []
        depth, first = 0, self.at
        while end < len(self.source) and (depth or self.source[end] not in ",>"):
            character = self.source[end]
            depth += (character == "(") - (character == ")")
            if character == "x" and depth == 0 and not (self.source[begin : end + 1] == "index" and self.source[end + 1 : end + 2] in ",>"):
                parts.append(self.source[begin:end])
                begin = end + 1
            end += 1
        dtype = self.source[begin:end].strip()
        while self.starts[self.at] < end:
            self.at += 1
        if dtype not in DTYPES:
            self.fail(f"`{dtype}` is no scalar type", first)
        return [self._dim(part, first) for part in parts], dtype

    def _dim(self, text: str, token: int) -> Affine:
        text = text.strip()
        if text.isdecimal():
            return Affine((), int(text))
        if text.isidentifier():
            return Affine(((text, 1),))
        inner = Reader(text.removeprefix("(").removesuffix(")"), self.path)
        form = inner.affine() if inner.kind in ("name", "number") or inner.text == "-" else None
        if form is None or inner.kind != "end":
            self.fail(f"`{text}` is no extent", token)
        return form

    def _fragment(self, token: int) -> Fragment:
        match = FRAGMENT.match(self.source, self.starts[token])
        if match is None or match[1] not in [role.value for role in FragmentRole]:
            self.fail("a fragment is written `fragment<a, 16x16x16, f16>`", token)
        while self.starts[self.at] < match.end():
            self.at += 1
        return Fragment(FragmentRole(match[1]), int(match[2]), int(match[3]), int(match[4]), match[5])

    def _struct(self) -> Struct:
        self.expect("<")
        name = self.name()
        self.expect(";")
        fields: list[tuple[str, HirType]] = []
        while not self.accept(">"):
            if fields:
                self.expect(",")
            label = self.name()
            self.expect(":")
            fields.append((label, self.type()))
        return Struct(name, tuple(fields))
