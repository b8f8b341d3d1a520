"""Branches that only choose between numbers become selects: what reads ahead of a loop, or shares it out, wants a straight line.

%r = if %c { %a = add %x, %y  yield %a } else { yield %z }  =>  %a = add %x, %y  %r = select %c, %a, %z"""

from collections.abc import Sequence
from typing import TypeGuard

from compiler.hir.build import Builder
from compiler.hir.control import If, Yield
from compiler.hir.core import Binary, Unary, dtype_of
from compiler.hir.instruction import Effect, Instruction, InstructionFamily, Region, Value
from compiler.hir.module import HirFunction
from compiler.hir.types import is_float
from compiler.passes.rewrite import Rebuild

MOST = 8
"""Instructions of both sides, which are always computed then."""

CHEAP = ("neg", "abs", "not", "floor", "ceil", "round", "trunc")
"""Functions of one operand that take an instruction or two."""


def without_branches(function: HirFunction) -> HirFunction:
    """The function (form A) with such branches as selects; itself where it has none."""
    ops = (op for top in function.body.body for op in top.walk())
    return _Straight(function).run() if any(_only_chooses(op) for op in ops) else function


class _Straight(Rebuild):
    def instruction(self, op: Instruction, into: Builder) -> Sequence[Value]:
        if not _only_chooses(op) or op.otherwise is None:
            return self.copy(op, into)
        condition = self.values[op.condition]
        then, otherwise = self.side(op.then, into), self.side(op.otherwise, into)
        return [a if a is b else into.select(condition, a, b) for a, b in zip(then, otherwise, strict=True)]

    def side(self, region: Region, into: Builder) -> list[Value]:
        for op in region.body[:-1]:
            into.span = op.span
            for old, new in zip(op.results, self.instruction(op, into), strict=True):
                self.bind(old, new)
        last = region.body[-1]
        assert isinstance(last, Yield)
        return [self.values[value] for value in last.values]


def _only_chooses(op: Instruction) -> TypeGuard[If]:
    if not isinstance(op, If) or not op.types or op.otherwise is None or op.likely is not None:
        return False
    inside = [each for region in (op.then, op.otherwise) for top in region.body[:-1] for each in top.walk()]
    return len(inside) <= MOST and all(_is_cheap(each) for each in inside)


def _is_cheap(op: Instruction) -> bool:
    """Whether an instruction may be computed where its result isn't wanted."""
    if isinstance(op, If | Yield):
        return not isinstance(op, If) or _only_chooses(op)
    if op.regions or op.effects is not Effect.PURE or op.family is not InstructionFamily.PLAIN:
        return False
    if isinstance(op, Unary):
        return op.operator in CHEAP
    return not isinstance(op, Binary) or op.operator not in ("div", "rem", "pow") or is_float(dtype_of(op.left))
