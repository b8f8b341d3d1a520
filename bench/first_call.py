"""What the first call of a product costs in a new process, above `import numpy` and the making of its arrays.

    python -m bench.first_call [--rounds 11] [--json FILE]

A round starts one process of each kind, in rotated order: NumPy alone; ours with a cache that has what a wheel carries, the parser's tables
and the hash of the compiler's files, and nothing else; ours with what another process kept; ours without a cache. Each prints the seconds
from its first line to the end of its work, and the processor's time of all its threads; the table has the medians of the rounds'
differences to NumPy's process, and the least of each kind less NumPy's least. Byte code of Python's files is written before, into a folder
of the run."""


import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TIMED = """
import time
began = time.perf_counter()
import numpy
x = numpy.ones(({size}, {size}), numpy.float32)
{work}
seconds = time.perf_counter() - began
assert (value == {size}).all()
print(seconds, time.process_time())
"""

OURS = '''
import zynml
program = zynml.compile("""
def product(x: tensor[M, K], y: tensor[K, N]): tensor {
    compute(x, y) { for i in 0..M, j in 0..N { var s = 0.0; for k in 0..K: s += x[i, k] * y[k, j]; out[i, j] = s } }
}
""")
value = program.product(x, x)
'''

IN_A_WHEEL = """
from grammars.loader import load
from runtime.cache.identity import compiler_contents
from zynml.grammar import GRAMMAR
load(GRAMMAR)
compiler_contents()
"""

KINDS = ("import numpy", "empty cache", "from the cache", "no cache")


def measured(kind: str, size: int, folder: Path) -> tuple[float, float]:
    """Seconds of a process of this kind: on the clock, and of the processor."""
    work = "value = x @ x" if kind == KINDS[0] else OURS
    with tempfile.TemporaryDirectory(dir=folder) as empty:
        cache = empty if kind == "empty cache" else str(folder / "kept")
        if (folder / "wheel").is_dir():
            shutil.copytree(folder / "wheel", empty, dirs_exist_ok=True)
        known = {name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "ZYNTAX_CACHE")}
        environment = {**known, "PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "ZYNTAX_CACHE_DIR": cache}
        if kind == "no cache":
            environment["ZYNTAX_CACHE"] = "off"
        text = TIMED.format(size=size, work=work)
        ran = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=True)
    clock, processor = map(float, ran.stdout.split())
    return clock, processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="first-call-") as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-c", IN_A_WHEEL], env={**os.environ, "ZYNTAX_CACHE_DIR": str(folder / "wheel")}, check=True)
        for kind in (*KINDS, KINDS[2]):  # byte code, and an entry to find
            measured(kind, given.size, folder)
        rounds: list[dict[str, tuple[float, float]]] = []
        for number in range(given.rounds):
            order = [*KINDS[number % len(KINDS) :], *KINDS[: number % len(KINDS)]]
            rounds.append({kind: measured(kind, given.size, folder) for kind in order})
    rows = []
    print(f"{'':16} {'above numpy, s':>16} {'of the processor':>18}   least of each")
    for kind in KINDS:
        base = (0.0, 0.0) if kind == KINDS[0] else None
        clock, processor = (
            statistics.median(each[kind][part] - (base or each[KINDS[0]])[part] for each in rounds) for part in (0, 1)
        )
        least = [min(each[kind][part] for each in rounds) for part in (0, 1)]
        if base is None:
            least = [seconds - min(each[KINDS[0]][part] for each in rounds) for part, seconds in enumerate(least)]
        rows.append({"kind": kind, "seconds": clock, "processor": processor, "least_seconds": least[0], "least_processor": least[1]})
        print(f"{kind:16} {clock:16.3f} {processor:18.3f}   {least[0]:.3f} {least[1]:.3f}")
    if given.json is not None:
        given.json.write_text(json.dumps({"size": given.size, "rounds": given.rounds, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
