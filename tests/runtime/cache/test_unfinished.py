"""Files under way: what a living process writes stays, what a killed one left goes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.cache import unfinished
from runtime.cache.store import CacheStore, store
from runtime.cache.unfinished import remove_abandoned, written

pytestmark = pytest.mark.skipif(os.name != "posix", reason="locks, and signals that nobody can catch")

WRITER = """
import sys
from pathlib import Path
from runtime.cache.unfinished import written
with written(Path(sys.argv[1])) as file:
    file.write(bytes(1000))
    file.flush()
    print("half", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def writer(path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that has written the half of a file."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "half\n"
        try:
            yield process
        finally:
            process.kill()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_there_once_it_is_whole(tmp_path: Path) -> None:
    with written(tmp_path / "a") as file:
        file.write(b"whole")
        assert len(names(tmp_path)) == 1 and names(tmp_path) != ["a"]
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"whole"
    with pytest.raises(RuntimeError), written(tmp_path / "a"):
        raise RuntimeError("a disk is full")
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"whole"


def test_what_is_being_written_stays_and_what_a_killed_writer_left_goes(tmp_path: Path) -> None:
    with writer(tmp_path / "a.zyn") as process:
        assert remove_abandoned(tmp_path) == 1000
        assert len(names(tmp_path)) == 1
        process.kill()
        process.wait()
        assert remove_abandoned(tmp_path) == 0 and names(tmp_path) == []


def test_a_writer_that_others_look_at_ends_well(tmp_path: Path) -> None:
    with writer(tmp_path / "a.zyn") as process:
        remove_abandoned(tmp_path)
        process.communicate("go on\n")
        assert process.returncode == 0
    assert names(tmp_path) == ["a.zyn"] and (tmp_path / "a.zyn").read_bytes() == bytes(1000)


def test_the_next_start_removes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.part").write_bytes(bytes(1000))
    (folder / "note.txt").write_bytes(b"")
    (tmp_path / "download.part").write_bytes(b"somebody's")
    monkeypatch.setenv("ZYNTAX_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("ZYNTAX_CACHE", raising=False)
    assert store() is not None
    assert names(folder) == ["note.txt"] and names(tmp_path) == ["code", "download.part"]


def test_files_under_way_count_in_the_cap(tmp_path: Path) -> None:
    kept = CacheStore(tmp_path, largest=2500)
    kept.put("a", 0, bytes(1000))
    os.utime(tmp_path / "a.zyn", (1, 1))
    with writer(tmp_path / "b.zyn"):
        kept.put("c", 0, bytes(1000))
        assert kept.get("a") is None and kept.get("c") is not None


def test_a_file_taken_for_an_abandoned_one_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process looks just between the making of the file and its lock."""
    lock, looks = unfinished.fcntl.flock, []

    def late(handle: int, how: int) -> None:
        if not looks:
            looks.append(how)
            remove_abandoned(tmp_path)
        lock(handle, how)

    monkeypatch.setattr(unfinished.fcntl, "flock", late)
    with written(tmp_path / "a") as file:
        file.write(b"whole")
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"whole"


def test_without_locks_age_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(handle: int, how: int) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr(unfinished.fcntl, "flock", none)
    for name in ("old.part", "new.part"):
        (tmp_path / name).write_bytes(bytes(10))
    os.utime(tmp_path / "old.part", (1, 1))
    assert remove_abandoned(tmp_path) == 10 and names(tmp_path) == ["new.part"]
    with written(tmp_path / "a") as file:
        file.write(b"whole")
    assert names(tmp_path) == ["a", "new.part"]


def test_only_files_of_a_name(tmp_path: Path) -> None:
    for name in ("devices.json.x.part", "film.part"):
        (tmp_path / name).write_bytes(b"half")
    assert remove_abandoned(tmp_path, of="devices.json") == 0 and names(tmp_path) == ["film.part"]
    assert remove_abandoned(tmp_path / "nowhere") == 0


def test_processes_that_write_one_entry_at_once(tmp_path: Path) -> None:
    script = f"""
import sys
from pathlib import Path
from runtime.cache.store import CacheStore
kept = CacheStore(Path({str(tmp_path)!r}), largest=200_000)
sys.stdin.readline()
for turn in range(40):
    kept.put("same", "head", b"code" * 5000)
    kept.put(sys.argv[1] + str(turn), sys.argv[1], bytes(20_000))
    entry = kept.get("same")
    assert entry is None or entry == ("head", b"code" * 5000), entry
assert kept.notes == [], kept.notes
"""
    processes = [subprocess.Popen([sys.executable, "-c", script, name], stdin=subprocess.PIPE, text=True) for name in "abc"]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.close()
    assert [process.wait() for process in processes] == [0, 0, 0]
    left = names(tmp_path)
    assert all(name.endswith(".zyn") for name in left)
    assert sum((tmp_path / name).stat().st_size for name in left) <= 200_000
    kept = CacheStore(tmp_path)
    assert all(kept.get(name.removesuffix(".zyn")) is not None for name in left) and kept.notes == []
