"""Books from quotes, levels and orders, and what makes one suspect."""

import pytest

from tests.quantdsl.reference.book import Book
from tests.quantdsl.reference.market import Add, Clear, Event, Execute, Gap, Level, Quote, Reduce, Side, Swap

BUY, SELL = Side.BUY, Side.SELL


def fed(*events: Event, on_cross: str = "refuse") -> Book:
    book = Book(on_cross)
    for event in events:
        book.apply(event)
    return book


def shown(book: Book) -> tuple[dict[int, int], dict[int, int]]:
    bids, asks = ({price: level.qty for price, level in book.ladder(side)} for side in (BUY, SELL))
    return bids, asks


def test_a_quote_is_the_whole_book() -> None:
    book = fed(Quote(1, 99, 5, 101, 6), Quote(2, 100, 1, 101, 7))
    assert shown(book) == ({100: 1}, {101: 7})
    assert (book.mid2, book.updated) == (201, 2)
    assert shown(fed(Quote(1, 99, 5, 0, 0))) == ({99: 5}, {})


def test_a_quote_among_levels_tells_the_best_of_each_side() -> None:
    levels = (Level(1, BUY, 99, 5), Level(1, BUY, 98, 4), Level(1, BUY, 97, 3), Level(1, SELL, 101, 2))
    assert shown(fed(*levels, Quote(2, 98, 6, 100, 1))) == ({98: 6, 97: 3}, {100: 1, 101: 2})
    assert shown(fed(*levels, Quote(2, 0, 0, 101, 2))) == ({}, {101: 2})
    assert shown(fed(*levels, Clear(2), Quote(2, 98, 6, 100, 1), Quote(3, 97, 6, 100, 1))) == ({97: 6}, {100: 1})


def test_levels_are_set_and_removed() -> None:
    book = fed(Level(1, BUY, 99, 5), Level(1, BUY, 98, 4), Level(1, SELL, 101, 2), Level(2, BUY, 99, 0), Level(2, BUY, 97, 0))
    assert shown(book) == ({98: 4}, {101: 2})
    assert shown(fed(Level(1, BUY, 99, 5), Clear(2), Level(2, BUY, 90, 1))) == ({90: 1}, {})


def test_orders_add_up_to_levels() -> None:
    book = fed(Add(1, 1, BUY, 99, 5), Add(2, 2, BUY, 99, 3), Add(3, 3, SELL, 100, 1), Execute(4, 1, 4), Reduce(5, 2, 1), Reduce(6, 3))
    assert shown(book) == ({99: 3}, {})
    assert shown(fed(Add(1, 1, BUY, 99, 5), Execute(2, 1, 9))) == ({}, {})


@pytest.mark.parametrize("price", [100, 99])
def test_an_update_that_locks_or_crosses_is_refused_and_the_book_suspect(price: int) -> None:
    book = fed(Quote(1, 99, 5, 101, 6), Level(2, BUY, 100, 1), Level(3, SELL, price, 1))
    assert shown(book) == ({100: 1, 99: 5}, {101: 6})
    assert (book.suspect, book.crossed, book.updated) == (True, 1, 2)
    book.apply(Level(4, SELL, 102, 1))
    assert (book.suspect, book.updated) == (False, 4)


def test_a_message_of_several_levels_is_looked_at_once_it_is_whole() -> None:
    book = fed(Quote(1, 99, 5, 101, 6), Level(2, BUY, 101, 1, more=True), Level(2, SELL, 101, 0, more=True), Level(2, SELL, 103, 1))
    assert (shown(book), book.suspect) == (({101: 1, 99: 5}, {103: 1}), False)
    refused = fed(Quote(1, 99, 5, 101, 6), Level(2, BUY, 98, 7, more=True), Level(2, BUY, 101, 1))
    assert (shown(refused), refused.suspect) == (({99: 5}, {101: 6}), True)


def test_trimming_drops_the_older_side() -> None:
    book = fed(Level(1, SELL, 101, 1), Level(2, SELL, 102, 1), Level(3, BUY, 101, 4), on_cross="trim")
    assert (shown(book), book.suspect, book.crossed) == (({101: 4}, {102: 1}), False, 1)


def test_gaps_and_unknown_orders_make_it_suspect_until_the_next_good_update() -> None:
    book = fed(Add(1, 1, BUY, 99, 5), Gap(2))
    assert book.suspect
    book.apply(Add(3, 2, BUY, 98, 1))
    assert not book.suspect
    book.apply(Reduce(4, 77))
    assert (book.suspect, book.updated) == (True, 3)


def test_what_we_took_stays_taken_until_the_level_shows_another_quantity() -> None:
    book = fed(Quote(1, 99, 5, 101, 6))
    book.sides[SELL][101].taken = 4
    book.apply(Quote(2, 98, 5, 101, 6))
    assert book.sides[SELL][101].available == 2
    book.apply(Quote(3, 98, 5, 101, 5))
    assert book.sides[SELL][101].available == 5


def test_a_swapped_order_keeps_its_side() -> None:
    book = fed(Add(1, 1, BUY, 99, 5), Add(2, 2, BUY, 99, 1), Swap(3, 1, 7, 98, 4), Reduce(4, 7, 1))
    assert (shown(book), book.orders) == (({99: 1, 98: 3}, {}), {2: (BUY, 99, 1), 7: (BUY, 98, 3)})
    book.apply(Swap(5, 1, 8, 97, 1))
    assert book.suspect and shown(book) == ({99: 1, 98: 3}, {})


def test_of_two_orders_with_one_number_the_first_stands() -> None:
    book = fed(Add(1, 1, BUY, 99, 5), Add(2, 1, SELL, 101, 3))
    assert (shown(book), book.orders, book.suspect) == (({99: 5}, {}), {1: (BUY, 99, 5)}, True)
    book = fed(Add(1, 1, BUY, 99, 5), Add(2, 2, BUY, 98, 1), Swap(3, 2, 1, 97, 4))
    assert (shown(book), book.orders, book.suspect) == (({99: 5}, {}), {1: (BUY, 99, 5)}, True)
    assert fed(Add(1, 1, BUY, 99, 5), Swap(2, 1, 1, 97, 4)).orders == {1: (BUY, 97, 4)}


def test_one_side_can_be_cleared() -> None:
    book = fed(Add(1, 1, BUY, 99, 5), Add(2, 2, SELL, 101, 1), Clear(3, BUY))
    assert (shown(book), list(book.orders)) == (({}, {101: 1}), [2])


def test_a_refused_message_of_orders_is_taken_back_whole() -> None:
    book = fed(
        Add(1, 1, BUY, 99, 5), Add(2, 2, SELL, 101, 1), Swap(3, 1, 7, 100, 4, more=True), Reduce(3, 2, more=True), Add(3, 3, SELL, 100, 1)
    )
    seen = {id: order for id, order in book.orders.items() if id not in book.hidden}
    assert (shown(book), seen, book.suspect) == (({99: 5}, {101: 1}), {1: (BUY, 99, 5), 2: (SELL, 101, 1)}, True)
    assert {id: book.orders[id] for id in book.hidden} == {7: (BUY, 100, 4), 3: (SELL, 100, 1)}


def test_data_that_doubts_itself_makes_the_book_suspect() -> None:
    assert fed(Quote(1, 99, 5, 101, 6, suspect=True)).suspect
    assert not fed(Gap(1, lost=False)).suspect
