"""How long threads wait for the next parallel loop: libgomp is told while it is loaded."""

import os
from collections.abc import Iterator

import pytest

from runtime.cpu import pool


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str | None, str | None]]]:
    """What the environment says at each try to load libgomp, which isn't found."""
    heard: list[tuple[str | None, str | None]] = []
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pool, "_loaded", lambda name: heard.append((os.environ.get("GOMP_SPINCOUNT"), os.environ.get("OMP_WAIT_POLICY"))))
    monkeypatch.setattr("sys.platform", "linux")
    pool.gomp_path.cache_clear()
    yield heard
    monkeypatch.undo()
    pool.gomp_path.cache_clear()


def test_threads_wait_for_at_most_a_hundred_microseconds(told: list[tuple[str | None, str | None]]) -> None:
    assert pool.gomp_path() is None
    assert told == [(str(pool.SPINS), None)] * 2
    assert pool.SPINS * 45 <= 100_000
    assert "GOMP_SPINCOUNT" not in os.environ


@pytest.mark.parametrize(("name", "said"), [("GOMP_SPINCOUNT", ("7", None)), ("OMP_WAIT_POLICY", (None, "7"))])
def test_what_the_user_says_counts(
    told: list[tuple[str | None, str | None]], monkeypatch: pytest.MonkeyPatch, name: str, said: tuple[str | None, str | None]
) -> None:
    monkeypatch.setenv(name, "7")
    assert pool.gomp_path() is None
    assert told == [said] * 2
    assert os.environ[name] == "7"
