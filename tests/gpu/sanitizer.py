"""Kernels of every kind under NVIDIA's compute-sanitizer: `python tests/gpu/sanitizer.py [TOOL...]`, by default memcheck, racecheck and
synccheck. Prints a line a tool and what it found; exits with 1 when it found something, with 0 where the sanitizer is not there or can't
watch this device, and says so. It comes with the CUDA toolkit, or as `pip install nvidia-cuda-sanitizer-api`."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLS = ("memcheck", "racecheck", "synccheck")
FOUND = 86
"""The exit code that we ask the sanitizer for when it found something."""


def sanitizer() -> str | None:
    """The command: on the PATH, of the toolkit, or of the package."""
    on_path = shutil.which("compute-sanitizer", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin"]))
    if on_path is not None:
        return on_path
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations if spec is not None and spec.submodule_search_locations else []
    commands = (command for folder in folders for command in sorted(Path(folder).glob("cu*/compute-sanitizer/compute-sanitizer")))
    return next((str(command) for command in commands if os.access(command, os.X_OK)), None)


def watched() -> None:
    """What runs under the sanitizer: each kernel at its two largest sizes, in blocks of memory that end where arrays end, but for what is
    left of 16 bytes: an aligned piece of these is read as a whole where an element in it is wanted."""
    from compiler.machines.access import ALIGNMENT
    from runtime.cuda import memory
    from tests.kernels.device_kernels import KERNELS, check_one

    memory.block_size = lambda size: max(1, -(-size // ALIGNMENT)) * ALIGNMENT
    for name, kernel in KERNELS.items():
        for n in kernel.sizes[-2:]:
            check_one(kernel, "cuda:0", kernel.dtypes[0], n, 33)
        print(f"ran: {name}", flush=True)


def summary(tool: str, output: str, code: int) -> tuple[str, bool]:
    """What to say of a run, and whether it is good."""
    ran = len(re.findall(r"^ran: ", output, re.MULTILINE))
    if "Device not supported" in output:
        return f"{tool}: skipped, the sanitizer can't watch this device", True
    found = re.search(r"(?:ERROR SUMMARY: (\d+) errors?|RACECHECK SUMMARY: (\d+) hazards?)", output)
    if found is None:
        return f"{tool}: it didn't come to its end (exit code {code}, {ran} kernels):\n{output[-3000:]}", False
    number = int(found.group(1) or found.group(2))
    if number or code:
        lines = [line for line in output.splitlines() if line.startswith("=========")]
        return f"{tool}: {number} found, exit code {code}, {ran} kernels\n" + "\n".join(lines[:60]) + ("" if number else f"\n{output[-3000:]}"), False
    return f"{tool}: nothing found, {ran} kernels", True


def main(tools: list[str]) -> int:
    command = sanitizer()
    if command is None:
        print("skipped: compute-sanitizer isn't here; it comes with the CUDA toolkit, or as `pip install nvidia-cuda-sanitizer-api`")
        return 0
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    good = True
    for tool in tools or TOOLS:
        child = [command, "--tool", tool, "--error-exitcode", str(FOUND), "--print-limit", "20", sys.executable, __file__, "--watched"]
        done = subprocess.run(child, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
        words, fine = summary(tool, done.stdout + done.stderr, done.returncode)
        print(words, flush=True)
        good = good and fine
    return 0 if good else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["--watched"]:
        watched()
    else:
        sys.exit(main(sys.argv[1:]))
