"""Collections are held off inside, however it ends."""

import gc

import pytest

from runtime.uncollected import uncollected


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
