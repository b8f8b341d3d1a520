"""What blocks on GPUs did during a call of a function: how it can be made again is learnt by watching its first time."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from compiler.launch.cuda.calls import PlannedCall
from runtime.cuda.stream import Stream
from runtime.records import frozen


@frozen
class BlockCall:
    """A block's call: the launches, the values as they took them, the stream, and the block's value."""

    call: PlannedCall
    given: Mapping[str, Any]
    stream: Stream
    value: Any

    @property
    def results(self) -> tuple[Any, ...]:
        """The tensors that it made."""
        return self.value if len(self.call.results) > 1 else (self.value,)


class _Watched(threading.local):
    calls: list[BlockCall] | None = None


_WATCHED = _Watched()


@contextmanager
def watched_calls() -> Iterator[list[BlockCall]]:
    """The calls of blocks on this thread, while inside."""
    outer, _WATCHED.calls = _WATCHED.calls, []
    try:
        yield _WATCHED.calls
    finally:
        _WATCHED.calls = outer


def note_call(call: PlannedCall, given: Mapping[str, Any], stream: Stream, value: Any) -> None:
    """Called after a block's call."""
    if _WATCHED.calls is not None:
        _WATCHED.calls.append(BlockCall(call, given, stream, value))
