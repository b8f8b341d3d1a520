"""Which tests are slow (see `tests.tiers`), and how tests are shared out among processes (`-n`): a file at a time, so that what its tests
have in common (engines, compiled programs) is made once; and first those files whose tests take longest."""

import gc
import os
import signal
import sys
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.tiers.breadth import breadth

LONGEST = ("", "sanitize", "targets", "schedule", "quantdsl/engine", "kernels", "quantdsl", "interop", "backends", "programs", "zynml", "zyntax")
"""Folders by the time that a file of them takes; first the files that lie in no folder, of which some take longest of all."""

QUICK = ("language/", "lowering/", "placement/", "programs/", "targets/", "test_kernelbench.py")
"""Tests that ask what programs come to, not which code they become: their kernels stay in tier 0."""

KERNELS = ("kernels/", "schedule/")
"""Folders whose tests are about kernels: of sixteen cases of a test one has all passes at once, and of four tests that are one case each; the
others stay in tier 0."""

YOUNG = 200_000
"""New objects between two searches for garbage. After Python's 700, the searches took a fifth of the time of a test that compiles."""


settings.register_profile("any examples", deadline=None, suppress_health_check=[HealthCheck.too_slow])  # how fast a machine is is no matter of a test
settings.register_profile("the same examples", settings.get_profile("any examples"), derandomize=True, database=None)
settings.load_profile("the same examples")  # a commit that changes nothing fails no test; `make slow` looks for new examples


@pytest.fixture(scope="module", autouse=True)
def _heap_of_files_before() -> None:
    """What files before left behind isn't looked through again whenever a test collects garbage, which took most of the time."""
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    """Garbage is searched for more rarely. Processes that tests start and interrupt would ignore Ctrl-C where these tests run as a job in
    the background; and where Python may write no byte code, each of them would compile the compiler's files anew, which takes longer than
    most commands: such code goes to a folder of this run."""
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        folder = tempfile.TemporaryDirectory(prefix="zyntax-bytecode-")
        config.add_cleanup(folder.cleanup)
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = folder.name
        sys.dont_write_bytecode = False
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


ASKED = "ZYNTAX_TIER" in os.environ
"""Whether who runs the tests says in which tier kernels begin."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Kernels have one code while a test runs, that of tier 1 or that of tier 0, which has the same bits and is made in a third of the time,
    or a tenth where a kernel is large."""
    if not ASKED:
        os.environ["ZYNTAX_TIER"] = "0" if _is_quick(item) else "1"


def _is_quick(item: pytest.Item) -> bool:
    if item.get_closest_marker("slow"):
        return False
    case = item.nodeid.removeprefix("tests/")
    return case.startswith(QUICK) or (case.startswith(KERNELS) and zlib.crc32(case.encode()) % (16 if "[" in case else 4) != 1)


def _settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("ZYNTAX_")}


BEFORE = _settings()


def pytest_collection_finish() -> None:
    """A file that changes a setting when it is imported would change it for all tests: with `ZYNTAX_CACHE=off` they take several times as long."""
    if _settings() != BEFORE:
        raise pytest.UsageError(f"collecting the tests changed settings: {sorted(_settings().items() ^ BEFORE.items())}")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks slow cases, before `-m` looks at marks."""
    table = breadth()
    cases: defaultdict[str, dict[str, pytest.Item]] = defaultdict(dict)
    for item in items:
        test, _, name = item.nodeid.partition("[")
        cases[test][name.removesuffix("]")] = item
    for test in {*table.tests} & cases.keys():
        for name in table.slow(test, {name: _values(item) for name, item in cases[test].items()}):
            cases[test][name].add_marker("slow")
    items.sort(key=lambda item: (_turn(item), str(item.path)))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Every second process begins with the last files. All processes of a run collect all tests at once, and in a fresh clone each file is
    compiled by the first that comes to it: half of them by each, not all of them by each."""
    report = yield
    process = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    if isinstance(collector, pytest.Session | pytest.Directory) and int(process) % 2:
        report.result = report.result[::-1]
    return report


def _values(item: pytest.Item) -> dict[str, str]:
    """What a case has for each parameter; parameters that are listed together count as one."""
    given: dict[str, Any] = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    together = [mark.args[0] for mark in item.iter_markers("parametrize")]
    groups = [names.replace(" ", "").split(",") if isinstance(names, str) else [*names] for names in together]
    groups += [[name] for name in given.keys() - {name for names in groups for name in names}]
    return {",".join(names): repr([given.get(name) for name in names]) for names in groups}


def _turn(item: pytest.Item) -> int:
    folder, _, _ = item.nodeid.partition("::")[0].removeprefix("tests/").rpartition("/")
    return next((turn for turn, name in enumerate(LONGEST) if f"{folder}/".startswith(f"{name}/")), len(LONGEST))
