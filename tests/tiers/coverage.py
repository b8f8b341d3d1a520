"""Coverage by room, from coverage's JSON: `python -m tests.tiers.coverage coverage.json`, which `make coverage` runs."""

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from attrs import define

LISTED = 15
"""Files that are named, those with most lines that no test ran."""


@define
class Lines:
    """How many statements there are, and how many of them ran."""

    all: int = 0
    run: int = 0

    def add(self, summary: Mapping[str, int]) -> None:
        self.all += summary["num_statements"]
        self.run += summary["covered_lines"]

    @property
    def share(self) -> float:
        return self.run / self.all if self.all else 1.0


def by_room(files: Mapping[str, Any]) -> dict[str, Lines]:
    """Of each room, a folder in a package, and of all."""
    rooms: defaultdict[str, Lines] = defaultdict(Lines)
    for name, file in files.items():
        rooms["/".join(PurePosixPath(name).parent.parts[:2])].add(file["summary"])
        rooms["all"].add(file["summary"])
    return dict(rooms)


def table(files: Mapping[str, Any]) -> str:
    """Both tables, as text."""
    rooms = sorted(by_room(files).items(), key=lambda room: (room[0] == "all", room[0]))
    lines = [f"{lines.share:6.1%} of {lines.all:6,} statements  {room}" for room, lines in rooms]
    least = sorted(files.items(), key=lambda file: file[1]["summary"]["covered_lines"] - file[1]["summary"]["num_statements"])
    lines += ["", "most statements that no test ran:"]
    lines += [f"{_missing(file):6,} of {file['summary']['num_statements']:6,}  {name}" for name, file in least[:LISTED] if _missing(file)]
    return "\n".join(lines)


def _missing(file: Mapping[str, Any]) -> int:
    return int(file["summary"]["num_statements"] - file["summary"]["covered_lines"])


if __name__ == "__main__":
    print(table(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["files"]))
