"""What an executor did during a call of a function: how such a call can be made again is learnt by watching its first time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Executed = TypeVar("Executed")


WATCHED: dict[int, None] = {}
"""One entry for each watch that is on, of any thread: whatever has answers without an executor's doing leaves calls to executors then."""


class CallWatch(threading.local, Generic[Executed]):
    """The calls that an executor makes on this thread: None where nobody watches."""

    calls: list[Executed] | None = None

    @contextmanager
    def watched(self) -> Iterator[list[Executed]]:
        """The calls that are made inside."""
        outer, self.calls = self.calls, []
        WATCHED[id(self.calls)] = None
        try:
            yield self.calls
        finally:
            del WATCHED[id(self.calls)]
            self.calls = outer
