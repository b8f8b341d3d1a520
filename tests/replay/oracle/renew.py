"""Expected fills from the oracle, checked in as expected.json.

    python -m tests.replay.oracle.renew PYTHON

PYTHON is an interpreter with hftbacktest (`pip install hftbacktest==2.4.4`), which needs no other package of this repository."""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.replay.oracle.cases import CASES, OracleCase

EXPECTED = Path(__file__).with_name("expected.json")


def asked(python: str, case: OracleCase) -> dict[str, Any]:
    """What the oracle makes of a case."""
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("events.npy", "requests.npy")]
        for path, array in zip(paths, (case.events, case.requests), strict=True):
            np.save(path, array)
        command = [python, str(Path(__file__).with_name("hftbacktest_run.py")), *map(str, paths)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(python: str) -> None:
    answers = {name: asked(python, make()) for name, make in CASES.items()}
    first = next(iter(answers.values()))
    head = {"oracle": f"{first['package']} {first['version']}", "command": "python -m tests.replay.oracle.renew PYTHON"}
    rows = {name: [json.dumps(list(fill.values())) for fill in answer["fills"]] for name, answer in answers.items()}
    fields = next(list(fill) for answer in answers.values() for fill in answer["fills"])
    body = ",\n".join(f'  {json.dumps(name)}: [\n    ' + ",\n    ".join(found) + "\n  ]" for name, found in rows.items())
    EXPECTED.write_text(f'{{\n"made_by": {json.dumps(head)},\n"fields": {json.dumps(fields)},\n"cases": {{\n{body}\n}}\n}}\n')


if __name__ == "__main__":
    main(sys.argv[1])
