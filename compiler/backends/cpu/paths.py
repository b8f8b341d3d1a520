"""The path of a launch through a kernel that its sizes branch: schedules keep tiles for small sizes beside panels for large ones, and
others for few columns. Code of one path is made in a fraction of the time that all take, and has the same instructions there; a launch on
another path comes back at once, before it has written anything."""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from compiler.backends.cpu.frame import CpuFrame
from compiler.backends.cpu.liberties import leaves_liberties
from compiler.backends.cpu.native import OTHER_PATH
from compiler.backends.llvm.types import I32
from compiler.backends.llvm.writer import constant
from compiler.hir.control import For, If, While
from compiler.hir.core import Binary, Compare, Const, Index, Select
from compiler.hir.instruction import Instruction
from compiler.hir.module import HirFunction

KernelPath = Mapping[int, bool]
"""Whether each decided branch is taken, by the identity of its instruction."""

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge")},
    "and": operator.and_,
    "or": operator.or_,
    "min": min,
    "max": max,
    "div": lambda a, b: a // b if (a < 0) == (b < 0) else -(-a // b),
}


def path_of(function: HirFunction, sizes: Mapping[str, int]) -> KernelPath:
    """The path for these sizes, by names of parameters: the branches at the kernel's begin that leave loops out. Nothing runs before them
    but what they ask. A kernel whose bits LLVM decides on is compiled as a whole."""
    path: dict[int, bool] = {}
    if leaves_liberties(function):
        return path
    known: dict[str, Any] = dict(sizes)
    body: Sequence[Instruction] | None = function.body.body
    while body is not None:
        body = _decided(body, known, path)
    return path


def _decided(body: Sequence[Instruction], known: dict[str, Any], path: dict[int, bool]) -> Sequence[Instruction] | None:
    """Decides the first branch among these instructions, and gives those of the way that it goes."""
    for op in body:
        if isinstance(op, If):
            taken = known.get(op.condition.name)
            if op.types or taken is None:
                return None
            way, other = (op.then, op.otherwise) if taken else (op.otherwise, op.then)
            if other is None or not any(isinstance(inner, For | While) for top in other.body for inner in top.walk()):
                return None
            path[id(op)] = bool(taken)
            return way.body if way is not None else None
        try:
            known[op.result.name] = _value(op, known)
        except (KeyError, ZeroDivisionError):
            if not isinstance(op, _ASKED):
                return None
    return None


_ASKED = (Const, Index, Binary, Compare, Select)


def _value(op: Instruction, known: Mapping[str, Any]) -> Any:
    """Raises KeyError where it isn't known."""
    match op:
        case Const():
            return op.value
        case Index():
            return op.of.evaluate(known.__getitem__)
        case Binary() | Compare():
            left, right = (known[value.name] for value in op.operand_values)
            return _OPERATORS[op.operator](left, right)
        case Select():
            return known[op.then.name if known[op.condition.name] else op.otherwise.name]
    raise KeyError(op.name)


def instructions_on(function: HirFunction, path: KernelPath) -> Iterator[Instruction]:
    """All instructions of a function that lie on a path."""
    yield from _on_path(function.body.body, path)


def _on_path(body: Sequence[Instruction], path: KernelPath) -> Iterator[Instruction]:
    for op in body:
        if isinstance(op, If) and id(op) in path:
            yield op
            way = op.then if path[id(op)] else op.otherwise
            yield from _on_path(way.body if way is not None else (), path)
        else:
            yield from op.walk()


def decided_branch(frame: CpuFrame, op: If, taken: bool) -> None:
    """The way that the path goes; the other one ends the launch with a status that says so."""
    w = frame.w
    way, other = w.label("path"), w.label("other_path")
    condition = frame.values[op.condition.name].scalar
    w.branch_if(condition, *((way, other) if taken else (other, way)))
    w.start(other)
    w.store(constant(I32, OTHER_PATH), frame.flag)
    w.branch(frame.finish)
    w.start(way)
    region = op.then if taken else op.otherwise
    if region is not None:
        frame.region(region)
