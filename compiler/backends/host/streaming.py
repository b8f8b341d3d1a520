"""The steps of a stream while a program runs. Each takes its values one by one and keeps no more of them than it hands on next: a stream of
any length needs the memory of its largest window."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

from compiler.backends.host.numbers import dtype_of
from compiler.backends.host.values import describe, truth
from compiler.typed_ast.library import LibraryFault
from compiler.typed_ast.stream_steps import VALUES
from runtime.values import Nothing


def _count(value: Any, what: str, least: int) -> int:
    dtype = dtype_of(value)
    if dtype is None or not dtype.is_int:
        raise LibraryFault("0807", f"{what} is an int, not {describe(value)}")
    if value < least:
        raise LibraryFault("0807", f"{what} is at least {least}, not {int(value)}")
    return int(value)


def iterated(more: Callable[[], Any]) -> Iterator[Any]:
    """What a function gives, call by call, until that is none."""
    while type(value := more()) is not Nothing:
        yield value[0]


def mapped(values: Iterable[Any], function: Callable[[Any], Any]) -> Iterator[Any]:
    return map(_callable("map", function), values)


def filtered(values: Iterable[Any], function: Callable[[Any], Any]) -> Iterator[Any]:
    test = _callable("filter", function)
    return (value for value in values if truth(test(value)))


def taken_while(values: Iterable[Any], function: Callable[[Any], Any]) -> Iterator[Any]:
    test = _callable("take_while", function)
    for value in values:
        if not truth(test(value)):
            return
        yield value


def taken(values: Iterable[Any], count: Any) -> Iterator[Any]:
    return islice(values, _count(count, "the number of values to take", 0))


def skipped(values: Iterable[Any], count: Any) -> Iterator[Any]:
    return islice(values, _count(count, "the number of values to skip", 0), None)


def windows(values: Iterable[Any], size: Any, step: Any = 1) -> Iterator[list[Any]]:
    """Lists of `size` values that follow each other, each `step` values behind the one before; what doesn't fill the last is left out."""
    return _windows(values, _count(size, "the size of a window", 1), _count(step, "the step of a window", 1))


def _windows(values: Iterable[Any], size: int, step: int) -> Iterator[list[Any]]:
    latest: deque[Any] = deque(maxlen=size)
    wanted = size
    for number, value in enumerate(values, 1):
        latest.append(value)
        if number == wanted:
            wanted += step
            yield list(latest)


def batches(values: Iterable[Any], size: Any) -> Iterator[list[Any]]:
    """Lists of `size` values; the last may have fewer."""
    return _batches(iter(values), _count(size, "the size of a batch", 1))


def _batches(values: Iterator[Any], size: int) -> Iterator[list[Any]]:
    while batch := list(islice(values, size)):
        yield batch


def drained(values: Iterable[Any], function: Callable[[Any], Any]) -> None:
    take = _callable("sink", function)
    for value in values:
        take(value)


def _callable(step: str, function: Any) -> Callable[[Any], Any]:
    if not callable(function):
        raise LibraryFault("0807", f"`{step}` takes a function, not {describe(function)}")
    found: Callable[[Any], Any] = function
    return found


STREAMING: dict[str, Callable[..., Any]] = {
    "stream map": mapped,
    "stream filter": filtered,
    "stream take_while": taken_while,
    "stream take": taken,
    "stream skip": skipped,
    "stream window": windows,
    "stream batch": batches,
    "stream enumerate": enumerate,
    "stream zip": zip,
    "stream chain": chain,
    "stream sink": drained,
    "stream collect": list,
    f"stream {VALUES}": iter,
}
