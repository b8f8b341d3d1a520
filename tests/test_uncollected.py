"""Collections are held off inside, however it ends."""

import gc
import weakref

import pytest

from runtime.uncollected import _Process, uncollected


def test_collections_are_held_off_and_come_back() -> None:
    with pytest.raises(ValueError), uncollected():
        assert not gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()


def test_who_switched_them_off_finds_them_off() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_was_made_inside_is_old_and_found_once_it_is_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    class Node:
        itself: object

    monkeypatch.setattr(_Process, "has_frozen", False)
    gc.unfreeze()  # what files of tests before this one left
    gc.collect()
    with uncollected():
        kept, circle = [[] for _ in range(1000)], Node()
        circle.itself = circle
    young = {id(one) for one in gc.get_objects(generation=0)}
    assert not any(id(one) in young for one in kept)
    gone = weakref.ref(circle)
    del circle
    gc.collect()
    assert gone() is None


def test_objects_that_somebody_froze_stay_so_and_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Process, "has_frozen", False)
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with uncollected():
            pass
        assert gc.get_freeze_count() == count
        with monkeypatch.context() as patch:
            patch.delattr(gc, "get_freeze_count")
            with uncollected():
                pass
        assert gc.get_freeze_count() == count
    finally:
        gc.unfreeze()
