"""How the tests are shared out among processes (`-n`): a file at a time, so that what its tests have in common (engines, compiled programs)
is made once; and first those files whose tests take longest."""

import gc
import signal
from typing import Any

import pytest

LONGEST = ("quantdsl/engine", "schedule", "quantdsl", "kernels", "interop", "backends", "programs")
"""Folders by the time that a file of them takes."""


@pytest.fixture(scope="module", autouse=True)
def _heap_of_files_before() -> None:
    """What files before left behind isn't looked through again whenever a test collects garbage, which took most of the time."""
    gc.freeze()


def pytest_configure() -> None:
    """Processes that tests start and interrupt would ignore Ctrl-C where these tests run as a job in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    folder = item.nodeid.removeprefix("tests/")
    return next((turn for turn, name in enumerate(LONGEST) if folder.startswith(f"{name}/")), len(LONGEST))
