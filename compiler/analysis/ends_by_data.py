"""Loops whose number of turns data decide."""

from collections.abc import Callable, Iterable, Iterator

from compiler.hir.control import For
from compiler.hir.instruction import Instruction
from compiler.hir.memory import Load


def ends_by_data(op: For, source_of: Callable[[str], Instruction | None]) -> bool:
    """Whether a bound of the loop is computed from elements of a memory. `source_of`: the instruction that makes a value, by its name; None
    for a parameter."""
    return any(True for _ in _elements((*op.low.names, *op.high.names), source_of))


def follows_the_last(op: For, source_of: Callable[[str], Instruction | None]) -> bool:
    """Whether the loop's bounds are neighbours in a memory: rows that lie one behind the other."""
    highs = [*_elements(op.high.names, source_of)]
    for low in _elements(op.low.names, source_of):
        for high in highs:
            apart = [(b - a).value for a, b in zip(low.index, high.index, strict=True)] if high.mem is low.mem else []
            if apart[-1:] == [1] and not any(apart[:-1]):
                return True
    return False


def _elements(names: Iterable[str], source_of: Callable[[str], Instruction | None]) -> Iterator[Load]:
    """What values of these names are computed from, as far as memory holds it."""
    waiting, seen = [*names], set[str]()
    while waiting:
        source = source_of(name := waiting.pop())
        if isinstance(source, Load):
            yield source
        elif source is not None and name not in seen:
            seen.add(name)
            waiting += [*(value.name for value in source.operand_values), *source.symbols]
