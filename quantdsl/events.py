"""The events that a strategy handles: which of them have a record, and which are set to something. A table only."""

from runtime.records import frozen


@frozen
class Event:
    """`record`: a handler may name the event's record. `setting` says in words what `on event(...)` takes before that, None: nothing."""

    record: bool = True
    setting: str | None = None
    example: str = ""


EVENTS = {
    "start": Event(record=False, example="on start { }"),
    "stop": Event(record=False, example="on stop { }"),
    "trade": Event(example="on trade(t) { }"),
    "quote": Event(example="on quote(q) { }"),
    "book": Event(example="on book(b) { }"),
    "bar": Event(setting="a duration, ticks or a volume", example="on bar(1m)(x) { }"),
    "timer": Event(record=False, setting="a duration", example="on timer(100ms) { }"),
    "ack": Event(example="on ack(a) { }"),
    "fill": Event(example="on fill(f) { }"),
    "cancelled": Event(example="on cancelled(c) { }"),
    "reject": Event(example="on reject(r) { }"),
    "gap": Event(example="on gap(g) { }"),
    "halt": Event(example="on halt(h) { }"),
}
