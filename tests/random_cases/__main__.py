"""The command: see the package."""

import argparse
import sys
from collections import Counter
from time import perf_counter

from tests.random_cases.running import Outcome, outcomes


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.random_cases")
    options.add_argument("count", type=int, nargs="?", default=500)
    options.add_argument("--seed", type=int, default=0, help="of the first case; the others follow")
    options.add_argument("--device", default="cuda:0", help="cuda:0, emulator, cpu")
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--shown", type=int, default=1000, help="faults that are printed whole")
    given = options.parse_args()
    began = perf_counter()
    kinds: Counter[str] = Counter()
    wrong: list[Outcome] = []
    slowest = Outcome("", -1, 0.0)
    for done in outcomes(range(given.seed, given.seed + given.count), given.device, given.processes):
        kinds[done.kind] += 1
        slowest = max(slowest, done, key=lambda one: one.seconds)
        if done.fault:
            wrong.append(done)
            if len(wrong) <= given.shown:
                print(done.fault, flush=True)
    told = ", ".join(f"{name} {number}" for name, number in sorted(kinds.items()))
    faults = ", ".join(f"{name} {number}" for name, number in Counter(one.kind for one in wrong).items())
    print(f"{given.count} cases, {len(wrong)} wrong{f' ({faults})' if faults else ''}, {perf_counter() - began:.0f} s; {told}")
    print(f"the slowest: seed {slowest.seed}, {slowest.kind}, {slowest.seconds:.1f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
