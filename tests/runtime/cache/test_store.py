"""Code kept between runs: what comes back, what doesn't, and what is thrown away."""

import errno
import os
from pathlib import Path

import pytest

from runtime.cache.store import CacheStore, key_of, store


def test_what_was_put_comes_back(tmp_path: Path) -> None:
    kept = CacheStore(tmp_path / "code")
    assert kept.get("a") is None
    kept.put("a", {"name": "m", "sites": [1, None, "é"]}, b"\0code\xff")
    kept.put("b", None, b"")
    assert kept.get("a") == ({"name": "m", "sites": [1, None, "é"]}, b"\0code\xff")
    assert kept.get("b") == (None, b"")
    kept.put("a", 2, b"new")
    assert kept.get("a") == (2, b"new")
    assert kept.notes == [] and len(list(tmp_path.rglob("*"))) == 3, "no file is left beside the two"


@pytest.mark.parametrize("damage", ["cut", "turned", "emptied", "another's", "longer"])
def test_damage_is_noticed(tmp_path: Path, damage: str) -> None:
    kept = CacheStore(tmp_path)
    kept.put("a", {"x": 1}, b"some code")
    kept.put("b", {"x": 2}, b"other code")
    path = tmp_path / "a.zyn"
    held = bytearray(path.read_bytes())
    match damage:
        case "cut":
            del held[-3:]
        case "turned":
            held[-1] ^= 1
        case "emptied":
            held.clear()
        case "another's":
            held = bytearray((tmp_path / "b.zyn").read_bytes())
        case _:
            held += b"x"
    path.write_bytes(held)
    assert kept.get("a") is None
    assert kept.notes == [f"{path} is damaged: its code is made again"]
    assert not path.exists() and kept.get("b") == ({"x": 2}, b"other code")


@pytest.mark.parametrize("reason", [errno.EACCES, errno.EROFS, errno.EPERM])
def test_damage_in_a_folder_that_is_only_read_from_is_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int) -> None:
    kept = CacheStore(tmp_path)
    kept.put("a", {"x": 1}, b"some code")
    path = tmp_path / "a.zyn"
    path.write_bytes(b"rubbish")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(Path, "unlink", refuse)
    assert kept.get("a") is None
    assert kept.notes == [f"{path} is damaged: its code is made again"]


def test_an_entry_that_is_a_folder_is_a_miss(tmp_path: Path) -> None:
    kept = CacheStore(tmp_path)
    (tmp_path / "a.zyn").mkdir()
    assert kept.get("a") is None
    kept.put("a", 1, b"code")
    assert kept.get("a") is None
    assert len(kept.notes) == 2


def test_the_longest_unused_go_first(tmp_path: Path) -> None:
    kept = CacheStore(tmp_path, largest=3500)
    for number, name in enumerate("abc"):
        kept.put(name, 0, bytes(1000))
        os.utime(tmp_path / f"{name}.zyn", (number, number))
    assert kept.get("a") is not None  # used: b is the oldest now
    kept.put("d", 0, bytes(1000))
    assert [name for name in "abcd" if kept.get(name)] == ["a", "c", "d"]


@pytest.mark.skipif(os.name != "posix", reason="needs users as POSIX has them")
def test_all_entries_are_looked_at_when_a_part_of_the_room_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Path] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: looks.append(folder) or scandir(folder))
    store = CacheStore(tmp_path, largest=160_000)
    for number in range(12):
        store.put(f"small {number}", None, b"x")
    assert looks == [tmp_path], "12 entries use less than 10,000 bytes"
    for number in range(400):
        store.put(f"large {number}", None, bytes(1000))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 160_000
    assert len(looks) < 100


def test_code_of_another_user_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = CacheStore(tmp_path)
    kept.put("a", 0, b"code")
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    assert kept.get("a") is None
    assert kept.notes == [f"{tmp_path / 'a.zyn'} belongs to another user, whose code isn't run"]


def test_a_folder_that_cannot_be_used_costs_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    kept = CacheStore(tmp_path / "file")
    kept.put("a", 0, b"")
    assert kept.get("a") is None
    assert kept.notes == [
        f"nothing can be kept in the cache {kept.folder}: file exists",
        f"the cache {kept.folder} can't be read: not a directory",
    ]

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    kept = CacheStore(tmp_path)
    monkeypatch.setattr(Path, "replace", full)
    kept.put("a", 0, b"")
    assert kept.notes == [f"nothing can be kept in the cache {tmp_path}: no space left on device"]
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_where_the_store_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("ZYNTAX_CACHE", raising=False)
    found = store()
    assert found is not None and found.folder == tmp_path / "code"
    monkeypatch.setenv("ZYNTAX_CACHE", "off")
    assert store() is None


def test_keys_tell_parts_apart() -> None:
    assert len({key_of(parts) for parts in (["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""], [b"abc", "d"])}) == 5
    assert key_of(["ab", "c"]) == key_of([b"ab", "c"])


@pytest.mark.skipif(os.name != "posix", reason="needs users as POSIX has them")
def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CacheStore(tmp_path / "code").put("a", 0, b"code")
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    told: list[str] = []
    kept = CacheStore(tmp_path / "code", tell=told.append)
    kept.put("b", 0, b"code")
    assert kept.get("a") is None
    assert kept.get("b") is None
    assert told == [
        f"the cache {tmp_path / 'code'} belongs to another user: nothing is read from it or kept in it; ZYNTAX_CACHE_DIR names another folder"
    ]
    assert [path.name for path in (tmp_path / "code").iterdir()] == ["a.zyn"]


@pytest.mark.skipif(os.name != "posix", reason="needs rights as POSIX has them")
def test_the_folder_is_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "user" / "code"
    CacheStore(folder).put("a", 0, b"code")
    assert (folder.stat().st_mode & 0o777, folder.parent.stat().st_mode & 0o777) == (0o700, 0o700)
    assert folder.joinpath("a.zyn").stat().st_mode & 0o077 == 0
    folder.chmod(0o777)
    assert CacheStore(folder).get("a") == (0, b"code")
    assert folder.stat().st_mode & 0o777 == 0o700


def test_an_entry_of_another_version_is_a_miss_without_a_note(tmp_path: Path) -> None:
    kept = CacheStore(tmp_path)
    kept.put("a", 0, b"code")
    path = tmp_path / "a.zyn"
    path.write_bytes(path.read_bytes().replace(b"zyntax code 2", b"zyntax code 1"))
    assert kept.get("a") is None
    assert kept.notes == []
    kept.put("a", 0, b"code")
    assert kept.get("a") == (0, b"code")


def test_what_goes_wrong_is_logged_once_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("ZYNTAX_CACHE", "on")
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    (tmp_path / "code").write_text("")
    for _ in range(3):
        held = store()
        assert held is not None
        held.put("a", 0, b"")
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("zyntax.cache", f"nothing can be kept in the cache {tmp_path / 'code'}: file exists")
    ]
