"""The events that a strategy handles: which of them have a record, and which are set to something. A table only."""

from runtime.records import frozen


@frozen
class EventDeclaration:
    """`record`: a handler may name the event's record. `setting` says in words what `on event(...)` takes before that, None: nothing."""

    record: bool = True
    setting: str | None = None
    example: str = ""


EVENTS = {
    "start": EventDeclaration(record=False, example="on start { }"),
    "stop": EventDeclaration(record=False, example="on stop { }"),
    "trade": EventDeclaration(example="on trade(t) { }"),
    "quote": EventDeclaration(example="on quote(q) { }"),
    "book": EventDeclaration(example="on book(b) { }"),
    "bar": EventDeclaration(setting="a duration, ticks or a volume", example="on bar(1m)(x) { }"),
    "timer": EventDeclaration(record=False, setting="a duration", example="on timer(100ms) { }"),
    "ack": EventDeclaration(example="on ack(a) { }"),
    "fill": EventDeclaration(example="on fill(f) { }"),
    "cancelled": EventDeclaration(example="on cancelled(c) { }"),
    "reject": EventDeclaration(example="on reject(r) { }"),
    "gap": EventDeclaration(example="on gap(g) { }"),
    "halt": EventDeclaration(example="on halt(h) { }"),
}
