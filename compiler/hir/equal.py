"""Whether two modules, functions or regions are the same program: equal instructions, operands that match one to one, equal names. Spans in
the user's source are not compared, except those of fault sites, which are data."""

import attrs

from compiler.hir.instruction import Instruction, Region, Role, Value
from compiler.hir.module import HirFunction, HirModule


def equal_modules(a: HirModule, b: HirModule) -> bool:
    """Same functions in the same order, and the same everything else."""
    if list(a.functions) != list(b.functions):
        return False
    plain = [f.name for f in attrs.fields(HirModule) if f.name != "functions"]
    return all(getattr(a, name) == getattr(b, name) for name in plain) and all(
        equal_functions(x, y) for x, y in zip(a.functions.values(), b.functions.values(), strict=True)
    )


def equal_functions(a: HirFunction, b: HirFunction) -> bool:
    plain = [f.name for f in attrs.fields(HirFunction) if f.name not in ("parameters", "body")]
    if any(getattr(a, name) != getattr(b, name) for name in plain) or list(a.axes) != list(b.axes):
        return False
    match_ = _Match()
    return match_.define(a.parameters, b.parameters) and match_.regions(a.body, b.body)


class _Match:
    """Values of the one function and their partners in the other."""

    def __init__(self) -> None:
        self.partner: dict[Value, Value] = {}

    def define(self, a: list[Value], b: list[Value]) -> bool:
        if len(a) != len(b):
            return False
        self.partner.update(zip(a, b, strict=True))
        return all(x.name == y.name and x.type == y.type for x, y in zip(a, b, strict=True))

    def used(self, a: Value | None, b: Value | None) -> bool:
        return a is b if a is None else self.partner.get(a) is b

    def regions(self, a: Region | None, b: Region | None) -> bool:
        if a is None or b is None:
            return a is b
        return (
            self.define(a.parameters, b.parameters)
            and len(a.body) == len(b.body)
            and all(self.instructions(x, y) for x, y in zip(a.body, b.body, strict=True))
        )

    def instructions(self, a: Instruction, b: Instruction) -> bool:
        if type(a) is not type(b):
            return False
        for f in attrs.fields(type(a)):
            x, y = getattr(a, f.name), getattr(b, f.name)
            match f.metadata.get("role"):
                case Role.OPERAND | Role.OPTIONAL:
                    same = self.used(x, y)
                case Role.OPERANDS:
                    same = len(x) == len(y) and all(map(self.used, x, y))
                case Role.REGION | Role.OPTIONAL_REGION:
                    same = self.regions(x, y)
                case Role.ATTRIBUTE:
                    same = repr(x) == repr(y)  # tells -0.0 from 0.0 and 1 from true, and a NaN equals itself
                case _:
                    same = True
            if not same:
                return False
        return self.define(a.results, b.results)
