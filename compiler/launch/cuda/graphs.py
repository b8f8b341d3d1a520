"""Launches that come back with the same arguments, as CUDA graphs: a graph is recorded when they come the second time, and starts for a
fraction of what its launches cost."""

import threading
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from compiler.launch.cache import ABSENT, GRAPHS, RecentCache
from runtime import forks
from runtime.cuda.gpu import Gpu
from runtime.cuda.graph import Graph, Recording
from runtime.cuda.stream import Stream
from runtime.records import Factory, define


def recorded(gpu: Gpu, launch: Callable[[Stream], None]) -> Graph:
    """What `launch` does, as a graph. It is recorded on a stream of its own: what others launch meanwhile must not get in, and the legacy
    stream can't be recorded."""
    stream = gpu.new_stream()
    with Recording(stream) as recording:
        launch(stream)
    return recording.graph()


@define(eq=False)
class RecordedLaunches:
    """The launches of one call, by their arguments: None until they come again."""

    gpu: Gpu
    _graphs: RecentCache[Hashable, Graph | None] = Factory(partial(RecentCache, GRAPHS))
    _lock: threading.Lock = Factory(forks.lock)

    def launch(self, arguments: Hashable, stream: Stream, launch: Callable[[Stream], None]) -> None:
        """What `launch` does with these arguments, of which zeros of both signs must differ."""
        with self._lock:
            graph: Any = self._graphs.recall(arguments)
            if graph is None:
                graph = self._graphs.keep(arguments, recorded(self.gpu, launch))
            if graph is ABSENT:
                self._graphs.keep(arguments, None)
            else:
                graph(stream)
                return
        launch(stream)
