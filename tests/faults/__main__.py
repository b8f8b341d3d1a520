"""The command: see the package."""

import argparse
import queue
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from time import perf_counter

from tests.faults.declared import Fault, faults
from tests.faults.running import Copy, Verdict


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("names", nargs="*", help="the faults to plant, where not all")
    parser.add_argument("--room", action="append", help="only the faults of a room; may be given again")
    parser.add_argument("--jobs", type=int, default=1, help="how many faults at a time")
    parser.add_argument("--planted-only", action="store_true", help="don't see first that the tests pass without a fault")
    options = parser.parse_args()
    chosen = _chosen(options.names, options.room)
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(max(1, min(options.jobs, len(chosen)))):
            copies.put(Copy.of_tree(Path(folder) / str(number)))
        if not options.planted_only and (wrong := _wrong_already(copies, chosen)):
            print(wrong)
            return 1
        return _report(copies, chosen, options.jobs)


def _chosen(names: list[str], rooms: list[str] | None) -> list[Fault]:
    declared = faults()
    unknown = {*names} - {fault.name for fault in declared} | {*(rooms or ())} - {fault.room for fault in declared}
    if unknown:
        sys.exit(f"no fault or room {', '.join(sorted(unknown))}")
    return [fault for fault in declared if (not names or fault.name in names) and (not rooms or fault.room in rooms)]


def _wrong_already(copies: "queue.SimpleQueue[Copy]", chosen: list[Fault]) -> str:
    """What pytest says where a test fails before any fault is planted, or can't be run: no fault would be caught by it."""
    copy = copies.get()
    try:
        run = copy.run(sorted({test for fault in chosen for test in fault.tests}))
    finally:
        copies.put(copy)
    return "" if run.passed else f"tests that fail without a fault:\n{run.output}"


def _report(copies: "queue.SimpleQueue[Copy]", chosen: list[Fault], jobs: int) -> int:
    def judged(fault: Fault) -> tuple[Verdict, float]:
        copy, start = copies.get(), perf_counter()
        try:
            return copy.verdict(fault), perf_counter() - start
        finally:
            copies.put(copy)

    rooms: Counter[str] = Counter()
    caught: Counter[str] = Counter()
    with ThreadPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(judged, fault) for fault in chosen]):
            verdict, seconds = future.result()
            rooms[verdict.fault.room] += 1
            caught[verdict.fault.room] += verdict.caught
            words = "caught by " + verdict.failed[0] if verdict.caught else verdict.words
            print(f"{'ok  ' if verdict.caught else 'MISS'} {verdict.fault.room}/{verdict.fault.name} ({seconds:.0f} s): {words}", flush=True)
    print(*(f"{room}: {caught[room]} of {rooms[room]}" for room in sorted(rooms)), sep="\n")
    print(f"{caught.total()} of {rooms.total()} caught")
    return int(caught != rooms)


if __name__ == "__main__":
    sys.exit(main())
