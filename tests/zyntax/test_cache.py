"""`--no-cache`: nothing is read from the user's cache and nothing kept there. `zyntax cache`: what is there."""

import errno
import json
import os
from datetime import datetime
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from runtime.cache.store import CacheStore, store
from zyntax.cache_command import command
from zyntax.options import no_cache


@pytest.mark.parametrize(("given", "kept"), [((), True), (("--no-cache",), False)])
def test_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], kept: bool) -> None:
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("ZYNTAX_CACHE", "on")

    @click.command()
    @no_cache
    def command() -> None:
        click.echo(store() is not None)

    assert CliRunner().invoke(command, given).output == f"{kept}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("ZYNTAX_CACHE", "on")
    kept = CacheStore(tmp_path / "code")
    kept.put("a" * 64, 0, bytes(2000), "cpu call")
    kept.put("b" * 64, 0, bytes(3 << 20), "program")
    for seconds, name in enumerate("ab"):
        os.utime(tmp_path / "code" / f"{name * 64}.zyn", (86400 + seconds, 86400 + seconds))
    return tmp_path / "code"


def said(*arguments: str) -> tuple[str, int]:
    """What the command prints, and what it ends with."""
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert result.exception is None
    return result.output, result.return_value or 0


def test_entries_are_listed(folder: Path) -> None:
    text, code = said("list")
    day = datetime.fromtimestamp(86400).strftime("%Y-%m-%d %H:%M")
    assert (text.splitlines(), code) == (
        [
            f"{folder}: 2 entries, 3.0 MiB of at most 256.0 MiB",
            f"  program   3.0 MiB  {day}  bbbbbbbbbbbb",
            f"  cpu call  2.0 KiB  {day}  aaaaaaaaaaaa",
        ],
        0,
    )
    told = json.loads(said("list", "--json")[0])
    assert (told["folder"], told["most_bytes"]) == (str(folder), 256 << 20)
    assert [(entry["key"], entry["holds"], entry["state"], entry["used"]) for entry in told["entries"]] == [
        ("b" * 64, "program", "whole", 86401.0),
        ("a" * 64, "cpu call", "whole", 86400.0),
    ]
    assert [entry["bytes"] for entry in told["entries"]] == [path.stat().st_size for path in sorted(folder.iterdir(), reverse=True)]


def test_entries_are_verified(folder: Path) -> None:
    assert said("verify") == ("2 entries whole, 0 not\n", 0)
    path = folder / f"{'a' * 64}.zyn"
    held = bytearray(path.read_bytes())
    for position in range(0, len(held), 97):
        held[position] ^= 4
        path.write_bytes(held)
        assert said("verify") == (f"{path} is damaged\n1 entry whole, 1 not\n", 1)
        held[position] ^= 4
    path.write_bytes(held.replace(b"zyntax code 2", b"zyntax code 0"))
    assert said("verify") == ("1 entry whole, 0 not, 1 of another version\n", 0)


def test_entries_are_removed(folder: Path) -> None:
    (folder / "c.zyn.1.part").write_bytes(b"left by a killed process")
    assert said("clear") == ("removed 2 entries, 3.0 MiB\n", 0)
    assert list(folder.iterdir()) == []
    assert said("clear") == ("removed 0 entries, 0.0 KiB\n", 0)
    assert said("verify") == ("0 entries whole, 0 not\n", 0)


@pytest.mark.parametrize("verb", ["list", "clear", "verify"])
def test_a_cache_that_is_off_is_said(folder: Path, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZYNTAX_CACHE", "off")
    assert said(verb) == ("the cache is off: ZYNTAX_CACHE says so\n", 1)
    assert len(list(folder.iterdir())) == 2


@pytest.mark.skipif(os.name != "posix", reason="needs users as POSIX has them")
@pytest.mark.parametrize("verb", ["list", "clear", "verify"])
def test_the_cache_of_another_user_is_left_alone(folder: Path, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    message = f"the cache {folder} belongs to another user: nothing is read from it or kept in it; ZYNTAX_CACHE_DIR names another folder"
    assert said(verb) == (f"{message}\n", 1)
    assert len(list(folder.iterdir())) == 2


def test_an_entry_that_cannot_be_removed_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "unlink", refuse)
    assert said("clear") == (f"the cache {folder} can't be cleared: read-only file system\n", 1)
