"""Files into one stream of events, by (time, place on the command line)."""

from collections.abc import Iterator, Sequence

import numpy as np

from runtime.replay.events import EVENT, Events


def merged(streams: Sequence[Iterator[Events]]) -> Iterator[Events]:
    """The events of all streams in order; each stream is in order itself. Of each no more is held than one of its blocks, and what
    has the same time as its last event."""
    streams = list(streams)
    heads: list[Events] = [_next(stream) for stream in streams]
    while True:
        live = [number for number, head in enumerate(heads) if head.size]
        if not live:
            return
        if len(live) == 1:
            yield heads[live[0]]
            heads[live[0]] = _next(streams[live[0]])
            continue
        # the stream that is known least far says how far all may go; one behind it must not go to that very moment
        until, limit = min((int(heads[number]["ts"][-1]), number) for number in live)
        parts = []
        for number in live:
            head = heads[number]
            count = int(np.searchsorted(head["ts"], until, side="right" if number <= limit else "left"))
            parts.append(head[:count])
            heads[number] = head[count:] if count < head.size else _next(streams[number])
        together = np.concatenate(parts)
        yield together[np.argsort(together["ts"], kind="stable")]


def _next(stream: Iterator[Events]) -> Events:
    """The next events that are any; none at the end."""
    return next((events for events in stream if events.size), np.empty(0, EVENT))
