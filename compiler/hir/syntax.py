"""The text form of an instruction as its declaration implies it: what stands bare, what in brackets, what is named. The printer
and the parser both read the same `Syntax`, so they can't disagree. Control flow and calls have a form of their own there.

    %r = mnemonic word %operand, %memory[index], %more name=value flag : type"""

import re
from typing import Any

import attrs

from compiler.hir.affine import Affine
from compiler.hir.instruction import Instruction, Role
from compiler.hir.types import HirType, Mem, Ring, Tile
from runtime.records import frozen

NAME = r"[^\W\d][\w·]*(?:\.[^\W\d]\w*)*"
BARE = re.compile(rf"(?:{NAME}|\d+)\Z")
"""Strings that need no quotes."""


@frozen
class NamedField:
    """A field written `name=value`; left out while it has its default. `kind` is how the value is written."""

    name: str
    kind: str
    default: Any


@frozen
class OperandField:
    """A field written as `%value`, or `%value[index]` when `index` names the attribute that holds affine indices."""

    name: str
    role: Role
    index: str | None = None


@frozen
class Syntax:
    """How an instruction class is written: bare words, operands in order, named fields, flags; `typed` is the field that the type after the
    colon fills (`type`, `types`), None when the types follow from the operands; `tabled`: the mnemonic is the `operator`."""

    words: tuple[NamedField, ...]
    operands: tuple[OperandField, ...]
    keywords: tuple[str, ...]
    named: tuple[NamedField, ...]
    flags: tuple[str, ...] | None
    typed: str | None
    tabled: bool


KINDS: dict[Any, str] = {
    str: "text",
    int: "integer",
    bool: "truth",
    Affine: "affine",
    HirType: "type",
    Mem: "type",
    Ring: "type",
    Tile: "type",
    int | float | bool: "number",
    float | int | bool | None: "number",
    int | None: "integer",
    str | None: "text",
    Affine | None: "affine",
    tuple[str, ...]: "texts",
    tuple[int, ...]: "integers",
    tuple[Affine, ...]: "affines",
}


_KNOWN: dict[str, Syntax] = {}


def syntax_of(cls: type[Instruction]) -> Syntax:
    """The text form of a declared instruction, from the order and annotations of its fields."""
    if cls.mnemonic not in _KNOWN:
        _KNOWN[cls.mnemonic] = _derive(cls)
    return _KNOWN[cls.mnemonic]


def _derive(cls: type[Instruction]) -> Syntax:
    words: list[NamedField] = []
    operands: list[OperandField] = []
    keywords: list[str] = []
    named: list[NamedField] = []
    flags: tuple[str, ...] | None = None
    typed: str | None = None
    indices = {"mem": "index"}
    fields = [f for f in attrs.fields(cls) if f.metadata.get("role") is not None]
    for f in fields:
        if f.name.endswith("_index"):
            indices[f.name.removesuffix("_index")] = f.name
    names = {f.name for f in fields}
    plain_attribute_seen = False
    for f in fields:
        match f.metadata["role"]:
            case Role.OPERAND | Role.OPERANDS as role:
                index = indices.get(f.name)
                operands.append(OperandField(f.name, role, index if index in names else None))
            case Role.OPTIONAL:
                if plain_attribute_seen:
                    keywords.append(f.name)
                else:
                    operands.append(OperandField(f.name, Role.OPTIONAL))
            case Role.ATTRIBUTE if f.name == "operator":
                pass
            case Role.ATTRIBUTE if f.name in ("type", "types"):
                typed = f.name
            case Role.ATTRIBUTE if f.name == "flags":
                flags = f.default if f.default is not attrs.NOTHING else ()
            case Role.ATTRIBUTE if f.name in indices.values():
                plain_attribute_seen = True
            case Role.ATTRIBUTE:
                field = NamedField(f.name, KINDS.get(f.type, "text"), f.default)
                if not operands and field.kind in ("text", "number") and f.default is attrs.NOTHING:
                    words.append(field)
                else:
                    plain_attribute_seen = True
                    named.append(field)
            case _:
                pass
    return Syntax(tuple(words), tuple(operands), tuple(keywords), tuple(named), flags, typed, "operator" in names)
