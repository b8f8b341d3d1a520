"""`python -m tests.frozen [--write] [--base COMMIT] [--only WORD]`: see the package."""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runtime.cache.store import users_folder
from tests.frozen.collect import CPUS

ROOT = Path(__file__).parents[2]
DIGESTS = Path(__file__).parent / "digests.json"
SHOWN = 12
"""Lines of a difference that are printed."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description="Compare what the compiler makes of a fixed list of programs.")
    parser.add_argument("--base", help="all stages of this commit against those of the tree as it is")
    parser.add_argument("--write", action="store_true", help="write the digests anew")
    parser.add_argument("--only", default="", help="programs with this word in their name")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        if options.base:
            sys.exit(against(options.base, Path(scratch), options.only))
        found = digests_of(collect(ROOT, Path(scratch) / "now", quick=True, only=options.only))
    if options.write:
        kept = {name: digest for name, digest in json.loads(DIGESTS.read_text()).items() if options.only not in name}
        DIGESTS.write_text(json.dumps(kept | found, indent=0, sort_keys=True) + "\n")
        return
    expected = {name: digest for name, digest in json.loads(DIGESTS.read_text()).items() if options.only in name}
    changed = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    for name in changed:
        print(f"{'new' if name not in expected else 'gone' if name not in found else 'differs'}: {name}")
    print(f"{len(found) - len(changed)} of {len(expected)} as frozen")
    sys.exit(bool(changed))


def against(base: str, scratch: Path, only: str) -> int:
    """How many files differ between two trees, each with its first lines."""
    with checkout(base, scratch / "base") as tree:
        folders = []
        for name, root in (("before", tree), ("after", ROOT)):
            for cpu in CPUS:
                collect(root, scratch / name, quick=False, only=only, cpu=cpu)
            folders.append(scratch / name)
    before, after = folders
    names = sorted({path.name for folder in folders for path in folder.iterdir()})
    different = [name for name in names if _content(before / name) != _content(after / name)]
    for name in different:
        print(f"== {name}")
        shown = subprocess.run(["diff", str(before / name), str(after / name)], capture_output=True, text=True, errors="replace")
        print("\n".join(shown.stdout.splitlines()[:SHOWN]) or shown.stderr.strip())
    print(f"{len(names) - len(different)} of {len(names)} identical")
    return min(len(different), 1)


def collect(tree: Path, folder: Path, quick: bool, only: str = "", cpu: str = "x86-64-v3", seed: str = "random") -> Path:
    """Runs the collector of this tree over the packages of another one, in a process of its own with caches of its own. `seed` is that of
    Python's hashes of strings, which the order of sets depends on."""
    program = f"import sys; sys.path[:0] = [{str(tree)!r}, {str(ROOT)!r}]; from tests.frozen.collect import main; main()"
    command = [sys.executable, "-c", program, str(folder), "--cpu", cpu, "--only", only, *(["--quick"] if quick else [])]
    with tempfile.TemporaryDirectory() as cache:
        tables = Path(users_folder()) / "grammars"  # which are known by all that they depend on, and take seconds to make
        if tables.is_dir():
            shutil.copytree(tables, Path(cache) / "grammars")
        environment = {**os.environ, "ZYNTAX_CACHE_DIR": cache, "PYTHONPATH": str(tree), "PYTHONHASHSEED": seed}
        subprocess.run(command, check=True, cwd=tree, env=environment, stderr=subprocess.DEVNULL)
    return folder


@contextmanager
def checkout(commit: str, folder: Path) -> Iterator[Path]:
    """A work tree of the commit, with this tree's list in place of its own."""
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(folder), commit], cwd=ROOT, check=True)
    try:
        subprocess.run(["cp", "-r", str(Path(__file__).parent), str(folder / "tests" / "")], check=True)
        subprocess.run(["cp", str(ROOT / "bench" / "gpu" / "sources.py"), str(folder / "bench" / "gpu" / "")], check=True)
        yield folder
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(folder)], cwd=ROOT, check=True)


def digests_of(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in sorted(folder.iterdir())}


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


if __name__ == "__main__":
    main()
