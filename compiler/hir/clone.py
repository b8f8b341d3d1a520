"""Instructions made again with other operands, names and regions: what every rewrite of the HIR is built on. Decides nothing."""

from collections.abc import Callable, Mapping
from typing import Any

from compiler.hir.affine import Affine
from compiler.hir.instruction import Instruction, Region, Role, Value


def map_attribute(value: Any, form: Callable[[Affine], Affine]) -> Any:
    """An attribute with every affine form in it replaced."""
    if isinstance(value, Affine):
        return form(value)
    if isinstance(value, tuple) and any(isinstance(part, Affine) for part in value):
        return tuple(form(part) if isinstance(part, Affine) else part for part in value)
    return value


def rebuilt(
    op: Instruction,
    value_of: Callable[[Value], Value],
    form: Callable[[Affine], Affine] = lambda form: form,
    regions: Mapping[str, Region | None] | None = None,
    **changes: Any,
) -> Instruction:
    """The instruction with each operand and affine form mapped, without results yet; `regions` gives the new regions by field
    name, `changes` replaces attributes."""
    fields: dict[str, Any] = {}
    for name, role in op.roles():
        value = getattr(op, name)
        if role is Role.OPERAND:
            fields[name] = value_of(value)
        elif role is Role.OPTIONAL:
            fields[name] = None if value is None else value_of(value)
        elif role is Role.OPERANDS:
            fields[name] = tuple(map(value_of, value))
        elif role is Role.ATTRIBUTE:
            fields[name] = map_attribute(value, form)
        else:
            fields[name] = regions[name] if regions is not None else value
    fields.update(changes)
    return type(op)(span=op.span, **fields)
