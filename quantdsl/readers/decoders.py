"""The compiled functions of readers as a value: out of the cache, or compiled when first needed. Importing this loads nothing of the
compiler proper."""

from functools import cache
from importlib import import_module

import numpy as np
import numpy.typing as npt

from compiler.backends.native import kept
from compiler.backends.native.link import Linked, link_modules
from runtime.cache.store import store
from runtime.replay.decoders import LETTERS, Bytes, Cut, DecodedMessages, FlatFields, Good
from runtime.replay.events import EVENT
from runtime.replay.grids import I64, GridStep
from runtime.replay.itch_messages import BAD, MESSAGES
from runtime.replay.itch_messages import LETTERS as TYPES

_NEWLINE, _RETURN = ord("\n"), ord("\r")


class NativeDecoders:
    """`runtime.replay.decoders.Decoders` as machine code."""

    def cut(self, text: Bytes, separator: str, slots: npt.NDArray[np.int32], wanted: int) -> Cut:
        if text.size and text[-1] != _NEWLINE:
            text = np.append(text, np.uint8(_NEWLINE))
        most = int(np.count_nonzero(text == _NEWLINE))
        return _cut_regular(text, separator, slots, wanted, most) or _cut_any(text, separator, slots, wanted, most)

    def decimals(self, text: Bytes, starts: I64, lengths: I64, step: GridStep) -> tuple[I64, Good]:
        values, good = np.empty(starts.size, np.int64), np.zeros(starts.size, np.bool_)
        if step.divisor < 2**63 and step.digits < 19:
            fields = np.ascontiguousarray(starts), np.ascontiguousarray(lengths)
            _linked("text")["decimals"].run([text, text.size, *fields, starts.size, step.digits, step.divisor, values, good])
        return values, good

    def words(self, text: Bytes, starts: I64, lengths: I64) -> npt.NDArray[np.uint64]:
        packed = np.empty(starts.size, np.uint64)
        fields = np.ascontiguousarray(starts), np.ascontiguousarray(lengths)
        _linked("text")["words"].run([text, text.size, *fields, starts.size, packed])
        return packed

    def flat_fields(self, text: Bytes, keys: str, lines: int) -> FlatFields:
        kinds = ("", *keys)
        slots = np.full(LETTERS, -1, np.int32)
        for slot, key in enumerate(keys, 1):
            slots[ord(key)] = slot
        starts, lengths = np.zeros((len(kinds), lines), np.int64), np.zeros((len(kinds), lines), np.int64)
        simple = np.zeros(lines, np.bool_)
        _linked("flat_json")["flat_fields"].run([text, text.size, slots, len(kinds), lines, starts, lengths, simple])
        return FlatFields(dict(zip(kinds, starts, strict=True)), dict(zip(kinds, lengths, strict=True)), simple)

    def itch(
        self,
        data: Bytes,
        offset: int,
        midnight: int,
        stream: int,
        locates: npt.NDArray[np.int32],
        symbols: npt.NDArray[np.uint64],
        grids: I64,
    ) -> DecodedMessages:
        # no message that becomes a record is shorter
        most = data.size // (2 + min(message.length for message in MESSAGES.values())) + 1
        events, bad = np.empty(most, EVENT), np.empty((most, BAD), np.int64)
        tables = _shapes(), locates, symbols, symbols.size, grids, bad
        outcome = _linked("itch")["itch"].run([data, data.size, offset, midnight, stream, events, most, *tables])
        count, consumed, messages, left_out, wrong = map(int, outcome.results)
        return DecodedMessages(events[:count], consumed, messages, left_out, bad[:wrong], count + wrong == most)


@cache
def _linked(name: str) -> Linked:
    """The functions that the file of that name writes."""
    cache, key = store(), kept.key("reader", name)
    stored = kept.found(cache, key)
    if stored is None:
        from compiler.backends.native.compile import compile_module
        from compiler.hir.module import OptimizationLevel
        from compiler.hir.native_build import ModuleBuilder

        program = ModuleBuilder(f"readers.{name}")
        import_module(f"quantdsl.readers.{name}").write(program)
        stored = kept.keep(cache, key, compile_module(program.module, OptimizationLevel.O2))
    return link_modules([stored])


def _cut_regular(text: Bytes, separator: str, slots: npt.NDArray[np.int32], wanted: int, rows: int) -> Cut | None:
    """The lines of nearly all files: every one has all fields, and no quotes. None for others."""
    columns = slots.size
    marks = np.empty(rows * columns + 1, np.int64)
    if not rows:
        return None
    if _linked("text")["marks"].run([text, text.size, ord(separator), marks, rows * columns]).results != (rows * columns,):
        return None
    ends = marks[:-1].reshape(rows, columns)
    found = text[ends]
    if not (found[:, -1] == _NEWLINE).all() or not (found[:, :-1] == ord(separator)).all():
        return None
    offsets = np.empty(rows, np.int64)
    offsets[0] = 0
    offsets[1:] = ends[:-1, -1] + 1
    starts, lengths = np.zeros((wanted, rows), np.int64), np.zeros((wanted, rows), np.int64)
    for column, slot in enumerate(slots.tolist()):
        if slot >= 0:
            starts[slot] = ends[:, column - 1] + 1 if column else offsets
            np.subtract(ends[:, column], starts[slot], out=lengths[slot])
            if column == columns - 1:
                lengths[slot] -= (lengths[slot] > 0) & (text[ends[:, column] - 1] == _RETURN)
    if columns == 1 and not (lengths[0] if wanted else ends[:, 0] - offsets).all():
        return None
    return Cut(text, starts, lengths, offsets, np.arange(rows), np.ones(rows, np.bool_), rows)


def _cut_any(text: Bytes, separator: str, slots: npt.NDArray[np.int32], wanted: int, most: int) -> Cut:
    """Lines of all kinds."""
    starts, lengths = np.zeros((wanted, most), np.int64), np.zeros((wanted, most), np.int64)
    offsets, lines, right = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.bool_)
    shape = slots, slots.size, wanted, most
    outcome = _linked("text")["cut"].run([text, text.size, ord(separator), *shape, starts, lengths, offsets, lines, right])
    rows, line_count = map(int, outcome.results)
    return Cut(text, starts[:, :rows], lengths[:, :rows], offsets[:rows], lines[:rows], right[:rows], line_count)


@cache
def _shapes() -> I64:
    """Length and place of the symbol by letter [256, 2]; -1: no such message, 0: no symbol."""
    shapes = np.tile(np.array([-1, 0], np.int64), (TYPES, 1))
    for letter, message in MESSAGES.items():
        shapes[ord(letter)] = message.length, message.symbol or 0
    return shapes
