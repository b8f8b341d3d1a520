"""Which functions become part of those that call them. LLVM's own measure counts the cold way to each failure as if it were code that runs,
and so leaves out the very calls that matter; here a function is as long as its instructions and those it takes in."""

from collections.abc import Iterator, Mapping

from compiler.hir.control import Call
from compiler.hir.instruction import Instruction
from compiler.hir.module import HirFunction, HirModule

LONGEST = 2000
"""Instructions, its own and those taken in, of a function that is still taken in by others."""


def recursive(module: HirModule) -> frozenset[str]:
    """Names of the functions that come back to themselves."""
    called = {name: {op.function for op in _instructions(f) if isinstance(op, Call)} for name, f in module.functions.items()}
    return frozenset(name for name in module.functions if name in _reached(called, name))


def taken_in(module: HirModule) -> frozenset[str]:
    """Names of the functions to inline wherever they are called: short ones that don't come back to themselves."""
    lengths: dict[str, int | None] = {}
    circular = recursive(module)

    def length(name: str) -> int | None:
        """With all that is taken in; None for what isn't: it is long, recursive, outside, or said to be cold."""
        if name not in lengths:
            lengths[name] = None  # as seen by a call on the way back to itself
            function = module.functions[name]
            if not function.is_elsewhere and not {"cold", "noinline"} & set(function.attributes):
                total = 0
                for op in _instructions(function):
                    total += 1 + ((length(op.function) or 0) if isinstance(op, Call) else 0)
                lengths[name] = total if total <= LONGEST and name not in circular else None
        return lengths[name]

    return frozenset(name for name in module.functions if length(name) is not None)


def _instructions(function: HirFunction) -> Iterator[Instruction]:
    return (op for top in function.body.body for op in top.walk())


def _reached(called: Mapping[str, set[str]], name: str) -> set[str]:
    """Functions that a function calls, by however many steps."""
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        more = called[waiting.pop()] - reached
        reached |= more
        waiting += more
    return reached
