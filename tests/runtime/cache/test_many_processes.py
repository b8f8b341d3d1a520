"""Processes that share a cache, and are killed at any moment: what is read is whole, and nobody waits for the dead."""

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from runtime.cache.inventory import WHOLE, entries_of
from runtime.cache.store import CacheStore

WORKER = """
import random
import sys
from pathlib import Path

from runtime.cache.store import CacheStore, key_of

folder, seed, rounds = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
chance = random.Random(seed)
store = CacheStore(folder, largest=300_000)
for number in range(rounds):
    key = key_of([str(chance.randrange(6))])
    size, byte = chance.randrange(1, 60_000), chance.randrange(256)
    store.put(key, {"size": size, "byte": byte}, bytes([byte]) * size)
    for other in range(6):
        entry = store.get(key_of([str(other)]))
        if entry is not None:
            head, code = entry
            assert code == bytes([head["byte"]]) * head["size"], "torn"
    assert not store.notes, store.notes
    print(number, flush=True)
print("done", flush=True)
"""


def shared_by(folder: Path, processes: int, rounds: int, kills: int) -> list[str]:
    """What went wrong, in words, of workers each of which goes through the rounds, and is killed so often on its way."""
    wrong: list[str] = []

    def through(seed: int) -> None:
        chance = random.Random(seed)
        left = rounds
        for life in range(kills + 1):
            command = [sys.executable, "-c", WORKER, str(folder), str(1000 * seed + life), str(left)]
            worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            assert worker.stdout is not None and worker.stderr is not None
            until = chance.randrange(1, max(2, left // (kills + 1 - life))) if life < kills else left + 1
            told = []
            for line in worker.stdout:
                told.append(line)
                if len(told) == until:
                    worker.kill()  # while it goes through the next round
                    break
            left -= min(until, len(told))
            errors = worker.communicate()[1]
            if "Traceback" in errors or (life == kills and told[-1:] != ["done\n"]):
                wrong.append(errors or f"worker {seed} ended early")

    threads = [threading.Thread(target=through, args=(seed,)) for seed in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


@pytest.mark.skipif(os.name != "posix", reason="kills processes as POSIX does")
@pytest.mark.parametrize(("processes", "rounds", "kills"), [(3, 12, 2), pytest.param(8, 200, 12, marks=pytest.mark.slow)])
def test_processes_that_are_killed_leave_whole_entries(tmp_path: Path, processes: int, rounds: int, kills: int) -> None:
    folder = tmp_path / "code"
    assert shared_by(folder, processes, rounds, kills) == []
    entries = entries_of(CacheStore(folder))
    assert entries and {entry.state for entry in entries} == {WHOLE}
    CacheStore(folder).put("last", 0, b"")
    assert not list(folder.glob("*.part")), "what the killed were writing is gone"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 300_000 + processes * 61_000
