"""Rings, tables and books against Python's own lists, dicts and sorted lists, natively and in the interpreter."""

from collections import deque
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.hir.layout import new_memory
from compiler.hir.native_build import ModuleBuilder
from compiler.hir.native_types import F64, I1, I8, I64, struct
from compiler.hir.types import Pointer, Struct, Tile
from quantdsl.native.book import ADDED, ASKS, BEYOND, BIDS, CHANGED, REMOVED, UNKNOWN, Book
from quantdsl.native.ring import NativeRing
from quantdsl.native.slab import Slab
from quantdsl.native.table import FULL, INSERTED, PRESENT, NativeTable
from tests.quantdsl.native.both import Both

EXAMPLES = settings(max_examples=25, deadline=None)


# ---- rings -------------------------------------------------------------------------------------------------------


@cache
def ring_of(capacity: int) -> Both:
    program, ring = ModuleBuilder("rings"), NativeRing(F64, capacity)
    with program.function("push", {"ring": Pointer(ring.type), "x": F64}, [I1, F64]) as b:
        old = ring.push(b, *b.parameters)
        b.ret(*old.parts)
    with program.function("get", {"ring": Pointer(ring.type), "age": I64}, [F64]) as b:
        b.ret(ring.get(b, *b.parameters))
    return Both(program.module)


@pytest.mark.parametrize("capacity", [1, 2, 3, 16, 31])
def test_a_ring_holds_the_newest(capacity: int) -> None:
    run, held = ring_of(capacity), new_memory(NativeRing(F64, capacity).type)
    model: deque[float] = deque(maxlen=capacity)
    for number in range(3 * capacity + 2):
        for age in (-(2**63), -1, 0, len(model) - 1, len(model), capacity, 2**63 - 1):
            inside = 0 <= age < len(model)
            wanted = (model[-1 - age],) if inside else ("0801", "get", 0, (age, len(model)))
            assert run("get", held, age) == wanted
        full = len(model) == capacity
        oldest = model[0] if full else 0.0
        assert run("push", held, number + 0.5) == (full, oldest)
        model.append(number + 0.5)


# ---- tables ------------------------------------------------------------------------------------------------------

ORDER = struct("order", quantity=I64, price=I64)


@cache
def table_of(key: str, capacity: int) -> tuple[Both, Struct]:
    program, table = ModuleBuilder("tables"), NativeTable(Tile(key), ORDER, capacity)
    pointer = Pointer(table.type)
    with program.function("insert", {"table": pointer, "key": Tile(key), "x": I64}, [I64, I8]) as b:
        slots, own, x = b.parameters
        slot, outcome = table.insert(b, slots, own)
        with b.when(slot >= 0):
            place = table.value(b, slots, slot)
            place.quantity = x
            place.price = place.price.wrapping_add(x)
        b.ret(slot, outcome)
    with program.function("find", {"table": pointer, "key": Tile(key)}, [I1, I64, I64]) as b:
        slots, own = b.parameters
        slot = table.find(b, slots, own)
        with b.when(slot < 0):
            b.ret(False, 0, 0)
        place = table.value(b, slots, slot)
        b.ret(True, place.quantity, place.price)
    with program.function("remove", {"table": pointer, "key": Tile(key)}, [I1]) as b:
        b.ret(table.remove(b, *b.parameters))
    return Both(program.module), table.type


STEPS = st.lists(st.tuples(st.sampled_from(["insert", "insert", "find", "remove"]), st.integers(0, 11), st.integers(1, 99)), max_size=60)


@pytest.mark.parametrize("key", ["u64", "i64", "u32"])
@pytest.mark.parametrize("capacity", [1, 2, 7])
@EXAMPLES
@given(steps=STEPS)
def test_a_table_is_a_dictionary_that_can_be_full(key: str, capacity: int, steps: list[tuple[str, int, int]]) -> None:
    run, type_ = table_of(key, capacity)
    held, model = new_memory(type_), {}
    # far keys and near ones; multiples of 2**61 / 2**29 share their last bits
    keys = {
        "u64": [*range(4), *(n << 61 for n in range(8))],
        "i64": [0, -1, -(2**63), 2**63 - 1, *range(5, 13)],
        "u32": [*range(4), *(n << 29 for n in range(8))],
    }[key]
    for step, number, x in steps:
        own = keys[number]
        match step:
            case "insert":
                slot, outcome = run("insert", held, own, x)
                wanted = PRESENT if own in model else FULL if len(model) == capacity else INSERTED
                assert outcome == wanted and (slot >= 0) == (wanted != FULL)
                if wanted != FULL:
                    model[own] = (x, model.get(own, (0, 0))[1] + x)
            case "find":
                assert run("find", held, own) == (own in model, *model.get(own, (0, 0)))
            case _:
                assert run("remove", held, own) == (own in model,)
                model.pop(own, None)
        assert held["count"][0] == len(model) == held["used"].sum()
    for own in keys:
        assert run("find", held, own) == (own in model, *model.get(own, (0, 0)))


def test_a_full_table_of_a_thousand() -> None:
    run, type_ = table_of("u64", 1000)
    held = new_memory(type_)
    chosen = np.random.default_rng(1).integers(0, 2**63, 1001).tolist()
    native = run.native[0]
    assert [native["insert"].run([held, own, 1]).results[1] for own in chosen] == [INSERTED] * 1000 + [FULL]
    assert all(native["remove"].run([held, own]).results == (True,) for own in chosen[:1000])
    assert held.tobytes() == bytes(held.nbytes), "an emptied table is a new one"


# ---- slabs -------------------------------------------------------------------------------------------------------


@cache
def slab_of(capacity: int) -> tuple[Both, Struct]:
    program, slab = ModuleBuilder("slabs"), Slab(ORDER, capacity)
    pointer = Pointer(slab.type)
    with program.function("take", {"slab": pointer, "x": I64}, [I64, I64]) as b:
        held, x = b.parameters
        number = slab.take(b, held)
        with b.when(number < 0):
            b.ret(number, 0)
        place = slab.item(b, held, number)
        before = place.quantity
        place.quantity = x
        b.ret(number, before)
    with program.function("look", {"slab": pointer, "number": I64}, [I64]) as b:
        b.ret(slab.item(b, *b.parameters).quantity)
    with program.function("give_back", {"slab": pointer, "number": I64}) as b:
        slab.give_back(b, *b.parameters)
    return Both(program.module), slab.type


@pytest.mark.parametrize("capacity", [1, 2, 5])
@EXAMPLES
@given(steps=st.lists(st.tuples(st.sampled_from(["take", "take", "look", "give_back"]), st.integers(-1, 5)), max_size=40))
def test_a_slab_gives_out_places_and_takes_them_back(capacity: int, steps: list[tuple[str, int]]) -> None:
    run, type_ = slab_of(capacity)
    held, taken, free, fresh = new_memory(type_), {}, [], 0
    for turn, (step, number) in enumerate(steps):
        match step:
            case "take":
                wanted = free.pop() if free else fresh if fresh < capacity else -1
                fresh = max(fresh, wanted + 1)
                assert run("take", held, turn + 1) == (wanted, 0)
                if wanted >= 0:
                    taken[wanted] = turn + 1
            case "look":
                assert run("look", held, number) == ((taken[number],) if number in taken else ("0801", "look", 0, (number,)))
            case _:
                assert run("give_back", held, number) == (() if number in taken else ("0801", "give_back", 0, (number,)))
                if taken.pop(number, None) is not None:
                    free.append(number)
        assert held["count"][0] == len(taken)


# ---- books -------------------------------------------------------------------------------------------------------


@cache
def book_of(levels: int) -> Both:
    program, book = ModuleBuilder("books"), Book(levels)
    pointer = Pointer(book.type)
    for side in (BIDS, ASKS):
        with program.function(f"update_{side}", {"book": pointer, "price": I64, "quantity": I64}, [I8]) as b:
            held, price, quantity = b.parameters
            b.ret(book.update(b, held, side, price, quantity))
        with program.function(f"level_{side}", {"book": pointer, "number": I64}, [I1, I64, I64]) as b:
            found, quantity = book.level(b, b.parameters[0], side, b.parameters[1])
            b.ret(*found.parts, quantity)
        with program.function(f"depth_{side}", {"book": pointer, "price": I64}, [I64]) as b:
            b.ret(book.depth_to(b, b.parameters[0], side, b.parameters[1]))
    with program.function("crossed", {"book": pointer}, [I1]) as b:
        b.ret(book.crossed(b, b.parameters[0]))
    return Both(program.module)


def book_model(side: dict[int, int], levels: int, sign: int, price: int, quantity: int) -> int:
    """The update on a dictionary of prices, cut to the best levels."""
    if quantity == 0:
        return REMOVED if side.pop(price, None) is not None else UNKNOWN
    known = price in side
    side[price] = quantity
    if known:
        return CHANGED
    if len(side) > levels:
        worst = min(side, key=lambda p: sign * p)
        del side[worst]
        if worst == price:
            return BEYOND
    return ADDED


UPDATES = st.lists(st.tuples(st.sampled_from([BIDS, ASKS]), st.integers(-6, 6), st.integers(0, 4)), max_size=50)


@pytest.mark.parametrize("levels", [1, 2, 5])
@EXAMPLES
@given(updates=UPDATES)
def test_a_book_keeps_the_best_levels_sorted(levels: int, updates: list[tuple[str, int, int]]) -> None:
    run, held = book_of(levels), new_memory(Book(levels).type)
    model: dict[str, dict[int, int]] = {BIDS: {}, ASKS: {}}
    signs = {BIDS: 1, ASKS: -1}
    for side, price, quantity in updates:
        wanted = book_model(model[side], levels, signs[side], price, quantity)
        assert run(f"update_{side}", held, price, quantity) == (wanted,)
        for name, sign in signs.items():
            ordered = sorted(model[name].items(), key=lambda level: -sign * level[0])
            for number in (-1, *range(levels + 1)):
                there = 0 <= number < len(ordered)
                assert run(f"level_{name}", held, number) == ((True, *ordered[number]) if there else (False, 0, 0))
            wanted_depth = sum(q for p, q in ordered if sign * p >= sign * price)
            assert run(f"depth_{name}", held, price) == (wanted_depth,)
        crossed = bool(model[BIDS]) and bool(model[ASKS]) and max(model[BIDS]) >= min(model[ASKS])
        assert run("crossed", held) == (crossed,)


def test_a_ladder_that_lost_levels_says_so() -> None:
    run, held = book_of(2), new_memory(Book(2).type)
    assert [run("update_bids", held, price, 1) for price in (10, 12)] == [(ADDED,)] * 2
    assert not held["bids"]["lost"][0]
    assert run("update_bids", held, 9, 1) == (BEYOND,)
    assert held["bids"]["lost"][0] and held["bids"]["price"][0].tolist() == [12, 10]
    assert run("update_bids", held, 11, 3) == (ADDED,)
    assert held["bids"]["price"][0].tolist() == [12, 11] and not held["asks"]["lost"][0]


def test_a_depth_that_does_not_fit_stops() -> None:
    run, held = book_of(2), new_memory(Book(2).type)
    for price in (1, 2):
        run("update_asks", held, price, 2**62 + 1)
    assert run("depth_asks", held, 2)[:3] == ("0806", "book2.asks.depth", 0)
    assert run("depth_asks", held, 1) == (2**62 + 1,)


def test_keys_may_be_any_number() -> None:
    run, type_ = table_of("u64", 7)
    held = new_memory(type_)
    assert run("insert", held, 2**64 - 1, 5)[1] == INSERTED
    assert run("find", held, 2**64 - 1) == (True, 5, 5)
    assert run("find", held, 0) == (False, 0, 0)
