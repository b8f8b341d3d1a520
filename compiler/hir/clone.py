"""Copies of instructions with other operands: what every rewrite that builds a function anew is made of."""

from collections.abc import Callable
from typing import Any

import attrs

from compiler.hir.affine import Affine
from compiler.hir.instruction import Instruction, Role, Value


def clone(op: Instruction, value_of: Callable[[Value], Value], form_of: Callable[[Affine], Affine], **changes: Any) -> Instruction:
    """A copy without results: operands through `value_of`, affine attributes through `form_of`, `changes` put in as they are.
    Instructions with regions aren't copied: their regions are the caller's to rebuild."""
    fields: dict[str, Any] = {}
    for declared in attrs.fields(type(op)):
        name, value = declared.name, getattr(op, declared.name)
        match declared.metadata.get("role"):
            case Role.OPERAND:
                fields[name] = value_of(value)
            case Role.OPTIONAL:
                fields[name] = None if value is None else value_of(value)
            case Role.OPERANDS:
                fields[name] = tuple(value_of(v) for v in value)
            case Role.ATTRIBUTE:
                fields[name] = _through(value, form_of)
            case Role.REGION | Role.OPTIONAL_REGION:
                assert name in changes, f"{op.name} has regions"
            case _:
                pass
    fields.update(changes)
    made = type(op)(**fields)
    made.span = op.span
    return made


def _through(value: Any, form_of: Callable[[Affine], Affine]) -> Any:
    if isinstance(value, Affine):
        return form_of(value)
    if isinstance(value, tuple) and any(isinstance(part, Affine) for part in value):
        return tuple(form_of(part) if isinstance(part, Affine) else part for part in value)
    return value
