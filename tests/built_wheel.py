"""The wheel of this checkout: one run of the tests builds it once, whichever of its processes needs it first."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def built_wheel(folders: pytest.TempPathFactory) -> Path:
    own = folders.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "wheel"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not [*folder.glob("*.whl")]:
            command = [
                sys.executable,
                "-m",
                "pip",
                "wheel",
                "--quiet",
                "--no-index",
                "--no-deps",
                "--no-build-isolation",
                "--wheel-dir",
                str(folder),
                str(ROOT),
            ]
            subprocess.run(command, check=True)
    (found,) = folder.glob("zyntax_lang-*.whl")
    return found
