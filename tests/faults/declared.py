"""The declared faults, read from `rooms/`, and what is wrong with a declaration."""

import ast
import re
import tomllib
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).parents[2]
ROOMS = Path(__file__).parent / "rooms"


@frozen
class Fault:
    """`text`, which occurs once in `file`, becomes `slip`; then `tests`, each a file or a test of pytest, must fail. `seen`: what a user
    would see of it."""

    room: str
    name: str
    file: str
    text: str
    slip: str
    seen: str
    tests: tuple[str, ...]


def faults() -> list[Fault]:
    """All of them, room by room."""
    return [fault for page in sorted(ROOMS.glob("*.toml")) for fault in _room(page)]


def planted(fault: Fault, source: str) -> str:
    """The text of its file with the fault in it."""
    return source.replace(fault.text, fault.slip)


def objections(fault: Fault, root: Path = ROOT) -> list[str]:
    """Why a fault can't be planted, in words; empty where it can."""
    path = root / fault.file
    if not path.is_file():
        return [f"{fault.file} doesn't exist"]
    source = path.read_text(encoding="utf-8")
    stale = []
    if (times := source.count(fault.text)) != 1:
        stale.append(f"its text occurs {times} times in {fault.file}")
    elif fault.text == fault.slip:
        stale.append("it changes nothing")
    elif path.suffix == ".py" and not _parses(planted(fault, source)):
        stale.append(f"{fault.file} isn't Python with it")
    stale += [f"{test} doesn't exist" for test in fault.tests if not _exists(test, root)]
    return stale if fault.tests else [*stale, "it has no test"]


def _room(page: Path) -> list[Fault]:
    declared = tomllib.loads(page.read_text(encoding="utf-8"))["fault"]
    return [Fault(room=page.stem, **{**entry, "tests": tuple(entry["tests"])}) for entry in declared]


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _exists(test: str, root: Path) -> bool:
    file, *names = test.split("::")
    if not names:
        return (root / file).exists()
    name = re.escape(names[-1].partition("[")[0])
    return (root / file).is_file() and re.search(rf"^\s*(def|class) {name}\b", (root / file).read_text(encoding="utf-8"), re.MULTILINE) is not None
