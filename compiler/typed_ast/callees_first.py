"""An order for functions in which callees stand before their callers, found without recursion: who follows it never stands in a chain of
functions that all wait for the last."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

F = TypeVar("F")


def callees_first(starts: Iterable[F], called: Callable[[F], Iterable[F]]) -> list[F]:
    """These functions and all that they call, or that those call. Of functions that call each other the first that is met stands behind the
    others."""
    order: list[F] = []
    seen: set[F] = set()
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        open: list[tuple[F, Iterator[F]]] = [(start, iter(called(start)))]
        while open:
            function, rest = open[-1]
            callee = next((callee for callee in rest if callee not in seen), None)
            if callee is None:
                order.append(function)
                open.pop()
            else:
                seen.add(callee)
                open.append((callee, iter(called(callee))))
    return order
